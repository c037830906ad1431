"""Gradient-based and task-agnostic unlearning (∇τ)."""

from dataclasses import dataclass
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
    calibration_of,
    count,
    ignore,
    linear_decay,
    non_negative,
    positive,
    setting,
    share,
    subtract_,
)

_UNSEEN = "unseen loss"  # where the memory of a loop keeps it


@dataclass(frozen=True, kw_only=True)
class GradTau(Method):
    """Climbs the forget loss only while it is below the loss on unseen data, and descends the retain loss."""

    paper: ClassVar[str] = "Trippa et al., 2024"
    needs: ClassVar[str] = "unseen records"
    copies: ClassVar[int] = 5

    forget_weight: float = setting(0.5, share, "weight of forgetting in the first epoch; it falls linearly to 0")
    epochs: int = setting(10, count, "passes over the retained data")
    lr: float = setting(0.01, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        calibration_of(problem)
        descent = Descent(model, problem, self, "gradtau", log)
        for epoch in descent.epochs(self.epochs):
            weight = linear_decay(self.forget_weight, epoch, self.epochs)
            if descent.at_epoch_start:
                descent.memory[_UNSEEN] = self._unseen_loss(descent)
            for keep, drop in descent.pairs(problem.retain, problem.forget):
                gradient = descent.gradient(keep)
                loss, forget = descent.loss_and_gradient(drop, frozen_norm_statistics=True)
                gap = (descent.memory[_UNSEEN] - loss).relu().item()
                torch._foreach_mul_(gradient, 1 - weight)
                subtract_(gradient, 2 * weight * gap, forget)  # the gradient of weight · relu(unseen − loss)²
                descent.step(gradient)

    def _unseen_loss(self, descent: Descent) -> Tensor:
        """Compute the mean loss on the unseen data, in the mode in which the forget loss is computed."""
        problem = descent.problem
        unseen = calibration_of(problem)
        batches = problem.batches(unseen, self.batch_size, "unseen", descent.epoch)
        losses = [descent.loss(batch, frozen_norm_statistics=True) * batch.total for batch in batches]
        return torch.stack(losses).sum() / len(unseen)
