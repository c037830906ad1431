"""Where a run computes and is written, and what is written down of that."""

import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from .. import runs
from ..distributed import own_device, world_size
from ..errors import SettingError, did_you_mean
from ..methods.precision import PRECISIONS
from ..tasks.classification.request import SEEDS

# What is written down when a run is begun.
PLACING = ("overwrite", "seed", "device", "checkpoint", "precision", "variant")


@dataclass(frozen=True)
class Place:
    """Where a run computes, from which seed, and where it goes.

    `checkpoint` is how many seconds pass between two checkpoints; `precision` is what a method's layers compute in,
    while scores are always taken in full. With `resume` it goes on with what was begun there. `variant` is what a
    recipe calls the settings of the method, where it has several.
    """

    folder: Path
    overwrite: bool = False
    seed: int = 0
    device: str = "auto"
    checkpoint: float = 600.0
    precision: str = "full"
    resume: bool = False
    variant: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= SEEDS:
            raise SettingError(f"'seed' must be a whole number from 0 to {SEEDS}, not {self.seed}.")
        if not self.checkpoint >= 0:
            raise SettingError(f"'checkpoint' must be a number of seconds from 0, not {self.checkpoint}.")
        if self.precision not in PRECISIONS:
            raise SettingError(f"there is no precision '{self.precision}'. {did_you_mean(self.precision, PRECISIONS)}")

    def torch_device(self) -> torch.device:
        """Return the device; `auto` is the accelerator if there is one."""
        if self.device == "auto":
            return own_device(torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu"))
        try:
            with warnings.catch_warnings(action="ignore"):
                device = torch.device(self.device)
                torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError, ImportError):
            raise SettingError(f"there is no device '{self.device}' here.") from None
        return own_device(device)


def restore_thread_count(place: Place) -> None:
    """Restore the thread count of a run that is resumed, since it decides the order of sums, and so the bits."""
    if place.resume:
        torch.set_num_threads(int(runs.begun(runs.unfinished(place.folder)).get("threads", torch.get_num_threads())))


def run_inputs(verb: str, what: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return all that a run depends on, which must be the same when it is resumed."""
    restore_thread_count(place)
    placing = {name: getattr(place, name) for name in PLACING}
    placing["folder"] = str(Path.cwd())
    return {"verb": verb, **what, **placing, "world_size": world_size(), "threads": torch.get_num_threads()}


def about(verb: str, place: Place) -> dict[str, Any]:
    """Say how a run was made."""
    return {
        "verb": verb,
        "seed": place.seed,
        "device": str(place.torch_device()),
        "precision": place.precision,
        "variant": place.variant,
        "world_size": world_size(),
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("scissorhands", "torch", "datasets", "scikit-learn")}
        | {"python": platform.python_version()},
    }
