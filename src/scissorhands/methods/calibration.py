"""Calibration: forgotten records should be known as well as unseen ones, no better and no worse.

How well a record is known is its margin: the log-odds of its label or, where numbers are predicted, minus the absolute
error, which keeps its sign. A retrained model treats forgotten records as it treats unseen ones, so the margins of the
former are moved onto the distribution of those of the latter, from either side. No retrained model is needed for that.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..data.labels import Relabeled
from ..data.problem import Loss, Problem, predicted
from ..data.records import Part
from ..distributed import Batch
from ..errors import SettingError
from ..randomness import generator
from .descent import Descent
from .modes import evaluating
from .outputs import calibration_of, logits, logits_of

_RARELY = 20  # steps between two measurements of the targets, at least;
_AT_MOST = 64  # records are measured per step
_PAIRS = 200  # pairs of samples that show how far unseen records are from each other
_LEVEL = 0.1  # of the test: so often it tells two samples of unseen records apart
_COOLING = 0.4  # of the epochs, in which the learning rate falls to zero
_TARGETS, _SINCE = "targets", "cooling since"  # where the memory of a loop keeps them, and the epoch


class Targets:
    """The margin that each forgotten record should have: that of an unseen record of its class with the same rank.

    A class that is forgotten whole has no unseen records. A retrained model takes its records for that class as little
    as any others. So their target is the median margin that the original model gave unseen records for that class, or
    their own margin where it is lower.
    """

    def __init__(self, original: nn.Module, problem: Problem) -> None:
        """Measure the model before it is changed."""
        if not (problem.classifies or problem.regression):
            raise SettingError("reading='calibrated' is for classifiers and regression: choose 'bounded' or 'paper'.")
        self.labels, self.unseen = problem.forget.labels, calibration_of(problem)
        self.forget = _numbered(problem.forget)
        self._seed, self._part = problem.seed, problem.forget
        said = logits_of(original, self.unseen)
        self._unit = _unit(said, self.unseen.labels, problem.variance) if problem.regression else 1.0
        self._kept = torch.isin(problem.forget.groups, problem.retain.groups)  # of classes that are not forgotten whole
        self._median = torch.zeros(len(self._kept)) if problem.regression else _median_margins(said)[self.labels]
        self._stand_ins = stand_ins(problem)[self._kept]
        self._every = max(_RARELY, (len(self._part) + len(self.unseen)) // _AT_MOST)

    def measure(self, model: nn.Module) -> tuple[Tensor, Tensor]:
        """Return the margins of the forgotten records, and their targets."""
        found = self._margins(logits_of(model, self._part), self.labels)
        unseen = self._margins(logits_of(model, self.unseen), self.unseen.labels)
        targets = self._median.minimum(found)
        targets[self._kept] = same_rank(found[self._kept], unseen[self._stand_ins])
        return found, targets

    def loss(self, descent: Descent, batch: Batch) -> Loss:
        """Return the forget loss of a batch: minus the distance of its margins from their targets, smooth L1.

        How far they are is measured in evaluation mode, as the model will be used: batch normalization makes margins in
        training mode differ. The gradient is that of the margins in training mode, as for the retained data.
        """
        if descent.global_step % self._every == 0:
            descent.memory[_TARGETS] = self.measure(descent.model)[1]
        targets = descent.memory[_TARGETS].cpu()[batch.labels]
        with torch.no_grad(), evaluating(descent.model):
            found = self._margins(logits(descent.model, batch), self.labels[batch.labels])
        slope = (found - targets.to(found)).clamp(-1, 1)

        def loss(model: nn.Module, batch: Batch) -> Tensor:
            return -(slope * self._margins(logits(model, batch), self.labels[batch.labels])).mean()

        return loss

    def _margins(self, scores: Tensor, labels: Tensor) -> Tensor:
        if not labels.is_floating_point():
            return margins(scores, labels)
        return -(predicted(scores) - labels.to(scores)).abs() / self._unit

    def are_met(self, model: nn.Module) -> bool:
        """Return whether a test cannot tell forgotten records from unseen ones.

        Of a class that is forgotten whole, half of the records should be as low as their target.
        """
        found, targets = self.measure(model)
        high = (found > targets)[~self._kept].double()
        return not told_apart(found[self._kept], targets[self._kept], self._seed) and not high.mean() > 0.5


class Cooldown:
    """The end of a repair: the learning rate stays until the targets are met, then falls evenly to zero.

    That takes two fifths of the epochs. If the targets are not met before, the last ones are left for it.
    """

    def __init__(self, descent: Descent, epochs: int, steps_per_epoch: int) -> None:
        self._descent, self._epochs, self._steps = descent, epochs, steps_per_epoch
        self._cooling = round(_COOLING * epochs)

    def is_over(self, are_met: Callable[[nn.Module], bool]) -> bool:
        """Return whether the rate has fallen to zero. At the start of an epoch, let it begin to fall if it is time."""
        descent, since = self._descent, self._descent.memory.get(_SINCE)
        if since is not None:
            return descent.epoch >= int(since) + self._cooling
        if descent.at_epoch_start and (
            descent.epoch >= self._epochs - self._cooling or (descent.epoch and are_met(descent.model))
        ):
            descent.memory[_SINCE] = torch.tensor(descent.epoch)
        return False

    @property
    def share_left(self) -> float:
        """Return the share of the learning rate that is left in this step."""
        since = self._descent.memory.get(_SINCE)
        if since is None:
            return 1.0
        done = self._descent.epoch - int(since) + self._descent.step_in_epoch / self._steps
        return 1 - done / self._cooling


def margins(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the log-odds of each record's label: how far its logit is above all others together.

    >>> margins(torch.tensor([[0.0, 0.0], [2.0, 1.0]]), torch.tensor([0, 1]))
    tensor([ 0., -1.])
    """
    own = labels.to(scores.device)[:, None]
    return scores.gather(1, own).squeeze(1) - scores.scatter(1, own, -torch.inf).logsumexp(1)


