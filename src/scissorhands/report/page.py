"""Run folders as one self-contained page. It shows what is stored, and computes nothing.

Pictures of records, such as those that were forgotten, stand in it only if they are asked for.
"""

import json
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, Template, select_autoescape
from markupsafe import Markup

from ..choices import PAGE
from ..distributed import on_rank_0
from ..files import write_text
from ..metrics import METRICS
from ..runs import Run
from ..runs.claims import ABOUT, CURVES, GRADCAM, GRID, TABLE, claimed
from ..runs.seals import SCORES, read_scores
from .figures.all import figures
from .figures.figure import CONFIG, Figure, for_page, script
from .figures.sweep import as_csv, as_svg, points
from .pictures import Album, pictures, prompts, sheets
from .rows import Row, single
from .story import tell
from .table import MAIN, Table

_MARK = b'<meta name="generator" content="scissorhands">'  # at the head of every page
_MOST = 6_000_000  # bytes of a page with pictures
_FIRST = 5  # columns that are shown until the reader chooses others
_KEY = (  # those, by their importance
    *("forget_accuracy", "retain_accuracy", "test_accuracy", "forget_mae", "retain_mae", "test_mae"),
    *("auc", "avg_gap", *MAIN),
)


def publish(folder: Path, table: Table, shown: Sequence[Run], title: str, pictures: bool = False) -> None:
    """Write table.json and report.html into a folder; curves.csv and curves.svg, too, where a setting was swept."""
    on_rank_0(lambda: _publish(folder, table, shown, title, pictures))


def _publish(folder: Path, table: Table, shown: Sequence[Run], title: str, pictures: bool) -> None:
    write_text(folder / TABLE, json.dumps(table.to_dict(), indent=2) + "\n")
    if swept := tuple(points(table)):
        for name, content in zip(CURVES, (as_csv(swept), as_svg(swept)), strict=True):
            write_text(folder / name, content)
    write_text(folder / PAGE, page(table, shown, title, pictures, [folder]))


def is_page(path: Path) -> bool:
    """Return whether a file is a page that scissorhands wrote."""
    try:
        with path.open("rb") as file:
            return _MARK in file.read(1024)
    except OSError:
        return False


def page(
    table: Table,
    shown: Sequence[Run],
    title: str,
    records: bool = False,
    folders: Sequence[Path] = (),
    *,
    policy: Sequence[str] | None = None,
    skipped: Sequence[str] = (),
    without: Sequence[str] = (),
    named: bool = True,
) -> str:
    """Return the page as text, with the pictures that benches among the `folders` left.

    With `records` it shows pictures of records, too, where there are some. `policy` says which lines of a policy are
    broken, `skipped` which folders were left out, and why, and `without` which figures the page is not to have. Unless
    it is `named`, it has no names of classes, which may be people.
    """
    drawn = [figure for figure in figures(table, named) if figure.name not in without]
    template = _template()
    known: dict[str, Any] = {
        "title": title,
        "table": table,
        "story": tell(table, policy),
        "policy": policy,
        "skipped": skipped,
        "figures": drawn,
        "metrics": METRICS,
        "records": records,
        **_columns(table),
        "commands": _commands(folders),
        "hashes": _hashes,
        "data": Markup(for_page(_data(table, drawn))),
        "vega": Markup(script()) if drawn else "",
        "style": Markup(_own("report.css")),
        "script": Markup(_own("report.js")),
    }
    bare = template.render(**known, **_pictures(table, shown, records, folders, album := Album(0)))
    if not album.missed:
        return bare
    return template.render(**known, **_pictures(table, shown, records, folders, Album(_MOST - len(bare.encode()))))


def _pictures(
    table: Table, shown: Sequence[Run], records: bool, folders: Sequence[Path], album: Album
) -> dict[str, Any]:
    """Return the pictures of the page, those first that matter most, and the runs with their own."""
    above = os.path.commonpath([run.folder.absolute().parent for run in shown])
    benches = [folder for folder in folders if (folder / ABOUT).is_file()]
    grids = [picture for folder in benches if (picture := album.add(folder / GRID))]
    return {
        "grids": grids,
        "gradcam": [picture for folder in benches if records and (picture := album.add(folder / GRADCAM))],
        "sheets": {} if grids else sheets(table, album),
        "prompts": prompts(shown),
        "runs": [(run, os.path.relpath(run.folder, above), pictures(run, records, album)) for run in shown],
        "missed": {os.path.relpath(folder, above): count for folder, count in album.missed.items()},
    }


def _commands(folders: Sequence[Path]) -> list[str]:
    """Return the commands that made benches, where they say it."""
    found = [claimed(folder).get("command") for folder in folders if (folder / ABOUT).is_file()]
    return [command for command in found if command and isinstance(command, str)]


@cache
def _template() -> Template:
    loader = PackageLoader("scissorhands.report", ".")
    environment = Environment(loader=loader, autoescape=select_autoescape(["html"]), trim_blocks=True)
    return environment.get_template("report.html")


def _hashes(run: Run) -> dict[str, str]:
    """Return the hashes of the files of a run."""
    known: dict[str, str] = read_scores(run.folder)["files"] if (run.folder / SCORES).exists() else {}
    return known


def _own(name: str) -> str:
    return (files("scissorhands.report") / name).read_text()


def _columns(table: Table) -> dict[str, Any]:
    """Return the columns of the table, which of them are shown first, and what else it needs."""
    rows = sorted(table.all_rows(), key=lambda row: row.method != table.reference)
    names = [name for name in table.names() if any(name in row.metrics or row.cell(name) != "failed" for row in rows)]
    failed = {name: reason for row in rows for name, reason in row.failed.items() if name not in names}
    return {
        "rows": rows,
        "names": names,
        "first": [name for name in dict.fromkeys(_KEY) if name in names][:_FIRST],
        "unmeasured": failed,
        "tied": [difference.other for difference in table.differences if not difference.apart],
        "several": len(table.forgotten()) > 1,
        "single": single(table.rows),
    }


def _data(table: Table, drawn: Sequence[Figure]) -> dict[str, Any]:
    """Return what the script of the page works with, and what a reader can download."""
    listed = [{"method": row.method, "seed": row.seeds[0], **_means(row)} for row in [*table.rows, *single(table.rows)]]
    return {
        "config": CONFIG,
        "charts": {figure.name: [chart.spec() for chart in figure.charts] for figure in drawn},
        "losses": next((figure.thresholds for figure in drawn if figure.thresholds), None),
        "rows": {**{figure.name: figure.rows for figure in drawn if figure.groups() == [""]}, "table": listed},
        "table": table.to_dict(),
    }


def _means(row: Row) -> dict[str, float | None]:
    return {name: known["mean"] for name, known in row.metrics.items()}
