"""The distance to a retrained model, and how far two retrained models are from one another."""

from collections.abc import Mapping, Sequence
from itertools import combinations

GAP_OVER = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia")
GAP_OVER_NUMBERS = ("forget_mae", "retain_mae", "test_mae")  # where labels are numbers to predict, in their unit


def gap_over(values: Mapping[str, float]) -> tuple[str, ...]:
    """Return the scores that the gap is made of, by whether classes or numbers were predicted."""
    return GAP_OVER_NUMBERS if any(name in values for name in GAP_OVER_NUMBERS) else GAP_OVER


def avg_gap(values: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """Return the mean absolute difference to the retrained model in the paper's four percentages.

    Where labels are numbers to predict, it is that in three mean absolute errors, in the unit of the labels.

    >>> model = {"forget_accuracy": 95.0, "retain_accuracy": 99.0, "test_accuracy": 92.0, "mia": 10.0}
    >>> avg_gap(model, {"forget_accuracy": 94.0, "retain_accuracy": 100.0, "test_accuracy": 94.0, "mia": 14.0})
    2.0
    >>> model = {"forget_mae": 11.0, "retain_mae": 4.0, "test_mae": 15.0}
    >>> avg_gap(model, {"forget_mae": 14.0, "retain_mae": 4.0, "test_mae": 12.0})
    2.0
    """
    names = gap_over(reference)
    return sum(abs(values[name] - reference[name]) for name in names) / len(names)


def noise_floor(retrained: Sequence[Mapping[str, float]]) -> list[float]:
    """Return the gaps between retrained models of different seeds: smaller ones cannot be told from chance.

    >>> one = {"forget_accuracy": 90.0, "retain_accuracy": 99.0, "test_accuracy": 92.0, "mia": 10.0}
    >>> noise_floor([one, {**one, "mia": 12.0}, {**one, "mia": 14.0}])
    [0.5, 1.0, 0.5]
    """
    return [avg_gap(one, other) for one, other in combinations(retrained, 2)]
