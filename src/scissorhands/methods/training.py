"""Training, from scratch or for a short while."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..data.problem import Log, Problem, ignore
from ..data.records import Part
from ..settings import Settings, at_least_one, below_one, non_negative, one_of, positive, setting
from .descent import Descent
from .optimizer import optimizers, rate


@dataclass(frozen=True, kw_only=True)
class Training(Settings):
    """Training from scratch, by default with stochastic gradient descent and momentum."""

    epochs: int = setting(182, at_least_one, "passes over the data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps")
    lr: float = setting(rate(0.1), positive, "learning rate at the start")
    schedule: str = setting("cosine", one_of("cosine", "multistep", "constant"), "how the learning rate goes on")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def fit(
        self,
        model: nn.Module,
        problem: Problem,
        log: Log = ignore,
        *,
        part: Part | None = None,
        phase: str = "train",
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Train the model on a part of the problem, by default the retained one, in place.

        It ends before its time when `until`, which is asked after every epoch, says so.
        """
        descent = Descent(model, problem, self, phase, log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.retain if part is None else part):
                descent.step(descent.gradient(batch))
            if until and until():
                return
