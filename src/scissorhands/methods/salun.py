"""Saliency unlearning (SalUn)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data.labels import random_labels
from ..data.problem import Log, Problem, ignore
from ..data.records import Part
from ..distributed import local
from ..settings import at_least_one, below_one, count, non_negative, one_of, positive, positive_share, setting
from .descent import descend
from .method import Method
from .parameters import trainable
from .saliency import gradient, top_share


@dataclass(frozen=True, kw_only=True)
class SalUn(Method):
    """Trains under random labels, but only the weights with the largest gradient on the forgotten data."""

    paper: ClassVar[str] = "Fan et al., ICLR 2024"
    copies: ClassVar[int] = 4

    salient: float = setting(0.5, positive_share, "share of the weights that may change")
    order: str = setting(
        "mixed", one_of("mixed", "sequential"), "forget and retain batches mixed, or one after the other"
    )
    epochs: int = setting(10, count, "passes over all training data")
    lr: float = setting(0.01, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        scores = gradient(model, problem, trainable(model), problem.forget, self.batch_size)
        mask = dict(top_share(scores, self.salient))
        weights = {name: local(p).detach() for name, p in trainable(model).items()}

        def edit(gradient: list[Tensor], epoch: int) -> None:
            """Adds the decay to the gradient and takes both out where the mask is off, so that no bit changes there."""
            for name, slope in zip(weights, gradient, strict=True):
                slope.add_(weights[name], alpha=self.weight_decay).mul_(mask[name])

        rest = {name: value for name, value in self.to_dict().items() if name not in ("salient", "order")}
        rest["weight_decay"] = 0.0  # the optimizer would decay every weight
        descend(model, problem, *self._parts(problem), phase="relabel", edit=edit, log=log, **rest)

    def _parts(self, problem: Problem) -> list[Part]:
        """What an epoch walks: everything in one shuffle, or the forget data before the retained."""
        wrong = random_labels(problem.forget, problem.seed)
        if self.order == "sequential":
            return [replace(problem.forget, records=wrong), problem.retain]
        return [Part(wrong, torch.cat([problem.forget.ids, problem.retain.ids]).sort().values)]
