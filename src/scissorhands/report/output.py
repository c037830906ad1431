"""Where a report goes, and what it is: a page, PDF, Markdown, CSV, LaTeX or JSON; and its figures as files."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..distributed import on_rank_0
from ..errors import FailedError, RunError
from ..files import replacing, write_text
from ..runs import Run
from . import exports, pdf
from .endings import require_ending
from .figures.all import figures
from .figures.figure import Chart, as_png, as_svg
from .gathering import gathered
from .page import is_page, page
from .table import Table, tabulate


@dataclass(frozen=True)
class Report:
    """What was reported: the table, what was left out and why, and which lines of a policy are broken."""

    table: Table
    skipped: Sequence[str]
    broken: list[str]


def require_place(output: Path, overwrite: bool = False) -> None:
    """Refuse a name whose ending says nothing, a folder, and a file that is no report, before anything is computed."""
    require_ending(output)
    if output.is_file() and not output.is_symlink() and not overwrite and not is_page(output):
        raise RunError(
            f"cannot write {output}: it exists and is not a page of scissorhands. "
            "Choose another name, or replace it with --overwrite."
        )
    if output.suffix.lower() == ".pdf" and not pdf.browser():
        raise FailedError(
            f"cannot write {output}: there is no Chromium here to print it. Write a page (.html) instead."
        )


def write_report(
    folders: Sequence[Path],
    output: Path,
    title: str,
    *,
    pictures: bool = False,
    overwrite: bool = False,
    policy: Callable[[Run], Sequence[str]] | None = None,
) -> Report:
    """Write a report on the runs in these folders, in the format that the ending of its name says.

    `policy` returns the lines of a policy that a run breaks.
    """
    require_place(output, overwrite)
    found, skipped = gathered(folders)
    table = tabulate(found)
    scrubbed = [run for run in found if run.record["verb"] == "scrub" and run.method != table.reference]
    lines = [(run, line) for run in scrubbed for line in (policy(run) if policy else ())]
    broken = [f"{run.folder.name}: {line}" if len(scrubbed) > 1 else line for run, line in lines]
    kept = broken if policy and scrubbed else None
    made: dict[str, Callable[[], str]] = {
        ".md": lambda: exports.as_markdown(table, title),
        ".csv": lambda: exports.as_csv(table),
        ".tex": lambda: exports.as_latex(table, title),
        ".json": lambda: exports.as_json(table),
    }
    text = made.get(
        output.suffix.lower(), lambda: page(table, found, title, pictures, folders, policy=kept, skipped=skipped)
    )()
    on_rank_0(lambda: _write(output, text))
    return Report(table, skipped, broken)


def _write(output: Path, text: str) -> None:
    """Write a file once, by rename; print a page that is to be PDF."""
    if output.suffix.lower() != ".pdf":
        write_text(output, text)
        return
    content = pdf.as_pdf(text)
    with replacing(output) as part:
        part.write_bytes(content)


def write_figures(folder: Path, table: Table) -> list[Path]:
    """Write every figure as SVG and as PNG, and return where."""
    drawn = [(_name(figure.name, chart), chart) for figure in figures(table) for chart in figure.charts]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}.") from None
    written = []
    for name, chart in drawn:
        for ending, content in ((".svg", as_svg(chart).encode()), (".png", as_png(chart))):
            written.append(folder / (name + ending))
            with replacing(written[-1]) as part:
                part.write_bytes(content)
    return written


def _name(figure: str, chart: Chart) -> str:
    """Return the name of a chart's file, without an ending.

    >>> _name("losses", Chart("before", None, "esd lr=0.1"))
    'losses-esd-lr-0.1-before'
    """
    words: Sequence[str] = (figure, chart.group, chart.caption)
    return "-".join(filter(None, (re.sub(r"[^\w.]+", "-", word).strip("-.") for word in words)))
