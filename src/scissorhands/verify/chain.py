"""The chain of a ledger: each line carries its own hash and that of the line before."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .findings import Findings

LEDGER = "ledger.jsonl"
ADDED, SERVED, CLOSED = "added", "served", "closed"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Entry = dict[str, Any]
# What a line says, by its event, and of what kind that is.
_SAYS: dict[str, dict[str, type]] = {
    ADDED: {"request": str, "added": str, "received": str, "due": str, "keys": list},
    SERVED: {"requests": list, SERVED: str, "run": str, "pack": str, "base": str, "records": int, "drift": dict},
    CLOSED: {"requests": list, CLOSED: str},
}


def linked(entry: Mapping[str, Any], previous: str) -> Entry:
    """Return an entry with the hash of the one before it, and its own.

    >>> sorted(linked({"event": "closed"}, ""))
    ['event', 'hash', 'previous']
    """
    content = {**entry, "previous": previous}
    return {**content, "hash": hashlib.sha256(line(content).encode()).hexdigest()}


def line(entry: Mapping[str, Any]) -> str:
    """Return an entry as a line of the file."""
    return json.dumps(entry, sort_keys=True) + "\n"


def read_chain(text: str) -> tuple[list[Entry], list[str]]:
    """Return the entries of a ledger, and what is wrong with its lines, each by its number."""
    entries: list[Entry] = []
    faults: list[str] = []
    known: set[str] = set()
    previous = ""
    for number, one in enumerate(text.splitlines(keepends=True), start=1):
        try:
            entry = dict(json.loads(one))
            own = linked({name: x for name, x in entry.items() if name not in ("hash", "previous")}, entry["previous"])
            same, follows = entry["hash"] == own["hash"] and line(entry) == one, entry["previous"] == previous
        except (ValueError, TypeError, KeyError, RecursionError):
            faults.append(f"line {number} of the ledger cannot be read")
            continue
        if not same:
            faults.append(f"line {number} of the ledger was changed")
        elif not follows:
            faults.append(f"line {number} of the ledger does not follow from the line before: one was removed or added")
        previous = str(entry["hash"])
        if _is_whole(entry, known):
            entries.append(entry)
        elif same:
            faults.append(f"line {number} of the ledger is none that a ledger has")
    return entries, faults


def _is_whole(entry: Entry, known: set[str]) -> bool:
    """Tell whether a line says what it must, about requests that are `known` or that it adds."""
    kinds = _SAYS.get(str(entry.get("event")), {})
    if not kinds or not all(isinstance(entry.get(name), kind) for name, kind in kinds.items()):
        return False
    if entry["event"] != ADDED:
        return all(str(name) in known for name in entry["requests"])
    new = entry["request"] not in known and bool(ID.fullmatch(entry["request"]))
    known.add(entry["request"])
    return new


def check_ledger(
    statement: Mapping[str, Any], scores: Mapping[str, Any], pack: str, folder: Path | None, found: Findings
) -> None:
    """Compare what a pack says of its requests with the ledger; `pack` is the hash of the pack."""
    asked, known = statement["requests"], statement["ledger"]
    if folder is None:
        reason = "give the folder of the ledger with --ledger" if asked else "the pack names none"
        found.unchecked.append(f"the requests: {reason}")
        return
    if not asked:
        found.failed.append("the pack names no request, so the ledger cannot vouch for it")
        return
    try:
        entries, faults = read_chain((folder / LEDGER).read_text())
    except (OSError, ValueError) as error:
        found.failed.append(f"{folder / LEDGER} cannot be read: {error}")
        return
    found.check_all(faults, f"the {len(entries)} lines of the ledger follow from each other")
    if [entry["hash"] for entry in entries[known["entries"] - 1 : known["entries"]]] != [known["head"]]:
        found.failed.append(f"the ledger does not hold the line {known['entries']} that it had when the pack was made")
    added = {entry["request"]: entry for entry in entries if entry["event"] == ADDED}
    for one in asked:
        entry = added.get(one["request"], {})
        same = all(entry.get(name) == value for name, value in one.items() if name != "entry")
        if not same or entry.get("hash") != one["entry"]:
            found.failed.append(f"request {one['request']} is not in the ledger as the pack has it")
    _check_served(statement, scores, pack, entries, found)


def _check_served(
    statement: Mapping[str, Any], scores: Mapping[str, Any], pack: str, entries: list[Entry], found: Findings
) -> None:
    """Compare a pack with the line of the ledger that says that its requests were served."""
    names = {one["request"] for one in statement["requests"]}
    served = [entry for entry in entries if entry["event"] == SERVED and names & {*entry["requests"]}]
    faults = [] if served else ["the ledger does not say that the requests of the pack were served"]
    for entry in served:
        if entry["pack"] != pack:
            both = ", ".join(sorted(names & {*entry["requests"]}))
            faults.append(f"the ledger lists another pack for request {both}")
        if entry["drift"] != statement["drift"]:
            faults.append("the ledger says otherwise than the pack how far the model has moved")
        if entry["records"] != scores["counts"]["forget"]:
            faults.append(f"the ledger says that {entry['records']} records were forgotten, and the pack does not")
        if entry[SERVED] < statement["packed"]:
            faults.append(f"the ledger says {entry[SERVED]}, and the pack was made later, at {statement['packed']}")
    found.check_all(faults, f"the ledger lists this pack for {len(names)} request{'s' * (len(names) > 1)}")
