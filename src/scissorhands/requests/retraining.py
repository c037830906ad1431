"""When to train the model again as a whole, and without which records."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .. import runs
from ..runs import Run
from ..runs.subject import load_classifier
from ..verify.chain import Entry
from .ledger import OPEN, Ledger

_PARTS = ("retain", "audit", "test")


def drift(run: Run, origin: str, factory: str | None, earlier: Sequence[Entry]) -> dict[str, Any]:
    """Return how far a model has moved since it was trained as a whole.

    `origin` is the model as it was then, empty if it is not at hand; `earlier` are the lines of the ledger that say
    what it was made to forget since.
    """
    counts, values = run.result.scores.counts, run.result.scores.values
    names = [f"{part}_accuracy" for part in _PARTS]
    began = {name: run.record[f"{name}_before"] for name in names if f"{name}_before" in run.record}
    began = earlier[0]["drift"]["began"] if earlier else began
    count = sum(int(entry["records"]) for entry in earlier) + counts["forget"]
    return {
        "scrubs": len(earlier) + 1,
        "forgotten": 100 * count / (count + counts["retain"]),
        "weights": 100 * distance(*(_model(one, factory) for one in (origin, str(run.folder)))) if origin else None,
        "accuracy": max((began[name] - values[name] for name in began if name in values), default=None),
        "auc": values.get("auc"),
        "began": began,
    }


def _model(source: str, factory: str | None) -> nn.Module:
    return load_classifier(source, factory).model


def distance(first: nn.Module, now: nn.Module) -> float:
    """Return how far parameters have moved, as a share of their norm.

    >>> first, now = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> now.load_state_dict({name: 1.5 * value for name, value in first.state_dict().items()})
    <All keys matched successfully>
    >>> round(distance(first, now), 6)
    0.5
    """
    with torch.no_grad():
        pairs = list(zip(first.parameters(), now.parameters(), strict=True))
        moved = sum(float((new.cpu().double() - old.cpu().double()).square().sum()) for old, new in pairs)
        norm = sum(float(old.cpu().double().square().sum()) for old, _ in pairs)
    return float((moved / norm) ** 0.5)


def in_words(found: dict[str, Any]) -> str:
    """Say how far a model has moved.

    >>> in_words({"scrubs": 2, "forgotten": 3.12, "weights": None, "accuracy": 0.84, "auc": 0.52})
    '2 scrubs, 3.1 % of the records forgotten, 0.8 points of accuracy lost, AUC 0.52'
    """
    said = [
        f"{found['scrubs']} scrub{'s' * (found['scrubs'] > 1)}",
        f"{found['forgotten']:.1f} % of the records forgotten",
    ]
    said += [f"weights moved by {found['weights']:.1f} %"] if found["weights"] is not None else []
    said += [f"{max(found['accuracy'], 0):.1f} points of accuracy lost"] if found["accuracy"] is not None else []
    return ", ".join(said + ([f"AUC {found['auc']:.2f}"] if found["auc"] is not None else []))


def forgotten(ledger: Ledger) -> list[str]:
    """Return the keys of all records that were forgotten for the ledger."""
    served = [entry for entry in ledger.entries() if entry["event"] == "served"]
    return [key for entry in served for key in runs.read(ledger.folder / entry["run"]).keys("forget")]


def exclusions(ledger: Ledger) -> list[str]:
    """Return the keys of all records that a new training must leave out: those forgotten, and those to forget."""
    waiting = [key for one in ledger.requests().values() if one.state == OPEN for key in ledger.keys(one)]
    return list(dict.fromkeys(forgotten(ledger) + waiting))
