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
    one_of,
    optimizers,
    positive,
    setting,
    subtract_,
)

_UNSEEN = "unseen loss"  # where the memory of a loop keeps it
_MEASURE_EVERY = 5  # passes over the forget data between two measurements of it


@dataclass(frozen=True, kw_only=True)
class GradTau(Method):
    """Climbs the forget loss only while it is below the loss on unseen data, and descends the retain loss.

    The defaults are those of its code for CIFAR-10. As there, the model stays in evaluation mode, an epoch is a pass
    over the forget data, and the unseen loss is measured every 5 of them. The code walks the retained data on from one
    epoch to the next; here each epoch shuffles it anew.
    """

    paper: ClassVar[str] = "Trippa et al., 2024"
    needs: ClassVar[str] = "unseen records"
    copies: ClassVar[int] = 6

    alpha: float = setting(
        5 / 3,
        non_negative,
        "weight of forgetting at the start, times the share of the data; it falls linearly to 0",
        search=3,
    )
    epochs: int = setting(3, count, "passes over as many records as are retained")
    optimizer: str = setting("adamw", optimizers, "what takes the steps")
    lr: float = setting(1e-3, positive, "learning rate at the start")
    schedule: str = setting("linear", one_of("linear", "constant"), "how the learning rate goes on: down to a tenth")
    batch_size: int = setting(256, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(0.01, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        calibration_of(problem)
        share = len(problem.forget) / (len(problem.forget) + len(problem.retain))
        retain_steps, forget_steps = (problem.steps(part, self.batch_size) for part in (problem.retain, problem.forget))
        epochs = -(-self.epochs * retain_steps // forget_steps)
        descent = Descent(model, problem, self, "gradtau", log, train=False)
        for epoch in descent.epochs(epochs):
            weight = linear_decay(min(1.0, self.alpha * share), epoch, epochs)
            if descent.at_epoch_start and epoch % _MEASURE_EVERY == 0:
                descent.memory[_UNSEEN] = self._unseen_loss(descent)
            for drop, keep in descent.pairs(problem.forget, problem.retain):
                gradient = descent.gradient(keep)
                loss, forget = descent.loss_and_gradient(drop)
                gap = (descent.memory[_UNSEEN] - loss).relu().item()
                torch._foreach_mul_(gradient, 1 - weight)
                subtract_(gradient, 2 * weight * gap, forget)  # the gradient of weight · relu(unseen − loss)²
                descent.step(gradient)

    def _unseen_loss(self, descent: Descent) -> Tensor:
        """Compute the mean loss on the unseen data, in the mode in which the forget loss is computed."""
        problem = descent.problem
        unseen = calibration_of(problem)
        batches = problem.batches(unseen, self.batch_size, "unseen", descent.epoch)
        losses = [descent.loss(batch) * batch.total for batch in batches]
        return torch.stack(losses).sum() / len(unseen)
