"""Scissorhands: trim by connection sensitivity, repair by a projected gradient."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from itertools import count as count_from
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data.problem import Log, Problem, ignore
from ..data.records import Batch, Part
from ..distributed import rank_key
from ..randomness import seeded
from ..settings import (
    at_least_one,
    below_one,
    count,
    non_negative,
    one_of,
    patterns,
    positive,
    positive_share,
    setting,
    share,
    switch,
)
from .damage import damage, state
from .descent import Descent, finite
from .method import Method
from .modes import able_to_train, still_statistics, training
from .parameters import select, trainable
from .projection import bounded, guard, overlap, subtract_
from .reinit import INITS, reinitialize, without_norms
from .saliency import SALIENCY, gradients, mean_gradient, top_share

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
    where: str = setting("*", patterns, "which parameters may be trimmed")
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
        chosen = without_norms(model, select(model, self.where))
        sample = problem.sample(problem.forget, self.sample, "trim")
        scores = SALIENCY[self.saliency](model, problem, chosen, sample, self.batch_size)
        drawn = reinitialize(model, top_share(scores, self.trim), self.init, problem.seed)
        log({"phase": "trim", "drawn": drawn, "of": sum(p.numel() for p in chosen.values())})

    def _repair(self, model: nn.Module, problem: Problem, before: Mapping[str, float], log: Log) -> None:
        """Algorithm 1, right: descend on the retained data, guarded against the forgotten.

        Bounded, it goes on while the model is still damaged, as one is after few steps, up to five times as long.
        """
        parameters = trainable(model)
        settings = {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
        descent = Descent(parameters.values(), **settings, kind=problem.optimizer)
        steps = problem.steps(problem.retain, self.batch_size)
        peers = self._peers(problem)
        loop = problem.progress.loop("repair", model, descent)
        for epoch in loop.epochs(_LONGER * self.epochs if self.bounded else self.epochs):
            if epoch >= self.epochs and loop.within == 0 and not damage(before, state(model, problem), strictness=2):
                break
            if loop.within == 0:
                loop.memory |= self._reference(model, problem)
            reference = [loop.memory[name] for name in parameters if name in loop.memory]
            with training(model), seeded(problem.seed, "repair", epoch, *rank_key()):
                for keep, drop in loop.rest(self._pairs(problem, epoch)):
                    if peers and loop.done % _STEPS == 0:
                        loop.memory[_ENOUGH] = self._unseen_loss(model, problem, peers, loop.done)
                    with able_to_train(model, keep):
                        loss = problem.loss(model, keep)
                    gradient = gradients(loss, parameters)
                    if drop is not None:
                        known, forget = self._forget_gradient(model, problem, drop)
                        enough = self.bounded and known >= (loop.memory[_ENOUGH] if peers else _GONE * problem.guess)
                        if not enough:
                            self._guard(gradient, forget, reference)
                    descent.step(gradient)
                    event = {"phase": "repair", "epoch": epoch, "step": loop.done + 1}
                    event["steps"] = steps * max(self.epochs, epoch + 1)
                    log(event | {"loss": finite(loss)})

    def _peers(self, problem: Problem) -> Part | None:
        """The unseen records of the classes that are forgotten: their loss is where forgetting is enough.

        There are none for a class that is forgotten whole: there it is enough to be twice as wrong as a guess.
        """
        if not self.bounded or problem.unseen is None:
            return None
        alike = torch.isin(problem.unseen.labels, problem.forget.labels)
        return replace(problem.unseen, ids=problem.unseen.ids[alike]) if alike.any() else None

    def _unseen_loss(self, model: nn.Module, problem: Problem, peers: Part, step: int) -> Tensor:
        """The loss on a batch of unseen records, measured as that on forget data is."""
        batch = next(problem.batches(peers, self.batch_size, "unseen", step))
        with torch.no_grad(), able_to_train(model, batch), still_statistics(model):
            return problem.loss(model, batch).detach()

    def _pairs(self, problem: Problem, epoch: int) -> Iterator[tuple[Batch, Batch | None]]:
        """One pass over the retained data, each batch with one to forget.

        Guarded by the step, the forget data starts anew when it ends (Algorithm 1). Guarded by the epoch, the rest of
        the pass is plain fine-tuning (the paper's published code).
        """
        passes = count_from() if self.guard == "step" else range(1)
        drops = chain.from_iterable(
            problem.batches(problem.forget, self.batch_size, "forget", epoch, again) for again in passes
        )
        for keep in problem.batches(problem.retain, self.batch_size, "retain", epoch):
            yield keep, next(drops, None)

    def _forget_gradient(self, model: nn.Module, problem: Problem, drop: Batch) -> tuple[Tensor, list[Tensor]]:
        """The loss on forget data and its gradient, which leave no trace in running statistics."""
        with able_to_train(model, drop), still_statistics(model):
            loss = problem.loss(model, drop)
            return loss.detach(), gradients(loss, trainable(model))

    def _reference(self, model: nn.Module, problem: Problem) -> dict[str, Tensor]:
        """The gradient that guards a whole epoch, where it is asked for."""
        if not self.project or self.guard == "step":
            return {}
        return mean_gradient(model, problem, trainable(model), problem.forget, self.batch_size)

    def _guard(self, gradient: list[Tensor], forget: list[Tensor], reference: list[Tensor]) -> None:
        """Turns the gradient on retained data into the guarded one, in place (equations 3 to 5)."""
        balance = bounded(self.balance, gradient, forget) if self.bounded else self.balance
        if self.project and not reference:
            subtract_(gradient, guard(gradient, forget, balance), forget)
            return
        subtract_(gradient, balance, forget)
        if reference:
            subtract_(gradient, max(0.0, overlap(gradient, reference)), reference)
