"""The one training loop: optimizer, seeds, modes, resume, many processes and log are here, and in no method."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, count
from typing import Any, TypeVar, overload

import torch
from torch import Tensor, nn

from .. import distributed, randomness
from ..data.problem import Log, Loss, Problem, ignore
from ..data.records import Part
from ..distributed import Batch, mean_over_ranks, rank_key
from ..errors import FailedError
from ..settings import Settings
from .modes import eval_if_single_record, evaluating, frozen_norm_statistics, training
from .optimizer import Optimizer
from .parameters import trainable

T = TypeVar("T")
_DEFAULTS: dict[str, Any] = {
    "optimizer": "sgd",
    "momentum": 0.0,
    "weight_decay": 0.0,
    "beta2": 0.999,
    "schedule": "constant",
}


class Descent:
    """Walk epochs and steps, and take a step against each gradient.

    `settings` has the learning rate `lr`, and may have `optimizer`, `batch_size`, `momentum`, `weight_decay`,
    `schedule` and `beta2`, the second one of Adam.
    `parameters` are those that change, by default all that may. With `train=False` the model is in evaluation mode.
    What a method stores in `memory` is saved in checkpoints.
    """

    def __init__(
        self,
        model: nn.Module,
        problem: Problem,
        settings: Settings,
        phase: str,
        log: Log = ignore,
        *,
        parameters: Mapping[str, nn.Parameter] | None = None,
        train: bool = True,
    ) -> None:
        self.model, self.problem, self.phase = model, problem, phase
        self.parameters = dict(parameters or trainable(model))
        self.epoch = 0
        self._settings = {**_DEFAULTS, **settings.to_dict()}
        chosen = {name: self._settings[name] for name in ("lr", "momentum", "weight_decay", "beta2")}
        self._optimizer = Optimizer(self.parameters.values(), **chosen, kind=self._settings["optimizer"])
        self._loop = problem.progress.loop(phase, model, self._optimizer)
        self._log, self._mode = log, training if train else evaluating
        self._loop.random = self._loop.random or randomness.snapshot()
        self._rate = float(self._settings["lr"])
        self._loss: float | None = None
        self._losses: dict[str, float] = {}  # of this step, by the part that the batch is of; and what is logged beside
        self._parts: dict[int, str] = {}  # of the batches of this step, by their identity
        self._planned = self._length = 0
        self._logged = -1

    @property
    def memory(self) -> dict[str, Tensor]:
        """Return the tensors that are kept from one step to the next, and in checkpoints."""
        return self._loop.memory

    @property
    def global_step(self) -> int:
        """Return the number of steps done."""
        return self._loop.global_step

    @property
    def step_in_epoch(self) -> int:
        """Return the number of steps done in this epoch."""
        return self._loop.step_in_epoch

    @property
    def at_epoch_start(self) -> bool:
        """Return whether the epoch is at its first step; False after a resume in the middle of one."""
        return self.step_in_epoch == 0

    def epochs(self, planned: int, maximum: int | None = None) -> Iterator[int]:
        """Walk the epochs that are left of those planned, or of `maximum` if a method may go on for longer."""
        self._planned = planned
        for epoch in self._loop.epochs(maximum or planned):
            self.epoch = epoch
            self._rate = scheduled(self._settings["lr"], self._settings["schedule"], epoch, planned)
            if self.at_epoch_start:
                with randomness.seeded(self.problem.seed, self.phase, epoch, *rank_key()):
                    self._loop.random = randomness.snapshot()
            yield epoch

    def batches(self, *parts: Part) -> Iterator[Batch]:
        """Yield this epoch's remaining batches: of each part in order, shuffled."""
        return (batch for _, batch in self.passes(*parts))

    def passes(self, *parts: Part) -> Iterator[tuple[Part, Batch]]:
        """Yield this epoch's remaining batches, each with the part that it is of."""
        size = int(self._settings["batch_size"])
        self._length = sum(self.problem.steps(part, size) for part in parts)

        def batches(which: int, part: Part) -> Iterator[tuple[Part, Batch]]:
            name = self._name(part)
            for batch in self.problem.batches(part, size, self.phase, self.epoch, which):
                self._parts = {id(batch): name}
                yield part, batch

        return self._loop.remaining(chain.from_iterable(batches(which, part) for which, part in enumerate(parts)))

    @overload
    def pairs(self, retain: Part, forget: Part, *, forget_size: int = 0) -> Iterator[tuple[Batch, Batch]]: ...

    @overload
    def pairs(
        self, retain: Part, forget: Part, repeat: bool = True, every: int = 1, forget_size: int = 0
    ) -> Iterator[tuple[Batch, Batch | None]]: ...

    def pairs(
        self, retain: Part, forget: Part, repeat: bool = True, every: int = 1, forget_size: int = 0
    ) -> Iterator[tuple[Batch, Batch | None]]:
        """Walk the batches to retain that are left of this epoch, each with one to forget, or none when these end.

        With `repeat` the batches to forget start again when they end. With `every` only one in so many has one. They
        are as large as those to retain, unless `forget_size` says otherwise.
        With the parts in the other order it walks the batches to forget, each with one to retain.
        """
        size, passes = int(self._settings["batch_size"]), count() if repeat else range(1)
        self._length = self.problem.steps(retain, size)
        forgotten = (self.problem.batches(forget, forget_size or size, "forget", self.epoch, i) for i in passes)
        forget_batches = chain.from_iterable(forgotten)
        retain_batches = self.problem.batches(retain, size, "retain", self.epoch)
        names = self._name(retain), self._name(forget)

        def pairs() -> Iterator[tuple[Batch, Batch | None]]:
            for number, batch in enumerate(retain_batches):
                other = None if number % every else next(forget_batches, None)
                self._parts = dict(zip((id(batch), id(other)), names, strict=True))
                yield batch, other

        return self._loop.remaining(pairs())

    def _name(self, part: Part) -> str:
        """Return which part of the problem has these records, in whatever labels; empty if none has."""
        parts = {"retain": self.problem.retain, "forget": self.problem.forget}
        return next((name for name, one in parts.items() if torch.equal(one.ids, part.ids)), "")

    def steps(self, items: Sequence[T]) -> Iterator[T]:
        """Walk anything else that makes an epoch."""
        self._length = len(items)
        return self._loop.remaining(items)

    def loss(self, batch: Batch, loss: Loss | None = None, *, frozen_norm_statistics: bool = False) -> Tensor:
        """Compute a loss, by default the problem's, without a gradient."""
        with torch.no_grad(), self._forward_context(batch, frozen_norm_statistics):
            return mean_over_ranks(loss or self.problem.loss)(self.model, batch)

    def gradient(self, batch: Batch, loss: Loss | None = None, *, frozen_norm_statistics: bool = False) -> list[Tensor]:
        """Compute the gradient of a loss, by default the problem's, over the records of all processes."""
        return self.loss_and_gradient(batch, loss, frozen_norm_statistics=frozen_norm_statistics)[1]

    def loss_and_gradient(
        self, batch: Batch, loss: Loss | None = None, *, frozen_norm_statistics: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Compute a loss and its gradient. The first loss of a step is logged, and the first on each part by its name.

        With `frozen_norm_statistics` the batch leaves no trace in the running statistics of normalization layers.
        """
        with self._forward_context(batch, frozen_norm_statistics):
            found = mean_over_ranks(loss or self.problem.loss)(self.model, batch)
            gradient = distributed.gradients(found, list(self.parameters.values()))
        if self._loss is None:
            self._loss = finite(found)
        if (name := self._parts.get(id(batch))) and name not in self._losses and math.isfinite(value := found.item()):
            self._losses[name] = value
        return found.detach(), gradient

    def step(self, gradient: list[Tensor], lr: float | None = None) -> None:
        """Update the weights in place; the gradient list is emptied. It may be called twice for one batch or pair."""
        self._optimizer.step(gradient, self._rate if lr is None else lr)
        if self._loss is not None and self._logged != self.global_step:
            self.note(self._loss)
        self._loss, self._losses = None, {}

    def log_beside(self, **numbers: float) -> None:
        """Log these numbers beside the losses of this step."""
        self._losses |= numbers

    def note(self, loss: float) -> None:
        """Log the loss of this step."""
        before = self.global_step - self._loop.step_in_epoch  # epochs may differ in length
        steps = before + self._length * max(self._planned - self.epoch, 1)
        epochs = {"phase": self.phase, "epoch": self.epoch, "epochs": max(self._planned, self.epoch + 1)}
        self._log({**epochs, "step": self.global_step + 1, "steps": steps, "loss": loss, **self._losses})
        self._loss, self._losses, self._logged = None, {}, self.global_step

    @contextmanager
    def _own_rng(self) -> Iterator[None]:
        """Draw from the random numbers of this loop inside the block."""
        outside = randomness.snapshot()
        randomness.restore(self._loop.random)
        try:
            yield
        finally:
            self._loop.random = randomness.snapshot()
            randomness.restore(outside)

    @contextmanager
    def _forward_context(self, batch: Batch, still: bool) -> Iterator[None]:
        """Put the model into the mode for this batch inside the block."""
        with (
            self._mode(self.model),
            eval_if_single_record(self.model, batch),
            frozen_norm_statistics(self.model) if still else nullcontext(),
            self._own_rng(),
        ):
            yield


def scheduled(lr: float, schedule: str, epoch: int, epochs: int) -> float:
    """Return the learning rate in an epoch.

    `multistep` divides it by ten after half of the epochs, and again after three quarters. `linear` goes to a tenth.

    >>> [round(scheduled(0.1, "cosine", epoch, 4), 3) for epoch in range(4)]
    [0.1, 0.085, 0.05, 0.015]
    >>> [round(scheduled(0.1, "multistep", epoch, 4), 3) for epoch in range(4)]
    [0.1, 0.1, 0.01, 0.001]
    >>> [round(scheduled(0.1, "linear", epoch, 3), 3) for epoch in range(3)]
    [0.1, 0.07, 0.04]
    """
    if schedule == "linear":
        return lr * (1 - 0.9 * epoch / epochs)
    if schedule == "multistep":
        return lr * 0.1 ** ((epoch >= epochs // 2) + (epoch >= 3 * epochs // 4))
    return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2 if schedule == "cosine" else lr


def linear_decay(start: float, epoch: int, epochs: int) -> float:
    """Return a weight that falls linearly with the epochs, to 0 after the last.

    >>> [linear_decay(1.0, epoch, 4) for epoch in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    return start * (1 - epoch / epochs)


def finite(loss: Tensor) -> float:
    """Return the loss as a number; raise if it is not finite."""
    value = loss.item()
    if not math.isfinite(value):
        raise FailedError(f"the loss became {value}: training diverged. Lower the learning rate.")
    return value
