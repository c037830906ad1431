"""The one training loop, and the settings of training from scratch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .errors import FailedError
from .modes import training
from .problem import Log, Problem, ignore, trainable
from .randomness import seeded
from .records import Part
from .settings import Settings, at_least_one, below_one, non_negative, one_of, positive, setting


@dataclass(frozen=True, kw_only=True)
class Training(Settings):
    """Training from scratch: stochastic gradient descent with momentum."""

    epochs: int = setting(182, at_least_one, "passes over the data")
    lr: float = setting(0.1, positive, "learning rate at the start")
    schedule: str = setting("cosine", one_of("cosine", "constant"), "how the learning rate goes on")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def fit(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        """Trains the model on the retained part of the problem, in place."""
        descend(model, problem, problem.retain, phase="train", log=log, **self.to_dict())


def optimiser(
    parameters: Iterable[Tensor], *, lr: float, momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Stochastic gradient descent, as everywhere in the paper's classification experiments."""
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)


def scheduled(lr: float, schedule: str, epoch: int, epochs: int) -> float:
    """The learning rate in an epoch.

    >>> [round(scheduled(0.1, "cosine", epoch, 4), 3) for epoch in range(4)]
    [0.1, 0.085, 0.05, 0.015]
    """
    return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2 if schedule == "cosine" else lr


def descend(
    model: nn.Module,
    problem: Problem,
    part: Part,
    *,
    phase: str,
    epochs: int,
    lr: float,
    batch_size: int,
    momentum: float,
    weight_decay: float,
    schedule: str = "constant",
    log: Log = ignore,
) -> None:
    """Minimises the problem's loss on the part, in place."""
    step = optimiser(trainable(model).values(), lr=lr, momentum=momentum, weight_decay=weight_decay)
    steps = epochs * problem.steps(part, batch_size)
    done = 0
    step.zero_grad()
    with training(model):
        for epoch in range(epochs):
            step.param_groups[0]["lr"] = scheduled(lr, schedule, epoch, epochs)
            with seeded(problem.seed, phase, epoch):
                for batch in problem.batches(part, batch_size, phase, epoch):
                    loss = problem.loss(model, batch)
                    loss.backward()
                    step.step()
                    step.zero_grad()
                    done += 1
                    log({"phase": phase, "epoch": epoch, "step": done, "steps": steps, "loss": finite(loss)})


def finite(loss: Tensor) -> float:
    """The loss as a number, refused where it is none."""
    value = loss.item()
    if not math.isfinite(value):
        raise FailedError(f"the loss became {value}: training diverged. Lower the learning rate.")
    return value
