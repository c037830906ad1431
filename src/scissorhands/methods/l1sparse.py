"""Sparse fine-tuning (l1-sparse)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data.problem import Log, Problem, ignore
from ..data.records import Batch
from ..distributed import local, total
from ..settings import at_least_one, below_one, count, non_negative, positive, setting
from .descent import descend
from .method import Method
from .parameters import trainable


@dataclass(frozen=True, kw_only=True)
class L1Sparse(Method):
    """Fine-tunes on the retained data while an l1 penalty, fading with the epochs, thins the weights out."""

    paper: ClassVar[str] = "Jia et al., NeurIPS 2023"

    gamma: float = setting(5e-5, non_negative, "weight of the l1 penalty in the first epoch; it falls linearly")
    epochs: int = setting(10, count, "passes over the retained data")
    lr: float = setting(0.1, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        weights = [local(p).detach() for p in trainable(model).values()]

        def objective(batch: Batch, epoch: int) -> Tensor:
            return problem.loss(model, batch) + self.faded(epoch) * l1_norm(weights)

        def penalize(gradient: list[Tensor], epoch: int) -> None:
            for slope, weight in zip(gradient, weights, strict=True):
                slope.add_(weight.sign(), alpha=self.faded(epoch))

        rest = {name: value for name, value in self.to_dict().items() if name != "gamma"}
        descend(model, problem, problem.retain, phase="sparsify", objective=objective, edit=penalize, log=log, **rest)

    def faded(self, epoch: int) -> float:
        """The weight of the penalty in an epoch: it falls linearly, as in the published code.

        >>> [L1Sparse(gamma=1.0, epochs=4).faded(epoch) for epoch in range(4)]
        [1.0, 0.75, 0.5, 0.25]
        """
        return self.gamma * (1 - epoch / self.epochs)


def l1_norm(weights: list[Tensor]) -> Tensor:
    """The sum of the absolute values of all weights, in the hands of whichever process. Its gradient is their sign.

    >>> l1_norm([torch.tensor([1.0, -2.0]), torch.tensor([3.0])])
    tensor(6.)
    """
    return total(torch.stack([weight.abs().sum() for weight in weights]).sum())
