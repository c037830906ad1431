"""SCRUB, with rewinding (SCRUB+R)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from .base import (
    Batch,
    Descent,
    Log,
    Loss,
    Method,
    Problem,
    at_least_one,
    below_one,
    calibration_error_rate,
    calibration_of,
    count,
    error_rate,
    ignore,
    kl_divergence,
    logits,
    non_negative,
    optimizers,
    positive,
    rate,
    restore,
    setting,
    snapshot,
    swapped,
    switch,
    teacher_logits,
)


@dataclass(frozen=True, kw_only=True)
class SCRUB(Method):
    """Moves away from the original model on the forgotten data and stays with it on the rest, in turns.

    With `rewind` it is SCRUB+R: it ends with the epoch that forgot just enough, not with the one that forgot most.
    The defaults are those of its code for CIFAR-10 (large_scale_unlearning.ipynb), which has batches of 512 records to
    forget and of 256 to retain.
    """

    paper: ClassVar[str] = "Kurmanji et al., NeurIPS 2023"
    needs: ClassVar[str] = "a classifier, a copy of the original model, and unseen records if it rewinds"
    needs_classes: ClassVar[bool] = True
    copies: ClassVar[int] = 6

    alpha: float = setting(
        0.001, non_negative, "weight of staying with the original model on the retained data", search=30
    )
    gamma: float = setting(0.99, non_negative, "weight of the loss on the retained data")
    temperature: float = setting(4.0, positive, "by which outputs are softened before they are compared")
    ascents: int = setting(2, count, "first epochs in which a pass over the forget data comes first")
    rewind: bool = setting(True, switch, "end with the epoch whose forget error is nearest to that on unseen records")
    epochs: int = setting(3, at_least_one, "passes over the retained data; to rewind, each is kept in memory")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(5e-4), positive, "learning rate")
    batch_size: int = setting(128, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        if self.rewind:
            calibration_of(problem)
        original = snapshot(model)
        descent = Descent(model, problem, self, "scrub", log)
        for epoch in descent.epochs(self.epochs):
            parts = [problem.forget, problem.retain] if epoch < self.ascents else [problem.retain]
            for part, batch in descent.passes(*parts):
                teacher = teacher_logits(model, original, batch)
                if part is problem.forget:
                    descent.step(descent.gradient(batch, self._away(teacher)))
                else:
                    descent.step(descent.gradient(batch, self._near(teacher, problem)))
            if self.rewind:
                descent.memory.update({f"{epoch}/{name}": value for name, value in snapshot(model).items()})
        if self.rewind:
            self._rewind(model, problem, descent.memory)

    def _away(self, teacher: Tensor) -> Loss:
        """Return the loss of a step that maximizes the distance to the teacher."""

        def loss(model: nn.Module, batch: Batch) -> Tensor:
            return -kl_divergence(logits(model, batch), teacher, self.temperature)

        return loss

    def _near(self, teacher: Tensor, problem: Problem) -> Loss:
        """Return the loss of a step that minimizes the distance to the teacher and the problem's own loss."""

        def loss(model: nn.Module, batch: Batch) -> Tensor:
            distance = kl_divergence(logits(model, batch), teacher, self.temperature)
            return self.alpha * distance + self.gamma * problem.loss(model, batch)

        return loss

    def _rewind(self, model: nn.Module, problem: Problem, memory: dict[str, Tensor]) -> None:
        """Go back to the epoch whose forget error is nearest to the unseen error at the end, the last of equals."""
        wanted = calibration_error_rate(model, problem)
        kept: list[dict[str, Tensor]] = [{} for _ in range(self.epochs)]
        for key, value in memory.items():
            epoch, _, name = key.partition("/")
            kept[int(epoch)][name] = value
        gaps = []
        for state in kept:
            with swapped(model, state):
                gaps.append(abs(error_rate(model, problem.forget) - wanted))
        restore(model, kept[min(range(self.epochs), key=lambda epoch: (gaps[epoch], -epoch))])
