"""Runs, side by side: one row per method, the mean and the spread over seeds, and which rows cannot be told apart."""

import json
import os
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from shlex import quote
from typing import Any

from ..errors import RunError
from ..evaluation.evidence import settings_behind
from ..metrics import DAMAGED, METRICS, noise_floor, widest
from ..runs import Run, is_run, reference_unchanged

TITLES = {name: metric.title for name, metric in METRICS.items()}
MAIN = (
    "forget_accuracy",
    "retain_accuracy",
    "test_accuracy",
    "mia",
    "auc",
    "ua",
    "kept_accuracy",
    "fid",
    "clip",
    "nudity",
    "nudity_change",
    "avg_gap",
    "rte",
    "tuning",
)


@dataclass(frozen=True)
class Row:
    """One method with one set of settings on one forget set; `damaged` says by seed what a run broke."""

    method: str
    settings: dict[str, Any]
    forget: str
    manifest: str
    seeds: list[int | str]
    metrics: dict[str, dict[str, float | None]]
    failed: dict[str, str]
    verdicts: dict[str, int]
    damaged: dict[str, str]
    runs: Sequence[Run] = ()

    def cell(self, name: str) -> str:
        """A number as a person reads it."""
        if name in self.failed:
            reason = self.failed[name]
            return f"> {reason.split()[2]}" if reason.startswith("more than") else "failed"
        if name not in self.metrics:
            return "–"
        digits = METRICS[name].digits
        mean, std = self.metrics[name]["mean"], self.metrics[name]["std"]
        return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")

    def verdict(self) -> str:
        """The verdicts of the runs, with their number where not all are called so."""
        every = len(self.seeds)
        return ", ".join(call if n == every else f"{n} {call}" for call, n in self.verdicts.items()) or "–"


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


@dataclass(frozen=True)
class Table:
    """Rows, the method that gaps and times are measured against, and what chance alone does.

    `noise` holds the Avg. Gaps between retrained models of different seeds: their mean is the noise floor. `stale` says
    which runs were compared with a reference that has changed since.
    """

    reference: str | None
    rows: list[Row]
    noise: list[float] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    def names(self, among: Sequence[str] = tuple(TITLES)) -> list[str]:
        """The metrics that any row has, in the table's order."""
        found = {name for row in self.rows for name in (*row.metrics, *row.failed)}
        return [name for name in among if name in found]

    def forgotten(self) -> list[str]:
        """What the rows forgot, each once."""
        return list(dict.fromkeys(row.forget for row in self.rows if row.forget))

    def noise_floor(self) -> float | None:
        """The mean Avg. Gap between retrained models of different seeds."""
        return statistics.fmean(self.noise) if self.noise else None

    def nearest(self) -> str | None:
        """The method with the lowest Avg. Gap, of those that are compared."""
        return self.differences[0].method if self.differences else None

    def judged(self) -> bool:
        """Whether any row has a verdict, or is damaged."""
        return any(row.verdicts for row in self.rows)

    def damage(self) -> list[str]:
        """What runs broke, in sentences."""
        return [f"{row.method}, seed {seed}: {what}" for row in self.rows for seed, what in row.damaged.items()]

    def notes(self) -> list[str]:
        """What the table says about chance, and about what is out of date, in sentences."""
        lines = [*self.stale]
        if (floor := self.noise_floor()) is not None:
            lines.append(f"Noise floor: two retrained models of different seeds have an Avg. Gap of {floor:.2f}.")
        if self.differences:
            tied = [d.other for d in self.differences if not d.apart]
            apart = f"cannot be told apart from {', '.join(tied)}" if tied else "stands apart from all others"
            pairs = self.differences[0].pairs
            lines.append(f"Nearest: {self.nearest()}. With {pairs} paired runs it {apart}.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        return {
            "reference": self.reference,
            "rows": [{name: value for name, value in vars(row).items() if name != "runs"} for row in self.rows],
            "noise_floor": self.noise_floor(),
            "differences": [vars(difference) for difference in self.differences],
            "stale": self.stale,
        }


def tabulate(runs: Sequence[Run]) -> Table:
    """The table of these runs. Runs are averaged only if they forgot the same thing by the same method and settings."""
    if not runs:
        raise RunError("there is no run to show.")
    groups = _groups(runs)
    labels = _labels([group[0] for group in groups])
    rows = [_row(label, group) for label, group in zip(labels, groups, strict=True)]
    folders = {(run.folder / run.result.reference).resolve() for run in runs if run.result.reference}
    references = {run.method for run in runs if run.folder.resolve() in folders} or {folder.name for folder in folders}
    reference = references.pop() if len(references) == 1 else None
    noise = _noise([run for run in runs if run.method == reference])
    return Table(reference, rows, noise, _differences(runs, reference, noise), _stale(runs))


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs that are averaged: alike in all but the seed, and not examined in different ways.

    A run that was not examined, or less deeply, contradicts none that was.
    """
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(json.dumps([run.method, _described(run)], sort_keys=True), []).append(run)
    found: list[list[Run]] = []
    for group in alike.values():
        ways: dict[str, set[str]] = {}
        for run in group:
            for name, value in _examined(run).items():
                ways.setdefault(name, set()).add(json.dumps(value))
        differs = [name for name, values in ways.items() if len(values) > 1]
        parts: dict[str, list[Run]] = {}
        for run in group:
            examined = _examined(run)
            parts.setdefault(json.dumps([examined.get(name) for name in differs]), []).append(run)
        found += parts.values()
    return found


def _stale(runs: Sequence[Run]) -> list[str]:
    """Which runs were compared with a reference that has been replaced, or examined again, since."""
    found = []
    for run in runs:
        reference = run.folder / run.result.reference
        if run.result.reference_hash and is_run(reference) and not reference_unchanged(run):
            ours, theirs = (quote(os.path.relpath(folder)) for folder in (run.folder, reference))
            again = f"compare again: scissorhands evaluate {ours} --against {theirs}"
            found.append(f"{ours} was compared with a reference that has changed since; {again}")
    return found


def _noise(retrained: list[Run]) -> list[float]:
    """The gaps between the reference's runs that differ in nothing but the seed."""
    groups: dict[str, dict[int, Run]] = {}  # by the run's own seed: a retrained model does not depend on the original's
    for run in retrained:
        groups.setdefault(json.dumps(_described(run), sort_keys=True), {}).setdefault(run.record["seed"], run)
    return [g for group in groups.values() for g in noise_floor([run.result.scores.values for run in group.values()])]


