"""Scissorhands: trim by connection sensitivity, repair by a projected gradient."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor, nn

from .base import (
    INITS,
    SALIENCY,
    Batch,
    Depends,
    Descent,
    FailedError,
    Log,
    Method,
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
    optimizers,
    overlap,
    patterns,
    points_lost,
    positive,
    positive_share,
    rate,
    reinitialize,
    restore,
    select,
    setting,
    share,
    snapshot,
    subtract_,
    switch,
    top_share,
    train_mode_saliency,
    trainable,
    trim_event,
    utility,
    without_norms,
)
from .calibration import Cooldown, Targets

_MAX_EXTENSION = 5  # times as many epochs, if bounded, while the model is damaged
_ATTEMPTS = 4  # to repair without damage, if calibrated, each with a quarter of the learning rate
_STEPS, _SMALL_BATCH = 50, 8  # if calibrated, an epoch has so many steps, unless batches would be smaller than this
_STEEP = 0.25  # of SGD's learning rate is left where numbers are predicted: the slope of a squared error has no bound
_PASSES = 2  # over the data to forget in an epoch, if calibrated


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
    bounded: bool = False  # ours: cap λ, and repair until the model is about as good as before
    calibrated: bool = False  # ours: move forgotten records to where unseen ones are, and stop when they are there


READINGS: dict[str, Reading] = {
    "calibrated": Reading(calibrated=True),
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
    """Re-initializes the weights that matter most to the forgotten data, then repairs without relearning it.

    Without settings it is calibrated: it trains on the retained data and moves the margins of the forgotten records,
    or their errors where numbers are predicted, onto those of unseen records, from either side, until a test cannot
    tell them apart. After that the learning rate falls to zero, in two fifths of the epochs. It does not trim unless
    told to, since that brought it no nearer to a retrained model.
    """

    paper: ClassVar[str] = "Wu & Harandi, ECCV 2024"
    needs: ClassVar[str] = "unseen records, and labels that are classes or numbers, if calibrated"
    copies: ClassVar[int] = 7

    reading: str = setting(
        "calibrated",
        one_of(*READINGS),
        "Algorithm 1 of the paper; what its published code does; Algorithm 1, bounded, which caps λ so that forgetting "
        "pushes at most half as hard as the repair pulls; or calibrated by unseen records",
    )
    trim: float = setting(Depends("reading", 0.03, {"calibrated": 0.0}), share, "share of the weights to re-initialize")
    sample: float = setting(1.0, positive_share, "share of the forget data that the sensitivity is measured on")
    saliency: str = setting("connection", one_of(*SALIENCY), "what makes a weight matter")
    init: str = setting("uniform", one_of(*INITS), "how weights are re-initialized")
    parameters: str = setting("*", patterns, "which parameters may be trimmed; as published, also which are guarded")
    balance: float = setting(0.05, non_negative, "weight of the forget loss in the repair, the paper's λ")
    project: bool = setting(True, switch, "take out of each gradient what would lower the forget loss")
    every: int = setting(1, at_least_one, "take it out of every n-th gradient of an epoch only")
    epochs: int = setting(
        10,
        count,
        "passes over the retained data; if calibrated, at most; if bounded, up to 5 times as many while the model is "
        "damaged",
    )
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(
        Depends("reading", rate(5e-3), {"calibrated": rate(0.05)}),
        positive,
        "learning rate; if calibrated, at the start, and lower where an epoch has more than 50 steps, or a quarter of "
        "it where SGD learns to predict numbers",
    )
    batch_size: int = setting(
        Depends("reading", 64, {"paper": 256, "published": 256}),
        at_least_one,
        "records of each kind in a step; if calibrated, at most",
    )
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    @property
    def _reading(self) -> Reading:
        return READINGS[self.reading]

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        if self._reading.calibrated:
            self._calibrate(model, problem, log)
            return
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
        log(trim_event(scope, drawn))

    def _repair(self, model: nn.Module, problem: Problem, before: Mapping[str, float], log: Log) -> None:
        """Algorithm 1, right: descend on the retained data, guarded against the forgotten.

        If bounded, it continues while the model is damaged, as it is after few steps, up to five times as long.
        """
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
                    self._guard(descent, repair, forget_batch, reference)
                descent.step(repair)

    def _calibrate(self, model: nn.Module, problem: Problem, log: Log) -> None:
        """Trim and repair. If that damages the model, do it again from the start at a quarter of the learning rate.

        If every attempt damages it, the one that damages it least is kept.
        """
        original, before = snapshot(model), utility(model, problem)
        targets, best, least = Targets(model, problem), original, math.inf
        size = self._enough_steps(problem)
        lr = self.lr * min(1.0, _STEPS / problem.steps(problem.retain, size))
        lr *= _STEEP if problem.regression and self.optimizer == "sgd" else 1.0
        for attempt in range(_ATTEMPTS):
            restore(model, original)
            self._trim(model, problem, log)
            method = replace(self, lr=lr / 4**attempt, batch_size=size)
            try:
                method._repair_to(targets, model, problem, log)
            except FailedError:
                if attempt == _ATTEMPTS - 1 and best is original:
                    raise
                continue
            after = utility(model, problem)
            if not damage(before, after):
                return
            if (lost := points_lost(before, after)) < least:
                best, least = snapshot(model), lost
        restore(model, best)

    def _enough_steps(self, problem: Problem) -> int:
        """Return the size of a batch: smaller than asked for if an epoch would have too few steps."""
        return min(self.batch_size, max(_SMALL_BATCH, len(problem.retain) // _STEPS))

    def _forget_size(self, problem: Problem) -> int:
        """Return the size of a batch to forget with which the forgotten data is walked twice while the rest is once."""
        twice = math.ceil(_PASSES * self.batch_size * len(problem.forget) / len(problem.retain))
        return min(self.batch_size, max(_SMALL_BATCH, twice))

    def _repair_to(self, targets: Targets, model: nn.Module, problem: Problem, log: Log) -> None:
        """Algorithm 1, right, whose forget loss is minus the distance of forgotten records from unseen ones."""
        descent, forget_size = Descent(model, problem, self, "repair", log), self._forget_size(problem)
        cooldown = Cooldown(descent, self.epochs, problem.steps(problem.retain, self.batch_size))
        for _ in descent.epochs(self.epochs):
            if cooldown.is_over(targets.are_met):
                break
            for retain_batch, forget_batch in descent.pairs(problem.retain, targets.forget, forget_size=forget_size):
                repair = descent.gradient(retain_batch)
                loss = targets.loss(descent, forget_batch)
                forget = descent.gradient(forget_batch, loss, frozen_norm_statistics=True)
                subtract_(repair, self._amount(descent, repair, forget), forget)
                descent.step(repair, cooldown.share_left * self.lr)

    def _amount(self, descent: Descent, repair: list[Tensor], forget: list[Tensor]) -> float:
        """Return how much of the forget gradient to subtract (equations 3 to 5)."""
        balance = bounded(self.balance, repair, forget) if self._reading.bounded else self.balance
        amount = guard(repair, forget, balance) if self._is_guarded(descent) else balance
        descent.log_beside(guard=amount)
        return amount

    def _is_guarded(self, descent: Descent) -> bool:
        """Return whether this step takes out of the gradient what would lower the forget loss."""
        return self.project and (descent.step_in_epoch + 1) % self.every == 0

    def _is_repaired(self, descent: Descent, before: Mapping[str, float]) -> bool:
        """Return whether an epoch begins and the model is about as good as it was before the trim."""
        return descent.at_epoch_start and not damage(before, utility(descent.model, descent.problem), strictness=2)

    def _guard(self, descent: Descent, repair: list[Tensor], forget_batch: Batch, reference: list[Tensor]) -> None:
        """Turn the gradient on retained data into the guarded one, in place."""
        still = not self._reading.moves_statistics
        forget = descent.gradient(forget_batch, frozen_norm_statistics=still)
        if self._is_guarded(descent) and (reference or self._reading.margin):
            subtract_(repair, self.balance, forget)
            self._guard_with_margin(descent, repair, reference or forget)
        else:
            subtract_(repair, self._amount(descent, repair, forget), forget)

    def _guard_with_margin(self, descent: Descent, gradient: list[Tensor], reference: list[Tensor]) -> None:
        """Take the reference out of a gradient that points along it, in place, as the published code does."""
        if self._reading.guard_in_scope:
            scope = select(descent.model, self.parameters)
            gradient, reference = (
                [g for name, g in zip(descent.parameters, some, strict=True) if name in scope]
                for some in (gradient, reference)
            )
        along = overlap(gradient, reference, self._reading.ridge)
        amount = max(self._reading.margin, along) if along > 0 else 0.0
        descent.log_beside(guard=amount)
        if amount:
            subtract_(gradient, amount, reference)

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
