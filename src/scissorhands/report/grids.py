"""What several pipelines draw from the same prompts and seeds, side by side in one picture."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..distributed import on_rank_0
from ..files import replacing
from ..runs.diffusion.drawn import Drawn

GRID = "grid.png"
_ROWS = 12  # images of each pipeline
_CELL, _GAP, _SIDE = 144, 6, 190  # an image, the white between two, and the text beside a row, in pixels
_FONT, _LINE = 13, 17  # height of a letter and of a line


def write(folder: Path, columns: Mapping[str, Drawn]) -> None:
    """Write grid.png into a folder: a column for each pipeline by name, a row for each prompt and seed."""
    on_rank_0(lambda: _save(side_by_side(columns), folder / GRID))


def _save(picture: Image.Image, path: Path) -> None:
    with replacing(path) as part:
        picture.save(part, "PNG")


def side_by_side(columns: Mapping[str, Drawn]) -> Image.Image:
    """Draw the same images of each pipeline beside each other, with the pipeline above and the prompt at the left."""
    asked = next(iter(columns.values())).asked()
    rows = chosen([prompt for prompt, _, _ in asked])
    above = max(len(textwrap.wrap(name, _CELL // 8)) for name in columns) * _LINE + _GAP
    size = (_SIDE + len(columns) * (_CELL + _GAP), above + len(rows) * (_CELL + _GAP))
    page = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(_FONT)
    for row, number in enumerate(rows):
        prompt, seed, _ = asked[number]
        text = "\n".join(
            textwrap.wrap(prompt, _SIDE // 8, max_lines=_CELL // _LINE - 1) + [f"seed {seed}"] * bool(seed)
        )
        draw.multiline_text((_GAP, above + row * (_CELL + _GAP)), text, "black", font)
    for column, (name, drawn) in enumerate(columns.items()):
        left, shown = _SIDE + column * (_CELL + _GAP), replace(drawn.pictures, side=min(_CELL, drawn.pictures.side))
        draw.multiline_text((left, 0), "\n".join(textwrap.wrap(name, _CELL // 8)), "black", font)
        for row, number in enumerate(rows):
            image = Image.fromarray(np.asarray(shown[number : number + 1][0].permute(1, 2, 0)))
            page.paste(image.resize((_CELL, _CELL), Image.Resampling.NEAREST), (left, above + row * (_CELL + _GAP)))
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
