"""Run folders: whole or not there, and read back as they were written."""

import errno
import json
import os
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from scissorhands import runs
from scissorhands.errors import FailedError, RunError
from scissorhands.evaluation.evaluate import Scores
from scissorhands.metrics import Outputs
from scissorhands.runs import Result, seals

VALUES = {"forget_accuracy": 40.0, "retain_accuracy": 99.0, "test_accuracy": 95.0, "mia": 60.0}
REFERENCE = {"forget_accuracy": 44.0, "retain_accuracy": 100.0, "test_accuracy": 94.0, "mia": 58.0}
RECORD: dict[str, Any] = {
    "verb": "scrub",
    "seed": 3,
    "model": {"source": "../trained", "origin": "small", "name": "small", "arguments": {"classes": 10, "width": 4}},
    "data": {"name": "digits"},
    "split": {"manifest": "abc", "fingerprint": "0123456789abcdef", "holdout": 0.1, "forget": 'where:city == "Zürich"'},
    "method": {"name": "finetune", "epochs": 2, "lr": 0.1},
}


def result() -> Result:
    """A result with something in every field."""
    scores = Scores(VALUES, {"forget": 5, "test": 7}, {"other": "it broke"}, "abc", REFERENCE)
    return Result(scores, 2.0, 300.5, "../reference", 8.0)


def write(folder: Path, overwrite: bool = False, record: dict[str, Any] = RECORD) -> None:
    """Writes a small run."""
    with runs.writing(folder, overwrite) as work:
        runs.write_record(work, record, {"forget": [5, 9], "before": []})
        runs.write_result(work, result())


def fail(with_what: BaseException) -> Callable[[Path], None]:
    """A piece of work that writes something, then fails."""

    def work(folder: Path) -> None:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text("half")
        raise with_what

    return work


def names(folder: Path) -> list[str]:
    """What is in a folder, hidden or not."""
    return sorted(p.name for p in folder.iterdir())


def test_a_result_comes_back_as_it_was() -> None:
    assert Result.from_dict(json.loads(json.dumps(result().to_dict()))) == result()


def test_a_result_without_reference_or_cost_comes_back_as_it_was() -> None:
    bare = Result(Scores(VALUES, {"test": 7}, {}, "abc"))
    assert Result.from_dict(json.loads(json.dumps(bare.to_dict()))) == bare
    assert bare.values() == VALUES


def test_a_result_shows_gap_and_time_as_computed_from_what_is_stored() -> None:
    stored = result().to_dict()
    assert stored["values"] == {**VALUES, "avg_gap": 2.0, "memory_mib": 300.5, "rte": 0.25}
    stored["values"].update(avg_gap=99.0, rte=99.0)
    assert Result.from_dict(stored).values() == {**VALUES, "avg_gap": 2.0, "memory_mib": 300.5, "rte": 0.25}


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


def test_a_run_is_seen_in_its_place_only_when_it_is_whole(tmp_path: Path) -> None:
    with runs.writing(tmp_path / "out", overwrite=False) as work:
        (work / "file").write_text("half")
        assert not (tmp_path / "out").exists()
        assert work.parent == tmp_path
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["file"]


@pytest.mark.parametrize("error", [ValueError("x"), OSError("y"), KeyboardInterrupt(), SystemExit(143)], ids=repr)
@pytest.mark.parametrize("place", ["out", "some/where/out"])
def test_work_that_fails_leaves_nothing(error: BaseException, place: str, tmp_path: Path) -> None:
    with pytest.raises(type(error)), runs.writing(tmp_path / place, overwrite=False) as work:
        fail(error)(work)
    assert names(tmp_path) == []


def test_work_that_fails_leaves_the_folders_that_were_there_before(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    with pytest.raises(ValueError, match="x"), runs.writing(tmp_path / "some/where/out", overwrite=False) as work:
        fail(ValueError("x"))(work)
    assert names(tmp_path) == ["some"]
    assert names(tmp_path / "some") == []


def test_work_that_fails_leaves_a_neighbor_that_came_meanwhile(tmp_path: Path) -> None:
    def work_beside_another() -> None:
        with runs.writing(tmp_path / "some/where/out", overwrite=False) as work:
            write(tmp_path / "some/other")
            fail(ValueError("x"))(work)

    with pytest.raises(ValueError, match="x"):
        work_beside_another()
    assert names(tmp_path / "some") == ["other"]
    assert runs.is_run(tmp_path / "some/other")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["full", "over quota"])
