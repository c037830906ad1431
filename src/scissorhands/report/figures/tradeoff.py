"""What was forgotten against what was kept: a dot for each run, the original, and the retrained models."""

from collections.abc import Sequence
from typing import Any

from ...runs import Run
from ..table import Table
from .figure import FORGET, INK, METHODS, SOFT, UNSEEN, Chart, Figure

_KEPT = ("test_accuracy", "audit_accuracy")  # the first that is known is what usefulness is measured by
_AT = {"test_accuracy": "accuracy on test data, in %", "audit_accuracy": "accuracy on records never seen, in %"}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def tradeoff(table: Table) -> Figure | None:
    """Return the scatter, if runs know both accuracies."""
    scored = [run for row in table.rows for run in row.runs]
    kept = next((name for name in _KEPT if scored and all(name in run.result.scores.values for run in scored)), "")
    rows = _rows(table, kept) if kept and all("forget_accuracy" in run.result.scores.values for run in scored) else []
    if not any(row["what"] not in ("original", "retrained") for row in rows):
        return None
    drawn = all(run.record["split"].get("kind") == "drawn" for run in scored)
    return Figure(
        "tradeoff",
        "Forgetting against usefulness",
        "Each dot is a run: across, how good the model still is on data that it was never trained on; up, how much it "
        "still gets right of what it should forget.",
        _good(rows, drawn),
        _text(rows),
        [Chart("", _chart(rows, kept, drawn))],
        rows,
    )


def _rows(table: Table, kept: str) -> list[dict[str, Any]]:
    """Return the dots: those of runs, and what the models were before."""
    found: list[dict[str, Any]] = []
    for row in table.rows:
        what = "retrained" if row.method == table.reference else row.method
        for run in row.runs:
            values = run.result.scores.values
            seed = run.record["seed"]
            found.append({"what": what, "seed": seed, "kept": values[kept], "forget": values["forget_accuracy"]})
            known = run.result.scores.reference
            if known and kept in known:
                was = {"kept": known[kept], "forget": known["forget_accuracy"]}
                found.append({"what": "retrained", "seed": seed, **was})
            if before := _before(run, kept):
                found.append({"what": "original", "seed": seed, **before})
    return list({tuple(row.items()): row for row in found}.values())


def _before(run: Run, kept: str) -> dict[str, float]:
    """Return where the model was before; empty if that is unknown, or it was trained by the method."""
    was = {"kept": run.record.get(f"{kept}_before"), "forget": run.record.get("forget_accuracy_before")}
    return {} if None in was.values() or run.method == "retrain" else was  # type: ignore[return-value]


def _good(rows: Sequence[dict[str, Any]], drawn: bool) -> str:
    if any(row["what"] == "retrained" for row in rows):
        return "Good is near the retrained models, whose spread over seeds is the shaded box: inside it, chance alone."
    if drawn:
        return "Good is on the dashed line, where forgotten records are known as well as records never seen, far right."
    return "Good is at the bottom right: nothing of what was forgotten, everything else as before."


def _text(rows: Sequence[dict[str, Any]]) -> str:
    found = []
    for what in dict.fromkeys(row["what"] for row in rows):
        own = [row for row in rows if row["what"] == what]
        kept, forget = (sum(row[name] for row in own) / len(own) for name in ("kept", "forget"))
        found.append(f"{what}: {kept:.1f} % right on unseen data, {forget:.1f} % on what was to be forgotten")
    return "; ".join(found) + "."


def _chart(rows: Sequence[dict[str, Any]], kept: str, drawn: bool) -> Any:
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
            x=alt.X("kept:Q", title=_AT[kept], scale=near),
            y=alt.Y("forget:Q", title="accuracy on forgotten records, in %", scale=near),
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


_TIPS = {"what": "model", "seed": "seed", "kept": "unseen data (%)", "forget": "to be forgotten (%)"}


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
