"""Sweeps as curves: what a metric does when one setting changes, the spread as a band, a retrained model as a line."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

from ...metrics import METRICS
from ..rows import Row
from ..table import Table
from .figure import SOFT, Chart, Figure
from .figure import as_svg as drawn_as_svg

SHOWN = (
    *("forget_accuracy", "retain_accuracy", "test_accuracy", "mia"),
    *("forget_mae", "retain_mae", "test_mae", "mia_threshold", "avg_gap"),
)
_WIDE = 10  # times the least value is the largest, from which on values are spaced by their logarithms


@dataclass(frozen=True)
class Point:
    """One value of a setting, and what a metric was there: the mean and the spread, and that of a retrained model."""

    method: str
    setting: str
    value: float
    metric: str
    mean: float
    std: float | None
    retrained: float | None


def points(table: Table) -> list[Point]:
    """Return the points of the curves; none unless rows of a method differ in one numeric setting, the same for all."""
    rows = table.over_draws or table.rows
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.runs[0].title, []).append(row)
    swept = {name: found for name, group in groups.items() if (found := _swept(group))}
    if len(set(swept.values())) != 1:
        return []
    retrained = next((row for row in rows if row.runs[0].method == table.reference), None)
    return [
        point
        for name, setting in swept.items()
        for row in sorted(groups[name], key=lambda row: float(row.settings[setting]))
        for point in _points(name, setting, row, retrained)
    ]


def _swept(rows: Sequence[Row]) -> str:
    """Return the one setting in which the rows differ, if it is a number and nothing else differs; else nothing."""
    differ = [name for name, value in rows[0].settings.items() if any(row.settings.get(name) != value for row in rows)]
    if len(differ) != 1 or len({row.settings[differ[0]] for row in rows}) < len(rows):
        return ""
    return differ[0] if all(type(row.settings[differ[0]]) in (int, float) for row in rows) else ""


def _points(method: str, setting: str, row: Row, retrained: Row | None) -> list[Point]:
    found = []
    for name in SHOWN:
        mean = row.metrics.get(name, {}).get("mean")
        if mean is not None:
            known = retrained.metrics.get(name, {}).get("mean") if retrained else None
            std = row.metrics[name]["std"]
            found.append(Point(method, setting, float(row.settings[setting]), METRICS[name].title, mean, std, known))
    return found


def as_csv(found: Sequence[Point]) -> str:
    """Return the points as lines of comma-separated values, with a header."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Point)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(point) for point in found)
    return out.getvalue()


@cache
def as_svg(found: tuple[Point, ...]) -> str:
    """Draw the points, a panel for each metric."""
    import altair as alt  # it takes a second to import, and few tables have curves

    panels = [chart.drawing.properties(width=220, title=chart.caption) for chart in _charts(found)]
    return drawn_as_svg(Chart("", alt.concat(*panels, columns=3).resolve_scale(color="shared")))


def sweep(table: Table) -> Figure | None:
    """Return the curves, where runs sweep a setting."""
    found = points(table)
    if not found:
        return None
    setting = found[0].setting
    return Figure(
        "sweep",
        f"What {setting} does",
        f"Each measure at each value of {setting}: the mean, and one standard deviation as a band.",
        "The curve meets the dashed line, the retrained model, and stays there: then the value hardly matters.",
        [_told(metric, found) for metric in dict.fromkeys(point.metric for point in found)],
        _charts(found),
        [asdict(point) for point in found],
    )


def _told(metric: str, found: Sequence[Point]) -> str:
    known = [f"{p.method}, {p.setting} = {p.value:g}: {p.mean:.2f}" for p in found if p.metric == metric]
    return f"{metric}: {'; '.join(known)}."


def _charts(found: Sequence[Point]) -> list[Chart]:
    return [
        Chart(metric, _panel([point for point in found if point.metric == metric]))
        for metric in dict.fromkeys(point.metric for point in found)
    ]


def _panel(found: Sequence[Point]) -> Any:
    """Return the curves of one metric."""
    import altair as alt

    values = [point.value for point in found]
    wide = min(values) > 0 and max(values) >= _WIDE * min(values)
    rows = [{**asdict(p), "low": p.mean - (p.std or 0), "high": p.mean + (p.std or 0)} for p in found]
    axis = alt.Axis(values=sorted(set(values)), format="~g", labelOverlap=True)
    scale = alt.Scale(type="log" if wide else "linear", nice=False)
    x = alt.X("value:Q", title=found[0].setting, scale=scale, axis=axis)
    color = alt.Color("method:N", title=None)
    base = alt.Chart(alt.InlineData(rows)).encode(x=x)
    near = alt.Scale(zero=False)
    band = base.mark_area(opacity=0.2).encode(alt.Y("low:Q", scale=near, title=None), alt.Y2("high:Q"), color)
    line = base.mark_line(point=True).encode(alt.Y("mean:Q", scale=near, title=None), color)
    dashed = base.mark_line(strokeDash=[4, 4], color=SOFT).encode(alt.Y("retrained:Q", scale=near, title=None))
    return alt.layer(band, dashed, line, width="container", height=160)
