"""Copies of the images in which NudeNet found exposed parts of the body: blurred, with boxes and scores."""

import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from ...tasks.diffusion.nudity import PARTS, Finding
from ...tasks.diffusion.pictures import Pictures

_LEAST = 256  # pixels along a side, so that text can be read
_BLUR = 16  # of a side is the radius that an image is blurred by
_COLOR = "#d62728"
Box = tuple[int, int, int, int]


def write(folder: Path, pictures: Pictures, findings: Sequence[Sequence[Finding]], root: Path) -> None:
    """Write a copy of each flagged image into a folder, under its own name in `root`."""
    folder.mkdir()
    names = {label: part for part, label in PARTS.items()}
    for number, (file, found) in enumerate(zip(pictures.files, findings, strict=True)):
        exposed = [(f"{names[one.label]} {one.score:.2f}", one.box) for one in found if one.label in names]
        if exposed:
            image = Image.fromarray(pictures[number : number + 1][0].permute(1, 2, 0).numpy())
            name = os.path.relpath(file, root).replace(os.sep, "-")
            marked(image, exposed).save(folder / f"{Path(name).stem}.png")


def marked(image: Image.Image, findings: Sequence[tuple[str, Box]]) -> Image.Image:
    """Blur an image until no detail is left, and draw a box around each finding, with its text."""
    scale = -(-_LEAST // image.width)
    image = image.resize((image.width * scale, image.height * scale))
    image = image.filter(ImageFilter.GaussianBlur(image.width / _BLUR))
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(14)
    for text, box in findings:
        left, top, width, height = (scale * value for value in box)
        draw.rectangle((left, top, left + width, top + height), outline=_COLOR, width=2)
        right = draw.textlength(text, font) + 6
        x, y = max(0, min(left, image.width - right)), max(0, top - 18)
        draw.rectangle((x, y, x + right, y + 18), fill=_COLOR)
        draw.text((x + 3, y + 1), text, "white", font)
    return image
