"""Judge a model without a retrained one, from records that no model saw and from reference models.

A model that has forgotten treats forgotten records as it treats records that it never saw. Where both were drawn from
one population that can be tested whatever the model is. A reference model says how hard each record is, how much of the
rest should have been kept, and what a model knows of a class that it was never shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .outputs import Observations, Outputs
from .perrecord import scaled_logit
from .separation import auc

UNDER, OVER, DAMAGED = "under-forgotten", "over-forgotten", "damaged"
SAME, UNKNOWN = "indistinguishable within noise", "cannot tell"
CALLS = (UNDER, OVER, DAMAGED, SAME, UNKNOWN)

# Each test errs on 1 in 800 models that have forgotten. There are at most seven, so all together err on fewer than 1 in
# 100: the AUC on either side, answers about a class, a probe, and accuracy on retained, unseen and test records.
_DEVIATIONS = 3.02
_SEED = 0.02  # the share of records by which two trainings of different seeds may differ
_SEEDS = 400  # and besides, a seed changes an accuracy as much as another draw of this many records would
_FEATURES = 0.10  # the share by which a probe of the features of two such models may differ
_BLUNT = 0.15  # an AUC that is known no better than this tells nothing
_VAGUE = 0.25  # and so does a loss of accuracy
_UNLIKE = 0.10  # where forgotten and other records differ in kind, an AUC may deviate by this much because of it
_STRATUM = 20  # forgotten records, or others, in a stratum of records that are equally hard
_NAMES = {"retain": "retained", "audit": "unseen", "test": "test"}  # of the records that should have been kept

# Why an AUC may deviate though nothing is remembered or avoided, by kind.
_DOUBTS = {
    "chosen": "the forgotten records were chosen, and may differ in kind from the unseen ones",
    "test": "the unseen records come from the test data, which may differ from the training data",
}


@dataclass(frozen=True)
class Verdict:
    """One of five calls, the reason in a sentence, and the AUC behind it with an interval, where there is one."""

    call: str
    reason: str
    auc: float | None = None
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return {name: value for name, value in vars(self).items() if value is not None}


def verdict(model: Observations, references: Sequence[Observations], kind: str) -> Verdict:
    """Judge a model from its outputs on `forget`, on `others` (never seen, same labels) and on the rest.

    `references` are the same of models that saw none of these. The rest is `retain`, `audit` and `test`; it is
    compared where all references have it, so those that saw only some of the retained records leave `retain` out.
    `kind` says how alike the forgotten and the other records are, see Split. `probe` and `probe_others`, where they are
    given, are how often a linear classifier on the features is right about a record.
    """
    if not all(_finite(one) for one in (model, *references)):
        return Verdict(UNKNOWN, "some outputs are NaN.")
    found = _forgetting(model, references, kind)
    damage = _damage(model, references)
    if not damage:
        return found
    # A damaged model is of no use, whatever it remembers; that it remembers is told as well.
    also = f" Besides, it is {found.call}: {found.reason}" if found.call in (UNDER, OVER) else ""
    return replace(found, call=DAMAGED, reason=f"it lost what it should have kept. {damage}{also}")


def _forgetting(model: Observations, references: Sequence[Observations], kind: str) -> Verdict:
    """Judge what a model remembers, whether it is damaged or not."""
    if not len(model.get("others", ())):
        return Verdict(UNKNOWN, "there are no unseen records to compare the forgotten ones with.")
    if kind != "drawn" and not references:
        return Verdict(
            UNKNOWN, "without a reference model it cannot be said what these records would look like unseen."
        )
    found = _separation(model, references)
    if found is None:
        return Verdict(UNKNOWN, "hardly any unseen record is as hard for the reference as the forgotten ones are.")
    area, error = found
    width = _DEVIATIONS * error
    interval = (area, max(area - width, 0.0), min(area + width, 1.0))
    known = "forgotten against unseen records: AUC {:.2f} ({:.2f} to {:.2f})".format(*interval)
    allowed = _UNLIKE if kind in _DOUBTS else 0.0
    if kept := _knowledge(model, references, kind):
        return Verdict(UNDER, f"it still knows what it should not. {kept}", *interval)
    if area - width - allowed > 0.5:
        return Verdict(UNDER, f"forgotten records stand out as known; {known}.", *interval)
    if area + width + allowed < 0.5:
        return Verdict(OVER, f"forgotten records stand out as avoided; {known}.", *interval)
    if abs(area - 0.5) > width:
        return Verdict(UNKNOWN, f"{_DOUBTS[kind]}; {known}.", *interval)
    if width > _BLUNT:
        few = f"{len(model['forget'])} forgotten and {len(model['others'])} unseen records are too few"
        return Verdict(UNKNOWN, f"{few}; {known}.", *interval)
    if not references:
        return Verdict(UNKNOWN, f"only a reference model could tell whether it is damaged; {known}.", *interval)
    new = [part for part in _comparable(model, references) if part != "retain"]
    if all(_DEVIATIONS * _uncertainty(model, references, part) > _VAGUE for part in new):
        few = "too few unseen records, or too different references, to tell whether it is damaged"
        return Verdict(UNKNOWN, f"{few}; {known}.", *interval)
    if "retain" in model and _guesses(model):
        return Verdict(UNKNOWN, f"it hardly knows more than a guess, and so do the references; {known}.", *interval)
    return Verdict(SAME, f"{known}.", *interval)


def _finite(one: Observations) -> bool:
    return all(bool(said.logits.isfinite().all()) for said in one.values() if isinstance(said, Outputs))


def _separation(model: Observations, references: Sequence[Observations]) -> tuple[float, float] | None:
    """Return the AUC of forgotten against other records by their scaled logits, and its standard error by chance.

    With references: by how much surer it is than they are, among records that they find equally hard (van Elteren).
    None where fewer than half of the forgotten records have their equals among the others.
    """
    forget, others = (scaled_logit(model[part].logits, model[part].labels) for part in ("forget", "others"))
    if not references:
        return auc(forget, others), ((len(forget) + len(others) + 1) / (12 * len(forget) * len(others))) ** 0.5
    easy, easy_others = (
        torch.stack([scaled_logit(one[part].logits, one[part].labels) for one in references]).mean(0)
        for part in ("forget", "others")
    )
    strata = max(1, min(10, min(len(forget), len(others)) // _STRATUM))
    cuts = torch.quantile(torch.cat([easy, easy_others]), torch.linspace(0, 1, strata + 1, dtype=easy.dtype)[1:-1])
    inside, inside_others = torch.bucketize(easy, cuts), torch.bucketize(easy_others, cuts)
    forget, others = forget - easy, others - easy_others
    total = weights = squares = 0.0
    matched = 0
    for stratum in range(strata):
        some, rest = forget[inside == stratum], others[inside_others == stratum]
        if len(some) and len(rest):
            matched += len(some)
            weight = len(some) * len(rest) / (len(some) + len(rest) + 1)
            total += weight * auc(some, rest)
            weights += weight
            squares += weight / 12  # the weight's square times the variance of the stratum's AUC
    return (total / weights, squares**0.5 / weights) if 2 * matched >= len(forget) else None


def _comparable(model: Observations, references: Sequence[Observations]) -> list[str]:
    """List the parts of the rest on which the model can be compared with the references."""
    known = [part for part in _NAMES if len(model.get(part, ()))]
    return [part for part in known if references and all(part in one for one in references)]


def _damage(model: Observations, references: Sequence[Observations]) -> str:
    """Say on which parts the model is right about fewer records than the references are; empty if on none."""
    found = []
    for part in _comparable(model, references):
        if _loss(model, references, part).mean() - _SEED > _DEVIATIONS * _uncertainty(model, references, part):
            ours, theirs = _right(model, part), _mean([_right(one, part) for one in references])
            found.append(f"{_percent(ours)} of {_NAMES[part]} records, the reference in {_percent(theirs)}")
    return f"It is right in {'; in '.join(found)}." if found else ""


def _uncertainty(model: Observations, references: Sequence[Observations], part: str) -> float:
    """Return the standard error of the loss: by the records, and by how far accuracies differ between seeds."""
    accuracies = torch.stack([_right(one, part).mean() for one in references])
    usual = (accuracies.mean() * (1 - accuracies.mean()) / _SEEDS).item() ** 0.5
    seed = max(usual, accuracies.std().item()) if len(accuracies) > 1 else usual
    return float((_deviation(_loss(model, references, part)) ** 2 + seed**2 * (1 + 1 / len(accuracies))) ** 0.5)


def _guesses(model: Observations) -> bool:
    """Return whether the model is hardly better, even on retained records, than the commonest label would be."""
    labels: Tensor = model["retain"].labels
    commonest = labels.bincount().max().item() / len(labels)
    return bool(_right(model, "retain").mean() < commonest + 0.1 * (1 - commonest))


def _loss(model: Observations, references: Sequence[Observations], part: str) -> Tensor:
    """Return for each record of the part how much more often the references are right about it."""
    return _mean([_right(one, part) for one in references]) - _right(model, part)


def _knowledge(model: Observations, references: Sequence[Observations], kind: str) -> str:
    """Say whether the model knows a class that it should not, or its features still hold what was forgotten."""
    if kind == "classes":
        ours, theirs = _right(model, "forget"), _mean([_right(one, "forget") for one in references])
        # A model that gives the class's label to everything does not know the class.
        if found := _compared(ours, theirs, "of forgotten records", _exceeds(ours - theirs, _SEED + _blurted(model))):
            return found
        if "probe" in model:
            inside: Tensor = model["probe"]
            # A probe that was shown another number of records knows more or less, and cannot be compared.
            probes = [one["probe"] for one in references if "probe" in one and _shown(one) == _shown(model)]
            if probes:
                found = "of forgotten records by a linear probe of its features"
                return _compared(inside, _mean(probes), found, _exceeds(inside - _mean(probes), _FEATURES))
    if kind == "drawn" and "probe" in model:
        inside, outside = model["probe"], model["probe_others"]
        everyone = torch.cat([inside, outside])
        error = everyone.std().item() * (1 / len(inside) + 1 / len(outside)) ** 0.5
        if inside.mean() - outside.mean() > _DEVIATIONS * error:
            found = f"{_percent(inside)} of forgotten records and in {_percent(outside)} of unseen ones"
            return f"A linear probe of its features is right in {found}."
    return ""


def _shown(one: Observations) -> tuple[Any, int]:
    """Return how many records a probe was shown, and how many it scored."""
    return one.get("probe_shots"), len(one["probe"])


def _blurted(model: Observations) -> float:
    """Return the share of unseen records to which the model gives the label of a forgotten class, and is wrong."""
    if "audit" not in model:
        return 0.0
    said = model["audit"].logits.argmax(1)
    wrong: Tensor = torch.isin(said, model["forget"].labels) & (said != model["audit"].labels)
    return wrong.double().mean().item()


def _right(one: Observations, part: str) -> Tensor:
    outputs: Outputs = one[part]
    return (outputs.logits.argmax(1) == outputs.labels).double()


def _mean(several: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(several)).mean(0)


def _deviation(values: Tensor) -> float:
    """Return the standard error of the mean, at least that of one record that falls out."""
    spread = values.std().item() / len(values) ** 0.5 if len(values) > 1 else 0.5
    return max(spread, 1 / len(values))


def _exceeds(differences: Tensor, margin: float) -> bool:
    """Return whether the mean is above the margin by more than chance."""
    return bool(differences.mean() - margin > _DEVIATIONS * _deviation(differences))


def _compared(ours: Tensor, theirs: Tensor, what: str, differs: bool) -> str:
    return f"It is right in {_percent(ours)} {what}, the reference in {_percent(theirs)}." if differs else ""


def _percent(right: Tensor) -> str:
    return f"{100 * right.mean():.1f} %"
