"""One row per method: which runs are averaged, what the row is called, and what it shows."""

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..errors import RunError
from ..evaluation.observations import settings_behind
from ..metrics import DAMAGED, METRICS, avg_gap, gap_over
from ..runs import Run


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
        """Format a number for a person."""
        if name in self.failed:
            reason = self.failed[name]
            return f"> {reason.split()[2]}" if reason.startswith("more than") else "failed"
        if name not in self.metrics:
            return "–"
        mean, std = self.metrics[name]["mean"], self.metrics[name]["std"]
        digits = METRICS[name].decimals(mean or 0.0)
        return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")

    def verdict(self) -> str:
        """List the verdicts of the runs, with their number where not all are called so."""
        every = len(self.runs)
        return ", ".join(call if n == every else f"{n} {call}" for call, n in self.verdicts.items()) or "–"

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {name: value for name, value in vars(self).items() if name != "runs"}


def group_runs(runs: Sequence[Run]) -> list[list[Run]]:
    """Group the runs that are averaged: alike in all but the seed, and not examined in different ways.

    A run that was not examined, or less deeply, contradicts none that was.
    """
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(json.dumps([run.title, describe(run)], sort_keys=True), []).append(run)
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


def label_runs(firsts: list[Run], without: tuple[str, ...] = ()) -> list[str]:
    """Return the methods' names, each with the settings in which it differs from another row of its name."""
    labels = []
    described = [
        {k: v for k, v in {**describe(run), **_examined(run)}.items() if not k.startswith(without or "\0")}
        for run in firsts
    ]
    for run, own in zip(firsts, described, strict=True):
        twins = [other for one, other in zip(firsts, described, strict=True) if one.title == run.title]
        differs = {k: v for k, v in own.items() if any(twin.get(k, v) != v for twin in twins)}
        draws = {one.record["split"].get("seed") for one in firsts}
        manifests = {one.record["split"]["manifest"] for one in firsts}
        if "split.manifest" in differs and len(draws) == len(manifests):  # the seed of the draw says it shorter
            del differs["split.manifest"]
            if "seed" in run.record["split"]:  # a run that only trained has drawn nothing
                differs = {"draw": run.record["split"]["seed"], **differs}
        labels.append(" ".join([run.title, *(f"{name}={value}" for name, value in differs.items())]))
    return labels


def describe(run: Run) -> dict[str, Any]:
    """Return all in which runs of one method may differ, but for the seed: only runs alike in it are averaged."""
    model, divided = run.record["model"], run.record["split"]
    return {
        **run.settings,
        "model.name": model["name"],
        **{f"model.{name}": value for name, value in model["arguments"].items()},
        **{f"data.{name}": value for name, value in run.record["data"].items() if name != "memory"},
        **{f"split.{name}": str(divided[name])[:16] for name in ("fingerprint", "manifest", "holdout")},
    }


def _examined(run: Run) -> dict[str, Any]:
    """Return the settings of the evaluation that the run's numbers depend on."""
    examined, scores = run.result.examined, run.result.scores
    behind = settings_behind([*scores.values, *scores.failed])
    found = {f"evaluation.{name}": x for name, x in examined.items() if name in behind and name != "training"}
    if "training" in behind:
        found |= {f"evaluation.training.{name}": value for name, value in examined.get("training", {}).items()}
    return found


def versions(run: Run) -> dict[str, Any]:
    """Return which versions of what made a run, where it says that."""
    known = run.record.get("versions")
    return dict(known) if isinstance(known, Mapping) else {}


def seeds_of(run: Run) -> tuple[int, int]:
    """Return the seed of the original's training, and of the run."""
    own = int(run.record["seed"])
    return int(run.record.get("training_seed", own)), own


def _seed(run: Run) -> int | str:
    """Return the seed of the run; with the seed of the original's training before it, where that is another."""
    first, own = seeds_of(run)
    return own if first == own else f"{first}/{own}"


