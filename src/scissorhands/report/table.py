"""Runs, side by side: one row per method, the mean and the spread over seeds, and which rows cannot be told apart."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from ..errors import RunError
from ..metrics import METRICS
from ..runs import Run, is_run, reference_unchanged
from .differences import Difference, compare_methods, noise_gaps
from .rows import Row, average_draws, group_runs, label_runs, make_row

TITLES = {name: metric.title for name, metric in METRICS.items()}
MAIN = (
    "forget_accuracy",
    "retain_accuracy",
    "test_accuracy",
    "forget_mae",
    "retain_mae",
    "test_mae",
    "test_r2",
    "mia",
    "mia_threshold",
    "auc",
    "ua",
    "kept_accuracy",
    "fid",
    "clip",
    "nudity",
    "nudity_change",
    "avg_gap",
    "gap_of_means",
    "rte",
    "rte_tuned",
)


@dataclass(frozen=True)
class Table:
    """Rows, the method that gaps and times are measured against, and what chance alone does.

    `over_draws` has rows over several forget sets, drawn at random in the same way: the mean and spread of their rows.
    `noise` holds the Avg. Gaps between retrained models of different seeds: their mean is the noise floor. `stale` says
    which runs were compared with a reference that has changed since.
    """

    reference: str | None
    rows: list[Row]
    noise: list[float] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    over_draws: list[Row] = field(default_factory=list)

    def all_rows(self) -> list[Row]:
        """List the rows, those over several draws last."""
        return [*self.rows, *self.over_draws]

    def names(self, among: Sequence[str] = tuple(TITLES)) -> list[str]:
        """List the metrics that any row has, in the table's order."""
        found = {name for row in self.all_rows() for name in (*row.metrics, *row.failed)}
        return [name for name in among if name in found]

    def forgotten(self) -> list[str]:
        """List what the rows forgot, each once."""
        return list(dict.fromkeys(row.forget for row in self.rows if row.forget))

    def noise_floor(self) -> float | None:
        """Return the mean Avg. Gap between retrained models of different seeds."""
        return statistics.fmean(self.noise) if self.noise else None

    def nearest(self) -> str | None:
        """Return the method with the lowest Avg. Gap, of those that are compared."""
        return self.differences[0].method if self.differences else None

    def judged(self) -> bool:
        """Return whether any row has a verdict, or is damaged."""
        return any(row.verdicts for row in self.rows)

    def damage(self) -> list[str]:
        """Describe what runs broke, in sentences."""
        return [f"{row.method}, seed {seed}: {what}" for row in self.rows for seed, what in row.damaged.items()]

    def notes(self) -> list[str]:
        """Describe in sentences what is out of date, and what chance does."""
        return [*self.stale, *self.chance()]

    def chance(self) -> list[str]:
        """Describe in sentences what chance alone does, and what cannot be told apart."""
        lines = []
        if (floor := self.noise_floor()) is not None:
            shown = f"{floor:.{METRICS['avg_gap'].decimals(floor)}f}"
            lines.append(f"Noise floor: two retrained models of different seeds have an Avg. Gap of {shown}.")
        if self.differences:
            tied = [d.other for d in self.differences if not d.apart]
            apart = f"cannot be told apart from {', '.join(tied)}" if tied else "stands apart from all others"
            pairs = self.differences[0].pairs
            lines.append(f"Nearest: {self.nearest()}. With {pairs} paired runs it {apart}.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "reference": self.reference,
            "rows": [row.to_dict() for row in self.rows],
            "over_draws": [row.to_dict() for row in self.over_draws],
            "noise_floor": self.noise_floor(),
            "differences": [vars(difference) for difference in self.differences],
            "stale": self.stale,
        }


def tabulate(runs: Sequence[Run]) -> Table:
    """Make the table of these runs; only runs that forgot the same by the same method and settings are averaged."""
    if not runs:
        raise RunError("there is no run to show.")
    groups = group_runs(runs)
    labels = label_runs([group[0] for group in groups])
    rows = [make_row(label, group) for label, group in zip(labels, groups, strict=True)]
    folders = {(run.folder / run.result.reference).resolve() for run in runs if run.result.reference}
    references = {run.method for run in runs if run.folder.resolve() in folders} or {folder.name for folder in folders}
    reference = references.pop() if len(references) == 1 else None
    noise = noise_gaps([run for run in runs if run.method == reference])
    return Table(reference, rows, noise, compare_methods(runs, reference, noise), stale(runs), average_draws(rows))


def stale(runs: Sequence[Run]) -> list[str]:
    """List the runs whose reference has been replaced, or examined again, since they were compared with it."""
    found = []
    for run in runs:
        reference = run.folder / run.result.reference
        if run.result.reference_hash and is_run(reference) and not reference_unchanged(run):
            ours, theirs = (quote(os.path.relpath(folder)) for folder in (run.folder, reference))
            again = f"compare again: scissorhands evaluate {ours} --against {theirs}"
            found.append(f"{ours} was compared with a reference that has changed since; {again}")
    return found
