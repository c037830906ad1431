"""Load the model to work on, with the run that made it."""

import os
from pathlib import Path
from typing import Any

import torch

from .. import runs, tasks
from ..distributed import on_rank_0
from ..errors import ModelError
from ..tasks import Read, Task, each_time
from ..tasks.classification.task import Classification

_CPU = torch.device("cpu")


def load(
    source: str, factory: str | None = None, device: torch.device = _CPU, read: Read = each_time
) -> Task[Any, Any]:
    """Load the model in a model folder, in a run folder, or on the hub, whatever kind of model it is.

    Code that builds it runs only if it is named as `factory`; `read` is how its data will be loaded.
    """
    folder = Path(source)
    run = runs.read(folder) if runs.is_run(folder) or runs.resumable(folder) else None
    if run and (folder / "model").is_dir():
        on_rank_0(run.require_model)
    elif not run and (maker := _scrubbed(folder)):
        raise ModelError(f"{source} is the model of a run that has forgotten something: name the run, {maker}.")
    return tasks.find(source).load(source, run, factory, device, read)


def _scrubbed(folder: Path) -> str:
    """Return the run whose model the folder is, by whatever name, if that run has forgotten something; else nothing."""
    real = folder.resolve() if folder.exists() else folder
    real = real.parent if real.is_file() else real
    found = real.name == "model" and runs.is_run(real.parent) and runs.read(real.parent).ids("forget")
    return os.path.relpath(real.parent) if found else ""


def load_classifier(
    source: str, factory: str | None = None, device: torch.device = _CPU, read: Read = each_time
) -> Classification:
    """Load a classifier; refuse another kind of model."""
    found = load(source, factory, device, read)
    if not isinstance(found, Classification):
        raise ModelError(f"{source} is a {found.noun}, and a classifier is needed.")
    return found