def test_a_full_disk_is_a_failure_in_one_line_that_leaves_nothing(number: int, tmp_path: Path) -> None:
    full = OSError(number, os.strerror(number))
    with (
        pytest.raises(FailedError, match=r"the disk under .* is full; nothing was written\.") as raised,
        runs.writing(tmp_path / "some/out", overwrite=False) as work,
    ):
        fail(full)(work)
    assert raised.value.exit_code == 1
    assert names(tmp_path) == []


def test_what_exists_is_not_replaced_unasked(tmp_path: Path) -> None:
    write(tmp_path / "out")
    with (
        pytest.raises(RunError, match=r"exists already\. Choose another place, or replace it with --overwrite\."),
        runs.writing(tmp_path / "out", overwrite=False),
    ):
        pytest.fail("the work must not start")
    assert runs.read(tmp_path / "out").record == RECORD


def test_overwriting_replaces_a_run_whole(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "log.jsonl").write_text("old")
    write(tmp_path / "out", overwrite=True, record={**RECORD, "seed": 4})
    assert runs.read(tmp_path / "out").record["seed"] == 4
    assert names(tmp_path) == ["out"]
    assert "log.jsonl" not in names(tmp_path / "out")


@pytest.mark.parametrize("own", ["notes.txt", "table.json", "data"])
def test_overwriting_refuses_a_run_that_holds_something_of_the_users(own: str, tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / own).write_text("precious")
    with pytest.raises(RunError, match=f"it holds '{own}', which is not ours"):
        write(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / own).read_text() == "precious"


def test_overwriting_refuses_a_folder_that_only_looks_like_a_run(tmp_path: Path) -> None:
    for name, file in {"mine": "model/thesis.txt", "pipeline": "unet/weights.safetensors"}.items():
        (tmp_path / name / file).parent.mkdir(parents=True)
        (tmp_path / name / file).write_text("precious")
        with pytest.raises(RunError, match="which is not ours"):
            write(tmp_path / name, overwrite=True)
        assert (tmp_path / name / file).read_text() == "precious"
    write(tmp_path / "out")
    (tmp_path / "out" / "model").mkdir()
    (tmp_path / "out" / "model" / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match=r"it holds 'model/thesis\.txt', which is not ours"):
        write(tmp_path / "out", overwrite=True)


def test_a_run_does_not_replace_the_folder_that_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    for place in (".", "..", tmp_path / "inner"):
        with pytest.raises(RunError, match="is the folder that you are in, or above it"):
            write(Path(place), overwrite=True)


def test_overwriting_refuses_a_link(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(RunError, match="it is not a folder"):
        write(tmp_path / "link", overwrite=True)
    assert runs.read(tmp_path / "out").record == RECORD


@pytest.mark.parametrize("place", ["/", "", ".", ".."])
def test_a_place_that_is_none_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(RunError):
        write(Path(place))
    assert names(tmp_path) == ["inner"]


def test_overwriting_keeps_the_old_run_where_the_new_one_fails(tmp_path: Path) -> None:
    write(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt), runs.writing(tmp_path / "out", overwrite=True) as work:
        fail(KeyboardInterrupt())(work)
    assert names(tmp_path) == ["out"]
    assert runs.read(tmp_path / "out").record == RECORD


def test_overwriting_keeps_the_old_run_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out")
    rename = Path.rename
    tried: list[Path] = []

    def fail_once(path: Path, target: Path) -> Path:
        if target.name == "out" and not tried:
            tried.append(path)
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", overwrite=True, record={**RECORD, "seed": 4})
    assert len(tried) == 1
    assert names(tmp_path) == ["out"]
    assert runs.read(tmp_path / "out").record == RECORD


def test_overwriting_fills_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", overwrite=True)
    assert runs.is_run(tmp_path / "out")


def test_overwriting_refuses_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("three years of work")
    with (
        pytest.raises(RunError, match=r"does not replace .*thesis: it holds 'chapter.txt', which is not ours"),
        runs.writing(tmp_path / "thesis", overwrite=True),
    ):
        pytest.fail("the work must not start")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "three years of work"


def test_overwriting_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(RunError, match="it is not a folder"),
        runs.writing(tmp_path / "file", overwrite=True),
    ):
        pytest.fail("the work must not start")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("place", ["file/out", "file/some/where/out"])
