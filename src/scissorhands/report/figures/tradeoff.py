"""What was forgotten against what was kept: a dot for each run, the original, and the retrained models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...runs import Run
from ..table import Table
from .figure import FORGET, INK, METHODS, SOFT, UNSEEN, Chart, Figure


@dataclass(frozen=True)
class _Measure:
    """By what both are measured, in words: what an axis says, what a dot means, and where a good one is."""

    name: str
    axis: str  # of which data stands in between
    across: str
    up: str
    side: str
    corner: str
    says: str


_MEASURES = (
    _Measure(
        "accuracy",
        "accuracy on {}, in %",
        "how good the model still is on data that it was never trained on",
        "how much it still gets right of what it should forget",
        "far right",
        "bottom right",
        "{kept:.1f} % right on unseen data, {forget:.1f} % on what was to be forgotten",
    ),
    _Measure(
        "mae",
        "mean absolute error on {}",
        "how far off the model is on data that it was never trained on",
        "how far off it is on what it should forget",
        "far left",
        "top left",
        "off by {kept:.4g} on unseen data, by {forget:.4g} on what was to be forgotten",
    ),
)
_KEPT = {"test": "test data", "audit": "records never seen"}  # the first that is known says how useful a model is
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def tradeoff(table: Table) -> Figure | None:
    """Return the scatter, if runs know how good models are on both, by the same measure."""
    scored = [run for row in table.rows for run in row.runs]
    found = _measured(scored)
    if not found:
        return None
    measure, part = found
    rows = _rows(table, f"{part}_{measure.name}", f"forget_{measure.name}")
    if not any(row["what"] not in ("original", "retrained") for row in rows):
        return None
    drawn = all(run.record["split"].get("kind") == "drawn" for run in scored)
    return Figure(
        "tradeoff",
        "Forgetting against usefulness",
        f"Each dot is a run: across, {measure.across}; up, {measure.up}.",
        _good(rows, drawn, measure),
        _text(rows, measure),
        [Chart("", _chart(rows, measure.axis.format(_KEPT[part]), measure.axis.format("forgotten records"), drawn))],
        rows,
    )


def _measured(scored: Sequence[Run]) -> tuple[_Measure, str] | None:
    """Return the measure that all runs have on the forgotten records and on some never seen, and which these are."""
    known = set.intersection(*(set(run.result.scores.values) for run in scored)) if scored else set()
    return next(
        (
            (measure, part)
            for measure in _MEASURES
            for part in _KEPT
            if {f"forget_{measure.name}", f"{part}_{measure.name}"} <= known
        ),
        None,
    )


def _rows(table: Table, kept: str, forget: str) -> list[dict[str, Any]]:
    """Return the dots: those of runs, and what the models were before."""
    found: list[dict[str, Any]] = []
    for row in table.rows:
        what = "retrained" if row.method == table.reference else row.method
        for run in row.runs:
            values = run.result.scores.values
            seed = run.record["seed"]
            found.append({"what": what, "seed": seed, "kept": values[kept], "forget": values[forget]})
            known = run.result.scores.reference
            if known and kept in known:
                was = {"kept": known[kept], "forget": known[forget]}
                found.append({"what": "retrained", "seed": seed, **was})
            if before := _before(run, kept, forget):
                found.append({"what": "original", "seed": seed, **before})
    return list({tuple(row.items()): row for row in found}.values())


def _before(run: Run, kept: str, forget: str) -> dict[str, float]:
    """Return where the model was before; empty if that is unknown, or it was trained by the method."""
    was = {"kept": run.record.get(f"{kept}_before"), "forget": run.record.get(f"{forget}_before")}
    return {} if None in was.values() or run.method == "retrain" else was  # type: ignore[return-value]


def _good(rows: Sequence[dict[str, Any]], drawn: bool, measure: _Measure) -> str:
    if any(row["what"] == "retrained" for row in rows):
        return "Good is near the retrained models, whose spread over seeds is the shaded box: inside it, chance alone."
    if drawn:
        known = "where forgotten records are known as well as records never seen"
        return f"Good is on the dashed line, {known}, {measure.side}."
    return f"Good is at the {measure.corner}: nothing of what was forgotten, everything else as before."


def _text(rows: Sequence[dict[str, Any]], measure: _Measure) -> str:
    found = []
    for what in dict.fromkeys(row["what"] for row in rows):
        own = [row for row in rows if row["what"] == what]
        kept, forget = (sum(row[name] for row in own) / len(own) for name in ("kept", "forget"))
        found.append(f"{what}: {measure.says.format(kept=kept, forget=forget)}")
    return "; ".join(found) + "."


def _chart(rows: Sequence[dict[str, Any]], across: str, up: str, drawn: bool) -> Any:
    import altair as alt

    special = {"original": (SOFT, "circle"), "retrained": (INK, "diamond")}
    names = list(dict.fromkeys(row["what"] for row in rows))
    others = [name for name in names if name not in special]
    looks = special | {name: (METHODS[n % len(METHODS)], _SHAPES[n % len(_SHAPES)]) for n, name in enumerate(others)}
    order = others + [name for name in special if name in names]
    near = alt.Scale(zero=False, padding=16)
    dots = (
        alt.Chart(alt.InlineData([dict(row) for row in rows]))
        .mark_point(size=90, filled=True, opacity=0.8)
        .encode(
            x=alt.X("kept:Q", title=across, scale=near),
            y=alt.Y("forget:Q", title=up, scale=near),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(range=[looks[n][0] for n in order], domain=order),
                legend=alt.Legend(columns=alt.ExprRef("width < 480 ? 2 : 5"), labelLimit=140),
            ),
            shape=alt.Shape("what:N", scale=alt.Scale(range=[looks[n][1] for n in order], domain=order)),
            tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in _TIPS.items()],
        )
    )
    ring = alt.Chart(alt.InlineData([dict(row) for row in rows if row["what"] == "retrained"]))
    rings = ring.mark_point(shape="diamond", size=260, color=INK, strokeWidth=1.5).encode(
        x=alt.X("kept:Q"), y=alt.Y("forget:Q")
    )
    layers = [*_guides(rows, drawn), dots, *([rings] if "retrained" in names else [])]
    return alt.layer(*layers, width="container", height=300)


_TIPS = {"what": "model", "seed": "seed", "kept": "unseen data", "forget": "to be forgotten"}


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
    line = alt.Chart(alt.InlineData(ends)).mark_line(strokeDash=[5, 4], color=FORGET, opacity=0.6)
    return [line.encode(x=alt.X("x:Q"), y=alt.Y("y:Q"))]
