"""scissorhands report: make one page of some runs."""

from pathlib import Path

import click

from ..choices import PAGE
from .console import err
from .escape import plain
from .options import PATH


@click.command()
@click.argument("folders", nargs=-1, required=True, type=PATH, metavar="RUN...")
@click.option("-o", "--output", type=PATH, default=PAGE, show_default=True)
@click.option("--title", default="Scissorhands report", show_default=True)
@click.option(
    "--pictures", is_flag=True, help="Show the pictures of records, forgotten ones too, where there are some."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def report(folders: tuple[Path, ...], output: Path, title: str, pictures: bool, as_json: bool) -> None:
    """Make one page of some runs; a RUN may be a folder of runs, such as a bench."""
    from ..report.output import write_page
    from .show import show_table

    shown = write_page(folders, output, title, pictures)
    show_table(shown, as_json)
    err.print(f"wrote {plain(output)}")
