"""Records with other labels, for methods that teach a model something wrong about what it must forget."""

from functools import cached_property

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


def random_labels(part: Part, seed: int) -> Relabelled:
    """The part's records with a random label each, drawn once, as in SalUn's published code; all others keep theirs."""
    labels = part.records.labels.clone()
    labels[part.ids] = part.records.wrong_labels(part.ids, generator(seed, "random labels"))
    return Relabelled(part.records, labels)
