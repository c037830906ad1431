"""Records with other labels, for methods that teach a model something wrong about what it must forget."""

from functools import cached_property

import torch
from torch import Tensor

from .randomness import generator
from .records import Batch, Part, Records


class Relabelled(Records):
    """Someone else's records, with other labels."""

    def __init__(self, records: Records, labels: Tensor) -> None:
        self.records, self._labels = records, labels
        self.classes = records.classes

    @property
    def labels(self) -> Tensor:
        return self._labels

    def fetch(self, ids: Tensor) -> Batch:
        return self.records.fetch(ids)[0], self._labels[ids]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        return self.records.fingerprint


def class_count(records: Records) -> int:
    """How many classes the records have."""
    return len(records.classes) or int(records.labels.max()) + 1


def random_labels(part: Part, seed: int) -> Relabelled:
    """The part's records with a random label each; all others keep theirs.

    Labels are drawn once from all classes, the true one among them, as in SalUn's published code.
    """
    labels = part.records.labels.clone()
    draw = generator(seed, "random labels")
    labels[part.ids] = torch.randint(class_count(part.records), (len(part),), generator=draw)
    return Relabelled(part.records, labels)
