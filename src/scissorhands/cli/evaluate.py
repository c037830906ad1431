"""scissorhands evaluate: score a model, look deeper at a run, or compare it with a reference."""

from pathlib import Path
from typing import Any

import click

from .. import runs, tasks
from ..distributed import barrier, rank
from ..evaluation.context import Evaluation, discard_shadows
from ..methods.training import Training
from ..runs import Run
from ..runs.audit import Audit
from ..runs.place import Place
from ..runs.score import Scoring, compare
from ..runs.subject import load
from .escape import plain
from .options import (
    MODEL,
    PATH,
    factory_option,
    forget_options,
    given,
    json_option,
    level_option,
    place_options,
    require_options,
    settings_option,
)
from .show import err, progress, show


@click.command()
@click.argument("model", type=MODEL)
@forget_options
@factory_option
@click.option("--against", type=PATH, help="The run of the retrained model, to measure the gap to.")
@level_option
@click.option("--dry-run", is_flag=True, help="Say what would be trained and how long that takes, and stop.")
@settings_option("--set", "settings", help="A setting of the evaluation, such as shadows=16.")
@settings_option(
    "--train", "training", help="How reference models are trained, such as epochs=30, if not as the model was."
)
@click.option("--method", metavar="MODULE:CLASS", help="The code of the run's method, if it is yours (level deep).")
@click.option("--pictures", is_flag=True, help="Keep Grad-CAM pictures of some records, forgotten ones too.")
@click.option("-o", "--output", type=PATH, help="The run folder to write, for a MODEL that is no scrub run.")
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
    placing: dict[str, Any],
    as_json: bool,
) -> None:
    """Score MODEL on what is to be forgotten, or look deeper at the run MODEL, or compare it with a reference."""
    level, task = level or "quick", tasks.find(model)
    require_options((*what, "factory"), task, model)
    tasks.require_level(level, task, model)
    effort, lessons = Evaluation.parsed(settings), Training.parsed(training)
    _require_sense(level, effort, lessons, pictures)
    reference = runs.checked(against) if against else None
    scrubbed = reference and reference.method not in ("retrain", "original")
    if reference and scrubbed and reference.folder.resolve() == Path(model).resolve():
        raise click.UsageError(f"{model} cannot be its own reference: give the run of a retrained model.")
    place = _place(model, what, output, dry_run, placing)
    scoring, run = None, None
    if what["forget"]:
        request = task.asks.from_options(what)
        with progress() as log:
            scoring = Scoring(load(model, factory, place.torch_device()), request, place, log)
            run = scoring.expected() if dry_run else scoring.carry_out(reference)
    asked = (level, effort, lessons, factory, place.torch_device(), method, pictures, scoring)
    if run and dry_run:
        _deepened(Audit(run, *asked), dry_run)
        return
    run = run or runs.read(Path(model))
    with runs.locked(run.folder):
        run = runs.checked(run.folder)  # somebody may have added to it until it was locked
        run = _deepened(Audit(run, *asked), dry_run)
        if not dry_run:
            show(compare(run, reference) if reference else run, as_json)
    barrier()


def _require_sense(level: str, effort: dict[str, Any], lessons: dict[str, Any], pictures: bool) -> None:
    """Refuse settings that are wrong, or that go with another level."""
    Evaluation.make(effort)
    Training.make(lessons)
    if (effort or lessons) and level == "quick":
        raise click.UsageError("--set and --train are about what a level above quick trains: add --level standard.")
    if pictures and level == "quick":
        raise click.UsageError("--pictures are drawn at a level above quick: add --level standard.")


def _place(model: str, what: dict[str, Any], output: Path | None, dry_run: bool, placing: dict[str, Any]) -> Place:
    """Return where the scores go: to a new run, or to the run that MODEL is; refuse what fits neither."""
    if what["forget"]:
        if output is None and not dry_run:
            raise click.UsageError("'evaluate MODEL --forget …' needs a place for the scores: -o RUN.")
        return Place(output or Path("nowhere"), **placing)
    if not (runs.is_run(Path(model)) or runs.resumable(Path(model))):
        raise click.UsageError(f"'{model}' is no run, so say what it should forget: --forget … --data … -o RUN.")
    if idle := given("output", *what, "overwrite", "seed", "who"):
        raise click.UsageError(f"'evaluate RUN' adds to the run itself; {idle} goes with --forget.")
    return Place(Path(model), **placing)


def _deepened(audit: Audit, dry_run: bool) -> Run:
    """Return the run with the observations of the level, after saying what that takes here; a dry run only says it."""
    try:
        _show_plan(audit, dry_run)
        if dry_run:
            return audit.run
        with progress() as log:
            return audit.carry_out(log)
    finally:
        if rank() == 0:
            discard_shadows()


def _show_plan(audit: Audit, dry_run: bool) -> None:
    """Say what the level takes here; the quick level takes nothing, which only a dry run says."""
    if audit.level == "quick":
        if dry_run:
            err.print("level quick trains nothing.")
        return
    steps = audit.plan()
    total = _about(sum(step.seconds for step in steps))
    err.print(f"level {audit.level}: {f'{total}, measured on a few steps here' if steps else 'all of it is there'}")
    for step in steps:
        err.print(f"  {_about(step.seconds):>16}  {plain(step.what)}")


def _about(seconds: float) -> str:
    """Say a duration as a person does.

    >>> _about(0.3), _about(45), _about(600), _about(9000)
    ('less than 1 s', 'about 45 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 1:
        return "less than 1 s"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 6000 else f"about {seconds / 3600:.1f} h"
