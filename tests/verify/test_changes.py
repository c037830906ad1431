"""A single change to a pack, to the model or to the ledger is found and named."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.commands import cli, done
from scissorhands.evidence.signing import make_key, read_key, signature
from scissorhands.report import pdf
from scissorhands.requests.ledger import Ledger
from scissorhands.verify.chain import Entry, line, linked
from scissorhands.verify.findings import Findings
from scissorhands.verify.pack import MANIFEST, RECORD, SCORES, SIGNATURE, STATEMENT, archive, stated, verify

TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set batch_size=64"
SERVE = "--method finetune --set epochs=1 --set lr=0.001 --missing skip --untrained"
Files = dict[str, bytes]
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger whose requests were served, a signed pack of that, the model, and two keys."""
    folder = tmp_path_factory.mktemp("whole")
    done(TRAIN, "-o", folder / "trained")
    for name in ("keys", "other"):
        make_key(folder / name)
    (folder / "policy.toml").write_text("largest_auc = 0.99\n")
    ledger = Ledger(folder / "ledger")
    ledger.add(["1", "2", "3"], "", "2026-01-05", "+30d", "")
    ledger.add([str(number) for number in range(20, 60)], "", "", "+30d", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdf, "browser", lambda: "")
        sign = f"--sign {folder}/keys/key.pem --policy {folder}/policy.toml"
        done(f"request serve {folder}/trained --ledger {folder}/ledger {SERVE} {sign}")
    ledger.add(["70"], "", "", "+30d", "")
    shutil.copytree(folder / "ledger/runs/001/model", folder / "model")
    shutil.copy(folder / "ledger/packs/001.zip", folder / "pack.zip")
    return folder


def check(folder: Path) -> Findings:
    return verify(folder / "pack.zip", folder / "model", folder / "ledger", folder / "keys/public.pem")


def test_what_was_not_changed_holds(whole: Path) -> None:
    found = check(whole)
    assert not found.failed
    assert "the ledger lists this pack for 2 requests" in found.held
    assert "the 4 lines of the ledger follow from each other" in found.held


def raw(old: bytes, new: bytes) -> Change:
    """Replace bytes of the archive as it is."""

    def change(folder: Path) -> None:
        content = (folder / "pack.zip").read_bytes()
        assert old in content
        (folder / "pack.zip").write_bytes(content.replace(old, new, 1))

    return change


def appended(folder: Path) -> None:
    (folder / "pack.zip").write_bytes((folder / "pack.zip").read_bytes() + b"\n")


def repacked(change: Callable[[Files], object], *, listed: bool, signed: bool = False) -> Change:
    """Change files of the pack; write the manifest again if it is to list them, and the signature with the own key."""

    def made(folder: Path) -> None:
        with zipfile.ZipFile(folder / "pack.zip") as file:
            files = {name: file.read(name) for name in file.namelist()}
        change(files)
        if listed:
            hashes = {name: stated(x) for name, x in sorted(files.items()) if name not in (MANIFEST, SIGNATURE)}
            files[MANIFEST] = (json.dumps({"members": hashes}, indent=2) + "\n").encode()
        if signed:
            files[SIGNATURE] = signature(files[MANIFEST], read_key(folder / "keys/key.pem"))
        (folder / "pack.zip").write_bytes(archive(files))

    return made


def text(name: str, old: str, new: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        assert old in files[name].decode()
        files[name] = files[name].decode().replace(old, new, 1).encode()

    return change


def number(name: str, new: float, *, sealed: bool = False) -> Callable[[Files], None]:
    """Change a score."""

    def change(files: Files) -> None:
        scores = json.loads(files[SCORES])
        scores["values"][name] = new
        if sealed:
            del scores["seal"]
            scores["seal"] = hashlib.sha256(json.dumps(scores, sort_keys=True).encode()).hexdigest()
        files[SCORES] = json.dumps(scores).encode()

    return change


def statement(change: Callable[[dict[str, object]], object]) -> Callable[[Files], None]:
    def made(files: Files) -> None:
        content = json.loads(files[STATEMENT])
        change(content)
        files[STATEMENT] = json.dumps(content).encode()

    return made


def other_key(folder: Path) -> None:
    def sign(files: Files) -> None:
        files[SIGNATURE] = signature(files[MANIFEST], read_key(folder / "other/key.pem"))

    repacked(sign, listed=False)(folder)


def model(name: str, change: Callable[[bytes], bytes | None]) -> Change:
    def made(folder: Path) -> None:
        path = folder / "model" / name
        content = change(path.read_bytes() if path.exists() else b"")
        path.unlink() if content is None else path.write_bytes(content)

    return made


def lines(change: Callable[[list[str]], list[str]]) -> Change:
    """Change lines of the ledger as they are."""

    def made(folder: Path) -> None:
        path = folder / "ledger/ledger.jsonl"
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))

    return made


