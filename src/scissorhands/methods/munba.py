"""Unlearning by Nash bargaining (MUNBa)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import (
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    clip_,
    count,
    ignore,
    inner,
    non_negative,
    optimizers,
    positive,
    random_labels,
    rate,
    setting,
    subtract_,
)

_FAILED = (1.0, 0.1)  # the weights if the two cannot agree, as in the published code


@dataclass(frozen=True, kw_only=True)
class MUNBa(Method):
    """Lets a gradient that retains and one that relabels the forgotten data at random agree on the step to take.

    The defaults, and the weights where the two cannot agree, are those of its code.
    """

    paper: ClassVar[str] = "Wu & Harandi, ICCV 2025"
    copies: ClassVar[int] = 5

    clip: float = setting(1.0, positive, "largest norm of the gradient that they agree on")
    epochs: int = setting(10, count, "passes over all training data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        descent = Descent(model, problem, self, "bargain", log)
        for epoch in descent.epochs(self.epochs):
            wrong = replace(problem.forget, records=random_labels(problem.forget, problem.seed, epoch))
            for keep, drop in descent.pairs(problem.retain, wrong, repeat=False):
                gradient = descent.gradient(keep)
                if drop is not None:
                    forget = descent.gradient(drop)
                    retain_weight, forget_weight = bargain(gradient, forget)
                    torch._foreach_mul_(gradient, retain_weight)
                    subtract_(gradient, -forget_weight, forget)
                    clip_(gradient, self.clip)
                descent.step(gradient)


def bargain(retain: Sequence[Tensor], forget: Sequence[Tensor]) -> tuple[float, float]:
    """Return the weights of both gradients in the Nash bargaining solution: GᵀGα = 1/α, for G = (retain, forget).

    With φ the angle between them, they are 1 / (‖retain‖ √(1 + cos φ)) and 1 / (‖forget‖ √(1 + cos φ)).

    >>> bargain([torch.tensor([2.0, 0.0])], [torch.tensor([0.0, 4.0])])
    (0.5, 0.25)
    """
    lengths = [math.sqrt(inner(gradient, gradient).item()) for gradient in (retain, forget)]
    if min(lengths) == 0:
        return _FAILED
    together = 1 + inner(retain, forget).item() / (lengths[0] * lengths[1])
    if together < 1e-6:  # they point in opposite directions
        return _FAILED
    return 1 / (lengths[0] * math.sqrt(together)), 1 / (lengths[1] * math.sqrt(together))
