"""How a run went: its losses and its guard, step by step, and where it stopped."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...runs import Run
from ..table import Table
from .figure import FORGET, INK, RETAIN, SOFT, Chart, Figure
from .kept import events

_POINTS = 100  # of a curve: each is the mean of some steps
_KINDS = {
    "retain": ("loss on retained records", RETAIN),
    "forget": ("loss on records to forget", FORGET),
    "loss": ("loss", INK),  # only where it is of neither
    "guard": ("guard", INK),
}
_HUGE = 1e30  # a loss of this size says nothing
_RUNS = 12  # of which a page shows the curves, at most: the first of each row


@dataclass(frozen=True)
class _Curve:
    """A number that was logged in each step of a phase: means of some steps, its last step, and how many were planned.

    `least` is what a guard is at least: the method's λ.
    """

    phase: str
    kind: str
    points: Sequence[tuple[int, float]]
    last: int
    planned: int
    least: float | None = None

    def title(self) -> str:
        """Return what it is of."""
        return f"{self.phase}: {_KINDS[self.kind][0]}"

    def told(self) -> str:
        """Say where it went."""
        (_, first), *_, (_, last) = [self.points[0], *self.points]
        return f"{self.title()} from {first:.3g} to {last:.3g}, after step {self.last} of {self.planned}"


def progress(table: Table) -> Figure | None:
    """Return the curves of the first run of each row, where it logged some."""
    found = {row.method: [*_curves(row.runs[0])] for row in table.rows[:_RUNS]}
    every = [(method, curve) for method, curves in found.items() for curve in curves]
    if not every:
        return None
    guarded = any(curve.kind == "guard" for _, curve in every)
    return Figure(
        "progress",
        "How the run went",
        "The losses on what is retained and on what is to be forgotten, step by step; each point is the mean of some "
        "steps, and the vertical line is where the run stopped."
        + (" The guard is how much of the gradient on forgotten records a step takes out." if guarded else ""),
        "It settles. A loss that still falls at the end asks for more epochs; one that jumps, a lower learning rate."
        + (" A guard above λ, the dashed line, kept a step from teaching them again." if guarded else ""),
        [f"{method}: {'; '.join(curve.told() for curve in curves)}." for method, curves in found.items() if curves],
        [Chart(curve.title(), _chart(curve), method) for method, curve in every],
        [
            {"run": method, "phase": curve.phase, "what": curve.kind, "step": step, "value": value}
            for method, curve in every
            for step, value in curve.points
        ],
    )


def _curves(run: Run) -> Iterator[_Curve]:
    """Yield the curves of each phase."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for event in events(run):
        if all(type(event.get(name)) is int and 0 < event[name] < _HUGE for name in ("step", "steps")) and event.get(
            "phase"
        ):
            phases.setdefault(str(event["phase"]), []).append(event)
    balance = run.settings.get("balance")
    least = float(balance) if isinstance(balance, int | float) and _is_number(balance) else None
    for phase, steps in phases.items():
        known = [kind for kind in _KINDS if any(_is_number(event.get(kind)) for event in steps)]
        for kind in known:
            if kind != "loss" or not {"retain", "forget"} & {*known}:
                own = least if kind == "guard" else None
                yield _Curve(phase, kind, _means(kind, steps), steps[-1]["step"], steps[-1]["steps"], own)


def _means(kind: str, steps: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """Return the means of some steps after each other, so many that there are few enough."""
    known = [(event["step"], event[kind]) for event in steps if _is_number(event.get(kind))]
    size = math.ceil(len(known) / _POINTS)
    parts = [known[start : start + size] for start in range(0, len(known), size)]
    return [(part[-1][0], float(f"{sum(value for _, value in part) / len(part):.4g}")) for part in parts]


def _is_number(value: Any) -> bool:
    """Return whether it is a number that can be drawn, which NaN is not."""
    return isinstance(value, int | float) and abs(value) < _HUGE


def _chart(curve: _Curve) -> Any:
    import altair as alt

    rows = [{"step": step, "value": value} for step, value in curve.points]
    x = alt.X("step:Q", title="step", scale=alt.Scale(domain=[0, curve.planned], nice=False))
    line = alt.Chart(alt.InlineData(rows)).mark_line(strokeWidth=1.5, color=_KINDS[curve.kind][1], point=len(rows) == 1)
    stop = alt.Chart(alt.InlineData([{"step": curve.last}])).mark_rule(color=SOFT, strokeDash=[3, 3])
    layers = [line.encode(x=x, y=alt.Y("value:Q", title=None)), stop.encode(x=alt.X("step:Q"))]
    if curve.least is not None:
        least = alt.Chart(alt.InlineData([{"value": curve.least}])).mark_rule(color=SOFT, strokeDash=[4, 4])
        layers.append(least.encode(y=alt.Y("value:Q")))
    return alt.layer(*layers, width="container", height=150)
