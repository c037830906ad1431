"""What several pipelines draw from the same prompts and seeds, side by side in one picture."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..distributed import on_rank_0
from ..files import replacing
from ..runs.claims import GRID
from ..runs.diffusion.drawn import Drawn

_ROWS = 12  # images of each pipeline
_CELL, _GAP, _SIDE = 144, 6, 190  # an image, the white between two, and the text beside a row, in pixels
_FONT, _LINE = 13, 17  # height of a letter and of a line


def write(folder: Path, columns: Mapping[str, Drawn]) -> None:
    """Write grid.png into a folder: a column for each pipeline by name, a row for each prompt and seed."""
    on_rank_0(lambda: save(side_by_side(columns), folder / GRID))


def save(picture: Image.Image, path: Path, private: bool = False) -> None:
    """Save a picture as PNG, by rename; only its owner can read a private one."""
    with replacing(path, private=private) as part:
        picture.save(part, "PNG")


def side_by_side(columns: Mapping[str, Drawn]) -> Image.Image:
    """Draw the same images of each pipeline beside each other, with the pipeline above and the prompt at the left."""
    asked = next(iter(columns.values())).asked()
    rows = chosen([prompt for prompt, _, _ in asked])
    texts = []
    for prompt, seed, _ in (asked[number] for number in rows):
        lines = textwrap.wrap(prompt, _SIDE // 8, max_lines=_CELL // _LINE - 1)
        texts.append("\n".join(lines + [f"seed {seed}"] * bool(seed)))
    return labeled({name: _images(drawn, rows) for name, drawn in columns.items()}, texts)


def _images(drawn: Drawn, numbers: Sequence[int]) -> list[Image.Image]:
    shown = replace(drawn.pictures, side=min(_CELL, drawn.pictures.side))
    found = [Image.fromarray(np.asarray(shown[number : number + 1][0].permute(1, 2, 0))) for number in numbers]
    return [image.resize((_CELL, _CELL), Image.Resampling.NEAREST) for image in found]


def labeled(columns: Mapping[str, Sequence[Image.Image]], rows: Sequence[str], side: int = _SIDE) -> Image.Image:
    """Put images of one size into a table: names above the columns, and texts in `side` pixels beside the rows."""
    width, height = next(iter(columns.values()))[0].size
    titles = ["\n".join(textwrap.wrap(name, width // 8)) for name in columns]
    above = max(title.count("\n") + 1 for title in titles) * _LINE + _GAP
    size = (side + len(columns) * (width + _GAP), above + len(rows) * (height + _GAP))
    page = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(_FONT)
    for row, text in enumerate(rows):
        draw.multiline_text((_GAP, above + row * (height + _GAP)), text, "black", font)
    for column, (title, images) in enumerate(zip(titles, columns.values(), strict=True)):
        left = side + column * (width + _GAP)
        draw.multiline_text((left, 0), title, "black", font)
        for row, image in enumerate(images):
            page.paste(image, (left, above + row * (height + _GAP)))
    return page


def chosen(prompts: list[str]) -> list[int]:
    """Choose which images to show: the first of each prompt, then the second of each, up to twelve, in their order.

    >>> chosen(["a", "a", "a", "b", "b"] + ["c"] * 20)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    >>> chosen([str(number // 10) for number in range(120)])
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]
    """
    seen: dict[str, int] = {}
    turns = []
    for number, prompt in enumerate(prompts):
        seen[prompt] = seen.get(prompt, -1) + 1
        turns.append((seen[prompt], number))
    return sorted(number for _, number in sorted(turns)[:_ROWS])
