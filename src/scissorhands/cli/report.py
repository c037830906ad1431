"""scissorhands report: make one page of some runs."""

from pathlib import Path

import click

from ..choices import PAGE
from ..errors import RunError
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
    from ..report import page, table
    from .show import show_table

    if output.is_dir():
        raise RunError(f"cannot write {output}: it is a folder.")
    if output.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"cannot write {output}: a report is a page, so give it a name that ends in .html or .htm.")
    if output.is_file() and not output.is_symlink() and not page.is_page(output):
        raise RunError(f"cannot write {output}: it exists and is not a report. Choose another name, or remove it.")
    found = page.gathered(folders)
    shown = table.tabulate(found)
    page.write(output, page.page(shown, found, title, pictures, folders))
    show_table(shown, as_json)
    err.print(f"wrote {plain(output)}")
