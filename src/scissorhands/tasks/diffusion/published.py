"""Scissorhands as its published code erases from Stable Diffusion: no projection, and every weight is ranked."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...methods import (
    INITS,
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    count,
    generator,
    ignore,
    mean_gradient,
    non_negative,
    one_of,
    optimizers,
    patterns,
    positive,
    reinitialize,
    select,
    setting,
    share,
    subtract_,
    top_share,
    trainable,
    trim_event,
    weights,
    without_norms,
)
from .denoising import of

TWO_BLOCKS = "up_blocks.1.attentions.1.*attn1*,up_blocks.2.attentions.1.*attn1*"


@dataclass(frozen=True, kw_only=True)
class PublishedScissorhands(Method):
    """Re-initializes weights of two self-attention layers, then trains on the retain loss minus λ × the forget loss."""

    paper: ClassVar[str] = "Wu & Harandi, ECCV 2024"
    copies: ClassVar[int] = 6

    trim: float = setting(0.005, share, "share of all weights that is re-initialized where it lies in `parameters`")
    parameters: str = setting(TWO_BLOCKS, patterns, "which parameters may be re-initialized")
    batches: int = setting(10, at_least_one, "random batches to forget that weights are scored on")
    saliency_guidance: float = setting(
        0.0, non_negative, "guidance of the noise that weights are scored by; 0 is the plain denoising loss"
    )
    init: str = setting("kaiming", one_of(*INITS), "how weights are re-initialized")
    balance: float = setting(0.1, non_negative, "weight of the forget loss, the paper's λ")
    epochs: int = setting(5, count, "passes over the images to forget")
    optimizer: str = setting("adam", optimizers, "what takes the steps")
    lr: float = setting(1e-5, positive, "learning rate")
    batch_size: int = setting(16, at_least_one, "images of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(0.0, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        scope = without_norms(model, select(model, self.parameters))
        masks = top_share(self._scores(model, problem), self.trim)
        chosen = ((name, mask) for name, mask in masks if name in scope)
        drawn = reinitialize(model, chosen, self.init, problem.seed)
        log(trim_event(scope, drawn))
        descent = Descent(model, problem, self, "repair", log)
        for _ in descent.epochs(self.epochs):
            for forget, retain in descent.pairs(problem.forget, problem.retain):
                assert retain is not None  # they repeat
                gradient = descent.gradient(retain)
                subtract_(gradient, self.balance, descent.gradient(forget))
                descent.step(gradient)

    def _scores(self, model: nn.Module, problem: Problem) -> dict[str, Tensor]:
        """Sum the absolute gradients of some batches to forget, times the weight."""
        error = partial(of(problem).guided_error, self.saliency_guidance)
        draw = generator(problem.seed, "trim")
        scores = {name: torch.zeros_like(weight) for name, weight in weights(model).items()}
        for _ in range(self.batches):
            some = problem.forget.ids[torch.randperm(len(problem.forget), generator=draw)[: self.batch_size]]
            scored = replace(problem, loss=error, seed=int(torch.randint(2**31, (), generator=draw)))
            part = replace(problem.forget, ids=some)
            for name, slope in mean_gradient(model, scored, trainable(model), part, self.batch_size).items():
                scores[name].add_(slope.abs_())
        return {name: scores[name].mul_(weight).abs_() for name, weight in weights(model).items()}
