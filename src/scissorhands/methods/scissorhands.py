"""Scissorhands: trim by connection sensitivity, repair by a projected gradient."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import (
    INITS,
    SALIENCY,
    Batch,
    Descent,
    Log,
    Method,
    Part,
    Problem,
    at_least_one,
    below_one,
    bounded,
    count,
    damage,
    guard,
    ignore,
    mean_gradient,
    non_negative,
    one_of,
    overlap,
    patterns,
    positive,
    positive_share,
    reinitialize,
    select,
    setting,
    share,
    subtract_,
    switch,
    top_share,
    trainable,
    utility,
    without_norms,
)

_MEASURE_EVERY = 10  # steps between two measurements of the target loss
_TARGET = "target loss"  # where the memory of a loop keeps it
_MAX_EXTENSION = 5  # times as many epochs, if the model is still damaged
_CHANCE_FACTOR = 2  # times the loss of a random guess is the target loss for a class that is forgotten whole


@dataclass(frozen=True, kw_only=True)
class Scissorhands(Method):
    """Re-initializes the weights that matter most to the forgotten data, then repairs without relearning it."""

    paper: ClassVar[str] = "Wu & Harandi, ECCV 2024"
    copies: ClassVar[int] = 6

    trim: float = setting(0.03, share, "share of the weights to re-initialize")
    sample: float = setting(1.0, positive_share, "share of the forget data that the sensitivity is measured on")
    saliency: str = setting("connection", one_of(*SALIENCY), "what makes a weight matter")
    init: str = setting("uniform", one_of(*INITS), "how weights are re-initialized")
    parameters: str = setting("*", patterns, "which parameters may be trimmed")
    balance: float = setting(0.05, non_negative, "weight of the forget loss in the repair, the paper's λ")
    project: bool = setting(True, switch, "take out of each gradient what would lower the forget loss")
    guard: str = setting(
        "step", one_of("step", "epoch"), "what guards: a fresh gradient at each step, or one per epoch"
    )
    bounded: bool = setting(
        True,
        switch,
        "stop raising the forget loss at the loss on unseen records (for a whole class: twice that of a random guess), "
        "and cap λ",
    )
    epochs: int = setting(
        10, count, "passes over the retained data; if bounded, up to 5 times as many while the model is damaged"
    )
    lr: float = setting(5e-3, positive, "learning rate")
    batch_size: int = setting(64, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        before = utility(model, problem) if self.bounded else {}
        self._trim(model, problem, log)
        self._repair(model, problem, before, log)

    def _trim(self, model: nn.Module, problem: Problem, log: Log) -> None:
        """Algorithm 1, left: score every weight on the forget data, re-initialize the top share."""
        chosen = without_norms(model, select(model, self.parameters))
        sample = problem.sample(problem.forget, self.sample, "trim")
        scores = SALIENCY[self.saliency](model, problem, chosen, sample, self.batch_size)
        drawn = reinitialize(model, top_share(scores, self.trim), self.init, problem.seed)
        log({"phase": "trim", "drawn": drawn, "of": sum(p.numel() for p in chosen.values())})

    def _repair(self, model: nn.Module, problem: Problem, before: Mapping[str, float], log: Log) -> None:
        """Algorithm 1, right: descend on the retained data, guarded against the forgotten.

        If bounded, it continues while the model is damaged, as it is after few steps, up to five times as long.
        """
        unseen = self._unseen_of_forgotten_classes(problem)
        descent, repeat = Descent(model, problem, self, "repair", log), self.guard == "step"
        for epoch in descent.epochs(self.epochs, maximum=_MAX_EXTENSION * self.epochs if self.bounded else None):
            if epoch >= self.epochs and self._is_repaired(descent, before):
                break
            reference = self._reference(descent)
            for retain_batch, forget_batch in descent.pairs(problem.retain, problem.forget, repeat):
                repair = descent.gradient(retain_batch)
                if forget_batch is not None:
                    self._guard(descent, repair, forget_batch, reference, unseen)
                descent.step(repair)

    def _is_repaired(self, descent: Descent, before: Mapping[str, float]) -> bool:
        """Return whether an epoch begins and the model is about as good as it was before the trim."""
        return descent.at_epoch_start and not damage(before, utility(descent.model, descent.problem), strictness=2)

    def _guard(
        self, descent: Descent, repair: list[Tensor], forget_batch: Batch, reference: list[Tensor], unseen: Part | None
    ) -> None:
        """Turn the gradient on retained data into the guarded one, in place (equations 3 to 5)."""
        loss, forget = descent.loss_and_gradient(forget_batch, frozen_norm_statistics=True)
        if self.bounded and loss >= self._target_loss(descent, unseen):
            return
        balance = bounded(self.balance, repair, forget) if self.bounded else self.balance
        if self.project and self.guard == "step":
            subtract_(repair, guard(repair, forget, balance), forget)
            return
        subtract_(repair, balance, forget)
        if reference:
            subtract_(repair, max(0.0, overlap(repair, reference)), reference)

    def _reference(self, descent: Descent) -> list[Tensor]:
        """Return the gradient that guards a whole epoch, as the published code does; none if each step has its own."""
        if not self.project or self.guard == "step":
            return []
        model, problem = descent.model, descent.problem
        if descent.at_epoch_start:
            found = mean_gradient(model, problem, trainable(model), problem.forget, self.batch_size)
            descent.memory.update(found)
        return [descent.memory[name] for name in trainable(model)]

    def _target_loss(self, descent: Descent, unseen: Part | None) -> Tensor | float:
        """Return the forget loss at which forgetting stops: the loss on unseen records of the same classes.

        There are none if a class is forgotten whole: then it is twice the loss of a random guess.
        """
        if unseen is None:
            return _CHANCE_FACTOR * descent.problem.chance_loss
        if descent.global_step % _MEASURE_EVERY == 0:
            batch = next(descent.problem.batches(unseen, self.batch_size, "unseen", descent.global_step))
            descent.memory[_TARGET] = descent.loss(batch, frozen_norm_statistics=True)
        return descent.memory[_TARGET]

    def _unseen_of_forgotten_classes(self, problem: Problem) -> Part | None:
        """Return the unseen records of the classes that are forgotten."""
        if problem.unseen is None:
            return None
        alike = torch.isin(problem.unseen.labels, problem.forget.labels)
        return replace(problem.unseen, ids=problem.unseen.ids[alike]) if alike.any() else None
