"""Where a page goes: a file of its own, or one that scissorhands wrote."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import RunError
from . import page
from .table import Table, tabulate


def write_page(folders: Sequence[Path], output: Path, title: str, pictures: bool = False) -> Table:
    """Write one page of the runs in these folders, and return their table."""
    if output.is_dir():
        raise RunError(f"cannot write {output}: it is a folder.")
    if output.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"cannot write {output}: a report is a page, so give it a name that ends in .html or .htm.")
    if output.is_file() and not output.is_symlink() and not page.is_page(output):
        raise RunError(f"cannot write {output}: it exists and is not a report. Choose another name, or remove it.")
    found = page.gathered(folders)
    shown = tabulate(found)
    page.write(output, page.page(shown, found, title, pictures, folders))
    return shown
