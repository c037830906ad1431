"""The one training loop, and the settings of training from scratch."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn

from .errors import FailedError
from .modes import able_to_train, training
from .problem import Log, Problem, ignore, trainable
from .randomness import seeded
from .records import Batch, Part
from .settings import Settings, at_least_one, below_one, non_negative, one_of, positive, setting

Objective = Callable[[Batch, int], Tensor]


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
    *parts: Part,
    phase: str,
    epochs: int,
    lr: float,
    batch_size: int,
    momentum: float,
    weight_decay: float,
    schedule: str = "constant",
    objective: Objective | None = None,
    mask: Mapping[str, Tensor] | None = None,
    until: Callable[[], bool] | None = None,
    log: Log = ignore,
) -> None:
    """Minimises the objective (the problem's loss, if none is given), in place. Each epoch walks the parts in order.

    It ends before its time when `until`, which is asked after every epoch, says so.

    With a mask, the weights that it leaves out keep every bit: neither gradient nor decay nor momentum reaches them.
    """
    objective = objective or (lambda batch, epoch: problem.loss(model, batch))
    parameters = trainable(model)
    decay = 0.0 if mask else weight_decay
    step = optimiser(parameters.values(), lr=lr, momentum=momentum, weight_decay=decay)
    steps, done = epochs * sum(problem.steps(part, batch_size) for part in parts), 0
    step.zero_grad()
    with training(model):
        for epoch in range(epochs):
            step.param_groups[0]["lr"] = scheduled(lr, schedule, epoch, epochs)
            passes = (problem.batches(part, batch_size, phase, epoch, which) for which, part in enumerate(parts))
            with seeded(problem.seed, phase, epoch):
                for batch in chain.from_iterable(passes):
                    with able_to_train(model, batch):
                        loss = objective(batch, epoch)
                    loss.backward()
                    if mask:
                        _mask_gradients(parameters, mask, weight_decay)
                    step.step()
                    step.zero_grad()
                    done += 1
                    log({"phase": phase, "epoch": epoch, "step": done, "steps": steps, "loss": finite(loss)})
            if until and until():
                return


@torch.no_grad()
def _mask_gradients(parameters: Mapping[str, nn.Parameter], mask: Mapping[str, Tensor], weight_decay: float) -> None:
    """Adds the weight decay to the gradients and takes both out where the mask is off, in place."""
    for name, parameter in parameters.items():
        if parameter.grad is not None:
            parameter.grad.add_(parameter, alpha=weight_decay).mul_(mask[name])


def finite(loss: Tensor) -> float:
    """The loss as a number, refused where it is none."""
    value = loss.item()
    if not math.isfinite(value):
        raise FailedError(f"the loss became {value}: training diverged. Lower the learning rate.")
    return value
