"""Runs, side by side: one row per method, the mean and the spread over seeds."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .errors import RunError
from .metrics import METRICS
from .runs import Run

TITLES = {
    **{name: metric.title for name, metric in METRICS.items()},
    "avg_gap": "Avg. Gap",
    "rte": "RTE",
    "memory_mib": "Memory (MiB)",
}


@dataclass(frozen=True)
class Row:
    """One method with one set of settings on one forget set."""

    method: str
    settings: dict[str, Any]
    forget: str
    manifest: str
    seeds: list[int]
    metrics: dict[str, dict[str, float | None]]
    failed: dict[str, str]

    def cell(self, name: str) -> str:
        """A number as a person reads it."""
        if name in self.failed:
            return "failed"
        if name not in self.metrics:
            return "–"
        digits = 3 if name == "rte" else 0 if name == "memory_mib" else 2
        mean, std = self.metrics[name]["mean"], self.metrics[name]["std"]
        return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


@dataclass(frozen=True)
class Table:
    """Rows, and the method that gaps and times are measured against."""

    reference: str | None
    rows: list[Row]

    def names(self) -> list[str]:
        """The metrics that any row has, in the table's order."""
        found = {name for row in self.rows for name in (*row.metrics, *row.failed)}
        return [name for name in TITLES if name in found]

    def forgotten(self) -> list[str]:
        """What the rows forgot, each once."""
        return list(dict.fromkeys(row.forget for row in self.rows if row.forget))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        return {"reference": self.reference, "rows": [vars(row) for row in self.rows]}


def tabulate(runs: Sequence[Run]) -> Table:
    """The table of these runs. Runs are averaged only if they forgot the same thing by the same method and settings."""
    if not runs:
        raise RunError("there is no run to show.")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(json.dumps([run.method, _described(run)], sort_keys=True), []).append(run)
    labels = _labels([group[0] for group in groups.values()])
    rows = [_row(label, group) for label, group in zip(labels, groups.values(), strict=True)]
    folders = {(run.folder / run.result.reference).resolve() for run in runs if run.result.reference}
    references = {run.method for run in runs if run.folder.resolve() in folders} or {folder.name for folder in folders}
    return Table(references.pop() if len(references) == 1 else None, rows)


def _labels(firsts: list[Run]) -> list[str]:
    """The methods' names, each with the settings in which it differs from another row of its name."""
    labels = []
    for run in firsts:
        twins = [_described(other) for other in firsts if other.method == run.method]
        differs = {k: v for k, v in _described(run).items() if any(twin.get(k, v) != v for twin in twins)}
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


def _row(label: str, group: list[Run]) -> Row:
    values = [run.result.values() for run in group]
    names = [name for name in TITLES if all(name in value for value in values)]
    failed = {name: reason for run in group for name, reason in run.result.scores.failed.items()}
    seeds = sorted(run.record["seed"] for run in group)
    for run, other in combinations(group, 2):
        if run.record["seed"] == other.record["seed"]:
            raise RunError(f"two runs of {label} have the same seed: {run.folder} and {other.folder}.")
    return Row(
        label,
        group[0].settings,
        group[0].record["split"].get("forget", ""),
        group[0].record["split"]["manifest"],
        seeds,
        {name: _summary([value[name] for value in values]) for name in names},
        failed,
    )


def _summary(values: list[float]) -> dict[str, float | None]:
    """Mean, and the sample's standard deviation where there is more than one value.

    >>> _summary([1.0, 3.0])
    {'mean': 2.0, 'std': 1.4142135623730951}
    """
    return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else None}
