"""A verdict that needs no retrained model: records that no model saw, and one or more models that never saw the others.

A model that has forgotten treats forgotten records as it treats records that it never saw. Where both were drawn from
one population that can be tested whatever the model is. A reference model says how hard each record is, how much of the
rest should have been kept, and what a model knows of a class that it was never shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .outputs import Evidence, Outputs
from .perrecord import sureness
from .separation import auc

UNDER, OVER, SAME, UNKNOWN = "under-forgotten", "over-forgotten", "indistinguishable within noise", "cannot tell"
CALLS = (UNDER, OVER, SAME, UNKNOWN)

# All tests together err on 1 in 100 models that have forgotten: each of at most four on 1 in 400, both sides counted.
_DEVIATIONS = 3.02
_SEED = 0.02  # the share of records by which two trainings of different seeds may differ
_FEATURES = 0.10  # the share by which a probe of the features of two such models may differ
_BLUNT = 0.15  # an AUC that is known no better than this tells nothing
_VAGUE = 0.25  # and so does a loss of accuracy
_UNLIKE = 0.10  # where forgotten and other records differ in kind, an AUC may deviate by this much because of it
_STRATUM = 20  # forgotten records, or others, in a stratum of records that are equally hard


@dataclass(frozen=True)
class Verdict:
    """One of four calls, the reason in a sentence, and the AUC behind it with an interval, where there is one."""

    call: str
    reason: str
    auc: float | None = None
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return {name: value for name, value in vars(self).items() if value is not None}


def verdict(model: Evidence, references: Sequence[Evidence], kind: str) -> Verdict:
    """What can be said about a model from its outputs on `forget`, on `others` (never seen, same labels) and `unseen`.

    `references` are the same of models that saw none of these. `kind` says how the forgotten records were found:
    `drawn` at random, all there is of some `classes`, or `chosen` by something else. `probe` and `probe_others`, where
    they are given, are how often a linear classifier on the features is right about a record.
    """
    if not len(model.get("others", ())):
        return Verdict(UNKNOWN, "there are no unseen records to compare the forgotten ones with.")
    if kind != "drawn" and not references:
        return Verdict(
            UNKNOWN, "without a reference model it cannot be said what these records would look like unseen."
        )
    if not all(_finite(one) for one in (model, *references)):
        return Verdict(UNKNOWN, "some outputs are not numbers.")
    found = _separation(model, references)
    if found is None:
        return Verdict(UNKNOWN, "hardly any unseen record is as hard for the reference as the forgotten ones are.")
    area, error = found
    width = _DEVIATIONS * error
    interval = (area, max(area - width, 0.0), min(area + width, 1.0))
    known = "forgotten against unseen records: AUC {:.2f} ({:.2f} to {:.2f})".format(*interval)
    allowed = _UNLIKE if kind == "chosen" else 0.0
    damage = _damage(model, references)
    also = f" {damage}" if damage else ""
    if kept := _knowledge(model, references, kind):
        return Verdict(UNDER, f"it still knows what it should not. {kept}{also}", *interval)
    if area - width - allowed > 0.5:
        return Verdict(UNDER, f"forgotten records stand out as known; {known}.{also}", *interval)
    if damage:
        return Verdict(OVER, f"it lost what it should have kept. {damage}", *interval)
    if area + width + allowed < 0.5:
        return Verdict(OVER, f"forgotten records stand out as avoided; {known}.", *interval)
    if abs(area - 0.5) > width:
        return Verdict(UNKNOWN, f"the forgotten records may differ in kind from the unseen ones; {known}.", *interval)
    if width > _BLUNT:
        few = f"{len(model['forget'])} forgotten and {len(model['others'])} unseen records are too few"
        return Verdict(UNKNOWN, f"{few}; {known}.", *interval)
    if not references:
        return Verdict(UNKNOWN, f"only a reference model could tell whether it is damaged; {known}.", *interval)
    if "unseen" not in model or _DEVIATIONS * _uncertainty(model, references) > _VAGUE:
        few = "too few unseen records, or too different references, to tell whether it is damaged"
        return Verdict(UNKNOWN, f"{few}; {known}.", *interval)
    if "retain" in model and _guesses(model):
        return Verdict(UNKNOWN, f"it hardly knows more than a guess, and so do the references; {known}.", *interval)
    return Verdict(SAME, f"{known}.", *interval)


def _finite(one: Evidence) -> bool:
    return all(bool(one[part].logits.isfinite().all()) for part in ("forget", "others", "unseen") if part in one)


def _separation(model: Evidence, references: Sequence[Evidence]) -> tuple[float, float] | None:
    """The AUC of forgotten against other records by how sure the model is of them, and its standard error by chance.

    With references: by how much surer it is than they are, among records that they find equally hard (van Elteren).
    None where fewer than half of the forgotten records have their equals among the others.
    """
    forget, others = (sureness(model[part].logits, model[part].labels) for part in ("forget", "others"))
    if not references:
        return auc(forget, others), ((len(forget) + len(others) + 1) / (12 * len(forget) * len(others))) ** 0.5
    easy, easy_others = (
        torch.stack([sureness(one[part].logits, one[part].labels) for one in references]).mean(0)
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


def _damage(model: Evidence, references: Sequence[Evidence]) -> str:
    """Whether the model is right about fewer unseen records than the references are, in words; empty if not."""
    if not references or "unseen" not in model:
        return ""
    lost = _loss(model, references)
    if lost.mean() - _SEED <= _DEVIATIONS * _uncertainty(model, references):
        return ""
    ours, theirs = _percent(_right(model, "unseen")), _percent(_mean([_right(one, "unseen") for one in references]))
    return f"It is right in {ours} of unseen records, the reference in {theirs}."


def _uncertainty(model: Evidence, references: Sequence[Evidence]) -> float:
    """How well the loss is known: by the records and, where there are several references, by how far seeds differ."""
    seeds = torch.stack([_right(one, "unseen").mean() for one in references])
    spread = seeds.std().item() * (1 + 1 / len(seeds)) ** 0.5 if len(seeds) > 1 else 0.0
    return float((_deviation(_loss(model, references)) ** 2 + spread**2) ** 0.5)


def _guesses(model: Evidence) -> bool:
    """Whether the model is hardly better, even on retained records, than the commonest label would be."""
    labels: Tensor = model["retain"].labels
    commonest = labels.bincount().max().item() / len(labels)
    return bool(_right(model, "retain").mean() < commonest + 0.1 * (1 - commonest))


def _loss(model: Evidence, references: Sequence[Evidence]) -> Tensor:
    """For each unseen record, how much more often the references are right about it."""
    return _mean([_right(one, "unseen") for one in references]) - _right(model, "unseen")


def _knowledge(model: Evidence, references: Sequence[Evidence], kind: str) -> str:
    """Whether the model knows a class that it should not, or its features still hold what was forgotten."""
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


def _shown(one: Evidence) -> tuple[Any, int]:
    """How many records a probe was shown, and how many it scored."""
    return one.get("probe_shots"), len(one["probe"])


def _blurted(model: Evidence) -> float:
    """The share of unseen records to which the model gives the label of a forgotten class, and is wrong."""
    if "unseen" not in model:
        return 0.0
    said = model["unseen"].logits.argmax(1)
    wrong: Tensor = torch.isin(said, model["forget"].labels) & (said != model["unseen"].labels)
    return wrong.double().mean().item()


def _right(one: Evidence, part: str) -> Tensor:
    outputs: Outputs = one[part]
    return (outputs.logits.argmax(1) == outputs.labels).double()


def _mean(several: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(several)).mean(0)


def _deviation(values: Tensor) -> float:
    """The standard error of the mean, at least that of one record that falls out."""
    spread = values.std().item() / len(values) ** 0.5 if len(values) > 1 else 0.5
    return max(spread, 1 / len(values))


def _exceeds(differences: Tensor, margin: float) -> bool:
    """Whether the mean is above the margin by more than chance."""
    return bool(differences.mean() - margin > _DEVIATIONS * _deviation(differences))


def _compared(ours: Tensor, theirs: Tensor, what: str, differs: bool) -> str:
    return f"It is right in {_percent(ours)} {what}, the reference in {_percent(theirs)}." if differs else ""


def _percent(right: Tensor) -> str:
    return f"{100 * right.mean():.1f} %"
