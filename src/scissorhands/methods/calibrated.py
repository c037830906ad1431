"""Calibrated repair: forgotten records end up as well known as unseen ones, no better and no worse."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import (
    Batch,
    Descent,
    Log,
    Loss,
    Method,
    Part,
    Problem,
    Relabeled,
    at_least_one,
    below_one,
    calibration_of,
    count,
    evaluating,
    generator,
    ignore,
    logits,
    logits_of,
    non_negative,
    one_of,
    positive,
    setting,
    subtract_,
)

_MEASURE_EVERY = 20  # steps between two measurements of the targets
_TARGETS, _ORIGINAL = "targets", "outputs of the original model"  # where the memory of a loop keeps them


@dataclass(frozen=True, kw_only=True)
class CalibratedRepair(Method):
    """Trains on the retained data, and moves the forgotten records' margins onto those of unseen records.

    A retrained model treats forgotten records as it treats unseen ones. So each forgotten record gets a target: the
    margin of an unseen record of its class that has the same rank. Records that are still too well known are pushed
    down, those that went too far are pulled back up.
    """

    paper: ClassVar[str] = "ours"
    needs: ClassVar[str] = "a classifier, and unseen records"
    copies: ClassVar[int] = 4

    forget_weight: float = setting(0.1, positive, "weight of a forgotten record that is far from its target")
    epochs: int = setting(5, count, "passes over the retained data")
    min_steps: int = setting(500, count, "steps to take at least, in more epochs if need be")
    lr: float = setting(0.05, positive, "learning rate at the start")
    schedule: str = setting("cosine", one_of("cosine", "constant", "multistep"), "how the learning rate falls")
    batch_size: int = setting(64, at_least_one, "records of each kind in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        labels, numbered = problem.forget.labels, _numbered(problem.forget)
        descent = Descent(model, problem, self, "repair", log)
        for _ in descent.epochs(self._epochs(problem)):
            for keep, drop in descent.pairs(problem.retain, numbered):
                if descent.global_step % _MEASURE_EVERY == 0:
                    self._measure(descent)
                gradient = descent.gradient(keep)
                push = self._push(model, drop, labels, descent.memory[_TARGETS])
                subtract_(gradient, -self.forget_weight, descent.gradient(drop, push, frozen_norm_statistics=True))
                descent.step(gradient)

    def _push(self, model: nn.Module, drop: Batch, labels: Tensor, targets: Tensor) -> Loss:
        """Return a loss whose gradient moves the margins of a batch towards their targets.

        How far they are is measured in evaluation mode, as the model will be used: batch normalization makes margins in
        training mode differ. The gradient is that of the margins in training mode, as for the retained data.
        """
        with torch.no_grad(), evaluating(model):
            found = margins(logits(model, drop), labels[drop.labels])
        excess = (found - targets.cpu()[drop.labels].to(found)).clamp(-1, 1)  # the slope of a smooth L1 distance

        def push(model: nn.Module, batch: Batch) -> Tensor:
            return (excess * margins(logits(model, batch), labels[batch.labels])).mean()

        return push

    def _epochs(self, problem: Problem) -> int:
        return max(self.epochs, -(-self.min_steps // problem.steps(problem.retain, self.batch_size)))

    def _measure(self, descent: Descent) -> None:
        """Give each forgotten record its target, from what the model says now.

        The margins of unseen records fall with those that are pushed down. So that they do not chase each other, no
        target is below what the original model said of unseen records.

        A class that is forgotten whole has no unseen records. A retrained model takes its records for that class as
        little as any others. So their target is the median margin that the original model gave unseen records for that
        class, or lower where they are lower.
        """
        problem, memory = descent.problem, descent.memory
        forget, unseen = problem.forget, calibration_of(problem)
        found, said = margins(logits_of(descent.model, forget), forget.labels), logits_of(descent.model, unseen)
        original = memory.setdefault(_ORIGINAL, said).cpu()
        kept = torch.isin(forget.labels, problem.retain.labels)
        rows = stand_ins(problem)[kept]
        wanted = [margins(scores, unseen.labels)[rows].sort().values for scores in (said, original)]
        targets = _median_margins(original)[forget.labels].minimum(found)
        targets[kept] = same_rank(found[kept], wanted[0].maximum(wanted[1]))
        memory[_TARGETS] = targets


def margins(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the log-odds of each record's label: how far its logit is above all others together.

    >>> margins(torch.tensor([[0.0, 0.0], [2.0, 1.0]]), torch.tensor([0, 1]))
    tensor([ 0., -1.])
    """
    own = labels.to(scores.device)[:, None]
    return scores.gather(1, own).squeeze(1) - scores.scatter(1, own, -torch.inf).logsumexp(1)


def _median_margins(scores: Tensor) -> Tensor:
    """Return for each class the median over all records of their margins for it."""
    classes = torch.arange(scores.shape[1])
    return torch.stack([margins(scores, label.expand(len(scores))).median() for label in classes])


def same_rank(values: Tensor, wanted: Tensor) -> Tensor:
    """Return for each value the one of as many wanted values that has the same rank.

    >>> same_rank(torch.tensor([5.0, 1.0, 3.0]), torch.tensor([10.0, 30.0, 20.0]))
    tensor([30., 10., 20.])
    """
    found = torch.empty_like(wanted)
    found[values.argsort()] = wanted.sort().values
    return found


def stand_ins(problem: Problem) -> Tensor:
    """Choose a calibration record to stand for each forgotten one, by its place among them.

    It is of the same class, where there is one, and of any class otherwise.
    """
    forgotten, unseen = problem.forget.labels, calibration_of(problem).labels
    rows = torch.empty_like(forgotten)
    for label in forgotten.unique().tolist():
        places, pool = (forgotten == label).nonzero().flatten(), (unseen == label).nonzero().flatten()
        pool = pool if len(pool) else torch.arange(len(unseen))
        order = torch.randperm(len(pool), generator=generator(problem.seed, "stand-ins", label))
        rows[places] = pool[order].repeat(-(-len(places) // len(pool)))[: len(places)]
    return rows


def _numbered(part: Part) -> Part:
    """Label the records of a part by their places in it."""
    places = torch.zeros_like(part.records.labels)
    places[part.ids] = torch.arange(len(part))
    return Part(Relabeled(part.records, places), part.ids)
