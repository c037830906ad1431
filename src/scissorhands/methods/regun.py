"""Reference-guided unlearning (ReGUn)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
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
    class_counts,
    count,
    generator,
    ignore,
    logits,
    logits_of,
    non_negative,
    optimizers,
    positive,
    rate,
    setting,
    share,
    subtract_,
)


@dataclass(frozen=True, kw_only=True)
class ReGUn(Method):
    """Teaches a batch to forget what the original model says on average of unseen records of the same classes.

    As in the paper, one target is shared by the whole batch. The defaults are those of a public copy of its code, where
    an epoch is a pass over the forget data, too. That code walks the retained data on from one epoch to the next; here
    each epoch shuffles it anew.
    """

    paper: ClassVar[str] = "Mirlach et al., 2026"
    needs: ClassVar[str] = "a classifier, and unseen records"
    needs_classes: ClassVar[bool] = True
    copies: ClassVar[int] = 4

    forget_weight: float = setting(
        0.5, share, "weight of the forget loss; the retain loss has what is left to 1", search=5
    )
    epochs: int = setting(10, count, "passes over the forget data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(0.01), positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(0.0, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        unseen = calibration_of(problem)
        said = logits_of(model, unseen).softmax(1)
        descent = Descent(model, problem, self, "regun", log)
        for _ in descent.epochs(self.epochs):
            for drop, keep in descent.pairs(problem.forget, problem.retain):
                draw = generator(problem.seed, "reference", descent.global_step)
                target = said[matched(class_counts(drop, said.shape[1]), unseen.labels, draw)].mean(0)

                def distance(model: nn.Module, batch: Batch, target: Tensor = target) -> Tensor:
                    found = logits(model, batch).log_softmax(1)
                    return F.kl_div(found, target.to(found).expand_as(found), reduction="batchmean")

                gradient = descent.gradient(keep)
                torch._foreach_mul_(gradient, 1 - self.forget_weight)
                subtract_(gradient, -self.forget_weight, descent.gradient(drop, distance))
                descent.step(gradient)


def matched(counts: Tensor, labels: Tensor, draw: torch.Generator) -> Tensor:
    """Draw as many records of each class as it counts, with replacement; any records for a class that has none.

    >>> matched(torch.tensor([2, 0, 1]), torch.tensor([2, 1, 0]), torch.Generator())
    tensor([2, 2, 0])
    """
    found = []
    for label in counts.nonzero().flatten():
        pool = (labels == label).nonzero().flatten()
        pool = pool if len(pool) else torch.arange(len(labels))
        found.append(pool[torch.randint(len(pool), (int(counts[label]),), generator=draw)])
    return torch.cat(found)
