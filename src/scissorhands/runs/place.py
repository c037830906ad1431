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
from ..errors import SettingError
from ..methods.precision import PRECISIONS
from ..settings import REQUIRED, Settings, non_negative, one_of, path, seed, setting, switch, text

# What is written down when a run is begun.
PLACING = ("overwrite", "seed", "device", "checkpoint", "precision", "variant")


@dataclass(frozen=True)
class Place(Settings):
    """Where a run computes, from which seed, and where it goes."""

    folder: Path = setting(REQUIRED, path, "folder of the run")
    overwrite: bool = setting(False, switch, "replace the run that is there")
    seed: int = setting(0, seed, "seed of everything random but the division of data")
    device: str = setting("auto", text, "auto, cpu, cuda, cuda:1, mps …")
    checkpoint: float = setting(600.0, non_negative, "seconds between two checkpoints")
    precision: str = setting("full", one_of(*PRECISIONS), "what a method's layers compute in; scores are taken in full")
    resume: bool = setting(False, switch, "go on with what was begun there")
    variant: str = setting("", text, "what a recipe calls the settings of the method, where it has several")

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
