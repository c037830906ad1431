"""Sparse fine-tuning (l1-sparse)."""

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
    l1_norm,
    linear_decay,
    non_negative,
    optimizers,
    positive,
    rate,
    setting,
    weights,
)


@dataclass(frozen=True, kw_only=True)
class L1Sparse(Method):
    """Fine-tunes on the retained data while an l1 penalty, fading with the epochs, thins the weights out."""

    paper: ClassVar[str] = "Jia et al., NeurIPS 2023"

    gamma: float = setting(
        1e-4, non_negative, "weight of the l1 penalty in the first epoch; it falls linearly", search=30
    )
    epochs: int = setting(10, count, "passes over the retained data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        thinned = list(weights(model).values())
        descent = Descent(model, problem, self, "sparsify", log)

        def penalized(model: nn.Module, batch: Batch) -> Tensor:
            return problem.loss(model, batch) + gamma * l1_norm(thinned)

        for epoch in descent.epochs(self.epochs):
            gamma = linear_decay(self.gamma, epoch, self.epochs)
            for batch in descent.batches(problem.retain):
                gradient = descent.gradient(batch, penalized)
                for slope, weight in zip(gradient, thinned, strict=True):
                    slope.add_(weight.sign(), alpha=gamma)  # the penalty's own gradient, shard by shard
                descent.step(gradient)
