"""How the losses of forgotten, retained and unseen records are distributed, before and after, and what that gives away.

Losses are counted between fixed edges, and neighbors are merged until each bin holds at least ten records of its kind,
so that no bin of a page is about a single record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...metrics import Outputs, errors
from ...runs import Run
from ..table import Table
from .figure import FORGET, INK, RETAIN, UNSEEN, Chart, Figure
from .kept import states

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
        found = _states(run) if run.method not in ("original", table.reference) else {}
        for state, kinds in found.items():
            charts.append(Chart(state, _chart(kinds), row.method))
            rows += [
                {"run": row.method, "when": state, "records": kind, "loss from": low, "to": high, "count": count}
                for kind, bins in kinds.items()
                for low, high, count in bins
            ]
        if found:
            thresholds[row.method] = found
    if not charts:
        return None
    return Figure(
        "losses",
        "Does the loss give a record away?",
        "How high the model's loss is on each kind of record. An attacker who has a record looks at its loss: where it "
        "is low, the record was probably in the training data. Move the threshold to see whom that finds.",
        "The curve of the forgotten records lies on that of records never seen. At every threshold the "
        "attacker calls as large a share of both members.",
        [_told(run, known) for run, known in thresholds.items()],
        charts,
        rows,
        {"edges": EDGES, "runs": thresholds},
    )


def _states(run: Run) -> dict[str, dict[str, Bins]]:
    """Return the binned losses before, after, and of the retrained model; empty if there are too few records."""
    enough = {state: known for state, known in states(run).items() if _enough(known)}
    found = {}
    for state, known in enough.items():
        variance = known["retain"].labels.double().var(correction=0).item()
        found[state] = {_KINDS[kind]: binned(loss_of(known[kind], variance or 1.0)) for kind in _KINDS}
    return found


def _enough(known: Mapping[str, Outputs]) -> bool:
    return all(kind in known and len(known[kind]) >= 2 * LEAST for kind in _KINDS)


def loss_of(said: Outputs, variance: float = 1.0) -> Tensor:
    """Return the cross-entropy of each record or, of a number to predict, its squared error over the variance."""
    if said.regression:
        return errors(said.logits, said.labels).square() / variance
    found: Tensor = F.cross_entropy(said.logits.double(), said.labels, reduction="none")
    return found


def binned(found: Tensor) -> Bins:
    """Count losses between the edges; bins of less than ten are merged with their neighbors.

    >>> binned(torch.tensor([0.02] * 12 + [0.5] * 3 + [2.0] * 10))
    [(0.01778, 0.03162, 12), (0.03162, 3.162, 13)]
    """
    inside = torch.bucketize(found.clamp(EDGES[0], EDGES[-1]), torch.tensor(EDGES[1:-1], dtype=found.dtype))
    counts = inside.bincount(minlength=len(EDGES) - 1).tolist()
    bins: Bins = []
    low, held = 0.0, 0
    for start, end, count in zip(EDGES, EDGES[1:], counts, strict=False):
        if not count and not bins and not held:  # below the lowest loss
            continue
        low, held = low or start, held + count
        if count:
            last = end
        if held >= LEAST:
            bins.append((low, end, held))
            low, held = end, 0
    *bins, final = bins
    return [*bins, (final[0], last, final[2] + held)]


def _chart(kinds: Mapping[str, Bins]) -> Any:
    """Return the shares of records per factor of ten of the loss, as steps."""
    import math

    import altair as alt

    rows = []
    for kind, bins in kinds.items():
        total = sum(count for *_, count in bins)
        steps = [(low, float(f"{count / total / math.log10(high / low):.3g}")) for low, high, count in bins]
        rows += [{"records": kind, "loss": low, "share": share} for low, share in [*steps, (bins[-1][1], steps[-1][1])]]
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
    rule = alt.Chart(alt.InlineData([{}])).mark_rule(strokeWidth=2, strokeDash=[4, 3], color=INK)
    rule = rule.encode(x=alt.X(datum=alt.ExprRef("threshold"), type="quantitative"))
    return alt.layer(areas, rule, width="container", height=150).add_params(threshold)


def _told(run: str, known: Mapping[str, Mapping[str, Bins]]) -> str:
    """Say at which loss the median of each kind lies."""
    found = [
        f"{state} {', '.join(f'{kind} {_median(bins):.2g}' for kind, bins in kinds.items())}"
        for state, kinds in known.items()
    ]
    return f"{run}, median losses of records: {'; '.join(found)}."


def _median(bins: Sequence[tuple[float, float, int]]) -> float:
    half = sum(count for *_, count in bins) / 2
    below = 0
    for low, high, count in bins:
        if below + count >= half:
            return float(low * (high / low) ** ((half - below) / count))
        below += count
    return bins[-1][1]
