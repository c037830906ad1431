"""scissorhands scrub: make a model forget."""

from pathlib import Path
from typing import Any

import click

from ..data.forget import Forget
from ..methods import find
from ..runs import Run, jobs
from ..runs.diffusion import erase as erasing
from ..runs.diffusion.erase import Erasure
from ..runs.jobs import Place, Subject
from ..tasks.diffusion.pipeline import is_pipeline
from .options import MODEL, factory_option, given, long_run_options, request, run_option, scrub_options, settings_option
from .resume import resumed
from .show import progress, show_made


@click.command()
@click.argument("model", type=MODEL, required=False)
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
    where: dict[str, Any],
    as_json: bool,
    resume: Path | None,
) -> None:
    """Make MODEL forget: a model folder, a run, a Hugging Face name, or a diffusion pipeline."""
    if resume:
        resumed("scrub", resume, factory, method, as_json)
        return
    if model is None or output is None:
        raise click.UsageError("Missing argument 'MODEL'." if model is None else "Missing option '-o'.")
    place = Place(output, **where)
    if is_pipeline(model):
        run = _erased(model, what, method, settings, place)
    else:
        run = _scrubbed(model, what, factory, method, settings, place)
    show_made(run, as_json)


def _erased(model: str, what: dict[str, Any], method: str, settings: tuple[str, ...], place: Place) -> Run:
    if idle := given("data_set", "split_seed", "unseen", "labels", "untrained", "factory"):
        raise click.UsageError(f"{idle} is about a classifier, and {model} is a pipeline.")
    asked = {**Erasure.parsed(what["erase"]), **{name: what[name] for name in ("anchor", "data") if what[name]}}
    erasure = Erasure.make(asked)
    if not what["forget"]:
        raise click.UsageError("say what to forget: --forget concept:nudity,naked.")
    values = erasing.method_named(method).parsed(settings)
    with progress() as log:
        return erasing.erase(Path(model), Forget(what["forget"]), erasure, method, values, place, log)


def _scrubbed(
    model: str, what: dict[str, Any], factory: str | None, method: str, settings: tuple[str, ...], place: Place
) -> Run:
    if idle := given("anchor", "erase"):
        raise click.UsageError(f"{idle} is about a diffusion pipeline, and {model} is none.")
    kind = find(method)
    values = kind.parsed(settings)
    kind.make(values)
    asked = request(**{name: value for name, value in what.items() if name not in ("anchor", "erase")})
    with progress() as log:
        return jobs.scrub(Subject.load(model, factory, place.torch_device()), asked, method, values, place, log)
