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
    """A row of the table: its title, the parts of the data it needs, and how it is computed."""

    title: str
    needs: tuple[str, ...]
    compute: Callable[[Mapping[str, Outputs]], float]


def _accuracy_on(part: str) -> Callable[[Mapping[str, Outputs]], float]:
    return lambda outputs: accuracy(outputs[part].logits, outputs[part].labels)


def _mia(outputs: Mapping[str, Outputs]) -> float:
    sure = {part: confidence(outputs[part].logits, outputs[part].labels) for part in ("retain", "test", "forget")}
    return called_non_members(sure["retain"], sure["test"], sure["forget"])


METRICS: dict[str, Metric] = {
    "forget_accuracy": Metric("Acc forget", ("forget",), _accuracy_on("forget")),
    "retain_accuracy": Metric("Acc retain", ("retain",), _accuracy_on("retain")),
    "unseen_accuracy": Metric("Acc unseen", ("unseen",), _accuracy_on("unseen")),
    "test_accuracy": Metric("Acc test", ("test",), _accuracy_on("test")),
    "mia": Metric("MIA", ("retain", "test", "forget"), _mia),
}

__all__ = ["GAP_OVER", "METRICS", "Metric", "Outputs", "accuracy", "avg_gap", "called_non_members", "confidence"]
