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
    state,
    subtract_,
    switch,
    top_share,
    trainable,
    without_norms,
)

_STEPS, _ENOUGH = 10, "the loss on unseen records"  # it is measured every so many steps
_LONGER = 5  # times that the repair may take, if the model is still damaged
_GONE = 2  # times the loss of a guess, which a model has on a class that it does not know


@dataclass(frozen=True, kw_only=True)
class Scissorhands(Method):
    """Draws the weights that matter most to the forgotten data anew, then repairs without relearning it."""

    paper: ClassVar[str] = "Wu & Harandi, ECCV 2024"
    copies: ClassVar[int] = 6

    trim: float = setting(0.03, share, "share of the weights that are drawn anew")
    sample: float = setting(1.0, positive_share, "share of the forget data that the sensitivity is measured on")
    saliency: str = setting("connection", one_of(*SALIENCY), "what makes a weight matter")
    init: str = setting("uniform", one_of(*INITS), "how weights are drawn anew")
    parameters: str = setting("*", patterns, "which parameters may be trimmed")
    balance: float = setting(0.05, non_negative, "weight of the forget loss in the repair, the paper's λ")
    project: bool = setting(True, switch, "take out of each gradient what would lower the forget loss")
    guard: str = setting(
        "step", one_of("step", "epoch"), "what guards: a fresh gradient at each step, or one per epoch"
    )
    bounded: bool = setting(
        True,
        switch,
        "rest where unseen records are (of a class, twice as wrong as a guess); push half as hard as the repair",
    )
    epochs: int = setting(10, count, "passes over the retained data; bounded, up to five times as many if need be")
    lr: float = setting(5e-3, positive, "learning rate")
    batch_size: int = setting(64, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        before = state(model, problem) if self.bounded else {}
        self._trim(model, problem, log)
        self._repair(model, problem, before, log)

    def _trim(self, model: nn.Module, problem: Problem, log: Log) -> None:
        """Algorithm 1, left: score every weight on the forget data, draw the top share anew."""
        chosen = without_norms(model, select(model, self.parameters))
        sample = problem.sample(problem.forget, self.sample, "trim")
        scores = SALIENCY[self.saliency](model, problem, chosen, sample, self.batch_size)
        drawn = reinitialize(model, top_share(scores, self.trim), self.init, problem.seed)
        log({"phase": "trim", "drawn": drawn, "of": sum(p.numel() for p in chosen.values())})

    def _repair(self, model: nn.Module, problem: Problem, before: Mapping[str, float], log: Log) -> None:
        """Algorithm 1, right: descend on the retained data, guarded against the forgotten.

        Bounded, it goes on while the model is still damaged, as one is after few steps, up to five times as long.
        """
        peers = self._peers(problem)
        descent = Descent(model, problem, self, "repair", log)
        for epoch in descent.epochs(self.epochs, _LONGER * self.epochs if self.bounded else None):
            if epoch >= self.epochs and descent.begins and not damage(before, state(model, problem), strictness=2):
                break
            reference = self._reference(descent)
            for keep, drop in descent.pairs(problem.retain, problem.forget, repeat=self.guard == "step"):
                repair = descent.gradient(keep)
                if drop is not None:
                    self._guard(descent, repair, drop, reference, peers)
                descent.step(repair)

    def _guard(
        self, descent: Descent, repair: list[Tensor], drop: Batch, reference: list[Tensor], peers: Part | None
    ) -> None:
        """Turn the gradient on retained data into the guarded one, in place (equations 3 to 5)."""
        loss, forget = descent.loss_and_gradient(drop, still_statistics=True)
        if self.bounded and loss >= self._enough(descent, peers):
            return
        balance = bounded(self.balance, repair, forget) if self.bounded else self.balance
        if self.project and self.guard == "step":
            subtract_(repair, guard(repair, forget, balance), forget)
            return
        subtract_(repair, balance, forget)
        if reference:
            subtract_(repair, max(0.0, overlap(repair, reference)), reference)

    def _reference(self, descent: Descent) -> list[Tensor]:
        """The gradient that guards a whole epoch, where it is asked for, as the paper's published code does."""
        if not self.project or self.guard == "step":
            return []
        model, problem = descent.model, descent.problem
        if descent.begins:
            found = mean_gradient(model, problem, trainable(model), problem.forget, self.batch_size)
            descent.memory.update(found)
        return [descent.memory[name] for name in trainable(model)]

    def _enough(self, descent: Descent, peers: Part | None) -> Tensor | float:
        """The loss on forget data at which forgetting is enough: that on unseen records of the same classes.

        There are none for a class that is forgotten whole: there it is enough to be twice as wrong as a guess.
        """
        if peers is None:
            return _GONE * descent.problem.guess
        if descent.done % _STEPS == 0:
            batch = next(descent.problem.batches(peers, self.batch_size, "unseen", descent.done))
            descent.memory[_ENOUGH] = descent.loss(batch, still_statistics=True)
        return descent.memory[_ENOUGH]

    def _peers(self, problem: Problem) -> Part | None:
        """The unseen records of the classes that are forgotten."""
        if problem.unseen is None:
            return None
        alike = torch.isin(problem.unseen.labels, problem.forget.labels)
        return replace(problem.unseen, ids=problem.unseen.ids[alike]) if alike.any() else None
