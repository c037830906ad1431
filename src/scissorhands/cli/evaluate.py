"""scissorhands evaluate: score a model, look deeper at a run, or compare it with a reference."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from .. import runs
from ..distributed import barrier, on_rank_0, rank
from ..evaluation.exam import Evaluation, discard_shadows
from ..methods.descent import Training
from ..runs import Run, jobs
from ..runs.audit import Audit
from ..runs.jobs import Place, Subject
from ..tasks.diffusion.pipeline import is_pipeline
from .options import (
    MODEL,
    PATH,
    factory_option,
    forget_options,
    given,
    json_option,
    level_option,
    request,
    settings_option,
    where_options,
)
from .show import err, plain, progress, show


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
@where_options
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
    where: dict[str, Any],
    as_json: bool,
) -> None:
    """Score MODEL on what is to be forgotten, or look deeper at the run MODEL, or compare it with a reference."""
    if is_pipeline(model):
        raise click.UsageError(f"{model} is a diffusion pipeline: see what it draws with 'sample', then 'judge' that.")
    level = level or "quick"
    effort, lessons = Evaluation.parsed(settings), Training.parsed(training)
    _require_sense(level, effort, lessons, pictures)
    reference = runs.checked(against) if against else None
    with _scored(model, what, factory, reference, output, dry_run, where) as (run, device):
        with runs.locked(run.folder):
            run = runs.checked(run.folder)  # somebody may have added to it until it was locked
            run = _deepened(Audit(run, level, effort, lessons, factory, device, method, pictures), dry_run)
            if not dry_run:
                show(jobs.compare(run, reference) if reference else run, as_json)
        barrier()


def _require_sense(level: str, effort: dict[str, Any], lessons: dict[str, Any], pictures: bool) -> None:
    """Refuse settings that are wrong, or that go with another level."""
    Evaluation.make(effort)
    Training.make(lessons)
    if (effort or lessons) and level == "quick":
        raise click.UsageError("--set and --train are about what a level above quick trains: add --level standard.")
    if pictures and level == "quick":
        raise click.UsageError("--pictures are drawn at a level above quick: add --level standard.")


@contextmanager
def _scored(
    model: str,
    what: dict[str, Any],
    factory: str | None,
    reference: Run | None,
    output: Path | None,
    dry_run: bool,
    where: dict[str, Any],
) -> Iterator[tuple[Run, Any]]:
    """Give the run that the model is, or that scoring it makes, which a dry run throws away."""
    if not what["forget"]:
        yield _own_run(model), Place(Path(model), **where).torch_device()
        return
    if output is None and not dry_run:
        raise click.UsageError("'evaluate MODEL --forget …' needs a place for the scores: -o RUN.")
    asked = request(**what)
    with TemporaryDirectory() as nowhere:
        away = Path(on_rank_0(lambda: nowhere)) / "run"
        place = Place(away if dry_run or not output else output, **where)
        device = place.torch_device()
        yield jobs.score(Subject.load(model, factory, device), asked, place, reference), device


def _own_run(model: str) -> Run:
    """Return the run that MODEL is."""
    if not (runs.is_run(Path(model)) or runs.resumable(Path(model))):
        raise click.UsageError(f"'{model}' is no run, so say what it should forget: --forget … --data … -o RUN.")
    if idle := given("output", "data", "data_set", "split_seed", "unseen", "labels", "overwrite", "seed"):
        raise click.UsageError(f"'evaluate RUN' adds to the run itself; {idle} goes with --forget.")
    return runs.read(Path(model))


def _deepened(audit: Audit, dry_run: bool) -> Run:
    """Return the run with the evidence of the level, after saying what that takes here; a dry run only says it."""
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
