"""Which methods can be told apart: paired differences in Avg. Gap, and what chance alone does."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..metrics import noise_floor, widest
from ..runs import Run
from .rows import describe, label_runs, seeds_of


@dataclass(frozen=True)
class Difference:
    """How far two methods are apart in Avg. Gap, over runs of the same seeds and forget sets, with a 95 % interval."""

    method: str
    other: str
    pairs: int
    mean: float
    low: float | None
    high: float | None
    apart: bool


def noise_gaps(retrained: list[Run]) -> list[float]:
    """Return the gaps between the reference's runs that differ in nothing but the seed."""
    groups: dict[str, dict[int, Run]] = {}  # by the run's own seed: a retrained model does not depend on the original's
    for run in retrained:
        groups.setdefault(json.dumps(describe(run), sort_keys=True), {}).setdefault(run.record["seed"], run)
    return [g for group in groups.values() for g in noise_floor([run.result.scores.values for run in group.values()])]


def compare_methods(runs: Sequence[Run], reference: str | None, noise: list[float]) -> list[Difference]:
    """Compare the nearest method with each other one: the difference in Avg. Gap wherever both ran on the same case.

    Two methods are apart if the interval excludes zero, and they differ by more than the noise floor. Where there are
    several forget sets or originals, the interval is the widest over runs, forget sets and originals. All intervals
    together hold with 95 % confidence (Bonferroni).
    """
    gaps: dict[str, dict[tuple[str, int, int], float]] = {}
    contenders = [run for run in runs if run.method != reference and "avg_gap" in run.result.values()]
    labels = label_runs(contenders, without=("split.", "evaluation."))
    for run, label in zip(contenders, labels, strict=True):
        gaps.setdefault(label, {})[(run.record["split"]["manifest"], *seeds_of(run))] = run.result.scores.avg_gap
    if len(gaps) < 2:
        return []
    common = set.intersection(*({*cases} for cases in gaps.values()))  # only there is one gap comparable with another
    if not common:
        return []
    nearest = min(gaps, key=lambda label: statistics.fmean(gaps[label][case] for case in common))
    floor = statistics.fmean(noise) if noise else 0.0
    found = []
    for label in gaps:
        shared = [case for case in gaps[nearest] if case in gaps[label]]
        if label != nearest and shared:
            draws, seeds = [case[0] for case in shared], [case[1] for case in shared]
            ours = widest(
                [gaps[label][case] - gaps[nearest][case] for case in shared], draws, seeds, comparisons=len(gaps) - 1
            )
            apart = not ours.holds(0.0) and abs(ours.mean) > floor
            low, high = (ours.low, ours.high) if len(shared) > 1 else (None, None)
            found.append(Difference(nearest, label, len(shared), ours.mean, low, high, apart))
    return found
