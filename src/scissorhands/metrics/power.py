"""How many records it takes to see what: the power of the verdict's tests, said before anything is done.

The numbers are those of one score per record, compared by ranks, whose memory has some AUC. The standard error without
a memory is Mann and Whitney's, that with one is Hanley and McNeil's (1982).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PER_TEST = 1 / 1000  # on how many models that have forgotten a test errs: ten tests together err on 1 in 100
DEVIATIONS = 3.09  # standard errors that are exceeded by chance so often
ENOUGH = 0.75  # the AUC of a memory that must be found for a model to be cleared by reference models
ENOUGH_ALONE = 0.65  # and without any: the memory of a record that is easy anyway does not stand out
UNLIKE = 1 / 30  # where forgotten and other records may differ in kind, the standard deviation of an AUC by that
DOUBTED = ("chosen", "test")  # the kinds of splits where they may
_USUALLY = 0.84  # standard errors more: what is found in four of five models
_DISAGREE = 0.25  # the share of records about which two models of different seeds may disagree
_MARGIN = 0.05  # the loss of accuracy that is no damage
_KEPT = ("retain", "calibration", "audit", "test")
_MOST = 10**6  # records that somebody may be asked for


@dataclass(frozen=True)
class Power:
    """What can be told with so many records.

    `smallest_auc` is the smallest AUC of a memory that is found in four of five models, and `smallest_loss` the same of
    a loss of accuracy, by part of the data. `decides` says whether a model that has forgotten is cleared; `helps` says
    what it would take, and is empty where it is.
    """

    smallest_auc: float
    smallest_loss: Mapping[str, float]
    decides: bool
    helps: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "smallest_loss": dict(self.smallest_loss)}


def power(counts: Mapping[str, int], kind: str = "drawn", references: int = 0) -> Power:
    """Say what the verdict will be able to tell, from the number of records in each part of a split.

    `counts` has `forget` and `others`, as `split.parts()` does, and any of `retain`, `calibration`, `audit` and `test`.
    `kind` is that of the split, and `references` the number of models that saw neither forgotten nor other records.

    >>> few = power({"forget": 5, "others": 120}, references=4)
    >>> few.decides, few.helps
    (False, 'With 120 unseen records it takes 25 forgotten ones; with 5 forgotten ones no number of unseen is enough.')
    >>> round(power({"forget": 40, "others": 400}, references=4).smallest_auc, 2)
    0.69
    """
    forget, others = counts.get("forget", 0), counts.get("others", 0)
    unlike = UNLIKE if kind in DOUBTED else 0.0
    smallest, wanted = smallest_auc(forget, others, unlike), ENOUGH if references else ENOUGH_ALONE
    losses = {
        part: smallest_loss(counts[part]) for part in ("retain", "calibration", "audit", "test") if part in counts
    }
    if not references and kind != "drawn":
        return Power(
            1.0,
            losses,
            False,
            "It takes reference models: level standard trains some (with --train if it is not known how).",
        )
    if smallest <= wanted:
        return Power(smallest, losses, True, "")
    alone = "Reference models would help: level standard trains some. Without them: "
    instead = alone if not references and smallest <= ENOUGH else ""
    return Power(smallest, losses, False, instead + needed(forget, others, wanted, unlike))


def smallest_auc(forget: int, others: int, unlike: float = 0.0) -> float:
    """Return the smallest AUC of a memory that is found in four of five models; 1 where none is.

    `unlike` is the standard deviation of an AUC by how much the records may differ in kind.

    >>> round(smallest_auc(40, 400), 2), round(smallest_auc(100, 400), 2), smallest_auc(1, 400)
    (0.69, 0.63, 1.0)
    """
    if not forget or not others:
        return 1.0
    chance = math.hypot(((forget + others + 1) / (12 * forget * others)) ** 0.5, unlike)
    low, high = 0.5, 1.0
    for _ in range(40):
        area = (low + high) / 2
        found = area - 0.5 - DEVIATIONS * chance > _USUALLY * _error(area, forget, others)
        low, high = (low, area) if found else (area, high)
    return high


def smallest_loss(records: int) -> float:
    """Return the smallest loss of accuracy that is found in four of five models, from 0 to 1.

    >>> round(smallest_loss(1160), 2), round(smallest_loss(100), 2)
    (0.11, 0.25)
    """
    return min(1.0, _MARGIN + (DEVIATIONS + _USUALLY) * (_DISAGREE / records) ** 0.5) if records else 1.0


def needed(forget: int, others: int, area: float, unlike: float = 0.0) -> str:
    """Say how many forgotten records it takes beside so many others to find a memory of this AUC, or how many others.

    >>> needed(40, 20, 0.75)
    'With 20 unseen records it takes 199 forgotten ones; with 40 forgotten ones it takes 38 unseen.'
    """
    more = fewest(lambda count: smallest_auc(count, others, unlike) <= area)
    beside = fewest(lambda count: smallest_auc(forget, count, unlike) <= area)
    takes = f"it takes {more} forgotten ones" if more else "no number of forgotten ones is enough"
    also = f"it takes {beside} unseen" if beside else "no number of unseen is enough"
    return f"With {others} unseen records {takes}; with {forget} forgotten ones {also}."


def fewest(enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number that is enough, where all above it are, too; None where a million is not.

    >>> fewest(lambda count: count > 41), fewest(lambda count: False)
    (42, None)
    """
    low, high = 0, _MOST
    if not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _error(area: float, forget: int, others: int) -> float:
    """Return the standard error of an AUC, by Hanley and McNeil."""
    one, other = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (forget - 1) * (one - area**2) + (others - 1) * (other - area**2)
    return math.sqrt(max(0.0, spread / (forget * others)))
