"""How the losses of forgotten, retained and unseen records are distributed, before and after, and what that gives away.

Losses are counted between fixed edges, and neighbors are merged until each bin holds at least ten records of its kind.
So no bin of a page is about one record, and nowhere is it said that there is none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...metrics import Outputs
from ...runs import Run, read_outputs, with_reference
from ..table import Table
from .figure import FORGET, RETAIN, UNSEEN, Chart, Figure

LEAST = 10  # records in a bin
EDGES = [float(f"{10 ** (place / 4):.4g}") for place in range(-32, 6)]  # of the loss: from 1e-8 to 18
_KINDS = {"forget": "forgotten", "others": "never seen", "retain": "retained"}
_COLORS = (FORGET, UNSEEN, RETAIN)
_RUNS = 12  # of which a page shows the losses, at most: the first of each row

Bins = list[tuple[float, float, int]]


def losses(table: Table) -> Figure | None:
    """Return the distributions, where runs keep outputs of enough records."""
    charts, rows, thresholds = [], [], {}
    for row in table.rows[:_RUNS]:
        run = row.runs[0]
        states = _states(run) if run.method not in ("original", table.reference) else {}
        for state, kinds in states.items():
            charts.append(Chart(state, _chart(kinds), row.method))
            rows += [
                {"run": row.method, "when": state, "records": kind, "loss from": low, "to": high, "count": count}
                for kind, bins in kinds.items()
                for low, high, count in bins
            ]
        if states:
            thresholds[row.method] = states
    if not charts:
        return None
    return Figure(
        "losses",
        "Does the loss give a record away?",
        "How high the model's loss is on each kind of record. An attacker who has a record looks at its loss: where it "
        "is low, the record was probably in the training data. Move the threshold to see whom that finds.",
        "The curve of the forgotten records lies on that of records never seen. At every threshold the "
        "attacker calls as large a share of both members.",
        _text(thresholds),
        charts,
        rows,
        {"edges": EDGES, "runs": thresholds},
    )


def _states(run: Run) -> dict[str, dict[str, Bins]]:
    """Return the binned losses before, after, and of the retrained model; empty if there are too few records."""
    observed = read_outputs(run.folder)
    found = {
        "before": observed.get("before", {}),
        "after": observed,
        "retrained without them": with_reference(run).get("retrained", {}),
    }
    enough = {state: known for state, known in found.items() if _enough(known)}
    return {state: {_KINDS[kind]: binned(_losses(known[kind])) for kind in _KINDS} for state, known in enough.items()}


def _enough(known: Mapping[str, Any]) -> bool:
    return all(isinstance(known.get(kind), Outputs) and len(known[kind]) >= 2 * LEAST for kind in _KINDS)


def _losses(said: Outputs) -> Tensor:
    found: Tensor = F.cross_entropy(said.logits.double(), said.labels, reduction="none")
    return found


def binned(found: Tensor) -> Bins:
    """Count losses between the edges; bins of less than ten are merged with their neighbors.

    >>> binned(torch.tensor([0.02] * 12 + [0.5] * 3 + [2.0] * 10))
    [(1e-08, 0.03162, 12), (0.03162, 17.78, 13)]
    """
    inside = torch.bucketize(found.clamp(EDGES[0], EDGES[-1]), torch.tensor(EDGES[1:-1], dtype=found.dtype))
    counts = inside.bincount(minlength=len(EDGES) - 1).tolist()
    bins: Bins = []
    low, held = EDGES[0], 0
    for high, count in zip(EDGES[1:], counts, strict=True):
        held += count
        if held >= LEAST:
            bins.append((low, high, held))
            low, held = high, 0
    *bins, last = bins
    return [*bins, (last[0], EDGES[-1], last[2] + held)]


def _chart(kinds: Mapping[str, Bins]) -> Any:
    """Return the shares of records per factor of ten of the loss, as steps."""
    import math

    import altair as alt

    rows = []
    for kind, bins in kinds.items():
        total = sum(count for *_, count in bins)
        steps = [(low, count / total / math.log10(high / low)) for low, high, count in bins]
        rows += [{"records": kind, "loss": low, "share": share} for low, share in [*steps, (EDGES[-1], steps[-1][1])]]
    scale = alt.Scale(type="log", domain=[EDGES[0], EDGES[-1]], nice=False)
    axis = alt.Axis(values=[1e-8, 1e-6, 0.0001, 0.01, 1], format="~g", grid=False)
    colors = alt.Scale(domain=list(kinds), range=list(_COLORS))
    areas = (
        alt.Chart(alt.InlineData(rows))
        .mark_area(interpolate="step-after", line={"strokeWidth": 1.5}, opacity=0.2)
        .encode(
            x=alt.X("loss:Q", scale=scale, axis=axis, title="loss of a record"),
            y=alt.Y(
                "share:Q", stack=None, title="share of records", axis=alt.Axis(labels=False, ticks=False, grid=False)
            ),
            color=alt.Color("records:N", scale=colors),
        )
    )
    threshold = alt.param(name="threshold", value=0.1)
    rule = alt.Chart(alt.InlineData([{}])).mark_rule(strokeWidth=2, strokeDash=[4, 3])
    rule = rule.encode(x=alt.X(datum=alt.ExprRef("threshold"), type="quantitative"))
    return alt.layer(areas, rule).add_params(threshold).properties(width="container", height=150)


def _text(thresholds: Mapping[str, Mapping[str, Mapping[str, Bins]]]) -> str:
    """Say at which loss the median of each kind lies."""
    found = []
    for run, states in thresholds.items():
        for state, kinds in states.items():
            medians = ", ".join(f"{kind} {_median(bins):.2g}" for kind, bins in kinds.items())
            found.append(f"{run}, {state}: median losses of records {medians}")
    return "; ".join(found) + "."


def _median(bins: Sequence[tuple[float, float, int]]) -> float:
    half = sum(count for *_, count in bins) / 2
    below = 0
    for low, high, count in bins:
        if below + count >= half:
            return float(low * (high / low) ** ((half - below) / count))
        below += count
    return bins[-1][1]
