"""Accuracy on test data class by class, before and after."""

from collections.abc import Sequence
from typing import Any

from ...metrics import Outputs
from ...runs import Run
from ..table import Table
from .figure import INK, RETAIN, SOFT, Chart, Figure
from .kept import AFTER, BEFORE, RETRAINED, class_names, states

_LEAST = 10  # test records of a class; of fewer the accuracy says little, and much about each
_CLASSES = 30  # of which those that changed most are shown
_STATES = {BEFORE: SOFT, AFTER: RETAIN, RETRAINED: INK}
_RUNS = 12


def classes(table: Table, named: bool = True) -> Figure | None:
    """Return the accuracies by class, where runs keep outputs on the test data from before and after.

    Classes are called by their number unless they are `named`, where the model knows their names.
    """
    charts, rows = [], []
    for row in table.rows[:_RUNS]:
        if row.method not in ("original", table.reference) and (found := _accuracies(row.runs[0], named)):
            charts.append(Chart("", _chart(found), row.method))
            rows += [{"run": row.method, **one} for one in found]
    if not charts:
        return None
    return Figure(
        "classes",
        "Class by class",
        "The accuracy on test data of each class, before (the ring) and after, on the first seed. An average hides a "
        "class that was hurt.",
        "No class that should have been kept falls by more than the retrained model's, or by more than a few points.",
        [_told(chart.group, rows) for chart in charts],
        charts,
        rows,
    )


def _accuracies(run: Run, named: bool) -> list[dict[str, Any]]:
    """Return the accuracy of each class and model; of many classes, those that changed most."""
    known = {state: said["test"] for state, said in states(run).items() if "test" in said}
    found = {state: _by_class(said) for state, said in known.items() if not said.regression}
    if not {BEFORE, AFTER} <= found.keys():
        return []
    change = {
        label: abs(found[AFTER][label] - found[BEFORE][label]) for label in found[AFTER].keys() & found[BEFORE].keys()
    }
    shown = sorted(sorted(change, key=lambda label: -change[label])[:_CLASSES])
    names = class_names(run) if named else {}
    return [
        {"class": names.get(label, str(label)), "model": state, "accuracy": accuracies[label]}
        for label in shown
        for state, accuracies in found.items()
        if label in accuracies
    ]


def _by_class(said: Outputs) -> dict[int, float]:
    right = said.logits.argmax(1) == said.labels
    counts = {label: said.labels == label for label in said.labels.unique().tolist()}
    return {
        n: round(100 * right[own].double().mean().item(), 2) for n, own in counts.items() if int(own.sum()) >= _LEAST
    }


def _told(run: str, rows: Sequence[dict[str, Any]]) -> str:
    own: dict[str, list[str]] = {}
    for row in rows:
        if row["run"] == run:
            own.setdefault(row["class"], []).append(f"{row['model']} {row['accuracy']:.1f} %")
    told = [f"{label} {', '.join(said)}" for label, said in own.items()]
    return f"{run}, by class: {'; '.join(told)}."


def _chart(rows: Sequence[dict[str, Any]]) -> Any:
    import altair as alt

    states = [state for state in _STATES if any(row["model"] == state for row in rows)]
    named = any(not row["class"].isdecimal() for row in rows)
    base = alt.Chart(alt.InlineData([dict(row) for row in rows])).encode(
        y=alt.Y("class:N", title=None if named else "class", sort=None),
        x=alt.X("accuracy:Q", title="accuracy on test data, in %", scale=alt.Scale(zero=False, padding=8)),
    )
    between = base.mark_line(color=SOFT, strokeWidth=1).encode(detail=alt.Detail("class:N"))
    shades = alt.Scale(domain=states, range=[_STATES[state] for state in states])
    shapes = alt.Scale(domain=states, range=["circle", "circle", "diamond"][: len(states)])
    models = alt.Color("model:N", scale=shades), alt.Shape("model:N", scale=shapes)
    tips = [alt.Tooltip("class:N"), alt.Tooltip("model:N"), alt.Tooltip("accuracy:Q", format=".1f")]
    is_before = f"datum.model === '{BEFORE}'"
    rings = base.transform_filter(is_before).mark_point(size=130, opacity=1, strokeWidth=1.5).encode(*models, tips)
    dots = base.transform_filter(f"!({is_before})").mark_point(filled=True, size=60, opacity=0.9)
    height = 20 * len({row["class"] for row in rows})
    return alt.layer(between, rings, dots.encode(*models, tips), width="container", height=height)
