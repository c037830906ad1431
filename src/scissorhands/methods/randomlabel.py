"""Random labels (RL)."""

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
    one_of,
    optimizers,
    positive,
    rate,
    relabeled_parts,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class RandomLabel(Method):
    """Trains on all data, the forgotten part of it under random labels.

    It is SalUn with every weight salient, in the published code too.
    """

    paper: ClassVar[str] = "Golatkar et al., CVPR 2020"

    order: str = setting(
        "mixed", one_of("mixed", "sequential"), "forget and retain batches mixed, or one after the other"
    )
    labels: str = setting("redrawn", one_of("redrawn", "fixed"), "random labels redrawn in every epoch, or drawn once")
    epochs: int = setting(10, count, "passes over all training data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        descent = Descent(model, problem, self, "relabel", log)
        for epoch in descent.epochs(self.epochs):
            for batch in descent.batches(*relabeled_parts(problem, epoch, self.labels, self.order)):
                descent.step(descent.gradient(batch))
