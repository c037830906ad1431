"""Saliency unlearning (SalUn)."""

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
    gradient_saliency,
    ignore,
    non_negative,
    one_of,
    optimizers,
    positive,
    positive_share,
    rate,
    relabeled_parts,
    setting,
    top_share,
    trainable,
    weights,
)


@dataclass(frozen=True, kw_only=True)
class SalUn(Method):
    """Trains under random labels, but only the weights with the largest gradient on the forgotten data.

    The published code redraws the labels, from all classes, the true one among them: for every epoch in mixed order, or
    for every batch in sequential order (on SVHN; in SalUn's own code on CIFAR-10, too). As an epoch sees a record once,
    both are `redrawn` here.
    """

    paper: ClassVar[str] = "Fan et al., ICLR 2024"
    copies: ClassVar[int] = 4

    salient: float = setting(0.5, positive_share, "share of the weights that may change", search=5)
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
        scores = gradient_saliency(model, problem, trainable(model), problem.forget, self.batch_size)
        mask, current = dict(top_share(scores, self.salient)), weights(model)
        descent = Descent(model, problem, replace(self, weight_decay=0.0), "relabel", log)
        for epoch in descent.epochs(self.epochs):
            for batch in descent.batches(*relabeled_parts(problem, epoch, self.labels, self.order)):
                gradient = descent.gradient(batch)
                for name, slope in zip(current, gradient, strict=True):
                    # The optimizer would decay every weight; so no bit changes where the mask is off.
                    slope.add_(current[name], alpha=self.weight_decay).mul_(mask[name])
                descent.step(gradient)
