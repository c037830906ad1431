"""scissorhands evaluate: score a model, look deeper at a run, or compare it with a reference."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .arguments import PATH, RUN, TRAINED
from .exit_codes import exit_if_broken
from .options import (
    factory_option,
    forget_options,
    given,
    json_option,
    level_option,
    place_options,
    policy_option,
    require_options,
    settings_option,
)

if TYPE_CHECKING:
    from ..runs import Run
    from ..runs.place import Place


@click.command()
@click.argument("model", type=TRAINED)
@forget_options
@factory_option
@click.option("--against", type=RUN, help="The run of the retrained model, to measure the gap to.")
@level_option
@click.option("--dry-run", is_flag=True, help="Say what would be trained and how long that takes, and stop.")
@settings_option("--set", "settings", help="A setting of the evaluation, such as shadows=16.")
@settings_option(
    "--train", "training", help="How reference models are trained, such as epochs=30, if not as the model was."
)
@click.option("--method", metavar="MODULE:CLASS", help="The code of the run's method, if it is yours (level deep).")
@click.option("--pictures", is_flag=True, help="Keep Grad-CAM pictures of some records, forgotten ones too.")
@click.option("-o", "--output", type=PATH, help="The run folder to write, for a MODEL that is no scrub run.")
@policy_option
@place_options
@json_option
def evaluate(
    model: str,
    what: dict[str, Any],
    factory: str | None,
    against: Path | None,
    level: str | None,
    dry_run: bool,
    settings: tuple[str, ...],
    training: tuple[str, ...],
    method: str | None,
    pictures: bool,
    output: Path | None,
    policy: Path | None,
    placing: dict[str, Any],
    as_json: bool,
) -> None:
    """Score MODEL on what is to be forgotten, or look deeper at the run MODEL, or compare it with a reference."""
    from .. import runs, tasks
    from ..distributed import barrier
    from ..evidence.policy import broken_by
    from ..runs.audit import Audit
    from ..runs.score import Scoring, compare
    from ..runs.subject import load
    from .level import deepened, parsed
    from .progress import progress
    from .show import show

    level, task = level or "quick", tasks.find(model)
    require_options((*what, "factory"), task, model)
    tasks.require_level(level, task, model)
    effort, lessons = parsed(level, settings, training, pictures)
    reference, place = _reference(model, against), _place(model, what, output, dry_run, placing)
    scoring, run = None, None
    if what["forget"]:
        request = task.asks.from_options(what)
        with progress() as log:
            scoring = Scoring(load(model, factory, place.torch_device()), request, place, log)
            run = scoring.expected() if dry_run else scoring.carry_out(reference)
    asked = (level, effort, lessons, factory, place.torch_device(), method, pictures, scoring)
    if run and dry_run:
        deepened(Audit(run, *asked), dry_run)
        return
    run = run or runs.read(Path(model))
    with runs.locked(run.folder):
        run = runs.checked(run.folder)  # somebody may have added to it until it was locked
        run = deepened(Audit(run, *asked), dry_run)
        if not dry_run:
            show(run := compare(run, reference) if reference else run, as_json)
    barrier()
    exit_if_broken([] if dry_run else broken_by(run, policy))


def _reference(model: str, against: Path | None) -> "Run | None":
    """Read the reference; refuse a run that was scrubbed, and is to be its own."""
    from .. import runs

    found = runs.checked(against) if against else None
    scrubbed = found and found.method not in ("retrain", "original")
    if found and scrubbed and found.folder.resolve() == Path(model).resolve():
        raise click.UsageError(f"{model} cannot be its own reference: give the run of a retrained model.")
    return found


def _place(model: str, what: dict[str, Any], output: Path | None, dry_run: bool, placing: dict[str, Any]) -> "Place":
    """Return where the scores go: to a new run, or to the run that MODEL is; refuse what fits neither."""
    from .. import runs
    from ..runs.place import Place

    if what["forget"]:
        if output is None and not dry_run:
            raise click.UsageError("'evaluate MODEL --forget …' needs a place for the scores: -o RUN.")
        return Place(output or Path("nowhere"), **placing)
    if not (runs.is_run(Path(model)) or runs.resumable(Path(model))):
        raise click.UsageError(f"'{model}' is no run, so say what it should forget: --forget … --data … -o RUN.")
    if idle := given("output", *what, "overwrite", "seed", "who"):
        raise click.UsageError(f"'evaluate RUN' adds to the run itself; {idle} goes with --forget.")
    return Place(Path(model), **placing)
