"""Check a pack: its files, its signature, what can be counted again, the model, the ledger, a policy."""

import hashlib
import io
import json
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .card import CARD, LISTS, check_card
from .chain import check_ledger
from .ed25519 import public_key, verified
from .findings import Findings
from .policy import Facts, facts, judged, require_policy

MANIFEST, SIGNATURE, STATEMENT = "manifest.json", "signature.json", "evidence.json"
RECORD, SCORES, POLICY = "run/run.toml", "run/scores.json", "policy.toml"
_GAP_OVER = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia")
_GAP_OVER_NUMBERS = ("forget_mae", "retain_mae", "test_mae")  # where labels are numbers to predict
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)
_WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError)
_MOST = 1 << 30  # bytes of all files of a pack: a small archive may be made to unfold to any number


def archive(members: Mapping[str, bytes]) -> bytes:
    """Return a zip file of these members, the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in sorted(members.items()):
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.create_system, about.external_attr = 3, 0o644 << 16
            file.writestr(about, content)
    return buffer.getvalue()


def as_json(content: Mapping[str, Any]) -> bytes:
    """Return what a pack says as JSON, the same bytes each time."""
    return (json.dumps(content, indent=2) + "\n").encode()


def stated(content: bytes) -> str:
    """Return the size and the hash of a file's content.

    >>> stated(b"")[:10]
    '0 e3b0c442'
    """
    return f"{len(content)} {hashlib.sha256(content).hexdigest()}"


def verify(
    pack: Path,
    model: Path | None = None,
    ledger: Path | None = None,
    key: Path | None = None,
    policy: Path | None = None,
) -> Findings:
    """Check a pack by itself, and against whatever else is given."""
    found, content = Findings(), pack.read_bytes()
    trusted, rules = _trusted(key), policy.read_text() if policy else ""
    require_policy(rules, str(policy))
    members, unreadable = _members(content, found)
    whole = _listed(members, unreadable, found) if members else set()
    if not {STATEMENT, RECORD, SCORES} <= members.keys() or MANIFEST not in members:
        return found
    try:
        statement, scores = (json.loads(members[name]) for name in (STATEMENT, SCORES))
        record = tomllib.loads(members[RECORD].decode())
        if SIGNATURE not in unreadable:
            _check_signature(members, trusted, found)
        _check_seal(members, scores, found)
        _check_numbers(statement, scores, found)
        _check_dates(statement, record, found)
        if CARD in whole:
            check_card(members[CARD].decode(), statement, record, scores, found)
        _check_model(scores, model, found)
        check_ledger(statement, scores, hashlib.sha256(content).hexdigest(), ledger, found)
        known = facts(record, scores, statement["requests"], SIGNATURE in members, statement["drift"])
        own = _own_policy(members, statement, known, found) if POLICY not in unreadable else None
        if judgment := judged(rules, str(policy), known) if policy else own:
            found.held += judgment["kept"]
            found.broken = judgment["broken"]
        else:
            found.unchecked.append("thresholds: give those of your company with --policy")
    except _WRONG as error:
        found.failed.append(f"the pack cannot be read to its end: {type(error).__name__}: {str(error)[:200]}")
    return found


def _trusted(key: Path | None) -> bytes:
    try:
        return public_key(key.read_text()) if key else b""
    except ValueError as error:
        raise ValueError(f"{key} cannot be read: {error}.") from None


def _members(content: bytes, found: Findings) -> tuple[dict[str, bytes], set[str]]:
    """Read all files of the archive; none may be there twice, and nothing between them. Name those that are damaged."""
    members: dict[str, bytes] = {}
    unreadable: set[str] = set()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            names = file.namelist()
            if sum(one.file_size for one in file.infolist()) > _MOST:
                raise ValueError("its files are far larger than those of a pack")
            for name in names:
                try:
                    members[name] = file.read(name)
                except _UNREADABLE as error:
                    unreadable.add(name)
                    found.failed.append(f"{name} was changed: {error}")
    except _UNREADABLE as error:
        found.failed.append(f"the pack is not a zip file that can be read: {error}")
        return {}, unreadable
    if not found.failed and (len(names) != len(members) or archive(members) != content):
        found.failed.append("the archive was changed outside of its files, or written again by another program")
    return members, unreadable


def _listed(members: Mapping[str, bytes], unreadable: set[str], found: Findings) -> set[str]:
    """Compare every file with the manifest; return those that are as it lists them."""
    if MANIFEST in unreadable:
        return set()
    try:
        listed = dict(json.loads(members[MANIFEST])["members"])
    except _WRONG as error:
        found.failed.append(f"{MANIFEST} is missing or cannot be read: {error}")
        return set()
    there = {name: stated(content) for name, content in members.items() if name not in (MANIFEST, SIGNATURE)}
    faults = [f"{name} is missing" for name in sorted(listed.keys() - there.keys() - unreadable)]
    faults += [f"{name} is not listed in {MANIFEST}" for name in sorted(there.keys() - listed.keys())]
    changed = {name for name in there.keys() & listed.keys() if there[name] != listed[name]}
    faults += [f"{name} is not the file that {MANIFEST} lists" for name in sorted(changed)]
    if members[MANIFEST] != as_json({"members": dict(sorted(listed.items()))}):
        faults.append(f"{MANIFEST} holds something besides its list of files, or was written again")
    if not unreadable:
        found.check_all(faults, f"all {len(there)} files are as {MANIFEST} lists them")
    else:
        found.failed += faults
    return {*there} - changed


def _check_signature(members: Mapping[str, bytes], trusted: bytes, found: Findings) -> None:
    if SIGNATURE not in members:
        if trusted:
            found.failed.append("the pack is not signed")
        else:
            found.unchecked.append("the signature: the pack has none, so nobody vouches for it")
        return
    try:
        signature = json.loads(members[SIGNATURE])
        own, signed = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["signature"])
    except _WRONG as error:
        found.failed.append(f"{SIGNATURE} cannot be read: {error}")
        return
    if members[SIGNATURE] != as_json({"public_key": own.hex(), "signature": signed.hex()}):
        found.failed.append(f"{SIGNATURE} holds something besides a key and a signature, or was written again")
    name = f"the key {own.hex()[:16]}…"
    valid = verified(own, members[MANIFEST], signed)
    found.check(valid, f"{MANIFEST} is signed by {name}", f"the signature is not one of {MANIFEST} by {name}")
    if trusted:
        found.check(
            own == trusted, "that is the key you gave", f"the pack is signed by {name}, not by the one you gave"
        )
    else:
        found.unchecked.append("whose key that is: give the one you trust with --key")


def _check_seal(members: Mapping[str, bytes], scores: Mapping[str, Any], found: Findings) -> None:
    """Check the seal that the run had when it was evaluated."""
    own = {name: value for name, value in scores.items() if name != "seal"}
    seal = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()
    found.check(seal == scores["seal"], f"{SCORES} has its seal", f"{SCORES} was changed: its seal is that of others")
    same = stated(members[RECORD]) == scores["files"]["run.toml"]
    found.check(same, f"{RECORD} is the one that was scored", f"{RECORD} is not the one that was sealed with {SCORES}")


def _check_numbers(statement: Mapping[str, Any], scores: Mapping[str, Any], found: Findings) -> None:
    """Compute again what follows from counts of records."""
    values, counts, again = scores["values"], scores["counts"], statement["recount"]
    counted = [f"{part}_accuracy" for part in again["right"]] + (["auc"] if again["bins"] else [])
    for name in ("forget_accuracy", "retain_accuracy", "audit_accuracy", "test_accuracy", "auc"):
        if name in values and name not in counted:
            found.unchecked.append(f"{name}: the pack has no counts of records behind it")
    for part, (right, of) in again["right"].items():
        said = f"{part}_accuracy is {values[f'{part}_accuracy']:.2f} %"
        same = counts[part] == of and abs(values[f"{part}_accuracy"] - 100 * right / of) < 1e-6
        found.check(
            same, f"{said}: {right} of {of} records", f"{SCORES} says {said}, and {right} of {of} records are right"
        )
    if again["bins"]:
        low, high = auc_between(again["bins"])
        sums = [sum(column) for column in zip(*again["bins"], strict=True)]
        said, range_ = f"AUC is {values['auc']:.3f}", f"between {low:.3f} and {high:.3f} by the counts of records"
        same = low - 1e-9 <= values["auc"] <= high + 1e-9 and sums == [counts["forget"], counts["others"]]
        found.check(same, f"{said}, {range_}", f"{SCORES} says {said}, and it is {range_}, of which there are {sums}")
    if scores["reference"] and "avg_gap" in values:
        names = _GAP_OVER_NUMBERS if "forget_mae" in values else _GAP_OVER
        gap = sum(abs(values[name] - scores["reference"][name]) for name in names) / len(names)
        said = f"Avg. Gap is {values['avg_gap']:.2f}"
        found.check(
            abs(gap - values["avg_gap"]) < 1e-6, said, f"{SCORES} says {said}, and by its parts it is {gap:.2f}"
        )
    told = {test["name"]: test["value"] for test in statement["tests"]}
    for name in sorted(told.keys() | values.keys()):
        if told.get(name) != values.get(name):
            found.failed.append(f"{STATEMENT} says {name} is {told.get(name)}, and {SCORES} says {values.get(name)}")
    found.unchecked.append("attacks and the verdict: they follow from outputs that only the owner of the run has")


def auc_between(bins: list[list[int]]) -> tuple[float, float]:
    """Return the least and the largest AUC that counts of forgotten and of other records, bin by bin, allow.

    >>> auc_between([[1, 3], [3, 1]])
    (0.5625, 0.9375)
    """
    forgotten, others = (sum(column) for column in zip(*bins, strict=True))
    least = ties = passed = 0
    for some, rest in bins:
        least += some * passed
        ties += some * rest
        passed += rest
    return least / (forgotten * others), (least + ties) / (forgotten * others)


def _check_dates(statement: Mapping[str, Any], record: Mapping[str, Any], found: Findings) -> None:
    """Compare the dates with each other."""
    begun, finished, packed = str(record["begun"]), str(record["finished"]), str(statement["packed"])
    faults = [] if finished <= packed else [f"the run ended at {finished}, after it was packed at {packed}"]
    faults += [] if begun <= finished else [f"the run ended at {finished}, before it began at {begun}"]
    for one in statement["requests"]:
        dates = f"received {one['received']}, due {one['due']}, added {one['added']}, served {finished}"
        if not one["received"] <= min(one["added"][:10], one["due"]) or not one["added"] <= finished:
            faults.append(f"the dates of request {one['request']} do not follow each other: {dates}")
    found.check_all(faults, f"the dates follow each other: the run ended at {finished}, the pack was made at {packed}")


def _own_policy(
    members: Mapping[str, bytes], statement: Mapping[str, Any], known: Facts, found: Findings
) -> dict[str, list[str]] | None:
    """Return what the policy in the pack makes of it, None if there is none; and see that the pack says so itself."""
    own = judged(members[POLICY].decode(), POLICY, known) if POLICY in members else None
    if statement["policy"] != own:
        found.failed.append(f"{STATEMENT} says otherwise than {POLICY} which thresholds are kept")
    return own


def _check_model(scores: Mapping[str, Any], folder: Path | None, found: Findings) -> None:
    """Compare a model folder with the hashes of the model that was scored."""
    if folder is None:
        found.unchecked.append("the model: give its folder with --model")
        return
    files = {name: known for name, known in scores["files"].items() if name not in LISTS}
    if not (folder / "model").is_dir() and all(name.startswith("model/") for name in files):
        files, roots = {name.removeprefix("model/"): known for name, known in files.items()}, {folder}
    else:
        roots = {folder / Path(name).parts[0] for name in files}
    there = {str(path.relative_to(folder)) for root in roots for path in root.rglob("*") if path.is_file()}
    faults = [f"the model's {name} is missing" for name in files if not (folder / name).is_file()]
    faults += [f"{folder / name} does not belong to the model" for name in sorted(there - files.keys())]
    for name, known in files.items():
        if (folder / name).is_file() and _hashed(folder / name) != known:
            faults.append(f"the model's {name} is not the one that was scored")
    found.check_all(faults, f"the {len(files)} files of the model are those that were scored")


def _hashed(path: Path) -> str:
    """Return the size and the hash of a file that may be large."""
    with path.open("rb") as file:
        return f"{path.stat().st_size} {hashlib.file_digest(file, 'sha256').hexdigest()}"
