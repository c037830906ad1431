"""A single change to a pack, to the model or to the ledger is found and named."""

import hashlib
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.commands import cli, done
from scissorhands.evidence.signing import make_key, read_key, signature
from scissorhands.report import pdf
from scissorhands.requests.ledger import Ledger
from scissorhands.verify import pack as checks
from scissorhands.verify.chain import Entry, line, linked
from scissorhands.verify.findings import Findings
from scissorhands.verify.pack import MANIFEST, RECORD, SCORES, SIGNATURE, STATEMENT, archive, stated, verify

TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set batch_size=64"
SERVE = "--method finetune --set epochs=1 --set lr=0.001 --missing skip --untrained --level quick"
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


def unlisted(name: str) -> Callable[[Files], None]:
    """Add a field to a file of JSON that no other file lists."""

    def change(files: Files) -> None:
        files[name] = (json.dumps({**json.loads(files[name]), "more": 1}, indent=2) + "\n").encode()

    return change


def swapped(one: str, other: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        files[one], files[other] = files[other], files[one]

    return change


def doubled(folder: Path) -> None:
    """Add a second file of a name that is there."""
    with zipfile.ZipFile(folder / "pack.zip", "a") as file, warnings.catch_warnings(action="ignore"):
        file.writestr("README.md", "another")


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
    "a file of the name of another": (
        repacked(swapped("README.md", "report.html"), listed=False),
        "report.html is not the file that manifest.json lists",
    ),
    "two files of one name": (doubled, "the archive was changed outside of its files"),
    "a date on the card": (
        repacked(text("README.md", "| 2026-01-05 |", "| 2026-01-06 |"), listed=True, signed=True),
        "README.md does not say what the other files say: | 1 | 2026-01-05 |",
    ),
    "a number on the card": (
        repacked(
            text(
                "README.md",
                '"retain_accuracy", name: "Acc retain", value: ',
                '"retain_accuracy", name: "Acc retain", value: 1',
            ),
            listed=True,
            signed=True,
        ),
        'README.md does not say what the other files say: - {type: "retain_accuracy"',
    ),
    "a hash on the card": (
        repacked(text("README.md", "| model.safetensors | ", "| model.safetensors | 0"), listed=True, signed=True),
        "README.md does not say what the other files say: | model.safetensors |",
    ),
    "the verdict on the card": (
        repacked(text("README.md", "**Verdict: ", "**Verdict: not "), listed=True, signed=True),
        "README.md does not say what the other files say: **Verdict: ",
    ),
    "a test that was left out": (
        repacked(statement(lambda said: said["tests"].pop()), listed=True, signed=True),  # type: ignore[attr-defined]
        "evidence.json says memory_mib is None, and run/scores.json says",
    ),
    "a threshold that is said to be kept": (
        repacked(statement(lambda said: said.update(policy=None)), listed=True, signed=True),
        "evidence.json says otherwise than policy.toml which thresholds are kept",
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
    "the day on which a request was due": (
        repacked(statement(lambda said: said["requests"][0].update(due="2026-01-04")), listed=True, signed=True),  # type: ignore[index]
        "the dates of request 1 do not follow each other: received 2026-01-05, due 2026-01-04",
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
    "a line in the signature's file": (
        repacked(unlisted(SIGNATURE), listed=False),
        "signature.json holds something besides a key and a signature",
    ),
    "a line in the manifest": (
        repacked(unlisted(MANIFEST), listed=False),
        "manifest.json holds something besides its list of files",
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
    "how many records the ledger says were forgotten": (
        entries(lambda known: known[2].update(records=999)),
        "the ledger says that 999 records were forgotten, and the pack does not",
    ),
    "when the ledger says it was served": (
        entries(lambda known: known[2].update(served="2020-01-01T00:00:00Z")),
        "the ledger says 2020-01-01T00:00:00Z, and the pack was made later",
    ),
    "how far the ledger says the model has moved": (
        entries(lambda known: known[2]["drift"].update(weights=0.0)),
        "the ledger says otherwise than the pack how far the model has moved",
    ),
    "a line of the ledger without its hash": (
        lines(lambda known: ['{"previous": ""}\n', *known[1:]]),
        "line 1 of the ledger cannot be read",
    ),
    "a request that is twice in the ledger": (
        entries(lambda known: known.insert(1, known[0])),
        "line 2 of the ledger is none that a ledger has",
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


def test_a_damaged_file_is_told_once(whole: Path, tmp_path: Path) -> None:
    for name in ("report.html", "README.md", "policy.toml", MANIFEST, SIGNATURE, STATEMENT, SCORES, RECORD):
        folder = tmp_path / name.replace("/", "-")
        shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("trained", "runs", "packs"))
        with zipfile.ZipFile(folder / "pack.zip") as file:
            start = file.getinfo(name).header_offset + 30 + len(name)
        content = bytearray((folder / "pack.zip").read_bytes())
        content[start] ^= 1
        (folder / "pack.zip").write_bytes(content)
        found = verify(folder / "pack.zip", key=folder / "keys/public.pem")
        assert found.failed == [f"{name} was changed: Bad CRC-32 for file '{name}'"]
        assert not any("files are as" in line for line in found.held)


def test_what_has_no_counts_is_not_said_to_hold(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "pack.zip", tmp_path)
    change = statement(lambda said: said.update(recount={"right": {}, "bins": []}))
    repacked(change, listed=True)(tmp_path)
    found = verify(tmp_path / "pack.zip")
    for name in ("forget_accuracy", "retain_accuracy", "audit_accuracy", "test_accuracy", "auc"):
        assert f"{name}: the pack has no counts of records behind it" in found.unchecked
        assert not any(line.startswith(name) for line in found.held)


@pytest.mark.parametrize("name", [STATEMENT, SCORES, RECORD, MANIFEST, SIGNATURE, "README.md", "policy.toml"])
def test_whatever_is_in_a_file_the_program_answers(whole: Path, tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(whole / "pack.zip") as file:
        files = {one: file.read(one) for one in file.namelist()}
    deep, zero = b"[" * 100_000, files[STATEMENT].replace(b'"bins": [', b'"bins": [[0, 0],')
    for content in (deep, b"", b"\xff", b"{}", b"[]", b"null", b'{"members": 1}', b"a = 1e999", zero):
        (tmp_path / "pack.zip").write_bytes(archive({**files, name: content}))
        assert (
            verify(tmp_path / "pack.zip", whole / "model", whole / "ledger", whole / "keys/public.pem").exit_code == 1
        )


def test_counts_of_nothing_and_a_ledger_of_nothing_are_told(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "pack.zip", tmp_path)
    repacked(statement(lambda said: said["recount"].update(bins=[[0, 0]])), listed=True)(tmp_path)  # type: ignore[attr-defined]
    assert any("ZeroDivisionError" in line for line in verify(tmp_path / "pack.zip").failed)
    (tmp_path / "ledger.jsonl").write_text('{"a": ' * 100_000 + "\n")
    failed = verify(whole / "pack.zip", ledger=tmp_path).failed
    assert failed[0] == "line 1 of the ledger cannot be read"


def test_an_archive_that_would_unfold_to_any_size_is_not_read(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_MOST", 10_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("README.md", "0" * 10_001)
    assert verify(tmp_path / "bomb.zip").failed == [
        "the pack is not a zip file that can be read: its files are far larger than those of a pack"
    ]
