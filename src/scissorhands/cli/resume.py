"""--resume: go on with a run that was begun and not finished."""

from pathlib import Path

import click

from .. import runs
from ..runs.resume import resume
from .options import given
from .progress import progress
from .show import show_made
from .tracking import tracking


def resumed(verb: str, folder: Path, factory: str | None, method: str | None, as_json: bool, track: str | None) -> None:
    """Resume a run with the arguments that it was started with."""
    work = runs.unfinished(folder)
    begun = runs.begun(work) if (work / runs.BEGUN).is_file() else {}
    free = {"resume", "factory", "as_json", "track"} | ({"method"} if method == begun.get("method") else set())
    if what := given(*(name for name in click.get_current_context().params if name not in free)):
        what = "MODEL" if what == "model" else what
        raise click.UsageError(f"'{verb} --resume RUN' goes on with what was asked; {what} cannot change it.")
    name, seed = begun.get("method", begun.get("model")), begun.get("seed")
    with progress(f"{name}, seed {seed}" if begun else "") as shown, tracking(shown, track, folder) as log:
        run = resume(verb, folder, factory, method, log)
        log({"scores": run.result.values()})
    show_made(run, as_json)
