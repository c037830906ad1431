"""scissorhands scrub: make a model forget."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .arguments import FILE, TRAINED
from .options import (
    factory_option,
    given,
    long_run_options,
    method_options,
    require_options,
    required_unless,
    run_option,
    save_option,
    scrub_options,
)

if TYPE_CHECKING:
    from ..runs.tune import Tuned


@click.command()
@click.argument("model", type=TRAINED, required=False, callback=required_unless("resume"))
@scrub_options
@factory_option
@method_options
@click.option("--tuned", type=FILE, metavar="FILE", help="The tuned.toml of 'tune': a method with its settings.")
@run_option
@save_option
@long_run_options
def scrub(
    model: str | None,
    what: dict[str, Any],
    factory: str | None,
    method: str,
    settings: tuple[str, ...],
    tuned: Path | None,
    output: Path | None,
    save: Path | None,
    placing: dict[str, Any],
    track: str | None,
    as_json: bool,
    resume: Path | None,
) -> None:
    """Make MODEL forget: a model folder, a run, a Hugging Face name, or a diffusion pipeline."""
    from .. import tasks
    from ..runs.export import export
    from ..runs.place import Place
    from ..runs.scrub import scrub as scrub_model
    from .progress import progress
    from .resume import resumed
    from .show import show_made
    from .tracking import tracking

    if resume:
        resumed("scrub", resume, factory, method, as_json, track)
        return
    assert model is not None
    assert output is not None
    place, task = Place(output, **placing), tasks.find(model)
    require_options((*what, "factory"), task, model)
    found = _read(tuned, method) if tuned else None
    method = found.method if found else method
    values = found.settings if found else tasks.method(method, task, model).parsed(settings)
    request = task.asks.from_options(what)
    with progress(f"{method}, seed {place.seed}") as shown, tracking(shown, track, output) as log:
        run = scrub_model(
            model, request, method, values, place, factory, log=log, tuning=found.cost() if found else None
        )
        log({"scores": run.result.values()})
    if save and not run.damage:
        export(run, save)
    show_made(run, as_json)


def _read(path: Path, method: str) -> "Tuned":
    """Read tuned settings. Somebody's code that they are for runs only if it is named."""
    from ..runs.tune import Tuned

    tuned = Tuned.read(path)
    named = given("method")
    if idle := given("settings"):
        raise click.UsageError(f"{path} has all settings, so leave out {idle}.")
    if (named or ":" in tuned.method) and method != tuned.method:
        raise click.UsageError(f"{path} is of --method {tuned.method}: name that, or leave the option out.")
    return tuned
