"""Run folders as one self-contained page. It shows what is stored, and computes nothing.

Pictures of records, such as those that were forgotten, stand in it only if they are asked for.
"""

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from .. import runs
from ..choices import PAGE
from ..distributed import on_rank_0
from ..errors import RunError
from ..files import read_bytes, read_text, write_text
from ..metrics import METRICS
from ..runs import FLAGGED, GRIDS, PICTURES, ROWS, Run
from ..runs.claims import ABOUT, CURVES, GRADCAM, GRID, TABLE, claimed
from . import body_parts
from .curves import as_csv, as_svg, points
from .table import MAIN, Table

_BYTES = 32 << 20  # the most of a picture
_FLAGGED = 24  # flagged images of a run, at most
_MARK = b'<meta name="generator" content="scissorhands">'  # at the head of every page


def publish(folder: Path, table: Table, shown: Sequence[Run], title: str, pictures: bool = False) -> None:
    """Write table.json and report.html into a folder; curves.csv and curves.svg, too, where a setting was swept."""
    write(folder / TABLE, json.dumps(table.to_dict(), indent=2) + "\n")
    if swept := tuple(points(table)):
        for name, content in zip(CURVES, (as_csv(swept), as_svg(swept)), strict=True):
            write(folder / name, content)
    write(folder / PAGE, page(table, shown, title, pictures, [folder]))


def write(path: Path, content: str) -> None:
    """Write a file once, by rename."""
    on_rank_0(lambda: write_text(path, content))


def is_page(path: Path) -> bool:
    """Return whether a file is a page that scissorhands wrote."""
    try:
        with path.open("rb") as file:
            return _MARK in file.read(1024)
    except OSError:
        return False


def gathered(folders: Iterable[Path]) -> list[Run]:
    """Read the runs in these folders: each is a run, a bench or demo with its runs, or a folder that holds runs."""
    return [runs.checked(one) for folder in folders for one in _expanded(folder)]


def _expanded(folder: Path) -> list[Path]:
    if runs.is_run(folder) or not folder.is_dir():
        return [folder]
    if (folder / ABOUT).exists():
        inside = [Path(str(name)) for name in claimed(folder)["runs"]]
        inside = [folder / path for path in inside if not path.is_absolute() and ".." not in path.parts]
    else:
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    found = [path for path in inside if runs.is_run(path)]
    if not found and (folder / ABOUT).exists():
        raise RunError(f"{folder} has no finished run yet.")
    return found or [folder]


def page(table: Table, shown: Sequence[Run], title: str, pictures: bool = False, folders: Sequence[Path] = ()) -> str:
    """Return the page as text, with the pictures that benches among the `folders` left.

    With `pictures` it shows those of records, too, where there are some.
    """
    environment = Environment(
        loader=PackageLoader("scissorhands.report", "."), autoescape=select_autoescape(["html"]), trim_blocks=True
    )
    template = environment.get_template("report.html")
    above = os.path.commonpath([run.folder.absolute().parent for run in shown])
    main, swept = table.names(MAIN), tuple(points(table))
    benches = [folder for folder in folders if (folder / ABOUT).is_file()]
    return template.render(
        title=title,
        table=table,
        main=main,
        rest=[name for name in table.names() if name not in main],
        metrics=METRICS,
        grids=[picture for folder in benches if (picture := _picture(folder / GRID))],
        gradcam=[picture for folder in benches if pictures and (picture := _picture(folder / GRADCAM))],
        sheets=_sheets(table),
        prompts=_prompts(shown),
        curves=b64encode(as_svg(swept).encode()).decode() if swept else "",
        body_parts=_body_parts(table),
        runs=[(run, os.path.relpath(run.folder, above), _pictures(run, pictures)) for run in shown],
    )


def _body_parts(table: Table) -> str:
    """Return the chart of what NudeNet finds as Base64, where a change is known."""
    rows = body_parts.changes(table)
    known = any(row["change"] is not None for row in rows)
    return b64encode(body_parts.as_svg(rows).encode()).decode() if known else ""


def _sheets(table: Table) -> dict[str, str]:
    """Return what the first run of each row draws, where pipelines were judged."""
    found = {}
    for row in table.rows:
        for name in ("drawn", "after"):
            if row.runs and (picture := _picture(row.runs[0].folder / GRIDS / f"{name}.png")):
                found[row.method] = picture
    return found


def _prompts(shown: Sequence[Run]) -> list[str]:
    """Return the prompts of the rows of the grids, where they are the same in all runs."""
    known = {read_text(file, _BYTES) for run in shown if _own(file := run.folder / GRIDS / ROWS)}
    return known.pop().splitlines() if len(known) == 1 else []


_SHEETS = {
    PICTURES: "Where the model looks for the true label: the record, before, after. Each map is scaled by itself.",
    GRIDS: "What the pipeline draws: a row for each prompt, or rows of prompts that have one image each.",
    FLAGGED: "What NudeNet found, at most 24 images: blurred, with the parts of the body and their scores.",
}


def _pictures(run: Run, records: bool) -> dict[str, dict[str, str]]:
    """Return the pictures in the run folder under what they show, as Base64; of records only if asked."""
    found = {}
    for folder, shows in _SHEETS.items():
        if folder == PICTURES and not records:
            continue
        files = sorted((run.folder / folder).glob("*.png"), key=lambda file: (file.stem == "after", file.stem))
        files = files[:_FLAGGED] if folder == FLAGGED else files
        if pictures := {file.stem: picture for file in files if (picture := _picture(file))}:
            found[shows] = pictures
    return found


def _picture(file: Path) -> str:
    """Return a picture as Base64; empty if it is not a PNG of ours, since a link may lead to any file."""
    if not _own(file) or file.stat().st_size > _BYTES:
        return ""
    content = read_bytes(file, _BYTES)
    return b64encode(content).decode() if content.startswith(b"\x89PNG\r\n\x1a\n") else ""


def _own(file: Path) -> bool:
    """Return whether it is a regular file in the run folder itself, and not linked from elsewhere."""
    return file.is_file() and not file.is_symlink() and not file.parent.is_symlink()