def make_row(label: str, group: list[Run]) -> Row:
    values = [run.result.values() for run in group]
    names = [name for name in METRICS if all(name in value for value in values)]
    failed = {name: reason for run in group for name, reason in run.result.scores.to_dict()["failed"].items()}
    for run, other in combinations(group, 2):
        if _seed(run) == _seed(other):
            raise RunError(f"two runs of {label} have the same seed: {run.folder} and {other.folder}.")
    metrics = {name: _summary([value[name] for value in values]) for name in names}
    if len(group) > 1 and "avg_gap" in metrics:
        metrics["gap_of_means"] = {"mean": avg_gap(*_means(group)), "std": None}
    return Row(
        label,
        group[0].settings,
        group[0].record["split"].get("forget", ""),
        group[0].record["split"]["manifest"],
        [_seed(run) for run in sorted(group, key=seeds_of)],
        metrics,
        failed,
        dict(Counter(call for run in group for call in _calls(run))),
        {str(_seed(run)): run.damage for run in sorted(group, key=seeds_of) if run.damage},
        group,
    )


def single(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each run of rows that average several."""
    return [make_row(row.method, [run]) for row in rows if len(row.runs) > 1 for run in row.runs]


def average_draws(rows: Sequence[Row]) -> list[Row]:
    """Return the mean and the spread of rows that differ in the draw of what was forgotten alone, named as such."""
    alike: dict[str, list[Row]] = {}
    for row in rows:
        first = row.runs[0]
        same = {name: value for name, value in describe(first).items() if name != "split.manifest"}
        if "seed" in first.record["split"]:
            key = json.dumps([first.title, row.forget, same, _examined(first)], sort_keys=True)
            alike.setdefault(key, []).append(row)
    several = [group for group in alike.values() if len(group) > 1]
    labels = label_runs([group[0].runs[0] for group in several], without=("split.manifest",))
    return [
        _over_draws(f"{label} over {len(group)} draws", group) for label, group in zip(labels, several, strict=True)
    ]


def _over_draws(label: str, rows: list[Row]) -> Row:
    """Return the row of the means of these rows, each of another draw."""
    names = [name for name in METRICS if name != "gap_of_means" and all(name in row.metrics for row in rows)]
    metrics = {name: _summary([statistics.fmean(_values(row, name)) for row in rows]) for name in names}
    if "avg_gap" in metrics:
        values, references = zip(*(_means(row.runs) for row in rows), strict=True)
        metrics["gap_of_means"] = {"mean": avg_gap(_mean(values), _mean(references)), "std": None}
    draws: list[int | str] = [f"draw {row.runs[0].record['split']['seed']}" for row in rows]
    runs = [run for row in rows for run in row.runs]
    calls = Counter(call for run in runs for call in _calls(run))
    failed = {name: reason for row in rows for name, reason in row.failed.items()}
    return Row(label, rows[0].settings, rows[0].forget, "", draws, metrics, failed, dict(calls), {}, runs)


def _values(row: Row, name: str) -> list[float]:
    return [run.result.values()[name] for run in row.runs]


def _means(runs: Sequence[Run]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the means over runs of what the gap is made of: their own, and those of their references."""
    scores = [run.result.scores for run in runs]
    return _mean([one.values for one in scores]), _mean([one.reference for one in scores])


def _mean(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(one[name] for one in values) for name in gap_over(values[0])}


def _calls(run: Run) -> list[str]:
    """Return what a run is called: its verdict, and that it is damaged, however that was found."""
    said = [run.result.scores.verdict.call] if run.result.scores.verdict else []
    return list(dict.fromkeys([*said, *([DAMAGED] if run.damage else [])]))


def _summary(values: list[float]) -> dict[str, float | None]:
    """Return the mean, and the sample's standard deviation where there is more than one value.

    >>> _summary([1.0, 3.0])
    {'mean': 2.0, 'std': 1.4142135623730951}
    """
    return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else None}
