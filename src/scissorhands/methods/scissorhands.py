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
    evaluating,
    gradients,
    guard,
    ignore,
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
    train_mode_saliency,
    trainable,
    utility,
    without_norms,
)

_MEASURE_EVERY = 10  # steps between two measurements of the target loss
_TARGET = "target loss"  # where the memory of a loop keeps it
_MAX_EXTENSION = 5  # times as many epochs, if the model is still damaged
_CHANCE_FACTOR = 2  # times the loss of a random guess is the target loss for a class that is forgotten whole


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the paper is read: each field is one difference from Algorithm 1, which has none."""

    ranks_all: bool = False  # take the share among all weights; re-initialize those of them that `parameters` names
    trains_to_score: bool = False  # score augmented batches in training mode, by the sum of their absolute gradients
    zero_biases: bool = False  # re-initialize biases to zero
    guard_of_epoch: bool = False  # guard by the gradient on one forget batch per epoch, in evaluation mode
    guard_in_scope: bool = False  # guard the parameters that `parameters` names, and no others
    margin: float = 0.0  # take out at least so many times the guarding gradient, wherever the guard acts
    ridge: float = 0.0  # added to the squared norm of the guarding gradient
    single_pass: bool = False  # no forget batch after the forget data was walked once in an epoch
    moves_statistics: bool = False  # forget batches enter the running statistics of batch normalization
    bounded: bool = False  # ours: stop at the loss on unseen records, cap λ, and repair until the model is as good


READINGS: dict[str, Reading] = {
    "bounded": Reading(bounded=True),
    "paper": Reading(),
    "published": Reading(
        ranks_all=True,
        trains_to_score=True,
        zero_biases=True,
        guard_of_epoch=True,
        guard_in_scope=True,
        margin=0.5,
        ridge=1e-3,
        single_pass=True,
        moves_statistics=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Scissorhands(Method):
    """Re-initializes the weights that matter most to the forgotten data, then repairs without relearning it."""

    paper: ClassVar[str] = "Wu & Harandi, ECCV 2024"
    copies: ClassVar[int] = 6

    reading: str = setting(
        "bounded",
        one_of(*READINGS),
        "Algorithm 1 of the paper; what its published code does; or Algorithm 1, bounded: stop raising the forget loss "
        "at the loss on unseen records (for a whole class: twice that of a random guess), and cap λ",
    )
    trim: float = setting(0.03, share, "share of the weights to re-initialize")
    sample: float = setting(1.0, positive_share, "share of the forget data that the sensitivity is measured on")
    saliency: str = setting("connection", one_of(*SALIENCY), "what makes a weight matter")
    init: str = setting("uniform", one_of(*INITS), "how weights are re-initialized")
    parameters: str = setting("*", patterns, "which parameters may be trimmed; as published, also which are guarded")
    balance: float = setting(0.05, non_negative, "weight of the forget loss in the repair, the paper's λ")
    project: bool = setting(True, switch, "take out of each gradient what would lower the forget loss")
    every: int = setting(1, at_least_one, "take it out of every n-th gradient of an epoch only")
    epochs: int = setting(
        10, count, "passes over the retained data; if bounded, up to 5 times as many while the model is damaged"
    )
    lr: float = setting(5e-3, positive, "learning rate")
    batch_size: int = setting(64, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    @property
    def _reading(self) -> Reading:
        return READINGS[self.reading]

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        before = utility(model, problem) if self._reading.bounded else {}
        self._trim(model, problem, log)
        self._repair(model, problem, before, log)

    def _trim(self, model: nn.Module, problem: Problem, log: Log) -> None:
        """Algorithm 1, left: score every weight on the forget data, re-initialize the top share."""
        scope = without_norms(model, select(model, self.parameters))
        ranked = trainable(model) if self._reading.ranks_all else scope
        sample = problem.sample(problem.forget, self.sample, "trim")
        by_training = self._reading.trains_to_score and self.saliency == "connection"
        score = train_mode_saliency if by_training else SALIENCY[self.saliency]
        top = top_share(score(model, problem, ranked, sample, self.batch_size), self.trim)
        chosen = ((name, mask) for name, mask in top if name in scope)
        drawn = reinitialize(model, chosen, self.init, problem.seed, zero_biases=self._reading.zero_biases)
        log({"phase": "trim", "drawn": drawn, "of": sum(p.numel() for p in scope.values())})

    def _repair(self, model: nn.Module, problem: Problem, before: Mapping[str, float], log: Log) -> None:
        """Algorithm 1, right: descend on the retained data, guarded against the forgotten.

        If bounded, it continues while the model is damaged, as it is after few steps, up to five times as long.
        """
        unseen = self._unseen_of_forgotten_classes(problem)
        descent, maximum = Descent(model, problem, self, "repair", log), _MAX_EXTENSION * self.epochs
        for epoch in descent.epochs(self.epochs, maximum=maximum if self._reading.bounded else None):
            if epoch >= self.epochs and self._is_repaired(descent, before):
                break
            reference = self._reference(descent)
            for retain_batch, forget_batch in descent.pairs(
                problem.retain, problem.forget, repeat=not self._reading.single_pass
            ):
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
        still = not self._reading.moves_statistics
        loss, forget = descent.loss_and_gradient(forget_batch, frozen_norm_statistics=still)
        if self._reading.bounded and loss >= self._target_loss(descent, unseen):
            return
        balance = bounded(self.balance, repair, forget) if self._reading.bounded else self.balance
        if not self.project or (descent.step_in_epoch + 1) % self.every:
            subtract_(repair, balance, forget)
        elif reference or self._reading.margin:
            subtract_(repair, balance, forget)
            self._guard_with_margin(descent, repair, reference or forget)
        else:
            subtract_(repair, guard(repair, forget, balance), forget)

    def _guard_with_margin(self, descent: Descent, gradient: list[Tensor], reference: list[Tensor]) -> None:
        """Take the reference out of a gradient that points along it, in place, as the published code does."""
        if self._reading.guard_in_scope:
            scope = select(descent.model, self.parameters)
            gradient, reference = (
                [g for name, g in zip(descent.parameters, some, strict=True) if name in scope]
                for some in (gradient, reference)
            )
        along = overlap(gradient, reference, self._reading.ridge)
        if along > 0:
            subtract_(gradient, max(self._reading.margin, along), reference)

    def _reference(self, descent: Descent) -> list[Tensor]:
        """Return the gradient that guards a whole epoch, as the published code does; none if each step has its own."""
        if not self.project or not self._reading.guard_of_epoch:
            return []
        model, problem = descent.model, descent.problem
        if descent.at_epoch_start:
            batch = next(problem.batches(problem.forget, self.batch_size, "guard", descent.epoch))
            with evaluating(model):
                found = gradients(problem.loss(model, batch), descent.parameters)
            descent.memory.update(zip(descent.parameters, found, strict=True))
        return [descent.memory[name] for name in descent.parameters]

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
        if problem.calibration is None:
            return None
        alike = torch.isin(problem.calibration.labels, problem.forget.labels)
        return replace(problem.calibration, ids=problem.calibration.ids[alike]) if alike.any() else None
