"""What an evaluation knows of a model, how much it may spend, and how fast the model is on this machine."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from torch import nn

from ..data.problem import Problem
from ..data.split import Split
from ..distributed import copy_model
from ..errors import SettingError
from ..files import cache
from ..methods.method import Method
from ..methods.modes import training
from ..methods.parameters import trainable
from ..methods.saliency import gradients
from ..methods.training import Training
from ..randomness import key, seeded
from ..settings import Settings, at_least_one, at_least_two, setting
from .predict import predict
from .reference_models import Trainer

SEED = 0  # of all that evaluation draws: every method is examined in the same way


@dataclass(frozen=True, kw_only=True)
class Evaluation(Settings):
    """How much is spent on an evaluation."""

    references: int = setting(4, at_least_one, "reference models, each trained on half of the retained records")
    shadows: int = setting(64, at_least_two, "shadow models, each trained on half of the forgotten and other records")
    shots: int = setting(5, at_least_one, "forgotten records of each class that a probe or a relearner is shown")
    relearn: int = setting(200, at_least_one, "epochs of relearning at most")


@dataclass(frozen=True)
class Context:
    """A model to evaluate, and what is known of how it was made.

    `trainer` trains models of its kind, `method` is what made it forget and took `seconds`, `original_accuracy` is what
    the original had on the forgotten records. What is not known is not evaluated.
    """

    model: nn.Module
    split: Split
    settings: Evaluation = field(default_factory=Evaluation)
    trainer: Trainer | None = None
    method: Method | None = None
    seconds: float = 0.0
    original_accuracy: float | None = None

    @property
    def problem(self) -> Problem:
        """Return the problem as evaluation sees it; nobody is warned about damage to shadow models."""
        found = self.split.problem(seed=SEED, augment=self.trainer.augment if self.trainer else None)
        return replace(found, warn_on_damage=False)

    @property
    def batch_size(self) -> int:
        """Return the batch size of the training, or the default where that is not known."""
        return self.trainer.training.batch_size if self.trainer else Training().batch_size

    def trainer_for(self, purpose: str) -> Trainer:
        """Return the trainer for one purpose; raise if it is not known how the model was trained."""
        if self.trainer is None:
            raise SettingError("it is not known how the model was trained: say how with --train.")
        folder = cache("shadows") if self.trainer.folder and purpose == "shadow" else self.trainer.folder
        return replace(self.trainer, seed=key(SEED, purpose), folder=folder)


def discard_shadows() -> None:
    """Remove the shadow models that are kept, since they were trained on records that are to be forgotten."""
    for file in cache("shadows").glob("*"):
        with suppress(OSError):
            file.unlink()


@dataclass(frozen=True)
class Pace:
    """How fast the model is on this machine: seconds per training step, and per record of a forward pass."""

    step: float
    record: float

    @classmethod
    def of(cls, context: Context) -> "Pace":
        """Measure both on a copy."""
        model, retain = copy_model(context.model), context.split.retain
        some = replace(retain, ids=retain.ids[: context.batch_size])
        batch = next(some.batches(len(some)))
        loss = context.problem.loss
        with training(model), seeded(SEED, "pace"):
            step = _quickest(lambda: gradients(loss(model, batch), trainable(model)))
        return cls(step, _quickest(lambda: predict(model, some)) / len(some))


def _quickest(work: Callable[[], object]) -> float:
    found = []
    for _ in range(4):  # the first also does what a process does only once
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found[1:])
