"""Influence unlearning (IU)."""

from dataclasses import dataclass, replace
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
    one_of,
    positive,
    setting,
    trainable,
    weights,
)


@dataclass(frozen=True, kw_only=True)
class InfluenceUnlearning(Method):
    """Takes one Newton step towards the model that training without the forgotten data would have found.

    `fisher` divides by the empirical Fisher matrix, as influence functions do. `woodfisher` is the recursion of the
    published code (with `alpha` 1 to 20 and `samples` 1000): it starts from the identity and leaves it in the direction
    of the first record's gradient alone, so its step is nearly `alpha` times the difference of the gradients. In flat
    directions `fisher` goes 1 / `damping` as far.
    """

    paper: ClassVar[str] = "Koh & Liang, ICML 2017"
    copies: ClassVar[int] = 8

    alpha: float = setting(1.0, non_negative, "length of the step; 1 is Newton's", search=10)
    curvature: str = setting(
        "fisher", one_of("fisher", "woodfisher"), "the damped Fisher matrix, or the published recursion"
    )
    damping: float = setting(0.1, positive, "added to the Fisher matrix in every direction", search=100)
    samples: int = setting(256, at_least_one, "retained records that the curvature is taken from")
    iterations: int = setting(20, count, "most conjugate gradient steps with the Fisher matrix")
    batch_size: int = setting(256, at_least_one, "records in a pass for the mean gradients")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        sample = problem.sample(problem.retain, min(1.0, self.samples / len(problem.retain)), "curvature")
        solve = self._solve if self.curvature == "fisher" else self._recur
        step = solve(model, problem, sample, self._wanted(model, problem), log)
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
                _remember(vectors, descent.memory)
        return x

    def _recur(self, model: nn.Module, problem: Problem, sample: Part, vector: list[Tensor], log: Log) -> list[Tensor]:
        """Apply the published recursion to the vector, in place: one step for each record of the sample."""
        first = [torch.zeros_like(v) for v in vector]
        vectors = {"vector": vector, "first": first}
        descent = Descent(model, problem, Training(), "solve", log, train=False)
        _recall(vectors, descent.memory)
        for _ in descent.epochs(1):
            for i in descent.steps(range(len(sample))):
                (record,) = replace(sample, ids=sample.ids[i : i + 1]).batches(1)
                loss, gradient = descent.loss_and_gradient(record)
                if i == 0:
                    torch._foreach_copy_(first, gradient)
                else:
                    overlap = inner(first, gradient).item()
                    scale = 1 / (len(sample) + overlap)
                    torch._foreach_add_(vector, first, alpha=-scale * inner(vector, gradient).item())
                    torch._foreach_mul_(first, 1 - scale * overlap)
                descent.note(loss.item())
                _remember(vectors, descent.memory)
        return vector


def _remember(vectors: dict[str, list[Tensor]], memory: dict[str, Tensor]) -> None:
    """Let a loop remember the vectors."""
    memory.update({f"{name}.{i}": v for name, some in vectors.items() for i, v in enumerate(some)})


def _recall(vectors: dict[str, list[Tensor]], memory: dict[str, Tensor]) -> None:
    """Take over the vectors that a loop remembers from before, in place."""
    for key, value in memory.items():
        name, _, i = key.partition(".")
        vectors[name][int(i)].copy_(value)
