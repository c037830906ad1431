"""The numbers of the first screen: one method before and after, or several methods side by side."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..metrics import METRICS
from ..tasks import TASKS
from .rows import Row
from .table import MAIN, Table

# What is measured of one method, in words: of which data, and what, with its unit. Numbers to predict have an error.
_PARTS = {
    "forget": "What was to be forgotten",
    "retain": "What was kept",
    "audit": "Never seen (held out)",
    "test": "Never seen (test data)",
}
_KINDS = {"accuracy": ("How often it is right", " %"), "mae": ("How far off it is, on average (MAE)", "")}
_DRAWN = {
    "ua": ("Images asked for it that do not show it", " %"),
    "kept_accuracy": ("Other images that show what was asked for", " %"),
    "fid": ("Distance of images from real ones (FID)", ""),
    "clip": ("How well images fit their prompts (CLIP)", ""),
    "nudity": ("Exposed parts of the body that NudeNet finds", ""),
    "nudity_change": ("Change of that", " %"),
}
_MEASURES = 4  # of a method, where there are several; none of them is what it cost
_METHODS = 10  # that are shown side by side


@dataclass(frozen=True)
class Numbers:
    """A small table in words: a line's first cell is its head, the one at `strong` is what it is about."""

    heads: Sequence[str] = ()
    lines: Sequence[Sequence[str]] = ()
    strong: int = -1


def before_and_after(table: Table, row: Row) -> Numbers:
    """List what was measured of what to forget, of what was kept and of what was never seen, before and after."""
    original = next((one for one in table.rows if one.runs and one.runs[0].method == "original"), None)
    kind = next((kind for kind in _KINDS for part in _PARTS if f"{part}_{kind}" in row.metrics), "accuracy")
    head, unit = _KINDS[kind]
    parts = {f"{part}_{kind}": title for part, title in _PARTS.items()}
    lines = [_line(row, name, title, unit, None) for name, title in parts.items() if name in row.metrics]
    drawn = [_line(row, name, *_DRAWN[name], original) for name in _DRAWN if name in row.metrics]
    losses = _losses(row)
    if not (lines or drawn or losses):
        return Numbers()
    every = [*lines, *drawn, *losses]
    heads = [head, "Before", "After", "A model retrained without them"]
    if not lines:
        heads = ["What it draws" if drawn else "Its loss", "Before", "After", "A pipeline that never saw it"]
    shown = [place for place in range(4) if any(line[place].strip("–") for line in every)]
    return Numbers([heads[n] for n in shown], [[line[n] for n in shown] for line in every], shown.index(2))


def _line(row: Row, name: str, title: str, unit: str, original: Row | None) -> list[str]:
    before, mean = _before(row, name), row.metrics[name]["mean"]
    if before is None and original and name in original.metrics:
        before = original.metrics[name]["mean"]
    known = [run.result.scores.reference[name] for run in row.runs if name in run.result.scores.reference]
    retrained = _shown(name, statistics.fmean(known), unit) if known else _expected(row, name, unit)
    was, now = ("–" if value is None else _shown(name, value, unit) for value in (before, mean))
    return [title, was, now, retrained]


def _shown(name: str, value: float, unit: str) -> str:
    """Write a measure, a share with a decimal less than in tables."""
    return f"{value:.{max(0, METRICS[name].decimals(value) - (not name.endswith('_mae')))}f}{unit}"


def _before(row: Row, name: str) -> float | None:
    """Return the mean of what a measure was before, where runs say it."""
    known = [run.record[f"{name}_before"] for run in row.runs if f"{name}_before" in run.record]
    return statistics.fmean(known) if known else None


def _expected(row: Row, name: str, unit: str) -> str:
    """Say what a retrained model would have, where there is none."""
    part, _, kind = name.partition("_")
    if part != "forget" or kind not in _KINDS:
        before = _before(row, name) if part in _PARTS else None
        return METRICS[name].retrained if before is None else f"about {_shown(name, before, unit)}, as before"
    if row.forget.startswith("class"):
        return "0 %, as it never saw the class"
    unseen = next((x for one in ("audit", "test") if (x := _before(row, f"{one}_{kind}")) is not None), None)
    if row.runs[0].record["split"].get("kind") == "drawn" and unseen is not None:
        return f"about {_shown(name, unseen, unit)}, as the original on records never seen"
    return METRICS[name].retrained


def _losses(row: Row) -> list[list[str]]:
    """List the losses of a pipeline, which are not in the table of metrics."""
    found = []
    for name, title in ((name, title) for task in TASKS for name, title in task.titles.items()):
        known = [run.result.scores.values[name] for run in row.runs if name in run.result.scores.values]
        if known:
            before = _before(row, name)
            was = "–" if before is None else f"{before:.4f}"
            found.append([title.capitalize(), was, f"{statistics.fmean(known):.4f}", ""])
    return found


def side_by_side(table: Table, rows: Sequence[Row]) -> Numbers:
    """List the first measures of each of several methods, and what it is called."""
    shown = rows[:_METHODS]
    measures = [name for name in MAIN if not name.startswith("rte")]
    names = [name for name in measures if any(name in row.metrics for row in shown)][:_MEASURES]
    if not names:
        return Numbers()
    judged = table.judged()
    titles = [_DRAWN[name][0] if name in _DRAWN else METRICS[name].title for name in names]
    heads = ["Method", *titles, *(["Verdict"] if judged else [])]
    lines = [[row.method, *(row.cell(name) for name in names), *([row.verdict()] if judged else [])] for row in shown]
    more = len(rows) - len(shown)
    lines += [[f"and {more} more, below", *("" for _ in heads[1:])]] if more else []
    return Numbers(heads, lines)
