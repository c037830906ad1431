"""Where labels are numbers to predict: how far a model is off, and what that gives away."""

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from .accuracy import accuracy
from .metric import LIKE_RETRAINED, NUMBERS, Metric
from .outputs import Observations, Outputs
from .perrecord import errors

_AS_BEFORE = "about what the original has"
# Of each part: the records, what a retrained model has, and when a number misleads.
_PARTS = {
    "forget": (
        "the forgotten records",
        "about what it has on unseen data",
        "the worse is not the better: a model that is wrong about every forgotten record gives them away",
    ),
    "retain": (
        "the training data that was kept",
        _AS_BEFORE,
        "it can be kept by learning by heart, while the model gets worse on new data",
    ),
    "audit": (
        "records that neither training nor the method saw",
        _AS_BEFORE,
        "half of what was held out, or set aside from the test data: the other half is for calibration",
    ),
    "test": ("the test data", _AS_BEFORE, "an average: a group that was hurt does not show"),
}


def mae(said: Tensor, labels: Tensor) -> float:
    """Return the mean absolute error, in the unit of the labels.

    >>> mae(torch.tensor([[2.0], [5.0]]), torch.tensor([3.0, 3.0]))
    1.5
    """
    return errors(said, labels).abs().mean().item()


def r2(said: Tensor, labels: Tensor) -> float:
    """Return R², the share of the variance of the labels that is explained: 1 less mean squared error over variance.

    >>> r2(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([1.0, 2.0, 3.0]))
    -3.5
    >>> r2(torch.tensor([[2.0], [2.0], [2.0]]), torch.tensor([1.0, 2.0, 3.0]))  # always the mean
    0.0
    """
    variance = labels.double().var(correction=0).item()
    if not variance > 0:
        raise ValueError("all labels are the same number, so there is no variance to explain.")
    return 1 - errors(said, labels).square().mean().item() / variance


def called_unseen(members: Tensor, others: Tensor, targets: Tensor) -> float:
    """Return the percentage of targets above the threshold that best divides members, which are below, from others.

    >>> members, others = torch.tensor([0.1, 0.2, 0.9]), torch.tensor([0.3, 0.8, 1.0])
    >>> called_unseen(members, others, torch.tensor([0.15, 0.25, 2.0, 3.0]))
    75.0
    """
    levels = torch.cat([members, others]).sort().values
    below = (torch.searchsorted(some.sort().values, levels, right=True) / len(some) for some in (members, others))
    found, falsely = below
    return 100 * (targets > levels[(found - falsely).argmax()]).double().mean().item()


def skill(said: Outputs) -> float:
    """Return how good a model is, where more is better: its accuracy, or minus the mean absolute error of numbers.

    >>> skill(Outputs(torch.tensor([[2.0], [5.0]]), torch.tensor([3.0, 3.0])))
    -1.5
    """
    return -mae(said.logits, said.labels) if said.regression else accuracy(said.logits, said.labels)


def basics(said: Outputs) -> dict[str, float]:
    """Return by name the accuracy or, of numbers, the mean absolute error and, where labels vary, R².

    >>> basics(Outputs(torch.tensor([[2.0], [5.0]]), torch.tensor([3.0, 3.0])))
    {'mae': 1.5}
    """
    if not said.regression:
        return {"accuracy": accuracy(said.logits, said.labels)}
    found = {"mae": mae(said.logits, said.labels)}
    with suppress(ValueError):
        found["r2"] = r2(said.logits, said.labels)
    return found


def _on(part: str, measure: Callable[[Tensor, Tensor], float]) -> Callable[[Observations], float]:
    return lambda observed: measure(observed[part].logits, observed[part].labels)


def _rows(
    name: str, title: str, best: str, meaning: str, measure: Callable[[Tensor, Tensor], float], digits: int = 2
) -> dict[str, Metric]:
    """Return a row for each part of the data."""
    return {
        f"{part}_{name}": Metric(
            f"{title} {part}",
            best if part in ("audit", "test") else LIKE_RETRAINED,
            meaning.format(records),
            expected,
            misleads,
            (part,),
            _on(part, measure),
            digits=digits,
            labels=NUMBERS,
        )
        for part, (records, expected, misleads) in _PARTS.items()
    }


ERRORS: dict[str, Metric] = {
    **_rows("mae", "MAE", "lower", "mean absolute error on {}, in the unit of the labels", mae),
    **_rows("r2", "R²", "higher", "share of the variance of the labels of {} that is explained: 1 if all of it", r2, 3),
}
