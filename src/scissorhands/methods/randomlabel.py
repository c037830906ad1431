"""Random labels (RL)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from .base import (
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    count,
    ignore,
    non_negative,
    positive,
    random_labels,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class RandomLabel(Method):
    """Trains on the forgotten data under random labels, then on the retained data, in every epoch."""

    paper: ClassVar[str] = "Golatkar et al., CVPR 2020"

    epochs: int = setting(10, count, "passes over all training data")
    lr: float = setting(0.01, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        wrong = replace(problem.forget, records=random_labels(problem.forget, problem.seed))
        descent = Descent(model, problem, self, "relabel", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(wrong, problem.retain):
                descent.step(descent.gradient(batch))
