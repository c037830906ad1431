"""Saliency forgetting in the remain-preserving manifold online (SFRon)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import (
    SALIENCY,
    Batch,
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    clip_,
    count,
    ignore,
    logits,
    non_negative,
    optimizers,
    positive,
    rate,
    reweighted,
    setting,
    trainable,
)


@dataclass(frozen=True, kw_only=True)
class SFRon(Method):
    """Climbs the forget loss, mostly of records that are still known, by weights that matter most to them; repairs.

    The defaults are those of its code for 10 % of CIFAR-10, where 5 epochs are the nearest to 1,500 steps. The weight
    of forgetting and the learning rate fall to 0 by a cosine, step by step. The Fisher information is that of single
    records, of a sample; its code squares the gradients of whole batches, of all records.
    """

    paper: ClassVar[str] = "Huang et al., NeurIPS 2024"
    needs: ClassVar[str] = "a classifier, and Fisher information: a gradient for each of the sampled records"
    needs_classes: ClassVar[bool] = True
    copies: ClassVar[int] = 5

    alpha: float = setting(25.0, non_negative, "weight of the forget loss at the start", search=10)
    power: float = setting(0.5, non_negative, "a forgotten record counts by its loss to minus this, the paper's λ")
    threshold: float = setting(1.0, non_negative, "a weight may forget if it matters so many times more, the paper's γ")
    samples: int = setting(1000, at_least_one, "records of each kind that the Fisher information is taken from")
    every: int = setting(5, at_least_one, "steps on the retained data to each step that forgets")
    clip: float = setting(7.0, positive, "largest norm of the gradient of a step that forgets")
    epochs: int = setting(5, count, "passes over the retained data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate at the start")
    batch_size: int = setting(128, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        mask = self._mask(model, problem)
        descent = Descent(model, problem, self, "sfron", log)
        steps = self.epochs * problem.steps(problem.retain, self.batch_size)
        for _ in descent.epochs(self.epochs):
            for keep, drop in descent.pairs(problem.retain, problem.forget, every=self.every):
                fade = faded(descent.global_step, steps)
                if drop is not None:
                    forget = descent.gradient(drop, self._forget_loss)
                    torch._foreach_mul_(forget, -self.alpha * fade)
                    torch._foreach_mul_(forget, mask)
                    clip_(forget, self.clip)
                    descent.step(forget, self.lr * fade)
                descent.step(descent.gradient(keep), self.lr * fade)

    def _mask(self, model: nn.Module, problem: Problem) -> list[Tensor]:
        """Mark the weights whose Fisher information on the forget data is large against that on the retained data."""
        forget, retain = (
            SALIENCY["fisher"](
                model, problem, trainable(model), problem.sample(part, min(1.0, self.samples / len(part)), "fisher"), 1
            )
            for part in (problem.forget, problem.retain)
        )
        return [(forget[name] >= self.threshold * retain[name]).to(forget[name]) for name in forget]

    def _forget_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Compute the loss in which a record counts the more, the smaller its own loss is."""
        scores = logits(model, batch)
        return reweighted(F.cross_entropy(scores, batch.labels.to(scores.device), reduction="none"), batch, -self.power)


def faded(step: int, steps: int) -> float:
    """Return what is left, at a step, of what falls from 1 to 0 by a cosine.

    >>> [round(faded(step, 4), 2) for step in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    """
    return (1 + math.cos(math.pi * step / steps)) / 2
