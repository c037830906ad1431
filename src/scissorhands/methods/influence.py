"""Influence unlearning (IU)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import (
    Descent,
    Log,
    Method,
    Part,
    Problem,
    Training,
    at_least_one,
    count,
    fisher_times,
    ignore,
    inner,
    mean_gradient,
    non_negative,
    positive,
    setting,
    trainable,
    weights,
)


@dataclass(frozen=True, kw_only=True)
class InfluenceUnlearning(Method):
    """Takes one Newton step towards the model that training without the forgotten data would have found."""

    paper: ClassVar[str] = "Koh & Liang, ICML 2017"
    copies: ClassVar[int] = 8

    alpha: float = setting(1.0, non_negative, "length of the step; 1 is Newton's")
    damping: float = setting(1e-3, positive, "added to the curvature in every direction")
    samples: int = setting(256, at_least_one, "retained records that the curvature is taken from")
    iterations: int = setting(20, count, "most conjugate gradient steps in solving for the direction")
    batch_size: int = setting(256, at_least_one, "records in a pass for the mean gradients")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        sample = problem.sample(problem.retain, min(1.0, self.samples / len(problem.retain)), "curvature")
        step = self._solve(model, problem, sample, self._wanted(model, problem), log)
        torch._foreach_add_(list(weights(model).values()), step, alpha=self.alpha)

    def _wanted(self, model: nn.Module, problem: Problem) -> list[Tensor]:
        """Compute how the gradient of the training loss changes when the forgotten records leave it."""
        forget, retain = (
            list(mean_gradient(model, problem, trainable(model), part, self.batch_size).values())
            for part in (problem.forget, problem.retain)
        )
        torch._foreach_sub_(forget, retain)
        torch._foreach_mul_(forget, len(problem.forget) / (len(problem.forget) + len(problem.retain)))
        return forget

    def _solve(
        self, model: nn.Module, problem: Problem, sample: Part, residual: list[Tensor], log: Log
    ) -> list[Tensor]:
        """Solve (Fisher + damping) x = residual for x by conjugate gradients, which use the residual up.

        The Woodbury identity gives the x to which this converges, but must hold the gradient of every sample at once.
        The log tells how much of the residual was left at each step.
        """
        start = inner(residual, residual).item()
        x, direction = [torch.zeros_like(r) for r in residual], [r.clone() for r in residual]
        vectors = {"x": x, "direction": direction, "residual": residual}
        descent = Descent(model, problem, Training(), "solve", log)
        _recall(vectors, descent.memory)
        for _ in descent.epochs(1):
            for _ in descent.steps(range(self.iterations)):
                square = inner(residual, residual).item()
                if square <= 1e-20 * start:
                    break
                image = fisher_times(model, problem, trainable(model), sample, direction, self.damping)
                length = square / inner(direction, image).item()
                torch._foreach_add_(x, direction, alpha=length)
                torch._foreach_add_(residual, image, alpha=-length)
                left = inner(residual, residual).item()
                torch._foreach_mul_(direction, left / square)
                torch._foreach_add_(direction, residual)
                descent.note(left / start)
                descent.memory.update({f"{name}.{i}": v for name, some in vectors.items() for i, v in enumerate(some)})
        return x


def _recall(vectors: dict[str, list[Tensor]], memory: dict[str, Tensor]) -> None:
    """Take over the vectors that a loop remembers from before, in place."""
    for key, value in memory.items():
        name, _, i = key.partition(".")
        vectors[name][int(i)].copy_(value)
