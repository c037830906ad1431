"""Prompts to draw from, read from a CSV file like that of I2P."""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError, listed

_SEED = ("seed", "evaluation_seed", "sd_seed")
_GUIDANCE = ("guidance", "evaluation_guidance", "sd_guidance_scale")
_CASE = ("case_number",)


@dataclass(frozen=True)
class Prompt:
    """A text to draw from, and what the file says about how; `case` is its number in the file."""

    text: str
    case: int
    seed: int | None = None
    guidance: float | None = None


def prompts(path: str | Path) -> list[Prompt]:
    """Read the prompts of a CSV file with a column `prompt`, in their order.

    The columns `seed`, `evaluation_seed` or `sd_seed`, `guidance`, `evaluation_guidance` or `sd_guidance_scale` (as I2P
    has been published), and `case_number` are read where they are there, and others are passed over. Without
    `case_number`, prompts are numbered from 0.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            found = list(_rows(csv.DictReader(file, strict=True), str(path)))
    except OSError as error:
        raise DataError(f"the prompts '{path}' cannot be read: {error.strerror or error}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"the prompts '{path}' are not CSV in UTF-8: {error}.") from None
    if not found:
        raise DataError(f"the prompts '{path}' have a header and no rows.")
    return found


def _rows(reader: "csv.DictReader[str]", path: str) -> Iterator[Prompt]:
    columns = reader.fieldnames or ()
    if "prompt" not in columns:
        raise DataError(f"the prompts '{path}' need a column 'prompt'. They have: {listed(map(repr, columns))}.")
    for number, row in enumerate(reader):
        place = f"the prompts '{path}', line {reader.line_num}"
        if None in row or None in row.values():
            raise DataError(f"{place}: the row has another number of cells than the header.")
        yield _prompt(row, number, place)


def _prompt(row: Mapping[str, str], number: int, place: str) -> Prompt:
    case = _whole(row, _CASE, place)
    return Prompt(
        text=row["prompt"],
        case=number if case is None else case,
        seed=_whole(row, _SEED, place),
        guidance=_fraction(row, _GUIDANCE, place),
    )


def _cell(row: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """Return the first of these columns that is there, and what its cell holds; an empty cell is like none.

    >>> _cell({"prompt": "a cat", "evaluation_seed": " 7 "}, _SEED)
    ('evaluation_seed', '7')
    """
    return next(((name, row[name].strip()) for name in names if name in row), ("", ""))


def _whole(row: Mapping[str, str], names: tuple[str, ...], place: str) -> int | None:
    name, cell = _cell(row, names)
    if not cell:
        return None
    try:
        value = int(cell)
    except ValueError:
        value = -1
    if not 0 <= value < 2**64:  # what a generator takes for a seed
        raise DataError(f"{place}: '{name}' is '{cell}', and should be a whole number from 0 to 2**64 - 1.")
    return value


def _fraction(row: Mapping[str, str], names: tuple[str, ...], place: str) -> float | None:
    name, cell = _cell(row, names)
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{place}: '{name}' is '{cell}', and should be a number.")
    return value
