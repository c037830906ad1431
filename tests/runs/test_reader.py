"""Runs are read back as they were written, and what was edited is refused."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.runfolder import RECORD, names, result, write
from scissorhands import runs
from scissorhands.errors import RunError
from scissorhands.metrics import Outputs
from scissorhands.runs import seals


def test_a_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "out")
    run = runs.read(tmp_path / "out")
    assert run.record == RECORD
    assert run.result == result()
    assert run.method == "finetune"
    assert run.settings == {"epochs": 2, "lr": 0.1}
    assert run.ids("forget") == [5, 9]
    assert run.ids("before") == []
    assert names(tmp_path / "out") == ["forget.txt", "run.toml", "scores.json"]


def test_a_folder_that_is_not_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no run folder '.*absent'"):
        runs.read(tmp_path / "absent")


def test_a_folder_without_run_toml_is_no_run(tmp_path: Path) -> None:
    assert not runs.is_run(tmp_path)
    with pytest.raises(RunError, match=r"is not a run folder: it has no run\.toml"):
        runs.read(tmp_path)


def test_an_unfinished_run_is_called_that(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "scores.json").unlink()
    with pytest.raises(RunError, match=r"out has no scores.json: the run did not finish\. .*--overwrite"):
        runs.read(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.toml", b"seed = "),
        ("run.toml", b"seed = 1\n"),
        ("run.toml", b"\xff\xfe"),
        ("run.toml", b'seed = 1\nmethod = "x"\nsplit = 3\n'),
        ("scores.json", b"{"),
        ("scores.json", b"[]"),
        ("scores.json", b"{}"),
        ("scores.json", b'{"values": null}'),
    ],
)
def test_a_run_that_cannot_be_read_is_refused_in_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / name).write_bytes(content)
    with pytest.raises(RunError, match=rf"out/{name} (cannot be read|has no seal)") as raised:
        runs.read(tmp_path / "out")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "missing",
    ["verb", "seed", "model", "data", "split", "method", "method.name", "split.manifest", "split.fingerprint"],
)
def test_a_record_without_what_its_readers_rely_on_is_refused_by_name(missing: str, tmp_path: Path) -> None:
    record = json.loads(json.dumps(RECORD))
    table, _, name = missing.rpartition(".")
    del (record[table] if table else record)[name]
    write(tmp_path / "out", record=record)
    with pytest.raises(RunError, match=f"run.toml cannot be read: it has no '{missing}'"):
        runs.read(tmp_path / "out")


def test_what_was_measured_before_is_a_number(tmp_path: Path) -> None:
    write(tmp_path / "out", record={**RECORD, "test_accuracy_before": "high"})
    with pytest.raises(RunError, match=r"run\.toml cannot be read: 'test_accuracy_before' is 'high'"):
        runs.read(tmp_path / "out")


def edited(path: Path, change: Callable[[dict[str, Any]], None], resealed: bool = False) -> None:
    stored = json.loads(path.read_text())
    change(stored)
    if resealed:
        stored["seal"] = seals._seal(stored)
    path.write_text(json.dumps(stored))


def test_scores_that_were_edited_are_not_shown_as_true(tmp_path: Path) -> None:
    write(tmp_path / "out")
    edited(tmp_path / "out" / "scores.json", lambda stored: stored["values"].update(retain_accuracy=100.0))
    with pytest.raises(RunError, match=r"scores\.json was changed after it was written"):
        runs.read(tmp_path / "out")


@pytest.mark.parametrize("content", ["", "5\n", "5\n9\n10\n"])
def test_a_list_of_what_was_forgotten_that_was_edited_is_refused(content: str, tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "forget.txt").write_text(content)
    with pytest.raises(RunError, match=r"forget\.txt was changed after the run was written"):
        runs.read(tmp_path / "out")
    (tmp_path / "out" / "forget.txt").unlink()
    with pytest.raises(RunError, match=r"forget\.txt is missing"):
        runs.read(tmp_path / "out")


def test_a_list_that_was_added_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "before.txt").write_text("1\n")
    with pytest.raises(RunError, match=r"before\.txt was changed"):
        runs.read(tmp_path / "out")


def test_a_record_that_was_edited_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out")
    record = tmp_path / "out" / "run.toml"
    record.write_text(record.read_text().replace('"finetune"', '"gift.payload:M"'))
    with pytest.raises(RunError, match=r"run\.toml was changed after the run was written"):
        runs.read(tmp_path / "out")


@pytest.mark.parametrize(
    "change",
    [
        {"values": {"mia": "high"}},
        {"values": {"mia": True}},
        {"counts": {"forget": 1.5}},
        {"failed": {"mia": 3}},
        {"reference": []},
        {"verdict": {"call": 3, "reason": "x"}},
        {"verdict": {"call": "x", "reason": "y", "more": 1}},
        {"seconds": "long"},
        {"examined": {"training": 3}},
        {"files": {"run.toml": 3}},
    ],
    ids=str,
)
def test_scores_of_the_wrong_kind_are_refused_in_one_line_though_their_seal_fits(
    change: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path / "out")
    edited(tmp_path / "out" / "scores.json", lambda stored: stored.update(change), resealed=True)
    with pytest.raises(RunError, match="cannot be read") as raised:
        runs.read(tmp_path / "out")
    assert "\n" not in str(raised.value)


def test_outputs_that_were_edited_or_contradict_the_scores_is_named(tmp_path: Path) -> None:
    write(tmp_path / "out")
    said = Outputs(torch.eye(4), torch.tensor([0, 1, 2, 0]))
    runs.write_outputs(tmp_path / "out", {"audit": said})
    assert runs.read_outputs(tmp_path / "out").keys() == {"audit"}
    runs.write_outputs(tmp_path / "out", {"retain": said})
    with pytest.raises(RunError, match=r"says retain_accuracy is 99\.00, and by outputs\.safetensors it is 75\.00"):
        runs.checked(tmp_path / "out")
    runs.write_outputs(tmp_path / "out", {"audit": said})
    path = tmp_path / "out" / "outputs.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunError, match=r"outputs\.safetensors was changed after it was written"):
        runs.read_outputs(tmp_path / "out")


def test_what_names_records_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    write(tmp_path / "out")
    runs.write_outputs(tmp_path / "out", {"probe": torch.ones(3)})
    for name in ("forget.txt", "outputs.safetensors"):
        assert stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) == 0o600
