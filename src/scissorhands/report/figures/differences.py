"""How far each method is from the nearest, with intervals."""

from typing import Any

from ..table import Table
from .figure import INK, RETAIN, SOFT, Chart, Figure


def differences(table: Table) -> Figure | None:
    """Return the paired differences in Avg. Gap, where methods were compared."""
    rows = [
        {
            "method": d.other,
            "difference": d.mean,
            "low": d.low,
            "high": d.high,
            "pairs": d.pairs,
            "apart": _apart(d.apart),
        }
        for d in table.differences
    ]
    if not rows:
        return None
    nearest = table.nearest()
    return Figure(
        "differences",
        f"How far from {nearest}",
        f"How much farther each method is from the retrained model than {nearest}, which is nearest, by Avg. Gap on "
        "the same seeds and forget sets. All intervals together hold with 95 % confidence.",
        "A line that crosses zero: the two cannot be told apart with these runs. More seeds make the lines shorter.",
        [f"{row['method']}: {row['difference']:.2f}, {row['apart']}." for row in rows],
        [Chart("", _chart(rows))],
        rows,
    )


def _apart(apart: bool) -> str:
    return "told apart" if apart else "cannot be told apart"


def _chart(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    base = alt.Chart(alt.InlineData(rows)).encode(
        y=alt.Y("method:N", sort=None, title=None),
        color=alt.Color(
            "apart:N", scale=alt.Scale(domain=["told apart", "cannot be told apart"], range=[RETAIN, SOFT])
        ),
    )
    zero = alt.Chart(alt.InlineData([{"zero": 0}])).mark_rule(strokeDash=[4, 4], color=INK).encode(x=alt.X("zero:Q"))
    lines = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="difference in Avg. Gap, in points"), x2=alt.X2("high:Q")
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("difference:Q"), tooltip=[alt.Tooltip(f"{name}:N") for name in rows[0]]
    )
    return alt.layer(zero, lines, dots, width="container", height=26 * len(rows))
