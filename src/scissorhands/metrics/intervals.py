"""Confidence intervals: of a mean over a few paired runs, of an AUC, and of a share of records."""

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A mean, and the bounds within which it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Return whether the value lies inside."""
        return self.low <= value <= self.high


def interval(values: Sequence[float], comparisons: int = 1) -> Interval:
    """Return the mean of paired differences with a 95 % interval: the wider of the bootstrap's and Student's.

    The bootstrap is right for many pairs, however they are distributed, and far too narrow for a few; there Student's
    is the honest one. One pair says nothing about its spread, so its interval has no bounds. Of several `comparisons`
    all hold together with 95 % confidence.

    >>> interval([1.0, 2.0, 3.0])
    Interval(mean=2.0, low=-0.484..., high=4.484...)
    >>> interval([2.0])
    Interval(mean=2.0, low=-inf, high=inf)
    """
    from scipy import stats  # slow to import

    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, -math.inf, math.inf)
    confidence = 1 - 0.05 / comparisons
    half = float(stats.t.interval(confidence, len(values) - 1)[1]) * statistics.stdev(values) / math.sqrt(len(values))
    resampling = {"n_resamples": _RESAMPLES, "method": "percentile", "rng": 0}
    resampled = stats.bootstrap((values,), np.mean, confidence_level=confidence, **resampling)
    low, high = map(float, resampled.confidence_interval)
    return Interval(mean, min(low, mean - half), max(high, mean + half))


def widest(values: Sequence[float], *groupings: Sequence[Hashable], comparisons: int = 1) -> Interval:
    """Return the widest interval over the units on which chance may act: single values, or the means of groups.

    Runs that share an original or a forget set are not independent. Two draws with two runs each are two draws, and not
    four runs, where the draw makes the difference:

    >>> widest([1.0, 1.1, 5.0, 5.1], ["draw 0", "draw 0", "draw 1", "draw 1"]).low < interval([1.0, 1.1, 5.0, 5.1]).low
    True
    """
    found = [interval(values, comparisons)]
    for grouping in groupings:
        groups = [[v for v, g in zip(values, grouping, strict=True) if g == group] for group in dict.fromkeys(grouping)]
        if len(groups) > 1:
            found.append(interval([statistics.fmean(group) for group in groups], comparisons))
    return max(found, key=lambda one: one.high - one.low)


def auc_interval(area: float, members: int, others: int) -> tuple[float, float]:
    """Return the bounds within which an AUC of so many records lies with 95 % confidence (Hanley and McNeil, 1982).

    >>> auc_interval(0.5, 1000, 1000)
    (0.47..., 0.52...)
    """
    one, two = area / (2 - area), 2 * area**2 / (1 + area)  # that two members, or one, beat one other, or two
    spread = area * (1 - area) + (members - 1) * (one - area**2) + (others - 1) * (two - area**2)
    half = 1.96 * math.sqrt(max(spread, 0.0) / (members * others))
    return max(0.0, area - half), min(1.0, area + half)


def share_interval(share: float, records: int) -> tuple[float, float]:
    """Return the bounds within which a share of so many records lies with 95 % confidence (Wilson).

    >>> share_interval(0.5, 100)
    (0.40..., 0.59...)
    """
    from scipy import stats  # slow to import

    found = stats.binomtest(round(share * records), records).proportion_ci(method="wilson")
    return float(found.low), float(found.high)
