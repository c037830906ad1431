"""Damage: what a model lost on data that it should have kept. One rule, which every surface tells.

Accuracy counts where the model is a classifier, R² where it predicts numbers, and the loss where it is something else.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from ..data.problem import Log, Problem, ignore, predicted
from ..data.records import Part
from ..randomness import seeded
from .modes import evaluating
from .outputs import logits_of

FELL = 5.0  # points of accuracy that a model may lose, or hundredths of R²
GREW = 2.0  # times that its loss may grow
FEW = 300  # calibration, audit or test records: of fewer, chance alone loses 5 points now and then
_GUESS = 0.2  # of the way from a guess to being always right: below that, a model knows next to nothing
_MEAN = 0.05  # R² that is hardly better than that of the mean label, which is 0
_LOOKED_AT = 2048  # records of a kind that are looked at where nobody asked for scores
_BATCH = 32  # records at a time, where the loss is measured

_NAMES = {"retain": "retained", "calibration": "calibration", "audit": "audit", "test": "test"}


class DamageWarning(UserWarning):
    """A method left a model that does worse on what it should have kept."""


class GuessWarning(UserWarning):
    """A model knew next to nothing of its training data before anything was done to it."""


def damage(before: Mapping[str, float], after: Mapping[str, float], strictness: float = 1.0) -> str:
    """Say what was lost, in words; empty if the model is about as good as before.

    With a `strictness` of 2, half of a loss counts.

    >>> damage({"retain_accuracy": 97.2}, {"retain_accuracy": 60.94})
    'accuracy on the retained data fell from 97.2 to 60.9 %'
    >>> damage({"retain_error": 0.02}, {"retain_error": 0.05})
    'the loss on the retained data grew from 0.0200 to 0.0500'
    >>> damage({"retain_r2": 0.81}, {"retain_r2": 0.7})
    'R² on the retained data fell from 0.81 to 0.70'
    >>> damage({"retain_accuracy": 97.2, "test_accuracy": 90.0}, {"retain_accuracy": 93.0, "test_accuracy": 88.0})
    ''
    """
    found = []
    for part, name in _NAMES.items():
        was, now = (known.get(f"{part}_accuracy") for known in (before, after))
        if was is not None and now is not None and was - now > FELL / strictness:
            found.append(f"accuracy on the {name} data fell from {was:.1f} to {now:.1f} %")
        was, now = (known.get(f"{part}_r2") for known in (before, after))
        if was is not None and now is not None and 100 * (was - now) > FELL / strictness:
            found.append(f"R² on the {name} data fell from {was:.2f} to {now:.2f}")
        was, now = (known.get(f"{part}_error") for known in (before, after))
        if was is not None and now is not None and now > (1 + (GREW - 1) / strictness) * was:
            found.append(f"the loss on the {name} data grew from {was:.4f} to {now:.4f}")
    return "; ".join(found)


def points_lost(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return how many points of accuracy, or hundredths of R², were lost on the data where most were lost.

    >>> points_lost({"retain_accuracy": 97, "test_accuracy": 90}, {"retain_accuracy": 95, "test_accuracy": 91})
    2
    """
    points = {"accuracy": 1, "r2": 100}
    lost = [(name.rpartition("_")[2], before[name] - after[name]) for name in before if name != "guess"]
    return max(points[kind] * change for kind, change in lost)


def judged(known: Mapping[str, float], counts: Mapping[str, int], judged_on: tuple[str, ...]) -> dict[str, float]:
    """Keep the accuracies and losses on data that a method is judged on, where there is enough of it.

    >>> judged({"retain_accuracy": 97.2, "audit_accuracy": 90.0}, {"retain": 50, "audit": 50}, ("retain", "audit"))
    {'retain_accuracy': 97.2}
    """
    parts = {name for name in judged_on if name == "retain" or counts.get(name, 0) >= FEW}
    return {name: value for name, value in known.items() if name.rpartition("_")[0] in parts}


def advice(lost: str) -> str:
    """Say what was lost, what it means, and what to do."""
    return f"{lost}: the model is damaged. Try a lower trim, or more epochs."


