"""Judge a model without a retrained one, from records that no model saw and from reference models.

A model that has forgotten treats forgotten records as it treats records that it never saw. Where both were drawn from
one population that can be tested whatever the model is. A reference model says how hard each record is, how much of the
rest should have been kept, and what a model knows of a class that it was never shown. The original says what there was
to be forgotten, and what to keep.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .kept import SEED, Loss, deviation, guesses, losses, percent, right
from .outputs import Observations, Outputs
from .perrecord import sureness
from .power import DEVIATIONS, UNLIKE, power
from .rank_tests import Strata, holm, rank_sum, stratified, tail, upper

UNDER, OVER, DAMAGED = "under-forgotten", "over-forgotten", "damaged"
SAME, UNKNOWN = "indistinguishable within noise", "cannot tell"
CALLS = (UNDER, OVER, DAMAGED, SAME, UNKNOWN)

LEVEL = 0.01  # all tests, ten at most, together err on 1 in 100 models that have forgotten
_FEATURES = 0.10  # the share by which a probe of the features of two such models may differ
_VAGUE = 0.25  # a loss of accuracy that is known no better than this tells nothing
_TRAIN = " Level standard trains some."
_MORE = " More reference models tell more (such as references=8), or a retrained one (--against)."
_UNSEEN = " More unseen records would help: hold more out of training."
_KNOWING = " Only a model that knows more than a guess can be judged: train it longer."
_TAIL = 0.05  # the share of records that stand out most

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


@dataclass(frozen=True)
class _Test:
    """What a test would call a model, how often chance alone would make it, and what it found, in words."""

    call: str
    p: float
    found: str


def verdict(model: Observations, references: Sequence[Observations], kind: str) -> Verdict:
    """Judge a model from its outputs on `forget`, on `others` (never seen, same labels) and on the rest.

    `references` are the same of models that saw none of these. The rest is `retain`, `calibration`, `audit` and `test`;
    references that saw only some of the retained records leave `retain` out.
    `kind` says how alike the forgotten and the other records are, see Split. Of the model's own observations, `before`
    are the outputs of the original, and `probe` and `probe_others` how often a linear classifier on the features is
    right about a record.
    """
    if not all(_finite(one) for one in (model, *references)):
        return Verdict(UNKNOWN, "some outputs are NaN. Make the run again, with a lower learning rate.")
    kept, strata = [*losses(model, references)], _strata(model, references, kind)
    tests = [_Test(DAMAGED, loss.p, str(loss)) for loss in kept]
    area = _Area.of(strata) if strata else None
    tests += [*_memory(strata, area, kind), *_knowledge(model, references, kind)] if area else []
    significant = holm([test.p for test in tests], LEVEL)
    found = sorted((test for test, sure in zip(tests, significant, strict=True) if sure), key=lambda test: test.p)
    lost, marks = ([test for test in found if (test.call == DAMAGED) == damage] for damage in (True, False))
    numbers = area.bounds if area else ()
    stands_out = f"{'; '.join(test.found for test in marks if test.call == marks[0].call)}; {area}." if marks else ""
    if lost:
        # A damaged model is of no use, whatever it remembers; that it remembers is told as well.
        begins, joint = ("It is right in", "; in ") if kept[0].spread is None else ("It is off by", "; by ")
        said = f"it lost what it should have kept. {begins} {joint.join(test.found for test in lost)}."
        return Verdict(DAMAGED, f"{said} Besides, it is {marks[0].call}: {stands_out}" if marks else said, *numbers)
    if marks:
        return Verdict(marks[0].call, stands_out, *numbers)
    if not area:
        return Verdict(UNKNOWN, _incomparable(model, references, kind))
    original = _strata(model["before"], references, kind) if "others" in model.get("before", {}) else []
    before = _Area.of(original) if original else None
    doubt, helps = _doubt(model, references, kind, area, before, kept)
    if doubt:
        return Verdict(UNKNOWN, f"{doubt}; {area}.{helps}", *numbers)
    return Verdict(SAME, f"{area}; the original has {before.area:.2f}." if before else f"{area}.", *numbers)


@dataclass(frozen=True)
class _Area:
    """The AUC of forgotten against unseen records, and its standard error."""

    area: float
    error: float

    @classmethod
    def of(cls, strata: Strata) -> "_Area":
        return cls(*rank_sum(strata))

    @property
    def width(self) -> float:
        """Return how far chance alone may take it."""
        return DEVIATIONS * self.error

    @property
    def bounds(self) -> tuple[float, float, float]:
        """Return it with an interval."""
        return self.area, max(self.area - self.width, 0.0), min(self.area + self.width, 1.0)

    def __str__(self) -> str:
        return "forgotten against unseen records: AUC {:.2f} ({:.2f} to {:.2f})".format(*self.bounds)


def _finite(one: Observations) -> bool:
    return all(bool(said.logits.isfinite().all()) for said in one.values() if isinstance(said, Outputs))


def _strata(model: Observations, references: Sequence[Observations], kind: str) -> Strata:
    """Return what is compared, how sure the model is of forgotten and other records; empty if nothing can be.

    With references: by how much surer the model is than they are, among records that are equally hard. More than
    half of the forgotten records must have their equals among the others.
    """
    if not len(model.get("others", ())) or (kind != "drawn" and not references):
        return []
    forget, others = _sure(model)
    if not references:
        return [(forget, others)]
    easy, easy_others = (torch.stack(found).mean(0) for found in zip(*map(_sure, references), strict=True))
    forget, others = forget - easy, others - easy_others
    # How hard a record is, all say together: by the references' word alone those that they erred about would stand out.
    alike = 1 / (1 + len(references))
    found = stratified(forget, others, easy + alike * forget, easy_others + alike * others)
    return found if 2 * sum(len(some) for some, _ in found) >= len(forget) else []


def _sure(one: Observations) -> tuple[Tensor, Tensor]:
    forget, others = (sureness(one[part]) for part in ("forget", "others"))
    return forget, others


def _incomparable(model: Observations, references: Sequence[Observations], kind: str) -> str:
    """Say why forgotten records cannot be compared with others, and what would help."""
    if not len(model.get("others", ())):
        return "there are no unseen records to compare the forgotten ones with: hold some out of training."
    if kind != "drawn" and not references:
        said = "without a reference model it cannot be said what these records would look like unseen"
        return f"{said}. {power({}, kind).helps}"
    return "hardly any unseen record is as hard for the reference as the forgotten ones are: it takes more of them."


def _doubt(
    model: Observations,
    references: Sequence[Observations],
    kind: str,
    area: _Area,
    original: _Area | None,
    kept: Sequence[Loss],
) -> tuple[str, str]:
    """Say why a model that no test accuses is not cleared, and what would help; empty if nothing speaks against it."""
    forget, others = len(model["forget"]), len(model["others"])
    told = power({"forget": forget, "others": others}, kind, len(references))
    if kind in _DOUBTS and abs(area.area - 0.5) > area.width:
        return _DOUBTS[kind], _MORE if told.decides else f" {told.helps}"
    # A test that finds the original, and of this model excludes as much, has shown that it can.
    shown = original and original.area - original.width > 0.5 and area.area + area.width < original.area
    if not told.decides and not shown:
        return f"{forget} forgotten and {others} unseen records are too few", f" {told.helps}"
    unseen = [loss for loss in kept if loss.what == "unseen"]
    if not kept:
        return "only the original or a reference model could tell whether it is damaged", _TRAIN
    if all(DEVIATIONS * loss.error > _VAGUE for loss in unseen):
        return "too few unseen records, or too different references, to tell whether it is damaged", _UNSEEN
    if "retain" in model and guesses(model):
        return "it hardly knows more than a guess, and so do the references", _KNOWING
    return "", ""


def _memory(strata: Strata, area: _Area, kind: str) -> Iterator[_Test]:
    """Test whether forgotten records stand out: all of them a little, or a few of them very much."""
    error = math.hypot(area.error, UNLIKE) if kind in _DOUBTS else area.error
    times = 2 if kind in _DOUBTS else 1  # as often in the tail of normal scores with an AUC of 0.6, three deviations
    yield _Test(UNDER, upper((area.area - 0.5) / error), "forgotten records stand out as known")
    yield _Test(OVER, upper((0.5 - area.area) / error), "forgotten records stand out as avoided")
    forgotten = sum(len(some) for some, _ in strata)
    for call, sign, how in ((UNDER, 1, "known"), (OVER, -1, "avoided")):
        most = tail([(sign * some, sign * rest) for some, rest in strata], _TAIL, times)
        chance = f"where chance alone would put {most.expected:.0f}"
        among = f"among the {_TAIL:.0%} of records that stand out most as {how}, {chance}"
        yield _Test(call, most.p, f"{most.found} of {forgotten} forgotten records are {among}".replace("%", " %"))


def _knowledge(model: Observations, references: Sequence[Observations], kind: str) -> Iterator[_Test]:
    """Test whether the model knows a class that it should not, and whether its features hold what was forgotten."""
    if kind == "classes":
        theirs = torch.stack([right(one, "forget") for one in references]).mean(0)
        # A model that gives the class's label to everything does not know the class.
        yield _knows(right(model, "forget"), theirs, SEED + _blurted(model), "of forgotten records")
        # A probe that was shown another number of records knows more or less, and cannot be compared.
        probes = [one["probe"] for one in references if "probe" in one and _shown(one) == _shown(model)]
        if probes:
            what = "of forgotten records by a linear probe of its features"
            yield _knows(model["probe"], torch.stack(probes).mean(0), _FEATURES, what)
    if kind == "drawn" and "probe" in model:
        inside, outside = model["probe"], model["probe_others"]
        spread = torch.cat([inside, outside]).std().item()
        error = max(spread * (1 / len(inside) + 1 / len(outside)) ** 0.5, 1e-9)
        found = f"{percent(inside)} of forgotten records and in {percent(outside)} of unseen ones"
        p = upper((inside.mean() - outside.mean()).item() / error)
        yield _Test(UNDER, p, f"a linear probe of its features is right in {found}")


def _knows(ours: Tensor, theirs: Tensor, margin: float, what: str) -> _Test:
    p = upper(((ours - theirs).mean().item() - margin) / deviation(ours - theirs))
    said = f"it is right in {percent(ours)} {what}, the reference in {percent(theirs)}"
    return _Test(UNDER, p, f"it still knows what it should not: {said}")


def _shown(one: Observations) -> tuple[Any, int]:
    """Return how many records a probe was shown, and how many it scored."""
    return one.get("probe_shots"), len(one.get("probe", ()))


def _blurted(model: Observations) -> float:
    """Return the share of unseen records to which the model gives the label of a forgotten class, and is wrong."""
    if "audit" not in model:
        return 0.0
    said = model["audit"].logits.argmax(1)
    wrong: Tensor = torch.isin(said, model["forget"].labels) & (said != model["audit"].labels)
    return wrong.double().mean().item()