def _differences(runs: Sequence[Run], reference: str | None, noise: list[float]) -> list[Difference]:
    """The nearest method against each other one: the difference in Avg. Gap wherever both ran on the same case.

    Two methods are apart if the interval excludes zero, and they differ by more than the noise floor. Where there are
    several forget sets or originals, the interval is the widest over runs, forget sets and originals. All intervals
    together hold with 95 % confidence (Bonferroni).
    """
    gaps: dict[str, dict[tuple[str, int, int], float]] = {}
    contenders = [run for run in runs if run.method != reference and "avg_gap" in run.result.values()]
    labels = _labels(contenders, without=("split.", "evaluation."))
    for run, label in zip(contenders, labels, strict=True):
        gaps.setdefault(label, {})[(run.record["split"]["manifest"], *_seeds(run))] = run.result.scores.avg_gap
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


def _labels(firsts: list[Run], without: tuple[str, ...] = ()) -> list[str]:
    """The methods' names, each with the settings in which it differs from another row of its name."""
    labels = []
    described = [
        {k: v for k, v in {**_described(run), **_examined(run)}.items() if not k.startswith(without or "\0")}
        for run in firsts
    ]
    for run, own in zip(firsts, described, strict=True):
        twins = [other for one, other in zip(firsts, described, strict=True) if one.method == run.method]
        differs = {k: v for k, v in own.items() if any(twin.get(k, v) != v for twin in twins)}
        draws = {one.record["split"].get("seed") for one in firsts}
        manifests = {one.record["split"]["manifest"] for one in firsts}
        if "split.manifest" in differs and len(draws) == len(manifests):  # the seed of the draw says it shorter
            del differs["split.manifest"]
            if "seed" in run.record["split"]:  # a run that only trained has drawn nothing
                differs = {"draw": run.record["split"]["seed"], **differs}
        labels.append(" ".join([run.method, *(f"{name}={value}" for name, value in differs.items())]))
    return labels


def _described(run: Run) -> dict[str, Any]:
    """All in which runs of one method may differ, but for the seed: only runs alike in it are averaged."""
    model, divided = run.record["model"], run.record["split"]
    return {
        **run.settings,
        "model.name": model["name"],
        **{f"model.{name}": value for name, value in model["arguments"].items()},
        **{f"data.{name}": value for name, value in run.record["data"].items() if name != "memory"},
        **{f"split.{name}": str(divided[name])[:16] for name in ("fingerprint", "manifest", "holdout")},
    }


def _examined(run: Run) -> dict[str, Any]:
    """The settings of the evaluation that the run's numbers depend on."""
    examined, scores = run.result.examined, run.result.scores
    behind = settings_behind([*scores.values, *scores.failed])
    found = {f"evaluation.{name}": x for name, x in examined.items() if name in behind and name != "training"}
    if "training" in behind:
        found |= {f"evaluation.training.{name}": value for name, value in examined.get("training", {}).items()}
    return found


def _seeds(run: Run) -> tuple[int, int]:
    """The seed of the original's training, and of the run."""
    own = int(run.record["seed"])
    return int(run.record.get("training_seed", own)), own


def _seed(run: Run) -> int | str:
    """The seed of the run; with the seed of the original's training before it, where that is another."""
    first, own = _seeds(run)
    return own if first == own else f"{first}/{own}"


def _row(label: str, group: list[Run]) -> Row:
    values = [run.result.values() for run in group]
    names = [name for name in TITLES if all(name in value for value in values)]
    failed = {name: reason for run in group for name, reason in run.result.scores.to_dict()["failed"].items()}
    for run, other in combinations(group, 2):
        if _seed(run) == _seed(other):
            raise RunError(f"two runs of {label} have the same seed: {run.folder} and {other.folder}.")
    return Row(
        label,
        group[0].settings,
        group[0].record["split"].get("forget", ""),
        group[0].record["split"]["manifest"],
        [_seed(run) for run in sorted(group, key=_seeds)],
        {name: _summary([value[name] for value in values]) for name in names},
        failed,
        dict(Counter(call for run in group for call in _calls(run))),
        {str(_seed(run)): run.damage for run in sorted(group, key=_seeds) if run.damage},
        group,
    )


def _calls(run: Run) -> list[str]:
    """What a run is called: its verdict, and that it is damaged, however that was found."""
    said = [run.result.scores.verdict.call] if run.result.scores.verdict else []
    return list(dict.fromkeys([*said, *([DAMAGED] if run.damage else [])]))


def _summary(values: list[float]) -> dict[str, float | None]:
    """Mean, and the sample's standard deviation where there is more than one value.

    >>> _summary([1.0, 3.0])
    {'mean': 2.0, 'std': 1.4142135623730951}
    """
    return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else None}
