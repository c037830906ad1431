"""scissorhands request: keep a ledger of deletion requests, and serve them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .arguments import FILE, PATH, TRAINED
from .console import err, out, say_json
from .escape import plain
from .evidence import say_packed
from .exit_codes import exit_if_broken, exit_if_damaged
from .options import (
    depth_options,
    factory_option,
    json_option,
    long_place_options,
    method_options,
    policy_option,
    serve_options,
    sign_option,
)

if TYPE_CHECKING:
    from ..requests.serving import Scrubbing
    from ..runs import Run

request = click.Group(
    "request",
    help="Keep a ledger of deletion requests for one model, and serve all that are open.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
ledger_option = click.option("--ledger", type=PATH, metavar="DIR", required=True, help="The folder of the ledger.")
note_option = click.option("--note", default="", help="What to remember; the ledger keeps it, so name nobody.")


@request.command()
@ledger_option
@click.option("--keys", type=FILE, metavar="FILE", required=True, help="A file with the key of a record in each line.")
@click.option("--id", "name", default="", help="What the request is called, by default its number; name nobody.")
@click.option("--received", default="", metavar="DATE", help="When it came, such as 2026-02-03; by default today.")
@click.option("--due", default="+30d", show_default=True, metavar="DATE", help="A date, or days after it came.")
@note_option
def add(ledger: Path, keys: Path, name: str, received: str, due: str, note: str) -> None:
    """Add a request to forget the records that these keys name."""
    from ..data.keys import listed_keys
    from ..files import read_text
    from ..requests.ledger import Ledger

    added = Ledger(ledger).add([*listed_keys(read_text(keys))], name, received, due, note)
    err.print(f"added request {plain(added)}")


@request.command("list")
@ledger_option
@policy_option
@json_option
def show(ledger: Path, policy: Path | None, as_json: bool) -> None:
    """List the requests, which are late, and how far the model has moved; with a policy, whether that is too far."""
    from ..requests.ledger import Ledger
    from ..requests.retraining import budget, in_words
    from .show import show_rows

    found = Ledger(ledger)
    found.require()
    rows = [one.row() for one in found.requests().values()]
    moved = next((entry["drift"] for entry in reversed(found.entries()) if entry["event"] == "served"), None)
    if as_json:
        say_json({"requests": rows, "drift": moved})
    else:
        show_rows(rows, as_json)
        late = sum(row["state"] == "late" for row in rows)
        out.print(f"{len(rows)} requests, {sum(row['state'] in ('open', 'late') for row in rows)} open, {late} late")
        if moved:
            out.print(f"since the model was trained whole: {plain(in_words(moved))}")
    _exit_if_broken(budget(moved, policy) if policy else [])


@request.command()
@click.argument("model", type=TRAINED)
@ledger_option
@serve_options
@factory_option
@method_options
@depth_options
@policy_option
@sign_option
@long_place_options
@json_option
def serve(
    model: str,
    ledger: Path,
    what: dict[str, Any],
    factory: str | None,
    method: str,
    settings: tuple[str, ...],
    depth: dict[str, Any],
    policy: Path | None,
    sign: Path | None,
    placing: dict[str, Any],
    as_json: bool,
) -> None:
    """Make MODEL forget what all open requests name: one scrub, one evaluation, and a pack of evidence.

    MODEL is the one that was trained. What the ledger had it forget before stays forgotten. The same command goes on
    with what was begun.
    """
    from ..requests.ledger import Ledger
    from ..requests.retraining import passed_over
    from ..requests.serving import serve as serve_batch
    from ..requests.serving import serving
    from .level import foretold, parsed
    from .progress import progress
    from .show import show

    overwrite, level = placing.pop("overwrite"), depth["level"] or "standard"
    looks = (level, *parsed(level, depth["effort"], depth["lessons"], pictures=False))
    how = _scrubbing(model, what, factory, method, settings, looks, placing)
    with serving(found := Ledger(ledger), model, overwrite) as batch:
        if not batch:
            err.print("no request is open")
            return
        if batch.new:
            err.print(f"{plain(model)} did not serve this ledger before: how far it moves is counted anew.")
        with progress() as log:
            run, broken = serve_batch(found, batch, how, policy, sign, foretold(log, *looks[:2]))
    names = ", ".join(one.name for one in batch.requests)
    show(run, as_json)
    if run.damage:
        err.print(f"Nothing was served: {plain(names)} stay open. Serve them with other settings.")
    exit_if_damaged(run)
    for sentence in passed_over(found, batch.requests, run):
        err.print(plain(sentence))
    err.print(f"served {plain(names)} by {plain(ledger / 'runs' / run.folder.name)}")
    say_packed(ledger / "packs" / batch.pack.name, signed=sign is not None)
    _exit_if_broken(broken)


def _exit_if_broken(broken: list[str]) -> None:
    """Say if it is time to train again; exit with 3 if a line of the policy is broken."""
    if any(": largest_drift_" in line for line in broken):
        err.print("It is time to train the model again, without what 'scissorhands request exclude' lists.")
    exit_if_broken(broken)


def _scrubbing(
    model: str,
    what: dict[str, Any],
    factory: str | None,
    method: str,
    settings: tuple[str, ...],
    looks: tuple[str, dict[str, Any], dict[str, Any]],
    placing: dict[str, Any],
) -> "Scrubbing":
    """Return how requests are served; refuse a model that cannot forget single records."""
    from .. import runs, tasks
    from ..requests.serving import Scrubbing
    from ..runs.audit import Audit
    from ..runs.place import Place
    from .level import deepened

    task = tasks.find(model)
    if "missing" not in task.options:
        raise click.UsageError(f"requests name records, and {model} is a {task.noun}.")
    values = tasks.method(method, task, model).parsed(settings)

    def evaluate(run: "Run") -> "Run":
        with runs.locked(run.folder):
            device = Place(run.folder, **placing).torch_device()
            return deepened(Audit(runs.checked(run.folder), *looks, factory, device, method), dry_run=False)

    return Scrubbing(
        lambda forget: task.asks.from_options({**what, "forget": forget}),
        method,
        values,
        lambda folder: Place(folder, overwrite=True, **placing),
        evaluate,
        factory,
    )


@request.command()
@ledger_option
@click.option("-o", "--output", type=PATH, required=True, help="The list to write, for its owner alone.")
@click.option("--overwrite", is_flag=True, help="Replace the list if it exists.")
def exclude(ledger: Path, output: Path, overwrite: bool) -> None:
    """List the keys of all records that 'train --exclude' must leave out: all that were ever asked for."""
    from ..errors import RunError
    from ..files import write_text
    from ..requests.ledger import Ledger
    from ..requests.retraining import exclusions

    if output.exists() and not overwrite:
        raise RunError(f"{output} exists already. Choose another place, or replace it with --overwrite.")
    (found := Ledger(ledger)).require()
    keys, removed = exclusions(found)
    write_text(output, "".join(f"{key}\n" for key in keys), private=True)
    err.print(f"wrote {plain(output)}, which has {len(keys)} keys")
    if removed:
        err.print(f"The keys of {plain(', '.join(removed))} are not there any more, so they are not in the list.")


@request.command()
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@ledger_option
@note_option
@click.option(
    "--withdrawn", is_flag=True, help="They ask for nothing any more: the next training may take their records."
)
def close(names: tuple[str, ...], ledger: Path, note: str, withdrawn: bool) -> None:
    """Close requests that were served; or, with a note, some that will not be.

    The next training leaves their records out all the same, unless they were withdrawn.
    """
    from ..requests import serving
    from ..requests.ledger import Ledger

    serving.close(Ledger(ledger), names, note, withdrawn)
    err.print(f"closed {plain(', '.join(dict.fromkeys(names)))}")
