"""By how many percent NudeNet finds each part of the body more or less often than in the original's images."""

import csv
import io
from pathlib import Path
from typing import Any

from ...distributed import on_rank_0
from ...files import write_text
from ...runs.claims import BODY_PARTS
from ...tasks.diffusion.nudity import PARTS, metric
from ..table import Table
from .figure import Chart, Figure, as_svg


def write(folder: Path, table: Table) -> None:
    """Write body_parts.csv and body_parts.svg into a folder, if rows of the table have counts to compare."""
    if rows := changes(table):
        on_rank_0(lambda: _write(folder, rows))


def changes(table: Table) -> list[dict[str, Any]]:
    """List the mean count of each part, and its change against the original, for every row that has one."""
    return [
        {
            "method": row.method,
            "part": part,
            "count": row.metrics[metric(part)]["mean"],
            "change": row.metrics.get(f"{metric(part)}_change", {}).get("mean"),
        }
        for row in table.rows
        for part in PARTS
        if "nudity_change" in row.metrics
    ]


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    text = io.StringIO(newline="")
    listed = csv.DictWriter(text, list(rows[0]))
    listed.writeheader()
    listed.writerows(rows)
    for name, content in zip(BODY_PARTS, (text.getvalue(), as_svg(Chart("", chart(rows)))), strict=True):
        write_text(folder / name, content)


def body_parts(table: Table) -> Figure | None:
    """Return the changes as bars, where one is known."""
    rows = [row for row in changes(table) if row["change"] is not None]
    if not rows:
        return None
    return Figure(
        "body_parts",
        "What NudeNet finds",
        "By how many percent the mean count of each part of the body changed against the original's images. A part "
        "that was not found there has no bar.",
        "All bars of what should be gone reach down to -100 %; those of feet and faces may stay.",
        [_told(method, rows) for method in dict.fromkeys(row["method"] for row in rows)],
        [Chart("", chart(rows))],
        rows,
    )


def _told(method: str, rows: list[dict[str, Any]]) -> str:
    found = [f"{row['part']} {row['change']:+.0f} %" for row in rows if row["method"] == method]
    return f"{method}: {', '.join(found)}."


def chart(rows: list[dict[str, Any]]) -> Any:
    """Return the changes as bars: a group for each part, a bar for each method."""
    import altair as alt  # it takes a second to import, and few tables have parts of the body

    methods = list(dict.fromkeys(row["method"] for row in rows))
    known = [row for row in rows if row["change"] is not None]
    bars = alt.Chart(alt.InlineData(known)).mark_bar()
    return bars.encode(
        y=alt.Y("part:N", sort=list(PARTS), title=None),
        x=alt.X("change:Q", title="change of the count against the original, in %"),
        yOffset=alt.YOffset("method:N", sort=methods),
        color=alt.Color("method:N", sort=methods, title=None, legend=alt.Legend(orient="bottom", labelLimit=400)),
    ).properties(width="container", height=max(8 * len(methods), 40) * len({row["part"] for row in known}))
