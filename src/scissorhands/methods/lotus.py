"""Logits tempering (LoTUS)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import (
    Batch,
    Descent,
    Log,
    Method,
    Part,
    Problem,
    Relabeled,
    at_least_one,
    below_one,
    calibration_error_rate,
    count,
    error_rate,
    generator,
    ignore,
    logits,
    non_negative,
    optimizers,
    positive,
    positive_share,
    setting,
    share,
    snapshot,
    teacher_logits,
)

_TEMPERATURE = "temperature"  # where the memory of a loop keeps it


@dataclass(frozen=True, kw_only=True)
class LoTUS(Method):
    """Learns from the original model, whose outputs on the forgotten data are softened until they are as for unseen.

    The defaults are those of its code, but for α, which is 1 there, and for the epochs, of which it has no default. The
    unseen accuracy is that on unseen records of the forgotten classes; the code takes all, and 0 for a class that is
    forgotten whole.
    """

    paper: ClassVar[str] = "Spartalis et al., CVPR 2025"
    needs: ClassVar[str] = "a classifier, a copy of the original model, and unseen records"
    needs_classes: ClassVar[bool] = True
    copies: ClassVar[int] = 5

    alpha: float = setting(
        2.0, positive, "how fast the temperature grows with the gap between the two accuracies", search=3
    )
    sample: float = setting(0.3, positive_share, "share of the retained data that is used")
    epochs: int = setting(10, count, "passes over the forget data and the sample")
    undershoot: float = setting(0.01, share, "it ends once the forget accuracy is so far below that on unseen records")
    optimizer: str = setting("adamw", optimizers, "what takes the steps")
    lr: float = setting(1e-4, positive, "learning rate")
    batch_size: int = setting(128, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        original, unseen_error = snapshot(model), calibration_error_rate(model, problem)
        mixed = self._mixed(problem)
        descent = Descent(model, problem, self, "lotus", log)
        for _ in descent.epochs(self.epochs):
            if descent.at_epoch_start:
                gap = unseen_error - error_rate(model, problem.forget)
                if gap <= -self.undershoot:
                    break
                descent.memory[_TEMPERATURE] = torch.tensor(math.exp(self.alpha * gap))
            for batch in descent.batches(mixed):
                teacher = teacher_logits(model, original, batch)
                noise = gumbel(batch, teacher, generator(problem.seed, "gumbel", descent.global_step))
                targets = tempered(teacher + noise, batch.labels, descent.memory[_TEMPERATURE].item())

                def distance(model: nn.Module, batch: Batch, targets: Tensor = targets) -> Tensor:
                    return F.cross_entropy(logits(model, batch), targets)

                descent.step(descent.gradient(batch, distance))

    def _mixed(self, problem: Problem) -> Part:
        """Return the forget data and a sample of the retained data, labeled 1 if forgotten and 0 if retained."""
        sample = problem.sample(problem.retain, self.sample, "lotus")
        labels = torch.zeros_like(problem.forget.records.labels)
        labels[problem.forget.ids] = 1
        ids = torch.cat([problem.forget.ids, sample.ids]).sort().values
        return Part(Relabeled(problem.forget.records, labels), ids)


def gumbel(batch: Batch, scores: Tensor, draw: torch.Generator) -> Tensor:
    """Draw Gumbel noise for this process's records: the noise that they get with one process."""
    noise = torch.empty(batch.total, scores.shape[1], dtype=torch.float64).exponential_(generator=draw).log().neg()
    own: Tensor = Batch.of(noise, noise).inputs.to(scores)
    return own


def tempered(noisy: Tensor, forgotten: Tensor, temperature: float) -> Tensor:
    """Return the probabilities to learn: softened ones where forgotten is 1, the likeliest class where it is 0.

    >>> tempered(torch.tensor([[0.0, 0.0], [1.0, 2.0]]), torch.tensor([1, 0]), temperature=2.0)
    tensor([[0.5000, 0.5000],
            [0.0000, 1.0000]])
    """
    hard = F.one_hot(noisy.argmax(1), noisy.shape[1]).to(noisy)
    return torch.where(forgotten.to(noisy.device)[:, None] == 1, (noisy / temperature).softmax(1), hard)
