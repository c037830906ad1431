"""Train models of the same kind as a given one on other data, and keep them for the next time.

A kept model is found again by a hash of the data, of the settings, of the weights that it started from, and of the code
that trained it. When one of them changes it is trained again.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from .. import files
from ..data.problem import Log, Problem, ignore
from ..data.records import Augment, Part, held
from ..distributed import copy_model, full, load_weights, local_state, on_rank_0, rank, save_weights, unsharded
from ..errors import FailedError, ModelError, WriteError
from ..methods.reinit import reset, restart
from ..methods.training import Training
from ..randomness import key

_STREAM = "pupil"  # names a stream of random numbers: another name would train other models
VERSION = 1  # raise it when the same settings train another model than before: kept models are then not found


@dataclass(frozen=True)
class Trainer:
    """How models of one kind are trained: from which architecture, by which settings."""

    model: nn.Module
    training: Training
    start: str = ""
    augment: Augment | None = None
    about: str = ""  # what else makes a difference to the training, such as the name of the augmentation
    folder: Path | None = None
    seed: int = 0

    def trained(self, parts: Sequence[Part], log: Log = ignore) -> Iterator[nn.Module]:
        """Yield one trained model per part, each of another seed."""
        for number, part in enumerate(parts):
            model = self._untrained(number)
            place = self._place(model, part, number)
            if not _recalled(model, place):
                _make_room(place)
                self.training.fit(model, self._problem(part, number), log)
                _keep(model, place, part)
            yield model

    def missing(self, parts: Sequence[Part]) -> int:
        """Count the models that are not kept yet."""
        places = (self._place(self._untrained(i), part, i) for i, part in enumerate(parts))
        return sum(not _there(place) for place in places)

    def _untrained(self, number: int) -> nn.Module:
        model = copy_model(self.model)
        reset(model, key(self.seed, _STREAM, number))
        if self.start:
            restart(model, self.start)
        return model

    def _problem(self, part: Part, number: int) -> Problem:
        nothing = Part(part.records, part.ids[:0])
        return Problem(nothing, part, seed=key(self.seed, _STREAM, number), augment=self.augment)

    def _place(self, model: nn.Module, part: Part, number: int) -> Path | None:
        """Return the file of a trained model; None where data or code are the user's objects without a fingerprint."""
        code = _code(model)
        if self.folder is None or not part.fingerprint or not code:
            return None
        digest = hashlib.sha256((part.fingerprint + code + _built(model)).encode())
        digest.update(json.dumps([self.training.to_dict(), self.seed, number, self.about, torch.__version__]).encode())
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        for name, value in model.state_dict().items():
            digest.update(f"{name} {value.dtype} {tuple(value.shape)} {name in frozen}".encode())
            digest.update(full(value).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return self.folder / f"{digest.hexdigest()[:32]}.safetensors"


def _built(model: nn.Module) -> str:
    """Describe how the model is built: its layers, and what their attributes say."""
    simple = (int, float, str, tuple)
    said = [
        {k: v for k, v in vars(m).items() if k != "training" and isinstance(v, simple)}
        for m in unsharded(model).modules()
    ]
    return f"{unsharded(model)!r} {said}"


def _code(model: nn.Module) -> str:
    """Hash the model's code and our version; empty where some of it is in no file, as in a notebook.

    PyTorch's own code is known by its release.
    """
    kinds = {base for module in unsharded(model).modules() for base in type(module).__mro__ if base is not object}
    names = {kind.__module__ for kind in kinds if kind.__module__.partition(".")[0] != "torch"}
    digest = hashlib.sha256(str(VERSION).encode())
    for module in (sys.modules[name] for name in sorted(names)):
        file = getattr(module, "__file__", None)
        if not file or not Path(file).is_file():
            return ""
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


def _recalled(model: nn.Module, place: Path | None) -> bool:
    """Load the trained weights into the model, and return whether they were there."""
    if place is None or not _there(place):
        return False
    before = {name: value.clone() for name, value in local_state(model).items()}
    try:
        if load_weights(model, [place]) == ([], []):
            return True
    except (SafetensorError, OSError, ModelError):
        pass  # damaged: it is trained again, and replaced
    for name, value in local_state(model).items():
        value.copy_(before[name])
    return False


def _there(place: Path | None) -> bool:
    return place is not None and on_rank_0(place.exists)


def _make_room(place: Path | None) -> None:
    """Create the folder before training, so that a failure shows early."""
    if place:
        try:
            files.private_folder(place.parent)
        except OSError as error:
            raise FailedError(f"cannot keep reference models in {place.parent}: {error.strerror}.") from None


def _keep(model: nn.Module, place: Path | None, part: Part) -> None:
    """Write the trained weights, and what they were trained on, for the user alone.

    On a full disk the model is used all the same, and trained again the next time.
    """
    if place is None:
        return
    with suppress(OSError, WriteError, FailedError):
        on_rank_0(lambda: place.unlink(missing_ok=True))  # a damaged one; all ranks fail together if it cannot go
        hashes = part.records.hashes
        about = held([hashes[i] for i in part.ids.tolist()]) if hashes else None
        with files.replacing(place, private=True) if rank() == 0 else nullcontext(place) as file:
            save_weights(model, file, about)
