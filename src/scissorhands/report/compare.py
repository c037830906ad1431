"""Two runs, or two sets of runs, side by side: what differs in settings and scores, and whether that is chance."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..metrics import METRICS, Interval, auc_interval, interval
from ..runs import Run
from .rows import describe, seeds_of, versions

_PARTS = {"forget_accuracy": "forget", "retain_accuracy": "retain", "audit_accuracy": "audit", "test_accuracy": "test"}


@dataclass(frozen=True)
class Change:
    """A measure of both, the second minus the first, and the bounds of that with 95 % confidence, where known."""

    metric: str
    first: float
    second: float
    difference: float
    low: float | None = None
    high: float | None = None

    @property
    def apart(self) -> str:
        """Return whether they can be told apart; empty where that is not known."""
        if self.low is None or self.high is None:
            return ""
        return "no" if self.low <= 0 <= self.high else "yes"


@dataclass(frozen=True)
class Comparison:
    """What differs in settings, by name, and all scores that both have."""

    settings: Mapping[str, tuple[Any, Any]]
    scores: Sequence[Change]
    pairs: int  # runs of the same seeds and forget set, on which intervals rest if there are several

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        scores = [{**vars(one), "apart": one.apart} for one in self.scores]
        return {"settings": {k: [*v] for k, v in self.settings.items()}, "scores": scores, "pairs": self.pairs}


def compare(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """Compare two sets of runs: settings as far as they are the same within each, and the means of scores."""
    ours, theirs = _settings(first), _settings(second)
    names = dict.fromkeys([*ours, *theirs])
    differ = {name: (ours.get(name, ""), theirs.get(name, "")) for name in names if ours.get(name) != theirs.get(name)}
    shared = [
        name for name in METRICS if all(name in run.result.values() for run in (*first, *second)) and name != "tuning"
    ]
    others = {_case(run): run for run in second}
    pairs = [(run, others[_case(run)]) for run in first if _case(run) in others]
    return Comparison(differ, [_change(name, first, second, pairs) for name in shared], len(pairs))


def _case(run: Run) -> tuple[str, int, int]:
    return (run.record["split"]["manifest"], *seeds_of(run))


def _settings(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what all of these runs have in common."""
    known = [
        {
            "method": run.title,
            **describe(run),
            "seed": run.record["seed"],
            "device": run.record.get("device", ""),
            **{f"versions.{name}": value for name, value in versions(run).items()},
        }
        for run in runs
    ]
    return {name: value for name, value in known[0].items() if all(one.get(name) == value for one in known)}


def _change(name: str, first: Sequence[Run], second: Sequence[Run], pairs: Sequence[tuple[Run, Run]]) -> Change:
    was, now = (statistics.fmean(run.result.values()[name] for run in runs) for runs in (first, second))
    found = _interval(name, first, second, pairs)
    return Change(name, was, now, now - was, *((found.low, found.high) if found else ()))


def _interval(
    name: str, first: Sequence[Run], second: Sequence[Run], pairs: Sequence[tuple[Run, Run]]
) -> Interval | None:
    """Return the bounds over pairs of runs, where there are several, or else over the records of the two runs."""
    if len(pairs) > 1:
        return interval([other.result.values()[name] - run.result.values()[name] for run, other in pairs])
    if len(first) > 1 or len(second) > 1:
        return None
    halves = [_half(name, runs[0]) for runs in (first, second)]
    if None in halves:
        return None
    was, now = (runs[0].result.values()[name] for runs in (first, second))
    half = math.hypot(*(one for one in halves if one is not None))
    return Interval(now - was, now - was - half, now - was + half)


def _half(name: str, run: Run) -> float | None:
    """Return how far chance may move an accuracy or an AUC by the records that were looked at; None of other scores."""
    value, counts = run.result.values()[name], run.result.scores.counts
    if name == "auc" and counts.get("forget") and counts.get("others"):
        low, high = auc_interval(value, counts["forget"], counts["others"])
        return (high - low) / 2
    records = counts.get(_PARTS.get(name, ""), 0)
    return 196 * math.sqrt(value / 100 * (1 - value / 100) / records) if records else None
