"""scissorhands purge: remove what is cached of forgotten records."""

from pathlib import Path

import click

from .arguments import RUN
from .console import err, out, say_json
from .escape import plain
from .options import json_option


@click.command()
@click.argument("folders", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and stop.")
@json_option
def purge(folders: tuple[Path, ...], dry_run: bool, as_json: bool) -> None:
    """Remove what is cached of the records that each RUN forgot, and the pictures of records in RUN."""
    from .. import runs
    from ..runs.purge import leftovers, still_there

    made = [runs.read(folder) for folder in folders]
    found = {one.path: one for run in made for one in leftovers(run)}
    if not dry_run:
        for one in found.values():
            one.remove()
    there = list(dict.fromkeys(key for run in made for key in still_there(run)))
    if as_json:
        rows = [{"path": str(one.path), "what": one.what, "bytes": one.bytes} for one in found.values()]
        say_json({"removed": [] if dry_run else rows, "found": rows, "still_there": there})
        return
    did = "would remove" if dry_run else "removed"
    for one in found.values():
        out.print(plain(f"{did} {one.path}: {one.what} ({one.bytes / 2**20:.1f} MiB)"))
    if not found:
        out.print("Nothing that we made of these records is there.")
    if there:
        count = f"{len(there)} of the forgotten files {'is' if len(there) == 1 else 'are'} still in the data"
        err.print(plain(f"{count}, such as {there[0]}: erase them, or the next command caches them again."))
