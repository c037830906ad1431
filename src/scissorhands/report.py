"""Run folders as one self-contained page. It shows what is stored, and computes nothing."""

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
    return template.render(title=title, table=table, names=table.names(), titles=TITLES, runs=runs)
