"""scissorhands report: make one page of some runs, or a table."""

from functools import partial
from pathlib import Path

import click

from ..choices import PAGE
from ..report.endings import require_ending
from .arguments import PATH, RUN
from .console import err
from .escape import plain
from .exit_codes import exit_if_broken
from .options import policy_option


def _writable(_: click.Context, __: click.Parameter, value: Path) -> Path:
    """Refuse what cannot be a report before anything is imported."""
    require_ending(value)
    return value


@click.command()
@click.argument("folders", nargs=-1, required=True, type=RUN, metavar="RUN...")
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=PAGE,
    show_default=True,
    callback=_writable,
    help="What to write, by its ending: .html, .pdf, .md, .csv, .tex or .json.",
)
@click.option("--title", default="Scissorhands report", show_default=True)
@click.option("--figures", type=PATH, metavar="DIR", help="Write every figure into this folder, too, as SVG and PNG.")
@policy_option
@click.option(
    "--pictures", is_flag=True, help="Show the pictures of records, forgotten ones too, where there are some."
)
@click.option("--overwrite", is_flag=True, help="Replace the file even if it is not a page of scissorhands.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def report(
    folders: tuple[Path, ...],
    output: Path,
    title: str,
    figures: Path | None,
    policy: Path | None,
    pictures: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Make one page of some runs; a RUN may be a folder of runs, such as a bench."""
    from ..evidence.policy import broken_by
    from ..report.output import write_figures, write_report
    from .show import show_table

    check = partial(broken_by, policy=policy) if policy else None
    made = write_report(folders, output, title, pictures=pictures, overwrite=overwrite, policy=check)
    for sentence in made.skipped:
        err.print(f"[bold yellow]warning:[/] left out: {plain(sentence)}")
    if figures:
        write_figures(figures, made.table)
    show_table(made.table, as_json)
    err.print(f"wrote {plain(output)}" + (f" and the figures in {plain(figures)}" if figures else ""))
    exit_if_broken(made.broken)
