"""The ledger of requests: what it says, whom it does not name, and that nothing of it gets lost."""

import json
import os
import re
import signal
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import Answer, cli, done
from helpers.nursery import Fault, Nursery
from scissorhands.errors import RunError
from scissorhands.requests.ledger import Ledger
from scissorhands.verify.chain import line, linked

LINE = re.compile(r"\d{4}-\d{2}-\d{2}")


def asked(folder: Path, *keys: str, options: str = "") -> Answer:
    """Add a request for these keys."""
    (folder / "keys.txt").write_text("\n".join(keys))
    return cli(f"request add --ledger {folder}/ledger --keys {folder}/keys.txt {options}")


def listed(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(cli(f"request list --json --ledger {folder}/ledger").out)["requests"]
    return rows


def test_requests_are_added_listed_and_closed(tmp_path: Path) -> None:
    assert asked(tmp_path, "ada.png", "", "bob.png").err == "added request 1\n"
    assert asked(tmp_path, "7\teve.png", options="--id E-7 --received 2026-01-02 --due +10d --note 'by mail'").code == 0
    first, second = listed(tmp_path)
    today = date.fromisoformat(first["received"])
    assert first["due"] == (today + timedelta(days=30)).isoformat()
    assert (first["keys"], first["state"]) == (2, "open")
    assert second == {**second, "request": "E-7", "received": "2026-01-02", "due": "2026-01-12", "state": "late"}
    assert "2 requests, 2 open, 1 late" in cli(f"request list --ledger {tmp_path}/ledger").out
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.keys(ledger.requests()["E-7"]) == ["eve.png"]
    assert cli(f"request close E-7 --ledger {tmp_path}/ledger --note withdrawn").code == 0
    assert [row["state"] for row in listed(tmp_path)] == ["open", "closed"]


def test_the_ledger_names_nobody_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    asked(tmp_path, "zoe.png")
    folder = tmp_path / "ledger"
    assert "zoe" not in (folder / "ledger.jsonl").read_text()
    assert folder.stat().st_mode & 0o077 == 0
    assert Ledger(folder).hash_of("zoe.png") in (folder / "ledger.jsonl").read_text()
    asked(tmp_path, "bob.png")
    assert {path.name for path in (folder / "keys").iterdir()} == {"1.txt", "2.txt"}
    done(f"request close 1 --ledger {folder} --note 'by mail' --withdrawn")
    assert {path.name for path in (folder / "keys").iterdir()} == {"2.txt"}


def test_a_line_that_was_changed_taken_away_or_moved_is_found(tmp_path: Path) -> None:
    for key in ("a", "b", "c"):
        asked(tmp_path, key)
    path = tmp_path / "ledger" / "ledger.jsonl"
    one, two, three = path.read_text().splitlines(keepends=True)
    for number, changed in {
        2: one + LINE.sub("2025-01-01", two) + three,
        1: two + three,
        3: one + two + three.rstrip(),
    }.items():
        path.write_text(changed)
        answer = cli(f"request list --ledger {path.parent}")
        assert answer.code == 2
        assert f"was changed: line {number} of the ledger" in answer.err
    path.write_text(one + three)
    assert asked(tmp_path, "d").code == 2
    assert path.read_text() == one + three


def test_a_ledger_that_lost_all_lines_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    asked(tmp_path, "a")
    (tmp_path / "ledger/ledger.jsonl").write_text("")
    for answer in (asked(tmp_path, "b"), cli(f"request list --ledger {tmp_path}/ledger")):
        assert answer.code == 2
        assert "ledger.jsonl was changed: it is empty. Restore it from a copy." in answer.err
    assert (tmp_path / "ledger/keys/1.txt").read_text() == "a\n"


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"event": "lost"},
        {"event": "added", "request": "../x"},
        {"event": "closed", "closed": "", "requests": ["9"]},
    ],
)
def test_a_line_that_no_ledger_has_is_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    asked(tmp_path, "a")
    path = tmp_path / "ledger" / "ledger.jsonl"
    first = json.loads(path.read_text())
    path.write_text(path.read_text() + line(linked(entry, first["hash"])))
    answer = cli(f"request list --ledger {path.parent}")
    assert answer.code == 2
    assert "line 2 of the ledger is none that a ledger has" in answer.err


