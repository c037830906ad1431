"""scissorhands request: keep a ledger of deletion requests, and serve them."""

from pathlib import Path

import click

from .console import err, out, say_json
from .escape import plain
from .options import PATH, json_option

request = click.Group(
    "request",
    help="Keep a ledger of deletion requests for one model, and serve all that are open.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
ledger_option = click.option("--ledger", type=PATH, metavar="DIR", required=True, help="The folder of the ledger.")
note_option = click.option("--note", default="", help="What to remember; the ledger keeps it, so name nobody.")


@request.command()
@ledger_option
@click.option("--keys", type=PATH, metavar="FILE", required=True, help="A file with the key of a record in each line.")
@click.option("--id", "name", default="", help="What the request is called, by default its number; name nobody.")
@click.option("--received", default="", metavar="DATE", help="When it came, such as 2026-02-03; by default today.")
@click.option("--due", default="+30d", show_default=True, metavar="DATE", help="A date, or days after it came.")
@note_option
def add(ledger: Path, keys: Path, name: str, received: str, due: str, note: str) -> None:
    """Add a request to forget the records that these keys name."""
    from ..files import read_text
    from ..requests.ledger import Ledger

    lines = [line.rpartition("\t")[2] for line in read_text(keys).split("\n")]
    added = Ledger(ledger).add(lines, name, received, due, note)
    err.print(f"added request {plain(added)}")


@request.command("list")
@ledger_option
@json_option
def show(ledger: Path, as_json: bool) -> None:
    """List the requests, and which are late."""
    from ..requests.ledger import Ledger
    from .show import show_rows

    found = Ledger(ledger)
    found.require()
    rows = [one.row() for one in found.requests().values()]
    if as_json:
        say_json({"requests": rows})
        return
    show_rows(rows, as_json)
    late = sum(row["state"] == "late" for row in rows)
    out.print(f"{len(rows)} requests, {sum(row['state'] in ('open', 'late') for row in rows)} open, {late} late")


@request.command()
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@ledger_option
@note_option
def close(names: tuple[str, ...], ledger: Path, note: str) -> None:
    """Close requests that were served; or, with a note, some that will not be."""
    from ..requests.ledger import Ledger

    Ledger(ledger).close(names, note)
    err.print(f"closed {plain(', '.join(names))}")
