"""The distance to a retrained model, and how far two retrained models are from one another."""

from collections.abc import Mapping, Sequence
from itertools import combinations

GAP_OVER = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia")


def avg_gap(values: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """Return the mean absolute difference to the retrained model in the paper's four percentages.

    >>> model = {"forget_accuracy": 95.0, "retain_accuracy": 99.0, "test_accuracy": 92.0, "mia": 10.0}
    >>> avg_gap(model, {"forget_accuracy": 94.0, "retain_accuracy": 100.0, "test_accuracy": 94.0, "mia": 14.0})
    2.0
    """
    return sum(abs(values[name] - reference[name]) for name in GAP_OVER) / len(GAP_OVER)


def noise_floor(retrained: Sequence[Mapping[str, float]]) -> list[float]:
    """Return the gaps between retrained models of different seeds: smaller ones cannot be told from chance.

    >>> one = {"forget_accuracy": 90.0, "retain_accuracy": 99.0, "test_accuracy": 92.0, "mia": 10.0}
    >>> noise_floor([one, {**one, "mia": 12.0}, {**one, "mia": 14.0}])
    [0.5, 1.0, 0.5]
    """
    return [avg_gap(one, other) for one, other in combinations(retrained, 2)]
