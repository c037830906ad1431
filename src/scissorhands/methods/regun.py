"""Reference-guided unlearning (ReGUn)."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from .base import (
    Batch,
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    calibration_of,
    count,
    ignore,
    logits,
    logits_of,
    non_negative,
    positive,
    setting,
    subtract_,
)


@dataclass(frozen=True, kw_only=True)
class ReGUn(Method):
    """Teaches the forgotten data what the original model says of unseen records of its class, and keeps the rest.

    The paper draws as many unseen records of each class as a batch has, and averages over the batch; here the average
    is that of each class, over all its unseen records, which is the same for a batch of one class.
    """

    paper: ClassVar[str] = "Mirlach et al., 2026"
    needs: ClassVar[str] = "a classifier, and unseen records"
    copies: ClassVar[int] = 4

    forget_weight: float = setting(1.0, non_negative, "weight of the forget loss; the retain loss has a weight of 1")
    epochs: int = setting(10, count, "passes over the retained data")
    lr: float = setting(0.01, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        reference = self._reference(model, problem)

        def distance(model: nn.Module, batch: Batch) -> Tensor:
            said = logits(model, batch).log_softmax(1)
            return F.kl_div(said, reference[batch.labels].to(said), reduction="batchmean")

        descent = Descent(model, problem, self, "regun", log)
        for _ in descent.epochs(self.epochs):
            for keep, drop in descent.pairs(problem.retain, problem.forget):
                gradient = descent.gradient(keep)
                subtract_(gradient, -self.forget_weight, descent.gradient(drop, distance, frozen_norm_statistics=True))
                descent.step(gradient)

    def _reference(self, model: nn.Module, problem: Problem) -> Tensor:
        """Compute, for each class, what the model says of its unseen records on average.

        For a class without any, it is the average over all unseen records.
        """
        unseen = calibration_of(problem)
        said, labels = logits_of(model, unseen).softmax(1), unseen.labels
        reference = said.mean(0).repeat(said.shape[1], 1)
        for label in labels.unique():
            reference[label] = said[labels == label].mean(0)
        return reference
