"""Pictures in run folders, as a page holds them. Those of records stand in it only if they are asked for."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from ..files import read_bytes, read_text
from ..runs import FLAGGED, GRIDS, PICTURES, ROWS, Run
from .table import Table

_BYTES = 32 << 20  # the most of a picture
_FLAGGED = 24  # flagged images of a run, at most


def sheets(table: Table) -> dict[str, str]:
    """Return what the first run of each row draws, where pipelines were judged, and what was drawn before."""
    found: dict[str, str] = {}
    for row in table.rows:
        for name in ("before", "drawn", "after"):
            title = name if name == "before" else row.method
            if row.runs and title not in found and (drawn := picture(row.runs[0].folder / GRIDS / f"{name}.png")):
                found[title] = drawn
    return found


def prompts(shown: Sequence[Run]) -> list[str]:
    """Return the prompts of the rows of the grids, where they are the same in all runs."""
    known = {read_text(file, _BYTES) for run in shown if _own(file := run.folder / GRIDS / ROWS)}
    return known.pop().splitlines() if len(known) == 1 else []


_SHEETS = {
    PICTURES: "Where the model looks for the true label: the record, before, after. Each map is scaled by itself.",
    GRIDS: "What the pipeline draws: a row for each prompt, or rows of prompts that have one image each.",
    FLAGGED: "What NudeNet found, at most 24 images: blurred, with the parts of the body and their scores.",
}


def pictures(run: Run, records: bool) -> dict[str, dict[str, str]]:
    """Return the pictures in the run folder under what they show, as Base64; of records only if asked."""
    found = {}
    for folder, shows in _SHEETS.items():
        if folder == PICTURES and not records:
            continue
        files = sorted((run.folder / folder).glob("*.png"), key=lambda file: (file.stem == "after", file.stem))
        files = files[:_FLAGGED] if folder == FLAGGED else files
        if read := {file.stem: content for file in files if (content := picture(file))}:
            found[shows] = read
    return found


def picture(file: Path) -> str:
    """Return a picture as Base64; empty if it is not a PNG of ours, since a link may lead to any file."""
    if not _own(file) or file.stat().st_size > _BYTES:
        return ""
    content = read_bytes(file, _BYTES)
    return b64encode(content).decode() if content.startswith(b"\x89PNG\r\n\x1a\n") else ""


def _own(file: Path) -> bool:
    """Return whether it is a regular file in the run folder itself, and not linked from elsewhere."""
    return file.is_file() and not file.is_symlink() and not file.parent.is_symlink()
