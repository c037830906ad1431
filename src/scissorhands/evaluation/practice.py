"""Practice: the same problem with other records, and how far a model is from a retrained one, without retraining.

A search for settings looks at retained and calibration records alone. So what is reported of the forgotten records, of
the audit half and of the test data did not choose the settings.
"""

from dataclasses import replace

import torch
from torch import nn

from ..data.problem import Problem
from ..errors import DataError
from ..methods.outputs import calibration_of
from ..metrics import Outputs, auc, skill, sureness
from ..randomness import generator
from .predict import predict

_LOOKED_AT = 2048  # retained records
WORST = 1e12  # the gap of a model that diverged: more than any other


def practice(problem: Problem) -> Problem:
    """Return the problem of forgetting retained records in place of those to forget, which it leaves out.

    They are as large a share of the retained records, drawn at random; or as many classes, if classes are forgotten
    whole.
    """
    retain, forget = problem.retain, problem.forget
    gone = forget.groups[~torch.isin(forget.groups, retain.groups)].unique()
    if len(gone):
        classes = retain.groups.unique()
        if len(classes) <= len(gone):
            raise DataError(f"of {len(classes) + len(gone)} classes, too few are retained to practice on others.")
        order = torch.randperm(len(classes), generator=generator(problem.seed, "practice"))
        drawn = torch.isin(retain.groups, classes[order[: len(gone)]])
        part = replace(retain, ids=retain.ids[drawn])
    else:
        part = problem.sample(retain, len(forget) / (len(forget) + len(retain)), "practice")
    rest = replace(retain, ids=retain.ids[~torch.isin(retain.ids, part.ids)])
    if not len(rest):
        raise DataError("too few records are retained to practice on some of them.")
    unseen = calibration_of(problem)
    known = replace(unseen, ids=unseen.ids[torch.isin(unseen.groups, rest.groups)])
    return replace(problem, forget=part, retain=rest, calibration=known, warn_on_damage=False)


class GapEstimate:
    """Estimates the gap between a scrubbed model and a retrained one, in points, without a retrained one.

    Where labels are numbers to predict, it is in their unit, and accuracy is minus the mean absolute error.
    """

    def __init__(self, original: nn.Module, problem: Problem) -> None:
        """Measure the model before it is changed."""
        unseen, retain = calibration_of(problem), problem.retain
        if not len(unseen):
            raise DataError("no calibration record is of a class that is retained.")
        some = problem.sample(retain, min(1.0, _LOOKED_AT / len(retain)), "estimate")
        self._parts = {"forget": problem.forget, "retain": some, "calibration": unseen}
        self._kept = torch.isin(problem.forget.groups, retain.groups)  # records of classes that are not forgotten whole
        self._before = self._skills(self._outputs(original))

    def of(self, model: nn.Module) -> float:
        """Return the mean distance to what a retrained model shows.

        It is right about as many retained and calibration records as the original. It is right about as many forgotten
        records as about calibration records, but none of a class that it never saw. And an attack by the loss cannot
        tell forgotten records from calibration records: that counts where accuracies do, as it is no error in a unit.
        """
        said = self._outputs(model)
        if not all(bool(one.logits.isfinite().all()) for one in said.values()):
            return WORST
        now = self._skills(said)
        gaps = [abs(now[name] - self._before[name]) for name in ("retain", "calibration")]
        gaps.append(abs(now["forget"] - now["calibration"] * self._kept.double().mean().item()))
        if self._kept.any() and not said["forget"].regression:
            members, others = (sureness(said[name]) for name in ("forget", "calibration"))
            gaps.append(abs(200 * auc(members[self._kept], others) - 100))
        return sum(gaps) / len(gaps)

    def _outputs(self, model: nn.Module) -> dict[str, Outputs]:
        return {name: predict(model, part) for name, part in self._parts.items()}

    def _skills(self, said: dict[str, Outputs]) -> dict[str, float]:
        return {name: skill(one) for name, one in said.items()}
