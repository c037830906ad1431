"""The one training loop, and the settings of training from scratch."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn

from ..data.problem import Log, Problem, ignore
from ..data.records import Batch, Part
from ..distributed import like_parameter, local, rank_key
from ..errors import FailedError
from ..randomness import seeded
from ..settings import Settings, at_least_one, below_one, non_negative, one_of, positive, setting
from .modes import able_to_train, training
from .parameters import trainable
from .saliency import gradients

Objective = Callable[[Batch, int], Tensor]
Edit = Callable[[list[Tensor], int], None]


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


def optimizer(
    parameters: Iterable[Tensor], *, lr: float, momentum: float, weight_decay: float, kind: str = "sgd"
) -> torch.optim.Optimizer:
    """Stochastic gradient descent, which the paper uses for classifiers, or Adam, which it uses for diffusion."""
    shards = [local(p) for p in parameters]
    if kind == "adam":
        return torch.optim.Adam(shards, lr=lr, betas=(momentum, 0.999), weight_decay=weight_decay, fused=True)
    return torch.optim.SGD(shards, lr=lr, momentum=momentum, weight_decay=weight_decay, fused=True)


class Descent:
    """Takes steps against a gradient, and remembers their momentum."""

    def __init__(
        self, parameters: Iterable[Tensor], *, lr: float, momentum: float, weight_decay: float, kind: str = "sgd"
    ) -> None:
        self._optimizer = optimizer(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, kind=kind)
        self._weights: list[Tensor] = self._optimizer.param_groups[0]["params"]

    def step(self, gradient: list[Tensor], lr: float | None = None) -> None:
        """Changes the weights, in place, and uses the gradient up; with a learning rate, by that from now on."""
        if lr is not None:
            self._optimizer.param_groups[0]["lr"] = lr
        for weight, slope in zip(self._weights, gradient, strict=True):
            weight.grad = like_parameter(slope, weight)
        gradient.clear()
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state(self) -> dict[str, Tensor]:
        """What the optimizer remembers of each weight, by the number of the weight."""
        known = ((i, self._optimizer.state[weight]) for i, weight in enumerate(self._weights))
        return {f"{i}.{name}": value for i, named in known for name, value in named.items() if value is not None}

    def load(self, kept: Mapping[str, Tensor]) -> None:
        """Takes over what was kept, in place."""
        for key, value in kept.items():
            i, _, name = key.partition(".")
            weight = self._weights[int(i)]
            if value.shape == weight.shape:  # and not a count of the steps
                value = torch.empty_like(weight).copy_(value)
            self._optimizer.state[weight][name] = value.to(weight.device)


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
    edit: Edit | None = None,
    until: Callable[[], bool] | None = None,
    log: Log = ignore,
) -> None:
    """Minimizes the objective (the problem's loss, if none is given), in place. Each epoch walks the parts in order.

    `edit` changes the gradient of a step, in place. It ends before its time when `until`, which is asked after every
    epoch, says so.
    """
    objective = objective or (lambda batch, epoch: problem.loss(model, batch))
    parameters = trainable(model)
    descent = Descent(parameters.values(), lr=lr, momentum=momentum, weight_decay=weight_decay, kind=problem.optimizer)
    steps = epochs * sum(problem.steps(part, batch_size) for part in parts)
    loop = problem.progress.loop(phase, model, descent)
    with training(model):
        for epoch in loop.epochs(epochs):
            rate = scheduled(lr, schedule, epoch, epochs)
            passes = (problem.batches(part, batch_size, phase, epoch, which) for which, part in enumerate(parts))
            with seeded(problem.seed, phase, epoch, *rank_key()):
                for batch in loop.rest(chain.from_iterable(passes)):
                    with able_to_train(model, batch):
                        loss = objective(batch, epoch)
                    gradient = gradients(loss, parameters)
                    if edit:
                        edit(gradient, epoch)
                    descent.step(gradient, rate)
                    event = {"phase": phase, "epoch": epoch, "step": loop.done + 1, "steps": steps}
                    log(event | {"loss": finite(loss)})
            if until and until():
                return


def finite(loss: Tensor) -> float:
    """The loss as a number, refused where it is none."""
    value = loss.item()
    if not math.isfinite(value):
        raise FailedError(f"the loss became {value}: training diverged. Lower the learning rate.")
    return value
