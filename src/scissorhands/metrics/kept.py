"""Did a model lose what it should have kept? Its answers beside those of the original, and of reference models."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .outputs import Observations, Outputs
from .perrecord import errors
from .rank_tests import upper

KEPT = {"retained": ("retain",), "unseen": ("calibration", "audit", "test")}  # what should have been kept, by name
_FALLEN = 0.05  # the share of records by which a method may fall behind the original,
_FALLEN_NUMBERS = 0.1  # and of numbers to predict, the share of their spread
SEED = 0.02  # and by which two trainings of different seeds may differ
_SEEDS = 400  # and besides, a seed changes an accuracy as much as another draw of this many records would


@dataclass(frozen=True)
class Loss:
    """How much more often others are right about records that should have been kept, with the error of that.

    Where labels are numbers to predict, it is by how much less far off others are, as a share of the labels' `spread`.
    """

    what: str  # "retained" or "unseen"
    whose: str  # "the original" or "the reference"
    ours: Tensor
    theirs: Tensor
    allowed: float
    error: float
    spread: float | None = None

    @property
    def p(self) -> float:
        """Return how often chance, another seed and what is allowed explain as large a loss."""
        return upper((self.theirs.mean().item() - self.ours.mean().item() - self.allowed) / self.error)

    def __str__(self) -> str:
        if self.spread is not None:
            ours, theirs = (self.spread * (1 - one.mean().item()) for one in (self.ours, self.theirs))
            return f"{ours:.3g} on {self.what} records, {self.whose} by {theirs:.3g}"
        return f"{percent(self.ours)} of {self.what} records, {self.whose} in {percent(self.theirs)}"


def losses(model: Observations, references: Sequence[Observations]) -> Iterator[Loss]:
    """Compare the model, record by record, with the original and with references, wherever both said something.

    References that were trained on only some of the retained records leave `retain` out. They know less, so they are
    not asked beside one that knows it all.

    The original is found in the model's own observations, as `before`. It saw more records than the model may know of:
    by so much as the error falls with the root of their number, the model may be worse about unseen ones.
    """
    before = [model["before"]] if _finite(model.get("before", {})) else []
    references = [one for one in references if len(one.get("retain", ()))] or references
    for what, parts in KEPT.items():
        for whose, several, allowed in (("the original", before, _FALLEN), ("the reference", references, SEED)):
            known = [name for name in parts if all(len(one.get(name, ())) for one in (model, *several))]
            if not several or not known:
                continue
            if (spread := _spread(model, known)) == 0:  # of numbers that are all the same it cannot be said
                continue
            ours = right(model, *known)
            answers = [right(one, *known) for one in several]
            theirs = torch.stack(answers).mean(0)
            if whose == "the original" and spread is not None:
                allowed = _FALLEN_NUMBERS
            if whose == "the original" and what == "unseen":
                allowed += _fewer(model) * (1 - theirs.mean().item())
            yield Loss(what, whose, ours, theirs, allowed, _error(ours, answers, spread is not None), spread)


def guesses(model: Observations) -> bool:
    """Return whether the model is hardly better, even on retained records, than the commonest label or the median."""
    labels: Tensor = model["retain"].labels
    if model["retain"].regression:
        return _spread(model, ["retain"]) == 0 or bool(right(model, "retain").mean() < 0.05)
    commonest = labels.bincount().max().item() / len(labels)
    return bool(right(model, "retain").mean() < commonest + 0.1 * (1 - commonest))


def right(one: Observations, *parts: str) -> Tensor:
    """Return 1 for each record of these parts that the model is right about, else 0.

    Where labels are numbers to predict, return 1 less the absolute error as a share of their spread: 1 is exact, and
    the mean is 0 for a model that always says the median.
    """
    said: list[Outputs] = [one[part] for part in parts]
    if spread := _spread(one, parts):
        return 1 - torch.cat([errors(outputs.logits, outputs.labels) for outputs in said]).abs() / spread
    return torch.cat([(outputs.logits.argmax(1) == outputs.labels).double() for outputs in said])


def percent(share: Tensor) -> str:
    """Write the mean of shares as people do.

    >>> percent(torch.tensor([0.0, 1.0]))
    '50.0 %'
    """
    return f"{100 * share.mean():.1f} %"


def deviation(values: Tensor) -> float:
    """Return the standard error of the mean, at least that of one record that falls out."""
    spread = values.std().item() / len(values) ** 0.5 if len(values) > 1 else 0.5
    return max(spread, 1 / len(values))


def _error(ours: Tensor, theirs: Sequence[Tensor], regression: bool) -> float:
    """Return the standard error of a loss: by the records, and by how far accuracies differ between seeds.

    The absolute values of normal errors have a deviation of 0.76 times their mean.
    """
    accuracies = torch.stack([one.mean() for one in theirs])
    missed = 1 - accuracies.mean()
    usual = (((0.76 * missed) ** 2 if regression else accuracies.mean() * missed) / _SEEDS).item() ** 0.5
    seed = max(usual, accuracies.std().item()) if len(accuracies) > 1 else usual
    records = deviation(torch.stack(list(theirs)).mean(0) - ours)
    return float((records**2 + seed**2 * (1 + 1 / len(accuracies))) ** 0.5)


def _spread(model: Observations, parts: Sequence[str]) -> float | None:
    """Return the mean absolute deviation of numbers to predict from their median; None of classes."""
    said: list[Outputs] = [model[part] for part in parts]
    labels = torch.cat([outputs.labels for outputs in said]).double()
    return (labels - labels.median()).abs().mean().item() if said[0].regression else None


def _fewer(model: Observations) -> float:
    """Return by which share the error about unseen records grows for want of the forgotten ones."""
    forget, retain = len(model.get("forget", ())), len(model.get("retain", ()))
    return float(((forget + retain) / retain) ** 0.5 - 1) if retain else 0.0


def _finite(one: Mapping[str, Any]) -> bool:
    return bool(one) and all(bool(said.logits.isfinite().all()) for said in one.values() if isinstance(said, Outputs))
