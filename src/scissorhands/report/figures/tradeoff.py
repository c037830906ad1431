"""What was forgotten against what was kept: a dot for each run, the original, and the retrained models."""

from collections.abc import Sequence
from typing import Any

from ...metrics import METRICS
from ...runs import Run
from ..table import Table
from .figure import FORGET, INK, METHODS, SOFT, UNSEEN, Chart, Figure

# What is drawn upwards against what is drawn across; the first pair that all runs know is taken.
_AXES = (
    ("forget_accuracy", "test_accuracy"),
    ("forget_accuracy", "audit_accuracy"),
    ("forget_mae", "test_mae"),
    ("forget_mae", "audit_mae"),
    ("ua", "fid"),
    ("ua", "kept_accuracy"),
    ("nudity", "fid"),
    ("nudity", "clip"),
)
_TITLES = {
    "forget_accuracy": "accuracy on forgotten records, in %",
    "test_accuracy": "accuracy on test data, in %",
    "audit_accuracy": "accuracy on records never seen, in %",
    "forget_mae": "mean absolute error on forgotten records",
    "test_mae": "mean absolute error on test data",
    "audit_mae": "mean absolute error on records never seen",
    "ua": "images without the concept, in %",
    "nudity": "exposed parts of the body that NudeNet finds",
    "fid": "distance from real images (FID)",
    "kept_accuracy": "other images that show what was asked, in %",
    "clip": "how well other images fit their prompts (CLIP)",
}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_LEAST = 4.0  # percent that an axis shows at least, so that little does not look like much


def tradeoff(table: Table) -> Figure | None:
    """Return the scatter, if runs know both measures of a pair."""
    scored = [run for row in table.rows for run in row.runs]
    known = [axes for axes in _AXES if scored and all({*axes} <= run.result.scores.values.keys() for run in scored)]
    if not known:
        return None
    forgotten, kept = known[0]
    rows = _rows(table, kept, forgotten)
    if len({row["what"] for row in rows}) < 2 or {row["what"] for row in rows} <= {"original", "retrained"}:
        return None
    drawn = all(run.record["split"].get("kind") == "drawn" for run in scored)
    return Figure(
        "tradeoff",
        "Forgetting against usefulness",
        "Each dot is a run: across, how good the model still is on data that it was never trained on; up, how much it "
        "still gets right of what it should forget."
        if forgotten == "forget_accuracy"
        else f"Each dot is a run: across, {_TITLES[kept]}; up, {_TITLES[forgotten]}.",
        _good(rows, drawn, kept, forgotten),
        _words(rows, kept, forgotten),
        [Chart("", _chart(rows, kept, forgotten, drawn))],
        rows,
    )


def _rows(table: Table, kept: str, forgotten: str) -> list[dict[str, Any]]:
    """Return the dots: those of runs, and what the models were before."""
    found: list[dict[str, Any]] = []
    for row in table.rows:
        what = "retrained" if row.method == table.reference else row.method
        for run in row.runs:
            values = run.result.scores.values
            seed = run.record["seed"]
            found.append({"what": what, "seed": seed, "kept": values[kept], "forget": values[forgotten]})
            known = run.result.scores.reference
            if known and kept in known and forgotten in known:
                was = {"kept": known[kept], "forget": known[forgotten]}
                found.append({"what": "retrained", "seed": seed, **was})
            if before := _before(run, kept, forgotten):
                found.append({"what": "original", "seed": seed, **before})
    return list({tuple(row.items()): row for row in found}.values())


def _before(run: Run, kept: str, forgotten: str) -> dict[str, float]:
    """Return where the model was before; empty if that is unknown, or it was trained by the method."""
    was = {"kept": run.record.get(f"{kept}_before"), "forget": run.record.get(f"{forgotten}_before")}
    return {} if None in was.values() or run.method == "retrain" else was  # type: ignore[return-value]


def _good(rows: Sequence[dict[str, Any]], drawn: bool, kept: str, forgotten: str) -> str:
    if any(row["what"] == "retrained" for row in rows):
        return "Good is near the retrained models, whose spread over seeds is the shaded box: inside it, chance alone."
    if drawn:
        side = "left" if METRICS[kept].best == "lower" else "right"
        return (
            f"Good is on the dashed line, where forgotten records are known as well as records never seen, far {side}."
        )
    up = "top" if METRICS[forgotten].best == "higher" or forgotten == "forget_mae" else "bottom"
    across = "left" if METRICS[kept].best == "lower" else "right"
    return f"Good is at the {up} {across}: nothing of what was to be forgotten, everything else as before."


