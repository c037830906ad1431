"""How a run went: its losses, step by step, and where it stopped."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ...runs import Run
from ..table import Table
from .figure import SOFT, Chart, Figure
from .kept import events

_POINTS = 150  # of a curve: each is the mean of some steps
_LOSSES = ("retain", "forget", "loss")  # of which the last stands where there is no other
_HUGE = 1e30  # a loss of this size says nothing
_RUNS = 12  # of which a page shows the curves, at most: the first of each row


def progress(table: Table) -> Figure | None:
    """Return the losses of the first run of each row, where it logged some."""
    charts, rows, told = [], [], []
    for row in table.rows[:_RUNS]:
        for phase, curve in _curves(row.runs[0]).items():
            charts.append(Chart(phase, _chart(curve), row.method))
            rows += [{"run": row.method, "phase": phase, **point} for point in curve["points"]]
            told.append(f"{row.method}, {phase}: {_told(curve)}")
    if not charts:
        return None
    return Figure(
        "progress",
        "How the run went",
        "The loss on the records to retain, and on those to forget, step by step; each point is the mean of "
        "some steps. The vertical line is where it stopped.",
        "It settles. A loss that still falls at the end asks for more epochs; one that jumps, a lower learning rate.",
        "; ".join(told) + ".",
        charts,
        rows,
    )


def _curves(run: Run) -> dict[str, dict[str, Any]]:
    """Return for each phase its points, the last step, and how many were planned."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for event in events(run):
        if all(type(event.get(name)) is int and 0 < event[name] < _HUGE for name in ("step", "steps")) and event.get(
            "phase"
        ):
            phases.setdefault(str(event["phase"]), []).append(event)
    found = {}
    for phase, steps in phases.items():
        points = [point for name in _losses(steps) for point in _means(name, steps)]
        if points:
            found[phase] = {"points": points, "last": steps[-1]["step"], "planned": steps[-1]["steps"]}
    return found


def _losses(steps: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the losses that were logged."""
    known = [name for name in _LOSSES if any(_is_number(event.get(name)) for event in steps)]
    return known[:-1] if len(known) > 1 and known[-1] == "loss" else known


def _means(name: str, steps: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the mean of some steps after each other, until there are few enough."""
    known = [(e["step"], e[name]) for e in steps if _is_number(e.get(name))]
    size = max(1, math.ceil(len(known) / _POINTS))
    for start in range(0, len(known), size):
        some = known[start : start + size]
        mean = sum(value for _, value in some) / len(some)
        yield {"loss of": name, "step": some[-1][0], "loss": float(f"{mean:.5g}")}


def _is_number(value: Any) -> bool:
    """Return whether it is a number that can be drawn, which NaN is not."""
    return isinstance(value, int | float) and abs(value) < _HUGE


def _told(curve: dict[str, Any]) -> str:
    first, last = curve["points"][0]["loss"], curve["points"][-1]["loss"]
    stopped = f"it stopped after step {curve['last']} of {curve['planned']}"
    return f"the loss went from {first:.3g} to {last:.3g}; {stopped}"


def _chart(curve: dict[str, Any]) -> Any:
    import altair as alt

    several = len({point["loss of"] for point in curve["points"]}) > 1
    lines = (
        alt.Chart(alt.InlineData(curve["points"]))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("step:Q", title="step", scale=alt.Scale(domain=[0, curve["planned"]], nice=False)),
            y=alt.Y("loss:Q", title="loss"),
            color=alt.Color("loss of:N", legend=alt.Legend() if several else None),
        )
    )
    stop = alt.Chart(alt.InlineData([{"step": curve["last"]}])).mark_rule(color=SOFT, strokeDash=[3, 3])
    return alt.layer(lines, stop.encode(x=alt.X("step:Q")), width="container", height=180)
