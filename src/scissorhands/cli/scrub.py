"""scissorhands scrub: make a model forget."""

from pathlib import Path
from typing import Any

import click

from .options import (
    MODEL,
    factory_option,
    long_run_options,
    require_options,
    required_unless,
    run_option,
    scrub_options,
    settings_option,
)


@click.command()
@click.argument("model", type=MODEL, required=False, callback=required_unless("resume"))
@scrub_options
@factory_option
@click.option("--method", default="scissorhands", show_default=True, help="A name from 'methods', or module:Class.")
@settings_option("--set", "settings", help="A setting of the method, such as trim=0.03.")
@run_option
@long_run_options
def scrub(
    model: str | None,
    what: dict[str, Any],
    factory: str | None,
    method: str,
    settings: tuple[str, ...],
    output: Path | None,
    placing: dict[str, Any],
    as_json: bool,
    resume: Path | None,
) -> None:
    """Make MODEL forget: a model folder, a run, a Hugging Face name, or a diffusion pipeline."""
    from .. import tasks
    from ..runs.place import Place
    from ..runs.scrub import scrub as scrub_model
    from .resume import resumed
    from .show import progress, show_made

    if resume:
        resumed("scrub", resume, factory, method, as_json)
        return
    assert model is not None
    assert output is not None
    place, task = Place(output, **placing), tasks.find(model)
    require_options((*what, "factory"), task, model)
    values = tasks.method(method, task, model).parsed(settings)
    request = task.asks.from_options(what)
    with progress() as log:
        run = scrub_model(model, request, method, values, place, factory, log=log)
    show_made(run, as_json)
