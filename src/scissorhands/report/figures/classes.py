"""Accuracy on test data class by class, before and after."""

from collections.abc import Sequence
from typing import Any

from ...metrics import Outputs
from ...runs import Run
from ..table import Table
from .figure import INK, RETAIN, SOFT, Chart, Figure
from .kept import AFTER, BEFORE, RETRAINED, states

_LEAST = 10  # test records of a class; of fewer the accuracy says little, and much about each
_CLASSES = 30  # of which those that changed most are shown
_STATES = {BEFORE: SOFT, AFTER: RETAIN, RETRAINED: INK}
_RUNS = 12


def classes(table: Table) -> Figure | None:
    """Return the accuracies by class, where runs keep outputs on the test data from before and after."""
    charts, rows = [], []
    for row in table.rows[:_RUNS]:
        if row.method not in ("original", table.reference) and (found := _accuracies(row.runs[0])):
            charts.append(Chart("", _chart(found), row.method))
            rows += [{"run": row.method, **one} for one in found]
    if not charts:
        return None
    return Figure(
        "classes",
        "Class by class",
        "The accuracy on test data of each class, before and after, on the first seed. An average hides a class that "
        "was hurt.",
        "No class that should have been kept falls by more than the retrained model's, or by more than a few points.",
        "; ".join(f"{one['run']}, class {one['class']}: {one['model']} {one['accuracy']:.1f} %" for one in rows) + ".",
        charts,
        rows,
    )


def _accuracies(run: Run) -> list[dict[str, Any]]:
    """Return the accuracy of each class and model; of many classes, those that changed most."""
    known = {state: said["test"] for state, said in states(run).items() if "test" in said}
    found = {state: _by_class(said) for state, said in known.items() if not said.regression}
    if not {BEFORE, AFTER} <= found.keys():
        return []
    change = {
        label: abs(found[AFTER][label] - found[BEFORE][label]) for label in found[AFTER].keys() & found[BEFORE].keys()
    }
    shown = sorted(sorted(change, key=lambda label: -change[label])[:_CLASSES])
    return [
        {"class": label, "model": state, "accuracy": accuracies[label]}
        for label in shown
        for state, accuracies in found.items()
        if label in accuracies
    ]


def _by_class(said: Outputs) -> dict[int, float]:
    right = said.logits.argmax(1) == said.labels
    counts = {label: said.labels == label for label in said.labels.unique().tolist()}
    return {n: 100 * right[own].double().mean().item() for n, own in counts.items() if int(own.sum()) >= _LEAST}


def _chart(rows: Sequence[dict[str, Any]]) -> Any:
    import altair as alt

    states = [state for state in _STATES if any(row["model"] == state for row in rows)]
    base = alt.Chart(alt.InlineData([dict(row) for row in rows])).encode(
        y=alt.Y("class:N", title="class", sort=None),
        x=alt.X("accuracy:Q", title="accuracy on test data, in %", scale=alt.Scale(zero=False, padding=8)),
    )
    between = base.mark_line(color=SOFT, strokeWidth=1).encode(detail=alt.Detail("class:N"))
    dots = base.mark_point(filled=True, size=70, opacity=0.9).encode(
        color=alt.Color("model:N", scale=alt.Scale(domain=states, range=[_STATES[state] for state in states])),
        shape=alt.Shape(
            "model:N", scale=alt.Scale(domain=states, range=["circle", "circle", "diamond"][: len(states)])
        ),
        tooltip=[alt.Tooltip("class:N"), alt.Tooltip("model:N"), alt.Tooltip("accuracy:Q", format=".1f")],
    )
    return alt.layer(between, dots, width="container", height=20 * len({row["class"] for row in rows}))
