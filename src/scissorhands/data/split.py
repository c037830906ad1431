"""What is forgotten, what is retained, what was never seen, and what is kept for the test."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..errors import DataError
from ..randomness import generator
from .choice import What, asked
from .foreign import as_records
from .problem import Loss, Problem, cross_entropy
from .records import Augment, Joined, Part, Records, one_table


@dataclass(frozen=True)
class Split:
    """The parts of the data: the model was trained on forget and retain, and not on calibration, audit and test.

    Methods may look at `calibration`. Only scores and verdicts look at `audit` and `test`.

    `others` are what forgotten records are compared with: records that were never trained on, of the same classes.
    `kind` says how alike they are: both `drawn` at random from one table; drawn, but from the training data and the
    `test` data, which may differ; all there is of some `classes`; or `chosen` by something else.
    `manifest` is a hash of the data and of the ids: two results with the same one forgot, and were tested on, the same.
    """

    forget: Part
    retain: Part
    calibration: Part | None
    audit: Part | None
    test: Part
    others: Part
    kind: str
    manifest: str

    def problem(self, *, seed: int = 0, augment: Augment | None = None, loss: Loss = cross_entropy) -> Problem:
        """Return what a method may see of this split: everything but the audit and test data."""
        return Problem(self.forget, self.retain, self.calibration, loss, seed, augment)

    def parts(self) -> dict[str, Part]:
        """Return the parts that have records, by name."""
        named = {name: getattr(self, name) for name in ("forget", "retain", "calibration", "audit", "test", "others")}
        return {name: part for name, part in named.items() if part is not None and len(part)}


def split(
    train: "Records | Dataset[Any]",
    forget: What,
    *,
    test: "Records | Dataset[Any] | None" = None,
    unseen: float | Sequence[int] = 0.2,
    before: Sequence[int] = (),
    seed: int = 0,
) -> Split:
    """Divide the data.

    `forget` is a Forget or its text (`"class:3"`), ids or keys in a list, array, tensor or set, or a function of a row.
    `unseen` are records that the model was never trained on: the ids in `train` that training held out or, for a
    model that was trained on all of it, a share of the test data, which is then no longer scored as test. Without test
    data it must be ids, or 0 if there are none. One half of them is for calibration, the other for audits: which is
    which depends on the data alone, so that no later split mixes them. If a whole class is forgotten, its records leave
    both and the test data: a retrained model has no such class. `before` are ids that the model was made to forget
    earlier, or that training left out: they are in no part.
    """
    train, given = as_records(train), None if test is None else as_records(test)
    if len(train) == 0 or (given is not None and len(given) == 0):
        raise DataError("there must be records both to train on and to test on.")
    trained, held, rest = _hold_out(train, given, unseen)
    earlier = _ids(before, train, "before")
    current = _without(_without(trained, earlier), train.missing)
    forgotten = (wanted := asked(forget)).ids(train, current, seed, earlier)
    retained = _without(current, forgotten)
    gone = _without(train.groups[torch.cat([earlier, forgotten])].unique(), train.groups[retained].unique())
    parts = [_but(part, Part(train, earlier)) for part in (*halves(held), rest, held)]
    calibration, audit, tested = (_of_classes(part, gone, invert=True) for part in parts[:3])
    if len(tested) == 0 and given is not None:
        raise DataError("no test record is left to score: the test data holds only classes that are forgotten whole.")
    alike = [part for part in (audit, tested) if len(part) and one_table(train, part.records)]
    drawn = "drawn" if alike else "test"
    whole = bool(torch.isin(train.groups[forgotten], gone).all())
    kind = "classes" if whole else drawn if wanted.drawn else "chosen"
    # A retrained model does not know a class that is gone, so its records are compared with unseen ones of that class.
    others = [parts[3], rest] if whole else alike if kind == "drawn" else [audit, tested]
    if kind != "drawn":
        others = [_of_classes(part, train.groups[forgotten].unique()) for part in others]
    return Split(
        Part(train, forgotten),
        Part(train, retained),
        calibration if len(calibration) else None,
        audit if len(audit) else None,
        tested,
        _joined(*others),
        kind,
        _manifest(Part(train, current), Part(train, forgotten), calibration, audit, tested),
    )


def _hold_out(train: Records, test: Records | None, unseen: float | Sequence[int]) -> tuple[Tensor, Part, Part]:
    """Return the ids that were trained on, the records that were held out, and the test data that is left."""
    everything = torch.arange(len(train))
    if test is None:
        if not isinstance(unseen, Iterable) and unseen:
            raise DataError(
                "without test data, 'unseen' must be ids of records in the training data that the model was never "
                "trained on, or 0 if there are none."
            )
        never = _ids(unseen if isinstance(unseen, Iterable) else (), train, "unseen")
        return _without(everything, never), Part(train, never), Part(train, everything[:0])
    rest = torch.arange(len(test))
    if isinstance(unseen, Iterable):
        held = Part(train, _ids(unseen, train, "unseen"))
        trained = _without(everything, held.ids)
    else:
        held = Part(test, _share(test, float(unseen)))
        trained, rest = everything, _without(rest, held.ids)
    if len(rest) == 0:
        raise DataError(f"'unseen' is {unseen}, which leaves no test record.")
    return trained, held, Part(test, rest)


def held_out(records: Records, share: float, seed: int) -> Tensor:
    """Draw the ids that training leaves out, for later use as unseen data: the same share of every class.

    Of n records of a class it draws share · n, rounded up or down so that the share of all records is right.
    """
    return _drawn_by_class(records.groups, share, generator(seed, "unseen"))


def halves(held: Part) -> tuple[Part, Part]:
    """Divide records that were never trained on into those for calibration and those for audits, class by class."""
    first = _drawn_by_class(held.groups, 0.5, generator(0, "calibration"))
    return replace(held, ids=held.ids[first]), replace(held, ids=_without(held.ids, held.ids[first]))


def _drawn_by_class(labels: Tensor, share: float, chance: torch.Generator) -> Tensor:
    """Draw the same share of every class; return the places of what was drawn."""
    order = torch.randperm(len(labels), generator=chance)
    # Class by class, shuffled within each; classes in the order of their first records, whatever their numbers are.
    number, places = labels[order].unique(return_inverse=True)[1], torch.arange(len(labels))
    first = torch.full_like(places, len(labels)).scatter_reduce(0, number, places, "amin")
    order = order[first[number].argsort(stable=True)]
    passed = (torch.arange(len(labels) + 1, dtype=torch.float64) * share).round()
    return order[passed.diff() > 0].sort().values


def _share(records: Records, share: float) -> Tensor:
    if not 0 <= share < 1:
        raise DataError(f"'unseen' must be ids of the training data, or a share from 0, below 1, not {share}.")
    return held_out(records, share, 0)


def _ids(given: Iterable[int], records: Records, name: str) -> Tensor:
    try:
        ids = torch.tensor([index(i) for i in given], dtype=torch.int64).sort().values
    except (TypeError, RuntimeError):
        raise DataError(f"'{name}' must be ids of the training data, which are whole numbers.") from None
    if len(ids) != len(ids.unique()) or (len(ids) and not 0 <= int(ids[0]) <= int(ids[-1]) < len(records)):
        raise DataError(f"'{name}' must be different ids from 0 to {len(records) - 1} of the training data.")
    return ids


def _of_classes(part: Part, classes: Tensor, invert: bool = False) -> Part:
    """Keep the records of these classes, or, inverted, those of all others; leave out what is missing."""
    chosen = part.ids[torch.isin(part.groups, classes, invert=invert)]
    return replace(part, ids=_without(chosen, part.records.missing))


def _but(part: Part, others: Part) -> Part:
    """Leave out the records that are also in another part."""
    return replace(part, ids=_without(part.ids, others.ids)) if part.records is others.records else part


def _joined(*parts: Part) -> Part:
    """Join the parts into one."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return (filled or list(parts))[0]
    together = Joined(*filled)
    return Part(together, torch.arange(len(together)))


def _without(ids: Tensor, others: Tensor) -> Tensor:
    return ids[~torch.isin(ids, others)]


def _manifest(*parts: Part) -> str:
    """Hash what was trained on, what is forgotten, what methods may look at, and what is scored."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part.records)} {part.records.fingerprint} {len(part)} ".encode())
        digest.update(part.ids.numpy().tobytes())
        digest.update(part.labels.numpy().tobytes())
    return digest.hexdigest()[:16]
