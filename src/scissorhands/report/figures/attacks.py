"""What attackers find out about forgotten records: a line for each attack and method, with intervals."""

from collections.abc import Iterator, Sequence
from typing import Any

from ...metrics import METRICS, auc_interval, interval, share_interval
from ...metrics.attacks import ATTACKS, REFERENCE_ATTACKS
from ...runs import Run
from ..rows import Row
from ..table import Table
from .figure import FORGET, INK, RETAIN, Chart, Figure

_ROW = 26  # height of a line, in pixels
_ORDER = sorted((*REFERENCE_ATTACKS, *ATTACKS), key=lambda name: name.startswith("mia"))  # the weakest last


def attacks(table: Table) -> Figure | None:
    """Return the attacks that any method was put to."""
    rows = [row for row in table.rows if row.method != table.reference]
    lines = [line for name in _ORDER for row in rows for line in _lines(name, row)]
    if not lines:
        return None
    return Figure(
        "attacks",
        "What an attacker finds out",
        "Each dot is what an attack makes of the forgotten records; the line is how far chance alone may move it "
        "(95 % confidence), over records or, where there are several runs, over runs.",
        "The line crosses the dashed one: the attack does no better than a guess"
        + (
            ", or as on a retrained model, which is the diamond."
            if any(line["retrained"] is not None for line in lines)
            else ". Where there is none, only a retrained model could say: compare with one."
        ),
        [_told(name, lines) for name in _names(lines)],
        [Chart(METRICS[name].title, _chart(name, lines), about=METRICS[name].meaning) for name in _names(lines)],
        lines,
    )


def _names(lines: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(line["attack"] for line in lines))


def _lines(name: str, row: Row) -> Iterator[dict[str, Any]]:
    """Yield the mean of an attack over the runs of a row, with its interval and what retrained models have."""
    if name not in row.metrics:
        return
    mean = row.metrics[name]["mean"]
    assert mean is not None
    known = [run.result.scores.reference[name] for run in row.runs if name in run.result.scores.reference]
    low, high = _interval(name, row.runs, mean)
    expected = sum(known) / len(known) if known else None
    yield {"attack": name, "method": row.method, "found": mean, "low": low, "high": high, "retrained": expected}


def _interval(name: str, runs: Sequence[Run], mean: float) -> tuple[float, float]:
    """Return the bounds over runs, where there are several, or else over records."""
    most = 1.0 if METRICS[name].digits == 3 else 100.0
    if len(runs) > 1:
        found = interval([run.result.values()[name] for run in runs])
        return max(0.0, found.low), min(most, found.high)
    counts = runs[0].result.scores.counts
    members, others = (counts.get(part, 0) for part in ("forget", "others"))
    if not members or not others:  # how far chance may move it is not known
        return mean, mean
    if most == 1.0:
        return auc_interval(mean, members, others)
    low, high = share_interval(mean / 100, members)
    return 100 * low, 100 * high


def _told(name: str, lines: Sequence[dict[str, Any]]) -> str:
    digits = METRICS[name].digits
    found = [
        f"{line['method']} {line['found']:.{digits}f} ({line['low']:.{digits}f} to {line['high']:.{digits}f})"
        for line in lines
        if line["attack"] == name
    ]
    return f"{METRICS[name].title}: {'; '.join(found)}."


def _chart(name: str, lines: Sequence[dict[str, Any]]) -> Any:
    import altair as alt

    own = [line for line in lines if line["attack"] == name]
    metric = METRICS[name]
    domain = [0, 1 if metric.digits == 3 else 100]
    base = alt.Chart(alt.InlineData(own)).encode(y=alt.Y("method:N", sort=None, title=None))
    x = alt.X("found:Q", title=None, scale=alt.Scale(domain=domain))
    tips = [
        alt.Tooltip(f"{one}:{kind}") for one, kind in (("method", "N"), ("found", "Q"), ("low", "Q"), ("high", "Q"))
    ]
    layers = [
        base.mark_rule(strokeWidth=2, color=RETAIN).encode(x=alt.X("low:Q", title=None), x2=alt.X2("high:Q")),
        base.mark_point(filled=True, size=70, color=RETAIN, opacity=1).encode(x=x, tooltip=tips),
    ]
    if (guess := _guess(metric.best)) is not None:
        dashed = alt.Chart(alt.InlineData([{"guess": guess}])).mark_rule(strokeDash=[4, 4], color=INK)
        layers.insert(0, dashed.encode(x=alt.X("guess:Q")))
    known = [line for line in own if line["retrained"] is not None]
    if known:
        diamonds = alt.Chart(alt.InlineData(known)).mark_point(shape="diamond", size=90, color=FORGET, strokeWidth=2)
        layers.append(diamonds.encode(y=alt.Y("method:N", sort=None), x=alt.X("retrained:Q")))
    return alt.layer(*layers, width="container", height=_ROW * len(own))


def _guess(best: str) -> float | None:
    """Return what an attack that knows nothing finds, where that is one number."""
    try:
        return float(best)
    except ValueError:
        return None
