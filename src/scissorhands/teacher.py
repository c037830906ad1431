"""Trains models of the same kind as a given one, on other data, and keeps them for the next time.

A kept model is found again by a hash of the data, of the settings, of the weights that it started from, and of the code
that trained it. When one of them changes it is trained anew.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from . import (
    distributed,
    ensemble,
    files,
    huggingface,
    images,
    modes,
    networks,
    norms,
    problem,
    progress,
    randomness,
    records,
    reinit,
    saliency,
    train,
)
from .distributed import copied, fill, first, plain, state, whole, write
from .errors import FailedError, ModelError
from .problem import Log, Problem, ignore
from .records import Augment, Part
from .train import Training

_CODE = (
    distributed,
    ensemble,
    files,
    huggingface,
    images,
    modes,
    networks,
    norms,
    problem,
    progress,
    randomness,
    records,
    reinit,
    saliency,
    train,
    sys.modules[__name__],
)

_TOGETHER = 16  # models that are trained at once, where that pays


@dataclass(frozen=True)
class Teacher:
    """How models of one kind are trained: from which architecture, by which settings."""

    model: nn.Module
    training: Training
    start: str = ""
    augment: Augment | None = None
    about: str = ""  # what else makes a difference to the training, such as the name of the augmentation
    folder: Path | None = None
    seed: int = 0

    def trained(self, parts: Sequence[Part], log: Log = ignore) -> Iterator[nn.Module]:
        """One model per part, each of another seed; together where that is faster and they have as many records."""
        together = _TOGETHER if ensemble.pays(self.model) else 1
        for start in range(0, len(parts), together):
            some = range(start, min(start + together, len(parts)))
            pupils = {i: self._pupil(i) for i in some}
            places = {i: self._place(pupils[i], parts[i], i) for i in some}
            missing = [i for i in some if not _recalled(pupils[i], places[i])]
            _make_room([places[i] for i in missing])
            self._teach([pupils[i] for i in missing], [self._problem(parts[i], i) for i in missing], log)
            for i in missing:
                _keep(pupils[i], places[i])
            yield from pupils.values()

    def _teach(self, pupils: list[nn.Module], problems: list[Problem], log: Log) -> None:
        if len(pupils) > 1 and len({len(problem.retain) for problem in problems}) == 1:
            with suppress(ModelError):  # some layers cannot be stacked; then nothing has changed yet
                ensemble.fit_together(pupils, problems, self.training, log)
                return
        for pupil, lesson in zip(pupils, problems, strict=True):
            self.training.fit(pupil, lesson, log)

    def missing(self, parts: Sequence[Part]) -> int:
        """How many of these models are not kept yet."""
        places = (self._place(self._pupil(i), part, i) for i, part in enumerate(parts))
        return sum(not _there(place) for place in places)

    def _pupil(self, number: int) -> nn.Module:
        pupil = copied(self.model)
        reinit.reset(pupil, randomness.key(self.seed, "pupil", number))
        if self.start:
            huggingface.restart(pupil, self.start)
        return pupil

    def _problem(self, part: Part, number: int) -> Problem:
        nothing = Part(part.records, part.ids[:0])
        return Problem(nothing, part, seed=randomness.key(self.seed, "pupil", number), augment=self.augment)

    def _place(self, pupil: nn.Module, part: Part, number: int) -> Path | None:
        """The file of a trained model; none where data or code are objects of the user that leave no fingerprint."""
        code = _code(pupil)
        if self.folder is None or not part.fingerprint or not code:
            return None
        digest = hashlib.sha256((part.fingerprint + code + _built(pupil)).encode())
        digest.update(json.dumps([self.training.to_dict(), self.seed, number, self.about, torch.__version__]).encode())
        frozen = {name for name, p in pupil.named_parameters() if not p.requires_grad}
        for name, value in pupil.state_dict().items():
            digest.update(f"{name} {value.dtype} {tuple(value.shape)} {name in frozen}".encode())
            digest.update(whole(value).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return self.folder / f"{digest.hexdigest()[:32]}.safetensors"


def _built(model: nn.Module) -> str:
    """How the model is built: its layers, and what their attributes say."""
    simple = (int, float, str, tuple)
    said = [
        {k: v for k, v in vars(m).items() if k != "training" and isinstance(v, simple)} for m in plain(model).modules()
    ]
    return f"{plain(model)!r} {said}"


def _code(model: nn.Module) -> str:
    """A hash of the code of the model and of its training; empty where some of it is in no file, as in a notebook.

    PyTorch's own code is known by its release.
    """
    kinds = {base for module in plain(model).modules() for base in type(module).__mro__ if base is not object}
    names = {kind.__module__ for kind in kinds if kind.__module__.partition(".")[0] != "torch"}
    digest = hashlib.sha256()
    for module in sorted({*_CODE, *(sys.modules[name] for name in names)}, key=lambda module: module.__name__):
        file = getattr(module, "__file__", None)
        if not file or not Path(file).is_file():
            return ""
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


def _recalled(pupil: nn.Module, place: Path | None) -> bool:
    """Whether the trained weights were there, and are now the pupil's."""
    if place is None or not _there(place):
        return False
    before = {name: value.clone() for name, value in state(pupil).items()}
    try:
        if fill(pupil, [place]) == ([], []):
            return True
    except (SafetensorError, OSError, ModelError):
        pass  # damaged: it is trained anew, and replaced
    for name, value in state(pupil).items():
        value.copy_(before[name])
    return False


def _there(place: Path | None) -> bool:
    return place is not None and first(place.exists)


def _make_room(places: Sequence[Path | None]) -> None:
    """Makes the folder, so that it is known before the work whether there can be one."""
    for folder in {place.parent for place in places if place}:
        try:
            files.private_folder(folder)
        except OSError as error:
            raise FailedError(f"cannot keep reference models in {folder}: {error.strerror}.") from None


def _keep(pupil: nn.Module, place: Path | None) -> None:
    if place is None:
        return
    part = place.with_suffix(f".{first(os.getpid)}")
    try:
        write(pupil, part)
        first(lambda: part.replace(place))
    except OSError:  # a full disk: it is used all the same, and trained anew the next time
        with suppress(OSError):
            first(lambda: part.unlink(missing_ok=True))
