"""Saliency unlearning (SalUn) as its published code erases from Stable Diffusion."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from torch import nn

from ...errors import SettingError
from ...methods import (
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    count,
    gradient_saliency,
    ignore,
    non_negative,
    optimizers,
    positive,
    positive_share,
    setting,
    subtract_,
    top_share,
    trainable,
    weights,
)
from .denoising import of


@dataclass(frozen=True, kw_only=True)
class SalUnDiffusion(Method):
    """Trains the salient weights to take the concept for the anchor, plus α × the retain loss."""

    paper: ClassVar[str] = "Fan et al., ICLR 2024"
    copies: ClassVar[int] = 5

    salient: float = setting(0.5, positive_share, "share of the weights that may change")
    saliency_guidance: float = setting(
        7.5, non_negative, "guidance of the noise that weights are scored by; 0 is the plain denoising loss"
    )
    alpha: float = setting(0.1, non_negative, "weight of the retain loss")
    epochs: int = setting(5, count, "passes over the images to forget")
    optimizer: str = setting("adam", optimizers, "what takes the steps")
    lr: float = setting(1e-5, positive, "learning rate")
    batch_size: int = setting(8, at_least_one, "images of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        denoising = of(problem)
        if not denoising.anchors:
            raise SettingError("SalUn needs a prompt to replace the concept with: --anchor PROMPT.")
        scored = replace(problem, loss=partial(denoising.guided_error, self.saliency_guidance))
        scores = gradient_saliency(model, scored, trainable(model), problem.forget, self.batch_size)
        mask = dict(top_share(scores, self.salient))
        descent = Descent(model, problem, self, "relabel", log)
        for _ in descent.epochs(self.epochs):
            for forget, retain in descent.pairs(problem.forget, problem.retain):
                assert retain is not None  # they repeat
                gradient = [self.alpha * slope for slope in descent.gradient(retain)]
                subtract_(gradient, 1.0, descent.gradient(forget))  # that loss is the distance, negated
                for name, slope in zip(weights(model), gradient, strict=True):
                    slope.mul_(mask[name])  # without a slope, Adam moves no bit of a weight
                descent.step(gradient)