def guesses(said: Tensor, labels: Tensor) -> str:
    """Say that a model knows no more of the labels than a guess (Cohen's kappa below 0.2), or swaps some of them.

    Empty if it knows more, and takes no classes for each other.

    >>> guesses(torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1, 0, 1]))
    ''
    >>> guesses(torch.tensor([1, 0, 1, 0]), torch.tensor([0, 1, 0, 1]))
    'the model is right about 0.0 % of its training data, no more often than by a guess'
    >>> guesses(torch.tensor([0, 1, 3, 2, 4]), torch.tensor([0, 1, 2, 3, 4]))
    'the model takes most records of class 2 for class 3, 3 for 2'
    """
    right = (said == labels).double().mean().item()
    size = int(max(said.max(), labels.max())) + 1
    chance = (said.bincount(minlength=size) * labels.bincount(minlength=size)).sum().item() / len(labels) ** 2
    if right - chance >= _GUESS * (1 - chance) and right > 0:
        return _swapped(said, labels, size)
    return f"the model is right about {100 * right:.1f} % of its training data, no more often than by a guess"


def knows_little(r2: float) -> str:
    """Say that a model of numbers is no better on its training data than the mean label, whose R² is 0; else nothing.

    >>> knows_little(-0.5), knows_little(0.5)
    ('the model has an R² of -0.50 on its training data, no better than always saying the mean', '')
    """
    known = "the model has an R² of {:.2f} on its training data, no better than always saying the mean"
    return "" if r2 >= _MEAN else known.format(r2)


def _swapped(said: Tensor, labels: Tensor, size: int) -> str:
    """Say which classes the model takes for each other, as with labels in another order; empty if none.

    A class that is only taken for another one, and not the other way round, may simply be rare or hard.
    """
    pairs, counts = (labels * size + said).unique(return_counts=True)
    most = pairs[2 * counts > labels.bincount()[pairs // size]]
    taken = {label: other for label, other in (divmod(pair, size) for pair in most.tolist()) if label != other}
    while stray := [label for label, other in taken.items() if other not in taken or label not in taken.values()]:
        taken = {label: other for label, other in taken.items() if label not in stray}
    if not taken:
        return ""
    first, *others = (f"{label} for {other}" for label, other in taken.items())
    return ", ".join([f"the model takes most records of class {first.replace('for', 'for class')}", *others])


def warns_of_damage(scrub: Callable[..., None]) -> Callable[..., None]:
    """Make a method warn of the damage that it does.

    A command measures it on all records and says it in its own way, so there it is not measured again.
    """

    @wraps(scrub)
    def watching(method: Any, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        method.require_labels(problem)
        if not problem.warn_on_damage:
            scrub(method, model, problem, log)
            return
        before = utility(model, problem, method.judged_on)
        if reason := before.pop("guess", None):
            warnings.warn(f"{reason}: do labels and inputs fit it?", GuessWarning, stacklevel=2)
        scrub(method, model, problem, log)
        if lost := damage(before, utility(model, problem, method.judged_on)):
            warnings.warn(advice(lost), DamageWarning, stacklevel=2)

    return watching


def utility(model: nn.Module, problem: Problem, judged_on: tuple[str, ...] = ("retain",)) -> dict[str, Any]:
    """Measure accuracy, or R², or else the loss, on a sample of the data that the model should keep."""
    found: dict[str, Any] = {}
    parts = {"retain": problem.retain, "calibration": problem.calibration}
    for name, part in parts.items():
        if name not in judged_on or part is None or (name != "retain" and len(part) < FEW) or not len(part):
            continue
        some = problem.sample(part, min(1.0, _LOOKED_AT / len(part)), "damage")
        if problem.regression:
            off = predicted(logits_of(model, some)).double() - some.labels
            found[f"{name}_r2"] = 1 - off.square().mean().item() / problem.variance
            guess = knows_little(found[f"{name}_r2"])
        elif problem.classifies:
            said = logits_of(model, some).argmax(1)
            found[f"{name}_accuracy"] = 100 * (said == some.labels).double().mean().item()
            guess = guesses(said, some.labels)
        else:
            found[f"{name}_error"] = mean_loss(model, problem, some)
            continue
        if name == "retain":
            found["guess"] = guess
    return found


@torch.no_grad()
def mean_loss(model: nn.Module, problem: Problem, part: Part) -> float:
    """Compute the mean loss on a part, with the same random numbers each time."""
    with evaluating(model), seeded(problem.seed, "errors"):
        sums = [
            float(problem.loss(model, batch)) * len(ids)
            for ids, batch in zip(part.ids.split(_BATCH), part.batches(_BATCH), strict=True)
        ]
    return sum(sums) / len(part)