def entries(change: Callable[[list[Entry]], object]) -> Change:
    """Change entries of the ledger, and compute all hashes again."""

    def made(folder: Path) -> None:
        path, previous, written = folder / "ledger/ledger.jsonl", "", ""
        known = [json.loads(one) for one in path.read_text().splitlines()]
        change(known)
        for entry in known:
            own = linked({name: x for name, x in entry.items() if name not in ("hash", "previous")}, previous)
            previous, written = own["hash"], written + line(own)
        path.write_text(written)

    return made


CHANGES: dict[str, tuple[Change, str]] = {
    "a byte of the page": (raw(b"<title>Evidence", b"<title>evidence"), "report.html was changed"),
    "a byte between the files": (raw(b"PK\x03\x04\x14", b"PK\x03\x04\x15"), "the archive was changed outside of"),
    "the last byte": (appended, "the archive was changed outside"),
    "a line of the card": (
        repacked(text("README.md", "- Approximate unlearning", "- Perfect unlearning"), listed=False),
        "README.md is not the file that manifest.json lists",
    ),
    "a line of the program": (
        repacked(text("verify/pack.py", "import hashlib", "import hashlib  "), listed=False),
        "verify/pack.py is not the file",
    ),
    "a file that was added": (
        repacked(lambda files: files.update({"more.txt": b""}), listed=False),
        "more.txt is not listed in manifest.json",
    ),
    "a file that was removed": (
        repacked(lambda files: files.pop("report.html"), listed=False),
        "report.html is missing",
    ),
    "the date of the run": (
        repacked(text(RECORD, 'finished = "2', 'finished = "1'), listed=True, signed=True),
        "run/run.toml is not the one that was sealed with run/scores.json",
    ),
    "the date of the pack": (
        repacked(statement(lambda said: said.update(packed="2020-01-01T00:00:00Z")), listed=True, signed=True),
        "after it was packed at 2020-01-01",
    ),
    "the date of a request": (
        repacked(statement(lambda said: said["requests"][0].update(received="2026-01-04")), listed=True, signed=True),  # type: ignore[index]
        "request 1 is not in the ledger as the pack has it",
    ),
    "a number": (
        repacked(number("retain_accuracy", 99.5), listed=True, signed=True),
        "run/scores.json was changed: its seal is that of others",
    ),
    "a number and its seal": (
        repacked(number("retain_accuracy", 99.5, sealed=True), listed=True, signed=True),
        "run/scores.json says retain_accuracy is 99.50 %, and",
    ),
    "the area under the curve": (
        repacked(number("auc", 0.99, sealed=True), listed=True, signed=True),
        "run/scores.json says AUC is 0.990, and it is between",
    ),
    "a number of the statement": (
        repacked(statement(lambda said: said["tests"][0].update(value=12.0)), listed=True, signed=True),  # type: ignore[index]
        "evidence.json says forget_accuracy is 12.0, and run/scores.json says",
    ),
    "a threshold": (
        repacked(text("policy.toml", "0.99", "1.00"), listed=True),
        "the signature is not one of manifest.json",
    ),
    "a digit of the signature": (
        repacked(text(SIGNATURE, '"signature": "', '"signature": "00'), listed=False),
        "the signature is not one of manifest.json",
    ),
    "the key": (other_key, "not by the one you gave"),
    "no signature": (repacked(lambda files: files.pop(SIGNATURE), listed=False), "the pack is not signed"),
    "a byte of the model": (
        model("model.safetensors", lambda content: content[:-1] + bytes([content[-1] ^ 1])),
        "model.safetensors is not the one that was scored",
    ),
    "a file in the model": (model("more.bin", lambda content: b"1"), "more.bin does not belong to the model"),
    "a file of the model": (model("config.json", lambda content: None), "config.json is missing"),
    "a date in the ledger": (
        lines(lambda known: [known[0].replace("2026-01-05", "2026-01-06"), *known[1:]]),
        "line 1 of the ledger was changed",
    ),
    "a line of the ledger": (
        lines(lambda known: [known[0], *known[2:]]),
        "line 2 of the ledger does not follow from the line before",
    ),
    "the end of the ledger": (
        lines(lambda known: known[:2]),
        "the ledger does not say that the requests of the pack were served",
    ),
    "a request, and all hashes after it": (
        entries(lambda known: known[1].update(note="changed")),
        "the ledger does not hold the line 2 that it had when the pack was made",
    ),
    "the pack in the ledger": (
        entries(lambda known: known[2].update(pack="0" * 64)),
        "lists another pack for request 1, 2",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_found_and_named(whole: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("trained", "runs", "packs"))
    change, says = CHANGES[what]
    change(folder)
    assert any(says in failed for failed in check(folder).failed), check(folder).failed
    answer = cli(
        f"verify {folder}/pack.zip --model {folder}/model --ledger {folder}/ledger --key {folder}/keys/public.pem"
    )
    assert answer.code == 1
    assert says in answer.out
