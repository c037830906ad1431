"""A run folder is whole or not there, and replaces only what we wrote."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.runfolder import RECORD, names, result, write
from scissorhands import runs
from scissorhands.errors import FailedError, RunError


def fail(with_what: BaseException) -> Callable[[Path], None]:
    """A piece of work that writes something, then fails."""

    def work(folder: Path) -> None:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text("half")
        raise with_what

    return work


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


OWN = ["gradcam/thesis.txt", "gradcam/deep/er.png", "grids/thesis.txt", "unet/my_weights.bin", "log.jsonl/thesis.txt"]


@pytest.mark.parametrize("own", [*OWN, "model/my_own.bin", "model/deep/model.safetensors"])
@pytest.mark.parametrize("scored", [True, False])
def test_overwriting_refuses_a_run_that_holds_something_of_the_users_further_down(
    scored: bool, own: str, tmp_path: Path
) -> None:
    write(tmp_path / "out")
    if not scored:
        (tmp_path / "out" / "scores.json").unlink()
    (tmp_path / "out" / own).parent.mkdir(parents=True)
    (tmp_path / "out" / own).write_text("precious")
    with pytest.raises(RunError, match=f"it holds '{own}', which is not ours"):
        write(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / own).read_text() == "precious"


def test_overwriting_refuses_a_link_in_a_run(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "gradcam").mkdir()
    (tmp_path / "out" / "gradcam" / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="it holds 'gradcam/x', which is not ours"):
        write(tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("scored", [True, False])
def test_overwriting_replaces_all_that_a_run_writes(scored: bool, tmp_path: Path) -> None:
    own = ["model/config.json", "model/model.safetensors"]
    if scored:
        own += ["unet/config.json", "tokenizer/anything.txt", "model_index.json"]
    with runs.writing(tmp_path / "out", overwrite=False) as work:
        for name in own:
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text("ours")
        runs.write_record(work, RECORD, {"forget": [5, 9]})
        if scored:
            runs.write_result(work, result())
    for name in ("gradcam/forget.png", "grids/0.png", "grids/rows.txt"):  # added later
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text("ours")
    write(tmp_path / "out", overwrite=True)
    assert names(tmp_path / "out") == ["forget.txt", "run.toml", "scores.json"]


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
