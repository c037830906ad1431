"""Records with other labels: as a model numbers them, or wrong ones that make a model forget."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from ..randomness import generator
from .problem import Problem
from .records import Columns, Fetched, Part, Records


class Relabeled(Records):
    """Records with new labels in place of their own."""

    def __init__(self, records: Records, labels: Tensor, classes: tuple[str, ...] | None = None) -> None:
        self.records, self._labels = records, labels
        self.classes = records.classes if classes is None else classes
        self.key = records.key

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return self.records.keys

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        return self.records.hashes

    @property
    def labels(self) -> Tensor:
        return self._labels

    @property
    def columns(self) -> Columns:
        return self.records.columns

    def fetch(self, ids: Tensor) -> Fetched:
        return self.records.fetch(ids)[0], self._labels[ids]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        return self.records.fingerprint


def renumbered(records: Records, numbers: Sequence[int], classes: tuple[str, ...]) -> Relabeled:
    """Return the records with the labels that a model uses; `classes` are their names by these numbers."""
    made = Relabeled(records, torch.tensor(numbers)[records.labels], classes)
    made.drawn_from = records.drawn_from  # other labels may be of another table; other numbers for them are not
    return made


def random_labels(part: Part, seed: int, *purpose: str | int) -> Relabeled:
    """Give each record of the part a random label, from all classes, including the true one; others keep theirs.

    The labels depend on the seed and the purpose alone.
    """
    labels = part.records.labels.clone()
    labels[part.ids] = part.records.wrong_labels(part.ids, generator(seed, "random labels", *purpose))
    return Relabeled(part.records, labels)


def relabeled_parts(problem: Problem, epoch: int, labels: str, order: str) -> list[Part]:
    """Return the parts of an epoch of training under random labels.

    `labels` are "redrawn" for the epoch, or "fixed" for all epochs. The `order` is "mixed", which is one shuffle of all
    records, or "sequential": the records to forget, then those to retain.
    """
    wrong = random_labels(problem.forget, problem.seed, *([epoch] if labels == "redrawn" else []))
    if order == "sequential":
        return [Part(wrong, problem.forget.ids), problem.retain]
    return [Part(wrong, torch.cat([problem.forget.ids, problem.retain.ids]).sort().values)]
