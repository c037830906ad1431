"""What is forgotten, what is retained, what was never seen, and what is kept for the test."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .errors import DataError
from .forget import Forget
from .problem import Loss, Problem, cross_entropy
from .randomness import generator
from .records import Augment, Part, Records, as_records


@dataclass(frozen=True)
class Split:
    """Forget and retain are what the model was trained on; unseen and test are what it was not.

    `manifest` is a hash of the data and of the forgotten ids: two results with the same one forgot the same thing.
    """

    forget: Part
    retain: Part
    unseen: Part | None
    test: Part
    manifest: str

    def problem(self, *, seed: int = 0, augment: Augment | None = None, loss: Loss = cross_entropy) -> Problem:
        """What a method may see of this split: everything but the test data."""
        return Problem(self.forget, self.retain, self.unseen, loss, seed, augment)

    def parts(self) -> dict[str, Part]:
        """The parts that have records, by name."""
        named = {"forget": self.forget, "retain": self.retain, "unseen": self.unseen, "test": self.test}
        return {name: part for name, part in named.items() if part is not None and len(part)}


def split(
    train: "Records | Dataset[Any]",
    forget: Forget,
    *,
    test: "Records | Dataset[Any]",
    unseen: float | Sequence[int] = 0.2,
    before: Sequence[int] = (),
    seed: int = 0,
) -> Split:
    """Divides the data.

    `unseen` are records that the model was never trained on: the ids in `train` that training held out or, for a
    model that was trained on all of it, a share of the test data, which is then no longer scored as test. Where a
    class is forgotten whole, its records leave unseen and test too: a retrained model has no such class. `before` are
    ids that the model was made to forget earlier: they are neither retained nor forgotten again.
    """
    train, test = as_records(train), as_records(test)
    held, rest, unseen_records = _unseen(train, test, unseen, seed)
    everything = torch.arange(len(train))
    trained = _without(everything, held) if unseen_records is train else everything
    earlier = _ids(before, train, "before")
    current = _without(trained, earlier)
    forgotten = forget.ids(train, current, seed)
    retained = _without(current, forgotten)
    gone = _without(train.labels[torch.cat([earlier, forgotten])].unique(), train.labels[retained].unique())
    parts = [
        Part(records, ids[~torch.isin(records.labels[ids], gone)])
        for records, ids in ((unseen_records, held), (test, rest))
    ]
    if len(parts[1]) == 0:
        raise DataError("no test record is left to score: the test data holds only classes that are forgotten whole.")
    return Split(
        Part(train, forgotten),
        Part(train, retained),
        parts[0] if len(parts[0]) else None,
        parts[1],
        _manifest(train, current, forgotten),
    )


def held_out(records: Records, share: float, seed: int) -> Tensor:
    """The ids that training leaves out, for later use as unseen data."""
    count = round(share * len(records))
    return torch.randperm(len(records), generator=generator(seed, "unseen"))[:count].sort().values


def _unseen(train: Records, test: Records, unseen: float | Sequence[int], seed: int) -> tuple[Tensor, Tensor, Records]:
    """The ids of the unseen records, the ids left for the test, and which of the two data sets the first are in."""
    if isinstance(unseen, int | float):
        if not 0 <= unseen < 1:
            raise DataError(f"'unseen' must be ids of the training data, or a share from 0, below 1, not {unseen}.")
        taken = held_out(test, unseen, seed)
        return taken, _without(torch.arange(len(test)), taken), test
    return _ids(unseen, train, "unseen"), torch.arange(len(test)), train


def _ids(given: Sequence[int], records: Records, name: str) -> Tensor:
    ids = torch.as_tensor(list(given), dtype=torch.int64).sort().values
    if len(ids) != len(ids.unique()) or (len(ids) and not 0 <= int(ids[0]) <= int(ids[-1]) < len(records)):
        raise DataError(f"'{name}' must be different ids from 0 to {len(records) - 1} of the training data.")
    return ids


def _without(ids: Tensor, others: Tensor) -> Tensor:
    return ids[~torch.isin(ids, others)]


def _manifest(train: Records, current: Tensor, forgotten: Tensor) -> str:
    digest = hashlib.sha256(f"{len(train)} {train.fingerprint}".encode())
    digest.update(current.numpy().tobytes())
    digest.update(forgotten.numpy().tobytes())
    return digest.hexdigest()[:16]
