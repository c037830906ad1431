"""The first screen of a page, in sentences: what was forgotten, how well, and what to do now."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..metrics import METRICS
from ..metrics.verdict import DAMAGED, OVER, SAME, UNDER, UNKNOWN
from ..runs import Run
from ..tasks import TASKS
from .rows import Row, versions
from .table import MAIN, Table

# Of each call: is it good, what it means in a line, and what to do.
_CALLS = {
    SAME: ("good", "No sign is left that the model knows them", "Nothing more to do. Keep the run folder as evidence."),
    UNDER: ("bad", "The model still knows them", "Do not treat them as forgotten: scrub longer, or by another method."),
    OVER: (
        "bad",
        "The records stand out, as avoided",
        "Scrub less: fewer epochs, or the default, which is calibrated.",
    ),
    DAMAGED: ("bad", "The model is damaged", "Do not use this model: scrub again with a lower trim or learning rate."),
    UNKNOWN: (
        "unsure",
        "The tests cannot tell",
        "Look deeper: 'scissorhands evaluate RUN --level standard', or compare with a retrained model.",
    ),
}
_BROKEN = "Do not use this model as it is: it breaks the policy below."
_PARTS = {
    "forget": "What was to be forgotten",
    "retain": "What was kept",
    "audit": "Never seen",
    "test": "Test data",
}
# What is said of each part, of classes or of numbers, and its unit.
_KINDS = {"accuracy": ("How often it is right", " %"), "mae": ("How far off it is, on average (MAE)", "")}
_SHOWN = 4  # measures of a method, where there are several methods
_DRAWN = ("ua", "kept_accuracy", "fid", "clip", "nudity", "nudity_change")


@dataclass(frozen=True)
class Change:
    """What a measure was before and after, and what a retrained model has."""

    title: str
    before: str
    after: str
    retrained: str


@dataclass(frozen=True)
class Story:
    """What happened, in sentences; whether it is good; the reason; what to do; and the numbers."""

    told: Sequence[str]
    tone: str
    headline: str
    reasons: Sequence[str]
    todo: str
    changes: Sequence[Change]
    subject: str  # the row that the numbers are of
    measured: str = "Measure"  # what the changes are of


def tell(table: Table, policy: Sequence[str] | None = None) -> Story:
    """Tell the story of a table: of its nearest method, or of the only one. A broken policy is bad in any case."""
    made = [row for row in table.rows if row.runs and row.runs[0].record.get("verb") != "train"]
    others = [row for row in made if row.method != table.reference and row.runs[0].method != "original"]
    nearest = next((row for row in others if row.method == table.nearest()), None)
    row = nearest or (others[0] if len(others) == 1 else None)
    told = [*_what(made or table.rows), *_who(table, others)]
    if row is None:
        call = ("unsure", f"{len(others)} methods, side by side" if others else "Nothing was forgotten here")
        return Story(told, *call, [_numbers(row) for row in others], _next_step(others), [], "")
    tone, headline, todo = _judged(row)
    if policy:
        tone, todo = "bad", f"{todo} It breaks the policy below." if tone == "bad" else _BROKEN
    kind = _kind(row)
    measured = _KINDS[kind][0] if kind else "Measure"
    return Story(told, tone, headline, _reasons(row), todo, changes(row), row.method, measured)


def _what(rows: Sequence[Row]) -> list[str]:
    """Say what was forgotten, and from which model."""
    run = rows[0].runs[0]
    model, data = run.record["model"], run.record["data"]["name"]
    origin = model["origin"] if model["name"] == "pipeline" else f"{model['name']}, trained on {data}"
    forgotten = list(dict.fromkeys(_forgotten(row) for row in rows if row.forget))
    if not forgotten:
        return [f"The model is {origin}."]
    return [f"To be forgotten: {'; or '.join(forgotten)}. The model is {origin}."]


def _forgotten(row: Row) -> str:
    """Say what a row forgot, in words.

    >>> from types import SimpleNamespace as some
    >>> run = some(result=some(scores=some(counts={"forget": 1200, "retain": 4800})), record={"verb": "scrub"})
    >>> _forgotten(some(forget="random:20%", runs=[run]))
    '1,200 of 6,000 training records, drawn at random (random:20%)'
    """
    kind, _, rest = row.forget.partition(":")
    if kind == "concept":
        return f"the concept “{rest}”"
    counts = row.runs[0].result.scores.counts
    forget, retain = counts.get("forget", 0), counts.get("retain", 0)
    how = {
        "random": "drawn at random",
        "class": f"all of class {rest}",
        "classes": "whole classes",
        "ids": "listed by number",
        "keys": "listed by name",
        "where": "by a condition",
    }
    return f"{forget:,} of {forget + retain:,} training records, {how.get(kind, 'chosen')} ({row.forget})"


def _who(table: Table, others: Sequence[Row]) -> list[str]:
    """Say which methods did it, when, and in how many runs."""
    runs = [run for row in table.rows for run in row.runs]
    if len(others) == 1 and len(others[0].runs) == 1:
        run = others[0].runs[0]
        seconds = f" It took {_duration(run.result.seconds)}." if run.result.seconds is not None else ""
        version = versions(run).get("scissorhands", "")
        return [f"It was done by the method {others[0].method} of scissorhands {version}{_when([run])}.{seconds}"]
    methods = ", ".join(row.method for row in others)
    seeds = {len(row.seeds) for row in others}
    count = f"{len(others)} methods" if len(others) > 1 else f"Method {methods}"
    several = f", with {max(seeds)} seeds each," if len(seeds) == 1 and max(seeds) > 1 else ""
    listed = f": {methods}" if len(others) > 1 else ""
    return [f"{count}{several}{_when(runs)}{listed}."] if others else [f"It was measured{_when(runs)}."]


def _when(runs: Sequence[Run]) -> str:
    """Say on which days runs ended; nothing where a run does not say it."""
    days = sorted({date for run in runs if (date := _day(run))})
    if not days:
        return ""
    first, last = (datetime.fromisoformat(day).strftime("%-d %B %Y") for day in (days[0][:10], days[-1][:10]))
    if len(runs) == 1:
        return f" on {first}, {days[0][11:16]} UTC"
    return f" on {first}" if first == last else f" from {first} to {last}"


def _day(run: Run) -> str:
    try:
        return datetime.fromisoformat(str(run.record.get("finished", ""))).isoformat()
    except ValueError:
        return ""


def _duration(seconds: float) -> str:
    """Return a time as a person says it.

    >>> _duration(0.43), _duration(100), _duration(7260)
    ('0.4 seconds', '2 minutes', '2.0 hours')
    """
    if seconds < 90:
        return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _judged(row: Row) -> tuple[str, str, str]:
    """Return whether it is good, the headline and what to do: those of the worst of its runs."""
    order = (DAMAGED, UNDER, OVER, UNKNOWN, SAME)
    calls = [call for call in order if call in row.verdicts]
    if not calls:
        return "unsure", "There is no verdict", "Look deeper: 'scissorhands evaluate RUN --level standard'."
    tone, headline, todo = _CALLS[calls[0]]
    count = row.verdicts[calls[0]]
    among = f", in {count} of {len(row.runs)} runs" if count < len(row.runs) else ""
    return tone, headline + among, todo


def _reasons(row: Row) -> list[str]:
    """Return why: the reasons of the only run, or how many runs are called what."""
    if len(row.runs) > 1:
        return [
            f"The runs of {row.method} are {row.verdict()}.",
            *(f"Seed {seed}: {what}." for seed, what in row.damaged.items()),
        ]
    run = row.runs[0]
    said = run.result.scores.verdict
    found = [f"{said.call.capitalize()}: {said.reason}"] if said else []
    told = run.damage and not (said and said.call == DAMAGED)
    return [*found, *([f"Damaged: {run.damage}."] if told else [])]


def _numbers(row: Row) -> str:
    """Return the first measures of a method in a line."""
    names = [name for name in MAIN if name in row.metrics][:_SHOWN]
    return f"{row.method}: {', '.join(f'{METRICS[name].title} {row.cell(name)}' for name in names)}."


def _next_step(others: Sequence[Row]) -> str:
    """Say what to do where no method can be called nearest."""
    if any(row.runs[0].record["model"]["name"] == "pipeline" for row in others):
        return "Look at what they draw, and weigh what is gone against what is kept."
    if others:
        return "Without a retrained model none can be called nearest: 'scissorhands evaluate RUN --against RETRAINED'."
    return "Make a model forget: 'scissorhands scrub RUN --forget … -o OUT'."


def changes(row: Row) -> list[Change]:
    """List what was measured of the records to forget, of those kept and of those never seen, before and after."""
    kind = _kind(row)
    names = {f"{part}_{kind}": title for part, title in _PARTS.items() if f"{part}_{kind}" in row.metrics}
    drawn = {name: METRICS[name].title for name in MAIN if name in _DRAWN and name in row.metrics}
    return [*(_change(row, name, title) for name, title in {**names, **drawn}.items()), *_losses(row)]


def _kind(row: Row) -> str:
    """Return what is known of the parts of the data: accuracy, or the error of numbers; empty of a pipeline."""
    return next((kind for kind in _KINDS for part in _PARTS if f"{part}_{kind}" in row.metrics), "")


def _change(row: Row, name: str, title: str) -> Change:
    known = [run.result.scores.reference[name] for run in row.runs if name in run.result.scores.reference]
    before = _before(row, name)
    retrained = _shown(name, statistics.fmean(known)) if known else _expected(row, name)
    mean = row.metrics[name]["mean"]
    assert mean is not None
    return Change(title, "–" if before is None else _shown(name, before), _shown(name, mean), retrained)


def _shown(name: str, value: float) -> str:
    """Write a measure, an accuracy in percent."""
    kind = name.partition("_")[2]
    unit = _KINDS[kind][1] if kind in _KINDS and name not in _DRAWN else ""
    return f"{value:.{METRICS[name].decimals(value) - (kind != 'mae')}f}{unit}"


def _before(row: Row, name: str) -> float | None:
    """Return the mean of what a measure was before, where runs say it."""
    known = [run.record[f"{name}_before"] for run in row.runs if f"{name}_before" in run.record]
    return statistics.fmean(known) if known else None


def _expected(row: Row, name: str) -> str:
    """Say what a retrained model would have, where there is none."""
    part, _, kind = name.partition("_")
    if part != "forget" or kind not in _KINDS:
        before = _before(row, name) if kind in _KINDS and name not in _DRAWN else None
        return METRICS[name].retrained if before is None else f"about {_shown(name, before)}, as before"
    if row.forget.startswith("class"):
        return "0 %, as it never saw the class"
    unseen = next((x for one in ("audit", "test") if (x := _before(row, f"{one}_{kind}")) is not None), None)
    if row.runs[0].record["split"].get("kind") == "drawn" and unseen is not None:
        return f"about {_shown(name, unseen)}, as the original on records never seen"
    return METRICS[name].retrained


def _losses(row: Row) -> list[Change]:
    """List the losses of a pipeline, which are not in the table of metrics."""
    found = []
    for name, title in ((name, title) for task in TASKS for name, title in task.titles.items()):
        known = [run.result.scores.values[name] for run in row.runs if name in run.result.scores.values]
        if known:
            before = _before(row, name)
            was = "–" if before is None else f"{before:.4f}"
            found.append(Change(title.capitalize(), was, f"{statistics.fmean(known):.4f}", ""))
    return found
