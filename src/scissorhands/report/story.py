"""The first screen of a page, in sentences: what was forgotten, how well, and what to do now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

from ..metrics.verdict import DAMAGED, OVER, SAME, UNDER, UNKNOWN
from ..runs import Run
from .numbers import Numbers, before_and_after, side_by_side
from .rows import Row, versions
from .table import Table

# Of each call: is it good, what it means in a line, and what to do.
_CALLS = {
    SAME: (
        "good",
        "Forgotten: the tests find no sign that the model knows them",
        "Nothing more to do. Keep the run folder as evidence.",
    ),
    UNDER: (
        "bad",
        "Not forgotten: the model still knows them",
        "Do not treat them as forgotten: scrub longer, or by another method.",
    ),
    OVER: (
        "bad",
        "Overdone: the records stand out, as avoided",
        "Scrub less: fewer epochs, or the default, which is calibrated.",
    ),
    DAMAGED: ("bad", "The model is damaged", "Do not use this model: scrub again with a lower trim or learning rate."),
    UNKNOWN: ("unsure", "It cannot be told yet whether they are forgotten", ""),
}
_DEEPER = (
    "Do not treat them as forgotten yet. Whoever made this run can look deeper: "
    "'scissorhands evaluate RUN --level standard', or compare it with a retrained model."
)
_MORE = "Do not treat them as forgotten yet. More records can be judged: serve requests together, or hold out more."
_BROKEN = "Do not use this model as it is: it breaks the policy below."
_LOOK = "No test judges what a pipeline draws: look at the images, and ask for it in other words, too."
_LONG = 24  # letters of a model's name


@dataclass(frozen=True)
class Story:
    """What happened, in sentences; whether it is good; the reason; what to do; and the numbers."""

    told: Sequence[str]
    tone: str
    headline: str
    reasons: Sequence[str]
    todo: str
    numbers: Numbers
    subject: str  # the row that the numbers are of


def tell(table: Table, policy: Sequence[str] | None = None) -> Story:
    """Tell the story of a table: of its nearest method, or of the only one. A broken policy is bad in any case."""
    made = [row for row in table.rows if row.runs and row.runs[0].record.get("verb") != "train"]
    others = [row for row in made if row.method != table.reference and row.runs[0].method != "original"]
    nearest = next((row for row in others if row.method == table.nearest()), None)
    row = nearest or (others[0] if len(others) == 1 else None)
    told = [*_what(made or table.rows), *_who(table, others)]
    if row is None:
        before = [row for row in table.rows if row.runs and row.runs[0].method == "original" and row in made and others]
        return Story(told, *_several(table, others), side_by_side(table, [*before, *others]), "")
    tone, headline, todo = _judged(row)
    if policy:
        tone, todo = "bad", f"{todo} It breaks the policy below." if tone == "bad" else _BROKEN
    reasons = [*_nearest(table, others, row), *_reasons(row)]
    return Story(told, tone, headline, reasons, todo, before_and_after(table, row), row.method)


def _what(rows: Sequence[Row]) -> list[str]:
    """Say what was forgotten, and from which model."""
    run = rows[0].runs[0]
    model, data = run.record["model"], run.record["data"]["name"]
    if model["name"] == "pipeline":
        own = "" if model["origin"] == "pipeline" else f" “{_short(model['origin'])}”"
        origin = f"a diffusion pipeline{own}"
    else:
        origin = f"“{_short(model['name'])}”, trained on “{_short(data)}”"
    folder = PurePath(str(model.get("source", ""))).name
    if (
        folder
        and len(rows) == 1
        and folder not in (model["name"], model["origin"])
        and run.record.get("verb") == "scrub"
    ):
        origin += f", in the folder “{_short(folder)}”"
    forgotten = list(dict.fromkeys(_forgotten(row) for row in rows if row.forget))
    if not forgotten:
        return [f"The model is {origin}."]
    return [f"To be forgotten: {'; or '.join(forgotten)}. The model is {origin}."]


def _short(name: str) -> str:
    """Return a name, cut if it is long.

    >>> _short("digits-82d03110d21cf87edd64d5a4dc186182")
    'digits-82d03110d21cf87ed…'
    """
    return name if len(name) <= _LONG else f"{name[:_LONG]}…"


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
        seconds = f", in {_duration(run.result.seconds)}" if run.result.seconds is not None else ""
        by = f", by {run.record['who']}" if run.record.get("who") else ""
        version = versions(run).get("scissorhands", "")
        return [f"Done by scissorhands {version}, method {others[0].method},{_when([run])}{seconds}{by}."]
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
    calls = [call for call in (DAMAGED, UNDER, OVER, UNKNOWN, SAME) if call in row.verdicts]
    if not calls and row.forget.startswith("concept:"):
        return _drawn(row)
    if not calls:
        return "unsure", "It was not tested whether they are forgotten", _DEEPER
    tone, headline, todo = _CALLS[calls[0]]
    if calls[0] == UNKNOWN:
        todo = _MORE if all(run.result.examined or run.result.reference for run in row.runs) else _DEEPER
    count = row.verdicts[calls[0]]
    among = f", in {count} of {len(row.runs)} runs" if count < len(row.runs) else ""
    return tone, headline + among, todo


def _drawn(row: Row) -> tuple[str, str, str]:
    """Return the same of what a pipeline draws, on which there is no verdict."""
    means = {name: known["mean"] for name, known in row.metrics.items()}
    if (gone := means.get("ua")) is not None:
        still = f"still shows in {100 - gone:.0f} % of the images" if gone < 100 else "shows in none of the images"
        return "unsure", f"The concept {still} that ask for it", _LOOK
    if (parts := means.get("nudity")) is not None:
        return "unsure", f"NudeNet finds {parts:.0f} exposed parts of the body in the images", _LOOK
    todo = "Let it draw with 'scissorhands sample', then measure that with 'scissorhands judge'."
    return "unsure", "It was not measured what the pipeline draws now", todo


def _nearest(table: Table, others: Sequence[Row], row: Row) -> list[str]:
    """Say that this method was chosen among several, and why."""
    if len(others) < 2 or row.method != table.nearest():
        return []
    floor = table.noise_floor()
    noise = f"; two retrained models differ by {floor:.2f}" if floor is not None else ""
    gap = f"Avg. Gap {row.cell('avg_gap')}{noise}"
    return [f"Of {len(others)} methods, {row.method} is nearest to a retrained model: {gap}."]


def _reasons(row: Row) -> list[str]:
    """Return why: the reasons of the only run, or how many runs are called what."""
    if len(row.runs) > 1:
        said = [f"The runs of {row.method} are {row.verdict()}."] if row.verdicts else []
        return [*said, *(f"Seed {seed}: {what}." for seed, what in row.damaged.items())]
    run = row.runs[0]
    said_of = run.result.scores.verdict
    found = [f"{said_of.call.capitalize()}: {said_of.reason}"] if said_of else []
    told = run.damage and not (said_of and said_of.call == DAMAGED)
    return [*found, *([f"Damaged: {run.damage}."] if told else [])]


def _several(table: Table, others: Sequence[Row]) -> tuple[str, str, list[str], str]:
    """Say of methods of which none is nearest whether that is good, in a headline, why, and what to do."""
    if not others:
        todo = "Make a model forget: 'scissorhands scrub RUN --forget … -o OUT'."
        return "unsure", "Nothing was forgotten here", [], todo
    if table.nearest():
        todo = "Do not treat the records as forgotten: choose other settings, or another method."
        headline = "No method is nearer to a retrained model than the model was before"
        return "bad", headline, [], todo
    headline = f"{len(others)} methods, side by side"
    if any(row.runs[0].record["model"]["name"] == "pipeline" for row in others):
        return "unsure", headline, [], "Look at what they draw, and weigh what is gone against what is kept."
    todo = "Without a retrained model none can be called nearest: 'scissorhands evaluate RUN --against RETRAINED'."
    return "unsure", headline, [], todo
