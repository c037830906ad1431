"""The chain of a ledger: each line carries its own hash and that of the line before."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .findings import Findings

LEDGER = "ledger.jsonl"
Entry = dict[str, Any]


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
    previous = ""
    for number, one in enumerate(text.splitlines(keepends=True), start=1):
        try:
            entry = dict(json.loads(one))
            own = linked({name: x for name, x in entry.items() if name not in ("hash", "previous")}, entry["previous"])
        except (ValueError, TypeError, KeyError):
            faults.append(f"line {number} of the ledger cannot be read")
            continue
        if entry["hash"] != own["hash"] or line(entry) != one:
            faults.append(f"line {number} of the ledger was changed")
        elif entry["previous"] != previous:
            faults.append(f"line {number} of the ledger does not follow from the line before: one was removed or added")
        previous = entry["hash"]
        entries.append(entry)
    return entries, faults


def check_ledger(statement: Mapping[str, Any], pack: str, folder: Path | None, found: Findings) -> None:
    """Compare what a pack says of its requests with the ledger; `pack` is the hash of the pack."""
    asked = statement["requests"]
    if folder is None:
        if asked:
            found.unchecked.append("the requests: give the folder of the ledger with --ledger")
        else:
            found.unchecked.append("the requests: the pack names none")
        return
    try:
        entries, faults = read_chain((folder / LEDGER).read_text())
    except (OSError, ValueError) as error:
        found.failed.append(f"{folder / LEDGER} cannot be read: {error}")
        return
    found.check_all(faults, f"the {len(entries)} lines of the ledger follow from each other")
    known = statement["ledger"]
    if known and [entry["hash"] for entry in entries[known["entries"] - 1 : known["entries"]]] != [known["head"]]:
        found.failed.append(f"the ledger does not hold the line {known['entries']} that it had when the pack was made")
    added = {entry.get("request"): entry for entry in entries if entry.get("event") == "added"}
    for one in asked:
        entry = added.get(one["request"], {})
        same = all(entry.get(name) == value for name, value in one.items() if name != "entry")
        if not same or entry.get("hash") != one["entry"]:
            found.failed.append(f"request {one['request']} is not in the ledger as the pack has it")
    names = {one["request"] for one in asked}
    served = [entry for entry in entries if entry.get("event") == "served" and names & {*entry.get("requests", ())}]
    faults = [
        f"the ledger lists another pack for request {', '.join(sorted(names & {*entry['requests']}))}"
        for entry in served
        if entry["pack"] != pack
    ]
    if any(entry["drift"] != statement["drift"] for entry in served):
        found.failed.append("the ledger says otherwise than the pack how far the model has moved")
    if not served:
        found.failed.append("the ledger does not say that the requests of the pack were served")
    else:
        found.check_all(faults, f"the ledger lists this pack for {len(names)} request{'s' * (len(names) > 1)}")
