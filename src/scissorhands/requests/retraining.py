"""When to train the model again as a whole, and without which records."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import runs
from ..data.keys import names_of
from ..errors import RunError, listed
from ..evidence.policy import read_policy
from ..runs import Run
from ..runs.subject import load_classifier
from ..verify.chain import SERVED, Entry
from ..verify.policy import DRIFT, RULES, breaches
from .ledger import OPEN, Ledger, Request

_PARTS = ("retain", "audit", "test")
_POINTS = {"accuracy": 1, "r2": 100}  # a percentage, or R², in points


def drift(run: Run, origin: str, factory: str | None, earlier: Sequence[Entry]) -> dict[str, Any]:
    """Return how far a model has moved since it was trained as a whole.

    `origin` is the model as it was then, empty if it is not at hand; `earlier` are the lines of the ledger that say
    what it was made to forget since.
    """
    counts, values = run.result.scores.counts, run.result.scores.values
    names = [f"{part}_{kind}" for part in _PARTS for kind in _POINTS]
    began = {name: run.record[f"{name}_before"] for name in names if f"{name}_before" in run.record}
    began = earlier[0]["drift"]["began"] if earlier else began
    count = sum(int(entry["records"]) for entry in earlier) + counts["forget"]
    return {
        "scrubs": len(earlier) + 1,
        "forgotten": 100 * count / (count + counts["retain"]),
        "weights": 100 * distance(*(_model(one, factory) for one in (origin, str(run.folder)))) if origin else None,
        "accuracy": max((_lost(name, began[name], values[name]) for name in began if name in values), default=None),
        "auc": values.get("auc"),
        "began": began,
    }


def _lost(name: str, was: float, now: float) -> float:
    return _POINTS[name.rpartition("_")[2]] * (was - now)


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
    what = "R²" if any(name.endswith("_r2") for name in found.get("began", ())) else "accuracy"
    said += [f"{max(found['accuracy'], 0):.1f} points of {what} lost"] if found["accuracy"] is not None else []
    return ", ".join(said + ([f"AUC {found['auc']:.2f}"] if found["auc"] is not None else []))


def budget(moved: dict[str, Any] | None, policy: Path) -> list[str]:
    """Return the lines of a policy that a model breaks by how far it has moved, which is nothing if it never has."""
    found = {f"drift_{name}": (moved or {}).get(name, None if moved else 0.0) for name in DRIFT}
    others = [rule for rule in RULES if not rule.startswith("largest_drift_")]
    return breaches(read_policy(policy), str(policy), found, but=others)


def exclusions(ledger: Ledger, but: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the keys that a new training must leave out, and the requests whose keys somebody has removed.

    That is all that was ever asked for, whether it was forgotten or was not in the model, and not withdrawn; requests
    in a state of `but` are left out.
    """
    found, removed = list[str](), list[str]()
    for one in ledger.requests().values():
        if one.withdrawn or one.state in but:
            continue
        if one.state == OPEN or ledger.has_keys(one):
            found += ledger.keys(one)
        else:
            removed.append(one.name)
    return list(dict.fromkeys(found)), removed


def require_excluded(ledger: Ledger, model: Path) -> None:
    """Refuse a new model that was trained on what was asked for before, where its run has an inventory of its data.

    Records without keys are called by their numbers, which say something only of the same data.
    """
    run = runs.read(model) if runs.is_run(model) else None
    known = run.inventory().get("train") if run else None
    if not run or not known:
        return
    asked, own = {*exclusions(ledger, but=[OPEN])[0]}, [*map(str, range(len(known.labels)))]
    last, key = _last(ledger), run.record["data"].get("key", "")
    if last and last.record["data"].get("key", "") != key:
        column = last.record["data"].get("key")
        how = f"with --key {column}" if column else "without --key"
        raise RunError(f"{model} calls its records otherwise than the requests do. Train it {how}.")
    if not known.keys and not (last and last.record["split"]["fingerprint"] == known.fingerprint):
        return
    path, left_out = bool(known.keys) and not key, {*run.ids("before")}
    if path:  # another file may have got the same name since
        asked -= {name for number in left_out for name in names_of(known.keys[number], path)}
    again = [
        number
        for number, name in enumerate(known.keys or own)
        if known.hashes[number] and number not in left_out and not asked.isdisjoint(names_of(name, path))
    ]
    if again:
        raise RunError(
            f"{model} was made from {len(again)} records that were to be forgotten. Train it without those that "
            "'scissorhands request exclude' lists: --exclude FILE."
        )


def _last(ledger: Ledger) -> Run | None:
    """Return the run that served the ledger last, if it is there."""
    served = [ledger.folder / entry["run"] for entry in ledger.entries() if entry["event"] == SERVED]
    return runs.read(served[-1]) if served and runs.is_run(served[-1]) else None


def passed_over(ledger: Ledger, requests: Sequence[Request], run: Run) -> list[str]:
    """Say of each request which of its keys name no record, and how many name some that the model did not know."""
    path = not run.record["data"].get("key")
    known = run.inventory().get("train")
    there = {name for key in (known.keys if known else ()) for name in names_of(key, path)}
    there |= {*map(str, range(len(known.labels)))} if known and not known.keys else set()
    forgotten = {name for key in run.keys("forget") for name in names_of(key, path)}
    said = []
    for one in filter(ledger.has_keys, requests):
        keys = ledger.keys(one)
        missing = [key for key in keys if key not in forgotten]
        unknown = [f"'{key}'" for key in missing if known and key not in there]
        said += [f"request {one.name}: no record is called {listed(unknown, 6)}"] if unknown else []
        if others := len(missing) - len(unknown):
            said.append(
                f"request {one.name}: {others} of {len(keys)} keys name records that the model was not trained on"
            )
    return said
