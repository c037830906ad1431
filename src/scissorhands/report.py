"""Run folders as one self-contained page. It shows what is stored, and computes nothing."""

import os
from base64 import b64encode
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, select_autoescape

from .metrics import METRICS
from .runs import Run
from .table import MAIN, Table


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
        runs=[(run, os.path.relpath(run.folder, above), _pictures(run)) for run in runs],
    )


_SHEETS = {
    "gradcam": "Where the model looks for the true label: the record, before, after. Each map is scaled by itself.",
    "grids": "What the pipeline draws, a row for each prompt.",
}


def _pictures(run: Run) -> dict[str, dict[str, str]]:
    """The pictures in the run folder under what they show, as text that a page can hold."""
    found = {}
    for folder, shows in _SHEETS.items():
        if files := sorted((run.folder / folder).glob("*.png")):
            found[shows] = {file.stem: b64encode(file.read_bytes()).decode() for file in files}
    return found
