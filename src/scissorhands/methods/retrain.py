"""Retraining: the oracle."""

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
    ignore,
    non_negative,
    one_of,
    optimizers,
    positive,
    rate,
    reset,
    restart,
    setting,
    text,
    trainable,
)


@dataclass(frozen=True, kw_only=True)
class Retrain(Method):
    """Re-initializes the whole model and trains it without the forgotten data: the oracle, and the slowest."""

    paper: ClassVar[str] = "the gold standard"
    judged_on: ClassVar[tuple[str, ...]] = ("retain",)  # with fewer records it may know less of others, as it should

    start: str = setting("", text, "a Hugging Face classifier to start from; if empty, weights are re-initialized")
    epochs: int = setting(182, at_least_one, "passes over the retained data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.1), positive, "learning rate at the start")
    schedule: str = setting("cosine", one_of("cosine", "multistep", "constant"), "how the learning rate goes on")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        trainable(model)
        reset(model, problem.seed)
        if self.start:
            restart(model, self.start)
        descent = Descent(model, problem, self, "retrain", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.retain):
                descent.step(descent.gradient(batch))