def _words(rows: Sequence[dict[str, Any]], kept: str, forgotten: str) -> list[str]:
    found, digits = [], ".4g" if forgotten == "forget_mae" else ".1f"
    for what in dict.fromkeys(row["what"] for row in rows):
        own = [row for row in rows if row["what"] == what]
        across, up = (sum(row[name] for row in own) / len(own) for name in ("kept", "forget"))
        found.append(f"{what}: {_TITLES[forgotten]}: {up:{digits}}; {_TITLES[kept]}: {across:{digits}}.")
    return found


def _chart(rows: Sequence[dict[str, Any]], kept: str, forgotten: str, drawn: bool) -> Any:
    import altair as alt

    special = {"original": (SOFT, "circle"), "retrained": (INK, "diamond")}
    names = list(dict.fromkeys(row["what"] for row in rows))
    others = [name for name in names if name not in special]
    looks = special | {name: (METHODS[n % len(METHODS)], _SHAPES[n % len(_SHAPES)]) for n, name in enumerate(others)}
    order = others + [name for name in special if name in names]
    tips = {"what": "model", "seed": "seed", "kept": _TITLES[kept], "forget": _TITLES[forgotten]}
    dots = (
        alt.Chart(alt.InlineData([dict(row) for row in rows]))
        .mark_point(size=90, filled=True, opacity=0.8)
        .encode(
            x=alt.X("kept:Q", title=_TITLES[kept], scale=_scale(rows, "kept", _TITLES[kept])),
            y=alt.Y("forget:Q", title=_TITLES[forgotten], scale=_scale(rows, "forget", _TITLES[forgotten])),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(range=[looks[n][0] for n in order], domain=order),
                legend=alt.Legend(columns=alt.ExprRef("width < 480 ? 2 : 4"), labelLimit=_label_limit(names)),
            ),
            shape=alt.Shape("what:N", scale=alt.Scale(range=[looks[n][1] for n in order], domain=order)),
            tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in tips.items()],
        )
    )
    ring = alt.Chart(alt.InlineData([dict(row) for row in rows if row["what"] == "retrained"]))
    rings = ring.mark_point(shape="diamond", size=260, color=INK, strokeWidth=1.5).encode(
        x=alt.X("kept:Q"), y=alt.Y("forget:Q")
    )
    layers = [*_guides(rows, drawn), dots, *([rings] if "retrained" in names else [])]
    return alt.layer(*layers, width="container", height=300)


def _label_limit(names: Sequence[str]) -> Any:
    """Return how wide a name in the legend may be: on a phone two stand beside each other."""
    import altair as alt

    return alt.ExprRef(f"width < 480 ? 130 : {140 if len(names) > 8 else 220}")


def _scale(rows: Sequence[dict[str, Any]], name: str, title: str) -> Any:
    """Return the scale of an axis: all dots with room around them."""
    import altair as alt

    values = [row[name] for row in rows]
    low, high = min(values), max(values)
    least = _LEAST if title.endswith("%") else 0.04 * abs(high)
    room = max(0.08 * (high - low), (least - (high - low)) / 2)
    ends = low - room, min(high + room, 101.0) if title.endswith("%") else high + room
    return alt.Scale(domain=[round(end, 2) for end in ends], nice=False, zero=False)


def _guides(rows: Sequence[dict[str, Any]], drawn: bool) -> list[Any]:
    """Return what to compare with: the spread of retrained models, or the line where nothing stands out."""
    import altair as alt

    retrained = [row for row in rows if row["what"] == "retrained"]
    if retrained:
        pairs = {name: [row[name] for row in retrained] for name in ("kept", "forget")}
        box = {"x": min(pairs["kept"]), "x2": max(pairs["kept"]), "y": min(pairs["forget"]), "y2": max(pairs["forget"])}
        noise = alt.Chart(alt.InlineData([box])).mark_rect(opacity=0.18, color=UNSEEN, stroke=UNSEEN, strokeWidth=6)
        return [noise.encode(x=alt.X("x:Q"), x2=alt.X2("x2:Q"), y=alt.Y("y:Q"), y2=alt.Y2("y2:Q"))]
    if not drawn:
        return []
    values = [row[name] for row in rows for name in ("kept", "forget")]
    ends = [{"x": end, "y": end} for end in (min(values), max(values))]
    line = alt.Chart(alt.InlineData(ends)).mark_line(strokeDash=[5, 4], color=FORGET, opacity=0.6, clip=True)
    return [line.encode(x=alt.X("x:Q"), y=alt.Y("y:Q"))]
