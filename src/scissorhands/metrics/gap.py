"""The distance to a retrained model."""

from collections.abc import Mapping

GAP_OVER = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia")


def avg_gap(values: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """The mean absolute difference to the retrained model in the paper's four percentages.

    >>> model = {"forget_accuracy": 95.0, "retain_accuracy": 99.0, "test_accuracy": 92.0, "mia": 10.0}
    >>> avg_gap(model, {"forget_accuracy": 94.0, "retain_accuracy": 100.0, "test_accuracy": 94.0, "mia": 14.0})
    2.0
    """
    return sum(abs(values[name] - reference[name]) for name in GAP_OVER) / len(GAP_OVER)
