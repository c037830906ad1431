"""Run folders as one self-contained page. It shows what is stored, and computes nothing."""

import os
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, select_autoescape

from .runs import Run
from .table import TITLES, Table


def page(table: Table, runs: Sequence[Run], title: str) -> str:
    """The page, as text."""
    environment = Environment(
        loader=PackageLoader("scissorhands", "."), autoescape=select_autoescape(["html"]), trim_blocks=True
    )
    template = environment.get_template("report.html")
    above = os.path.commonpath([run.folder.absolute().parent for run in runs])
    places = [os.path.relpath(run.folder, above) for run in runs]
    return template.render(
        title=title, table=table, names=table.names(), titles=TITLES, runs=list(zip(runs, places, strict=True))
    )
