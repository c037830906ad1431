"""The metrics: pure functions of tensors, and the table of them. All are percentages, as in the paper."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from .accuracy import accuracy
from .gap import GAP_OVER, avg_gap
from .membership import called_non_members, confidence


@dataclass(frozen=True)
class Outputs:
    """What a model says about one part of the data."""

    logits: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Metric:
    """A row of the table: what it needs, how it is computed, and how to read it."""

    title: str
    needs: tuple[str, ...]
    compute: Callable[[Mapping[str, Outputs]], float]
    ideal: str


def _accuracy_on(part: str) -> Callable[[Mapping[str, Outputs]], float]:
    return lambda outputs: accuracy(outputs[part].logits, outputs[part].labels)


def _mia(outputs: Mapping[str, Outputs]) -> float:
    sure = {part: confidence(outputs[part].logits, outputs[part].labels) for part in ("retain", "test", "forget")}
    return called_non_members(sure["retain"], sure["test"], sure["forget"])


METRICS: dict[str, Metric] = {
    "forget_accuracy": Metric("Acc forget", ("forget",), _accuracy_on("forget"), "as the retrained model's"),
    "retain_accuracy": Metric("Acc retain", ("retain",), _accuracy_on("retain"), "high"),
    "unseen_accuracy": Metric("Acc unseen", ("unseen",), _accuracy_on("unseen"), "high"),
    "test_accuracy": Metric("Acc test", ("test",), _accuracy_on("test"), "high"),
    "mia": Metric("MIA", ("retain", "test", "forget"), _mia, "as the retrained model's"),
}

__all__ = ["GAP_OVER", "METRICS", "Metric", "Outputs", "accuracy", "avg_gap", "called_non_members", "confidence"]
