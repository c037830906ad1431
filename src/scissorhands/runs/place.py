"""Where a run computes and is written, and what is written down of that."""

import getpass
import os
import platform
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from .. import runs
from ..choices import PRECISIONS
from ..distributed import own_device, world_size
from ..errors import SettingError
from ..settings import REQUIRED, Settings, non_negative, one_of, path, seed, setting, switch, text

# What is written down when a run is begun.
PLACING = ("overwrite", "seed", "device", "checkpoint", "precision", "variant", "command", "who")


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
    command: str = setting("", text, "the command that was typed")
    who: bool = setting(False, switch, "write down who ran it, as user@host")

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
    processes = {"world_size": world_size(), "threads": torch.get_num_threads()}
    return {"verb": verb, **what, **placing, **processes, "begun": now()}


def now() -> str:
    """Return the date and time, in UTC.

    >>> now()
    '...-...-...T...:...:...Z'
    """
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def about(verb: str, place: Place, begun: str, forgotten: str = "") -> dict[str, Any]:
    """Say how, when and by which command a run was made; `forgotten` says what it forgot, without naming records."""
    signed = {"who": _who()} if place.who else {}
    return {
        "verb": verb,
        "begun": begun,
        "finished": now(),
        **signed,
        "command": _redacted(place.command, forgotten),
        "seed": place.seed,
        "device": str(place.torch_device()),
        "precision": place.precision,
        "variant": place.variant,
        "world_size": world_size(),
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("scissorhands", "torch", "datasets", "scikit-learn")}
        | {"python": platform.python_version()},
    }


def _who() -> str:
    """Return the user and the machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may know no name
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def _redacted(command: str, forgotten: str) -> str:
    """Return the command without what it names after --forget, which may be a record, a person or a file.

    >>> _redacted("scissorhands scrub RUN --forget ids:ada.txt -o OUT", "ids:#8485ebb0")
    "scissorhands scrub RUN --forget 'ids:#8485ebb0' -o OUT"
    """
    words = shlex.split(command)
    for number, word in enumerate(words):
        if word.startswith("--forget="):
            words[number] = f"--forget={forgotten}"
        elif number and words[number - 1] == "--forget":
            words[number] = forgotten
    return shlex.join(words)