def test_a_salt_that_is_none_is_refused(tmp_path: Path) -> None:
    asked(tmp_path, "a")
    (tmp_path / "ledger" / "salt").write_text("pepper")
    assert "is not the salt of a ledger" in asked(tmp_path, "b").err
    (tmp_path / "ledger" / "salt").unlink()
    assert "restore it, or keys cannot be compared" in asked(tmp_path, "b").err


def test_keys_that_are_not_those_of_the_request_are_refused(tmp_path: Path) -> None:
    asked(tmp_path, "a")
    ledger = Ledger(tmp_path / "ledger")
    (ledger.folder / "keys" / "1.txt").write_text("b\n")
    with pytest.raises(RunError, match="does not hold the keys that were asked for"):
        ledger.keys(ledger.requests()["1"])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("add --ledger {0}/ledger --keys {0}/empty.txt", "names no record"),
        ("add --ledger {0}/ledger --keys {0}/gone.txt", "No such file"),
        ("add --ledger {0}/ledger --keys {0}/keys.txt --id 1", "has a request '1' already"),
        ("add --ledger {0}/ledger --keys {0}/keys.txt --id ../a", "cannot name a request"),
        ("add --ledger {0}/ledger --keys {0}/keys.txt --due soon", "'soon' is not a date"),
        ("add --ledger {0}/ledger --keys {0}/keys.txt --received 2999-01-01", "still to come"),
        ("add --ledger {0}/ledger --keys {0}/keys.txt --received 2026-01-02 --due 2026-01-01", "have been due on"),
        ("add --ledger {0} --keys {0}/keys.txt", "is not a ledger: it holds 'empty.txt'"),
        ("list --ledger {0}/none", "is not a ledger: it has no ledger.jsonl"),
        ("close 1 --ledger {0}/ledger", "'1' was not served"),
        ("close 7 --ledger {0}/ledger", "no request '7'. Known: 1."),
        ("close 1 --ledger {0}/ledger --withdrawn", "Say with --note why"),
        ("shut 1", "No such command 'shut'"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(tmp_path: Path, command: str, says: str) -> None:
    asked(tmp_path, "a")
    (tmp_path / "empty.txt").write_text("\n \n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    answer = cli(f"request {command.format(tmp_path)}")
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1)
    assert says in answer.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_processes_that_add_at_once_lose_nothing(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("a\n")
    command = "request add --ledger ledger --keys keys.txt"
    children = [nursery.start(command, tmp_path) for _ in range(8)]
    assert [child.wait().code for child in children] == [0] * 8
    assert sorted(Ledger(tmp_path / "ledger").requests()) == [str(number) for number in range(1, 9)]


@pytest.mark.parametrize("what", ["kill", "kill after"])
def test_adding_that_is_killed_leaves_all_or_nothing(nursery: Nursery, tmp_path: Path, what: str) -> None:
    (tmp_path / "keys.txt").write_text("a\n")
    command = "request add --ledger ledger --keys keys.txt"
    for call in range(1, 4):  # the salt, the keys, the ledger
        killed = nursery.run(f"{command} --id first-{call}", tmp_path, Fault("replace", call, what))
        assert killed.code in (-signal.SIGKILL, 0)  # the salt is written once
        there = (tmp_path / "ledger" / "ledger.jsonl").exists()
        before = list(Ledger(tmp_path / "ledger").requests()) if there else []
        assert nursery.run(f"{command} --id then-{call}", tmp_path).code == 0
        ledger = Ledger(tmp_path / "ledger")
        assert list(ledger.requests()) == [*before, f"then-{call}"]
        assert {path.stem for path in (ledger.folder / "keys").iterdir()} == {*ledger.requests()}
        assert all(ledger.keys(one) == ["a"] for one in ledger.requests().values())


def test_what_is_added_is_flushed_to_disk_before_it_is_said_to_be_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed, fsync = list[str](), os.fsync

    def note(descriptor: int) -> None:
        flushed.append(re.sub(r"\.[0-9a-f]{16}$", "", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    asked(tmp_path, "a")
    assert flushed == [".salt", "ledger", ".1.txt", "keys", ".ledger.jsonl", "ledger"]


def test_a_file_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="it is a file"):
        Ledger(tmp_path / "file").add(["1"], "", "", "+30d", "")
