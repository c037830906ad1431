"""Selective synaptic dampening (SSD)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import (
    SALIENCY,
    Log,
    Method,
    Part,
    Problem,
    at_least_one,
    ignore,
    non_negative,
    setting,
    trainable,
    weights,
)


@dataclass(frozen=True, kw_only=True)
class SSD(Method):
    """Shrinks the weights that matter far more to the forgotten data than to all training data; trains nothing.

    The defaults are the paper's, for a class or 100 records of 50,000. The forgotten records are part of all training
    data: where they are a tenth of it, hardly any weight can matter 10 times as much, so lower `threshold`. The Fisher
    information is that of single records, of a sample; its code squares the gradients of whole batches, of all records.
    """

    paper: ClassVar[str] = "Foster et al., AAAI 2024"
    needs: ClassVar[str] = "Fisher information: a gradient for each of the sampled records"
    copies: ClassVar[int] = 5

    threshold: float = setting(
        10.0, non_negative, "a weight shrinks if it matters so many times more, the paper's α", search=10
    )
    dampening: float = setting(
        1.0, non_negative, "what a weight is multiplied with, times the ratio, the paper's λ", search=10
    )
    samples: int = setting(
        1000, at_least_one, "records to forget, and of all, that the Fisher information is taken from"
    )

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        everything = replace(problem.forget, ids=torch.cat([problem.forget.ids, problem.retain.ids]).sort().values)
        forget, overall = (self._fisher(model, problem, part) for part in (problem.forget, everything))
        for name, weight in weights(model).items():
            weight.mul_(dampened(forget[name], overall[name], self.threshold, self.dampening))

    def _fisher(self, model: nn.Module, problem: Problem, part: Part) -> dict[str, Tensor]:
        """Estimate the diagonal of the Fisher information from a random sample."""
        sample = problem.sample(part, min(1.0, self.samples / len(part)), "fisher")
        return SALIENCY["fisher"](model, problem, trainable(model), sample, 1)


def dampened(forget: Tensor, overall: Tensor, threshold: float, dampening: float) -> Tensor:
    """Compute what each weight is multiplied with.

    >>> dampened(torch.tensor([1.0, 4.0, 20.0]), torch.ones(3), threshold=2.0, dampening=1.0)
    tensor([1.0000, 0.2500, 0.0500])
    """
    return torch.where(forget > threshold * overall, (dampening * overall / forget).clamp(max=1), 1.0)
