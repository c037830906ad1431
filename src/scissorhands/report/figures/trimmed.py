"""How much of each layer was trimmed: drawn anew before the repair."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...runs import Run
from ..table import Table
from .figure import RETAIN, Chart, Figure
from .kept import events

_LAYERS = 40  # of which the most trimmed are shown
_RUNS = 12  # of which a page shows the layers, at most: the first of each row


def trimmed(table: Table) -> Figure | None:
    """Return the share of each layer that the first run of each row trimmed, where one did."""
    charts, rows = [], []
    for row in table.rows[:_RUNS]:
        if shares := _shares(row.runs[0]):
            charts.append(Chart("", _chart(shares), row.method))
            rows += [{"run": row.method, **share} for share in shares]
    if not charts:
        return None
    return Figure(
        "trimmed",
        "What was trimmed",
        "The share of each layer's weights that was drawn anew, because the forgotten records depend on them most.",
        "There is no right amount: a small share everywhere forgets gently; a whole layer has to be learned again.",
        [_told(chart.group, rows) for chart in charts],
        charts,
        rows,
    )


def _shares(run: Run) -> list[dict[str, Any]]:
    """Return the shares by layer, of the last trim: an attempt that damaged the model is made again."""
    trims = [event["layers"] for event in events(run) if event.get("phase") == "trim" and _is_counted(event)]
    found = [
        {"layer": name, "share": 100 * drawn / size, "trimmed": drawn, "weights": size}
        for name, (drawn, size) in (trims[-1] if trims else {}).items()
    ]
    most = {one["layer"] for one in sorted(found, key=lambda one: -one["share"])[:_LAYERS]}
    return [one for one in found if one["layer"] in most]


def _is_counted(event: Mapping[str, Any]) -> bool:
    """Return whether an event says of each layer how many weights were trimmed, of how many."""
    layers = event.get("layers")
    return isinstance(layers, dict) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and 0 < n < 1 << 60 for n in pair)
        for pair in layers.values()
    )


def _told(run: str, rows: Sequence[Mapping[str, Any]]) -> str:
    found = [f"{one['layer']} {one['share']:.1f} % of {one['weights']:,} weights" for one in rows if one["run"] == run]
    return f"{run}: {', '.join(found)}."


def _chart(shares: list[dict[str, Any]]) -> Any:
    import altair as alt

    bars = alt.Chart(alt.InlineData(shares)).mark_bar(color=RETAIN)
    return bars.encode(
        y=alt.Y("layer:N", sort=None, title=None, axis=alt.Axis(labelLimit=alt.ExprRef("max(130, width / 2)"))),
        x=alt.X("share:Q", title="share of the layer that was trimmed, in %"),
        tooltip=[alt.Tooltip("layer:N"), alt.Tooltip("trimmed:Q"), alt.Tooltip("weights:Q")],
    ).properties(width="container", height=18 * len(shares))
