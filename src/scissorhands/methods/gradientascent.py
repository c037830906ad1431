"""Gradient ascent (GA)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from .base import (
    Batch,
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    count,
    ignore,
    non_negative,
    optimizers,
    positive,
    rate,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class GradientAscent(Method):
    """Climbs the loss on the forgotten data, and never looks at the rest."""

    paper: ClassVar[str] = "Thudi et al., 2022"

    epochs: int = setting(5, count, "passes over the forget data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(1e-5), positive, "learning rate", search=3000)
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        def negated(model: nn.Module, batch: Batch) -> Tensor:
            return -problem.loss(model, batch)

        descent = Descent(model, problem, self, "ascend", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.forget):
                descent.step(descent.gradient(batch, negated))
