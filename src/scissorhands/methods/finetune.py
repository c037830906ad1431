"""Fine-tuning (FT)."""

from dataclasses import dataclass
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
    optimizers,
    positive,
    rate,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class FineTune(Method):
    """Trains on the retained data and hopes that the rest fades."""

    paper: ClassVar[str] = "Warnecke et al., 2021"

    epochs: int = setting(10, count, "passes over the retained data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        descent = Descent(model, problem, self, "finetune", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.retain):
                descent.step(descent.gradient(batch))