def test_a_place_below_a_file_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(RunError, match=r"cannot write to .*: it is not a folder\."),
        runs.writing(tmp_path / place, overwrite=False),
    ):
        pytest.fail("the work must not start")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["x" * 201, "é" * 101], ids=["letters", "bytes"])
def test_a_name_too_long_for_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match=f"the name '{name[:20]}…' is too long for a folder"),
        runs.writing(tmp_path / "some" / name, overwrite=False),
    ):
        pytest.fail("the work must not start")
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    with (
        pytest.raises(RunError, match=r"cannot write to .*some: Permission denied\."),
        runs.writing(tmp_path / "some/out", overwrite=False),
    ):
        pytest.fail("the work must not start")
    assert names(tmp_path) == []


def test_a_run_is_as_readable_to_others_as_any_folder(tmp_path: Path) -> None:
    (tmp_path / "any").mkdir()
    write(tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_folder_that_is_not_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no run folder '.*absent'"):
        runs.read(tmp_path / "absent")


def test_a_folder_without_run_toml_is_no_run(tmp_path: Path) -> None:
    assert not runs.is_run(tmp_path)
    with pytest.raises(RunError, match=r"is no run folder: it has no run\.toml"):
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
    with pytest.raises(RunError, match=f"run.toml cannot be read as a run: it has no '{missing}'"):
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


def test_evidence_that_was_edited_or_contradicts_the_scores_is_named(tmp_path: Path) -> None:
    write(tmp_path / "out")
    said = Outputs(torch.eye(4), torch.tensor([0, 1, 2, 0]))
    runs.write_evidence(tmp_path / "out", {"unseen": said})
    assert runs.read_evidence(tmp_path / "out").keys() == {"unseen"}
    runs.write_evidence(tmp_path / "out", {"retain": said})
    with pytest.raises(RunError, match=r"says retain_accuracy is 99\.00, and by evidence\.safetensors it is 75\.00"):
        runs.checked(tmp_path / "out")
    runs.write_evidence(tmp_path / "out", {"unseen": said})
    path = tmp_path / "out" / "evidence.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunError, match=r"evidence\.safetensors was changed after it was written"):
        runs.read_evidence(tmp_path / "out")


def test_what_names_records_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    write(tmp_path / "out")
    runs.write_evidence(tmp_path / "out", {"probe": torch.ones(3)})
    for name in ("forget.txt", "evidence.safetensors"):
        assert stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) == 0o600


def test_two_cannot_add_to_a_run_at_once(tmp_path: Path) -> None:
    write(tmp_path / "out")
    with (
        runs.locked(tmp_path / "out"),
        pytest.raises(RunError, match="is being evaluated by another process"),
        runs.locked(tmp_path / "out"),
    ):
        pytest.fail("it was locked")
    with runs.locked(tmp_path / "out"):
        assert runs.read(tmp_path / "out").record == RECORD


def test_a_log_is_kept_and_passed_on(tmp_path: Path) -> None:
    seen: list[Any] = []
    with closing(runs.Journal(tmp_path / "log.jsonl", seen.append, 0)) as log:
        log({"phase": "trim"})
        log({"phase": "repair", "loss": 0.5})
    kept = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert kept == seen == [{"phase": "trim"}, {"phase": "repair", "loss": 0.5}]


def test_the_way_to_another_run_holds_when_both_are_moved(tmp_path: Path) -> None:
    (tmp_path / "a" / "reference").mkdir(parents=True)
    way = runs.from_there(tmp_path / "a" / "reference", tmp_path / "a" / "out")
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b" / "out").mkdir()
    assert (tmp_path / "b" / "out" / way).resolve() == (tmp_path / "b" / "reference").resolve()


def test_a_name_on_the_hub_stays_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runs.from_there("owner/name", tmp_path / "out") == "owner/name"
