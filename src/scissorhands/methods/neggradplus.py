"""NegGrad+."""

from dataclasses import dataclass
from typing import ClassVar

import torch
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
    share,
    subtract_,
)


@dataclass(frozen=True, kw_only=True)
class NegGradPlus(Method):
    """Descends the loss on the retained data and climbs that on the forgotten data in one step.

    The defaults are those of its authors' code (small_scale_unlearning.ipynb), but for the batches, which have 32
    records to retain and 64 to forget there. As there, the model stays in evaluation mode. In place of a weight decay,
    their code pulls the weights towards where they began; that is left out here.
    """

    paper: ClassVar[str] = "Kurmanji et al., NeurIPS 2023"
    copies: ClassVar[int] = 4

    beta: float = setting(0.95, share, "weight of the retain loss; the forget loss has what is left to 1", search=1.2)
    epochs: int = setting(10, count, "passes over the retained data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.0, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(0.0, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        descent = Descent(model, problem, self, "neggrad", log, train=False)
        for _ in descent.epochs(self.epochs):
            for keep, drop in descent.pairs(problem.retain, problem.forget):
                gradient = descent.gradient(keep)
                torch._foreach_mul_(gradient, self.beta)
                subtract_(gradient, 1 - self.beta, descent.gradient(drop))
                descent.step(gradient)
