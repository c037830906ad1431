"""Run folders as one self-contained page. It shows what is stored, and computes nothing."""

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from .distributed import first
from .files import write_text
from .metrics import METRICS
from .recipe import PAGE, TABLE
from .runs import Run
from .table import MAIN, Table

GRIDS, ROWS = "grids", "rows.txt"  # pictures of what a pipeline draws, and the prompts of their rows


def publish(folder: Path, table: Table, runs: Sequence[Run], title: str) -> None:
    """Writes table.json and report.html into a folder."""
    write(folder / TABLE, json.dumps(table.to_dict(), indent=2) + "\n")
    write(folder / PAGE, page(table, runs, title))


def write(path: Path, content: str) -> None:
    """Writes a file once, by rename."""
    first(lambda: write_text(path, content))


def page(table: Table, runs: Sequence[Run], title: str) -> str:
    """The page, as text."""
    environment = Environment(
        loader=PackageLoader("scissorhands", "."), autoescape=select_autoescape(["html"]), trim_blocks=True
    )
    template = environment.get_template("report.html")
    above = os.path.commonpath([run.folder.absolute().parent for run in runs])
    main = table.names(MAIN)
    return template.render(
        title=title,
        table=table,
        main=main,
        rest=[name for name in table.names() if name not in main],
        metrics=METRICS,
        sheets=_sheets(table),
        prompts=_prompts(runs),
        runs=[(run, os.path.relpath(run.folder, above), _pictures(run)) for run in runs],
    )


def _sheets(table: Table) -> dict[str, str]:
    """What the first run of each row draws, where pipelines were judged."""
    found = {}
    for row in table.rows:
        for name in ("drawn", "after"):
            if row.runs and (file := row.runs[0].folder / GRIDS / f"{name}.png").exists():
                found[row.method] = _text(file)
    return found


def _prompts(runs: Sequence[Run]) -> list[str]:
    """What the rows of the grids were asked for, where they are the same in all runs."""
    known = {file.read_text(encoding="utf-8") for run in runs if (file := run.folder / GRIDS / ROWS).exists()}
    return known.pop().splitlines() if len(known) == 1 else []


_SHEETS = {
    "gradcam": "Where the model looks for the true label: the record, before, after. Each map is scaled by itself.",
    GRIDS: "What the pipeline draws: a row for each prompt, or rows of prompts that have one image each.",
}


def _pictures(run: Run) -> dict[str, dict[str, str]]:
    """The pictures in the run folder under what they show, as text that a page can hold."""
    found = {}
    for folder, shows in _SHEETS.items():
        if files := sorted((run.folder / folder).glob("*.png"), key=lambda file: (file.stem == "after", file.stem)):
            found[shows] = {file.stem: _text(file) for file in files}
    return found


def _text(file: Path) -> str:
    """A picture as text that a page can hold."""
    return b64encode(file.read_bytes()).decode()