def _unit(scores: Tensor, labels: Tensor, variance: float) -> float:
    """Return half the mean absolute error on unseen records, in which errors are counted; of an exact model, not 0."""
    return float(max((predicted(scores) - labels).abs().mean().item() / 2, 1e-3 * variance**0.5))


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


def told_apart(found: Tensor, wanted: Tensor, seed: int, level: float = _LEVEL) -> bool:
    """Tell whether values are further from as many wanted ones than samples of these are from each other.

    The distance is Wasserstein's, the mean difference of equal ranks. At a level of 0.1, one sample in ten is further.

    >>> told_apart(torch.arange(50.0), torch.arange(50.0), seed=0)
    False
    >>> told_apart(torch.arange(50.0) + 20, torch.arange(50.0), seed=0)
    True
    """
    if not len(found):
        return False
    distance = (found.sort().values - wanted.sort().values).abs().mean()
    draw = torch.randint(len(wanted), (_PAIRS, 2, len(wanted)), generator=generator(seed, "level"))
    samples = wanted[draw].sort(-1).values
    return bool(distance > (samples[:, 0] - samples[:, 1]).abs().mean(-1).quantile(1 - level))


def stand_ins(problem: Problem) -> Tensor:
    """Choose a calibration record to stand for each forgotten one, by its place among them.

    It is of the same class, where there is one, and of any class otherwise.
    """
    forgotten, unseen = problem.forget.groups, calibration_of(problem).groups
    rows = torch.empty_like(forgotten)
    for label in forgotten.unique().tolist():
        places, pool = (forgotten == label).nonzero().flatten(), (unseen == label).nonzero().flatten()
        pool = pool if len(pool) else torch.arange(len(unseen))
        order = torch.randperm(len(pool), generator=generator(problem.seed, "stand-ins", label))
        rows[places] = pool[order].repeat(-(-len(places) // len(pool)))[: len(places)]
    return rows


def _numbered(part: Part) -> Part:
    """Label the records of a part by their places in it."""
    places = torch.zeros(len(part.records), dtype=torch.int64)
    places[part.ids] = torch.arange(len(part))
    return Part(Relabeled(part.records, places), part.ids)
