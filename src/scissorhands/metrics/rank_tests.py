"""Do forgotten records rank like others? Tests that hold whatever the scores are, and their correction.

Records are compared within strata of records that are equally hard. Under the hypothesis that a model treats forgotten
records like others, any of a stratum might have been the forgotten ones; that alone gives the chance of what is seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import torch
from torch import Tensor

from .separation import auc

_STRATUM = 20  # forgotten records, or others, in a stratum
_MOST_STRATA = 10

Strata = Sequence[tuple[Tensor, Tensor]]  # the scores of the forgotten records and of the others, in each stratum


@dataclass(frozen=True)
class Tail:
    """How many forgotten records are among those that stand out most, how many would be by chance, and how rarely."""

    found: int
    expected: float
    p: float


def upper(deviations: float) -> float:
    """Return how often chance exceeds so many standard errors.

    >>> round(upper(1.645), 3), upper(-1e9)
    (0.05, 1.0)
    """
    return NormalDist().cdf(-deviations)


def holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Return which tests are significant, so that all together err as often as the level says (Holm, 1979).

    >>> holm([0.02, 0.005, 0.04, 0.9], 0.05)
    [False, True, False, False]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found = [False] * len(p_values)
    for done, i in enumerate(order):
        if p_values[i] > level / (len(p_values) - done):
            break
        found[i] = True
    return found


def stratified(forget: Tensor, others: Tensor, easy: Tensor, easy_others: Tensor) -> Strata:
    """Divide scores by how easy the records are, into as many strata as there are records for.

    >>> [len(some) for some, _ in stratified(*[torch.arange(50.0)] * 4)]
    [25, 25]
    """
    count = max(1, min(_MOST_STRATA, min(len(forget), len(others)) // _STRATUM))
    cuts = torch.quantile(torch.cat([easy, easy_others]), torch.linspace(0, 1, count + 1, dtype=easy.dtype)[1:-1])
    inside, inside_others = torch.bucketize(easy, cuts), torch.bucketize(easy_others, cuts)
    found = [(forget[inside == i], others[inside_others == i]) for i in range(count)]
    return [(some, rest) for some, rest in found if len(some) and len(rest)]


def rank_sum(strata: Strata) -> tuple[float, float]:
    """Return the AUC of forgotten against other records within strata (van Elteren, 1960), and its standard error.

    >>> area, error = rank_sum([(torch.tensor([2.0, 3.0]), torch.tensor([0.0, 1.0]))])
    >>> area, round(error, 4)
    (1.0, 0.3227)
    """
    total = weights = squares = 0.0
    for some, rest in strata:
        weight = len(some) * len(rest) / (len(some) + len(rest) + 1)
        total += weight * auc(some, rest)
        weights += weight
        squares += weight / 12  # the weight's square times the variance of the stratum's AUC
    return total / weights, squares**0.5 / weights


def tail(strata: Strata, share: float, times: int = 1) -> Tail:
    """Count the forgotten records among the share that has the highest scores of its stratum: Fisher's exact test.

    With `times`, they may be so many times as often there by nature.

    >>> found = tail([(torch.tensor([8.0, 9.0]), torch.arange(8.0))], 0.2)
    >>> found.found, found.expected, round(found.p * 45, 6)  # 45 pairs are equally likely
    (2, 0.4, 1.0)
    """
    found, expected, chances = 0, 0.0, torch.ones(1, dtype=torch.float64)
    for some, rest in strata:
        pool = torch.cat([some, rest])
        bar = pool.sort(descending=True).values[int(share * len(pool))]  # ties with it are not above it
        found += int((some > bar).sum())
        high = min(len(pool), times * int((pool > bar).sum()))
        expected += high * len(some) / len(pool)
        chances = _sum_of(chances, _hypergeometric(len(pool), high, len(some)))
    return Tail(found, expected, min(1.0, chances[found:].sum().item()))


@lru_cache(maxsize=128)
def _hypergeometric(size: int, high: int, drawn: int) -> Tensor:
    """Return the chance of each number of high records among those drawn, from 0 to all that can be."""
    count = torch.arange(min(high, drawn) + 1, dtype=torch.float64)
    return (_ways(high, count) + _ways(size - high, drawn - count) - _ways(size, torch.tensor(float(drawn)))).exp()


def _ways(size: int, chosen: Tensor) -> Tensor:
    """Return the logarithm of the number of ways to choose; minus infinity where there is none."""
    chosen = chosen.double()
    rest = size - chosen
    ways = torch.lgamma(torch.tensor(size + 1.0).double()) - torch.lgamma(chosen + 1) - torch.lgamma(rest + 1)
    return ways.where((rest >= 0) & (chosen >= 0), -torch.inf)


def _sum_of(one: Tensor, other: Tensor) -> Tensor:
    """Return the chances of the sum of two numbers that are independent."""
    size = len(one) + len(other) - 1
    found: Tensor = torch.fft.irfft(torch.fft.rfft(one, size) * torch.fft.rfft(other, size), size)
    return found.clamp_min(0)
