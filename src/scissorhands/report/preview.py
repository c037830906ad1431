"""What a request would touch, as a page with thumbnails."""

import io
from base64 import b64encode

import torch
from jinja2 import Environment, PackageLoader, select_autoescape
from PIL import Image

from ..data.records import Part
from ..runs.preview import Preview

_THUMBNAILS, _PAIRS = 60, 24  # records to forget, and near-duplicates, that are shown at most
_SIDE = 96  # pixels of a thumbnail


def sheet(found: Preview, title: str) -> str:
    """Return the page as text. It shows records that are to be forgotten, so it is for its owner alone."""
    environment = Environment(
        loader=PackageLoader("scissorhands.report", "."), autoescape=select_autoescape(["html"]), trim_blocks=True
    )
    forget = found.split.forget
    shown = forget.ids[:_THUMBNAILS].tolist()
    pairs = [
        (_named(found, "forget", one.record), _named(found, one.part, one.other), one)
        for one in found.duplicates[:_PAIRS]
    ]
    return environment.get_template("preview.html").render(
        title=title,
        found=found,
        records=[_named(found, "forget", number) for number in shown],
        more=len(forget) - len(shown),
        pairs=pairs,
    )


def _named(found: Preview, part: str, number: int) -> tuple[str, str]:
    """Return what a record is called, and its thumbnail as Base64, which is empty where it is no image."""
    return found.name(part, number), _thumbnail(getattr(found.split, part), number)


def _thumbnail(part: Part, number: int) -> str:
    inputs, _ = part.records.fetch(torch.tensor([number]))
    if not isinstance(inputs, torch.Tensor) or inputs.dtype != torch.uint8 or inputs.dim() != 4:
        return ""
    pixels = inputs[0].expand(3, -1, -1) if inputs.shape[1] == 1 else inputs[0]
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    scale = _SIDE / max(image.size)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    resampling = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR
    buffer = io.BytesIO()
    image.resize(size, resampling).save(buffer, "PNG")
    return b64encode(buffer.getvalue()).decode()
