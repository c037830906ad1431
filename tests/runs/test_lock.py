"""One process at a time adds to a run."""

import signal
import time
from pathlib import Path

import pytest

from helpers.nursery import Nursery
from helpers.runfolder import RECORD, names, write
from scissorhands import runs
from scissorhands.errors import RunError


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


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path / "out")
    before = names(tmp_path), names(tmp_path / "out")
    with runs.locked(tmp_path / "out"):
        assert (names(tmp_path), names(tmp_path / "out")) == before
    assert (names(tmp_path), names(tmp_path / "out")) == before
    write(tmp_path / "out", overwrite=True)


@pytest.mark.slow
def test_a_killed_process_releases_its_lock(nursery: Nursery, tmp_path: Path) -> None:
    write(tmp_path / "out")
    script, told = tmp_path / "hold.py", tmp_path / "locked"
    script.write_text(f"""
import pathlib, time
from scissorhands import runs
with runs.locked(pathlib.Path({str(tmp_path / "out")!r})):
    pathlib.Path({str(told)!r}).touch()
    time.sleep(600)
""")
    holder = nursery.start_script(script)
    while not told.exists():
        assert holder.poll() is None
        time.sleep(0.01)
    with pytest.raises(RunError, match="another process"), runs.locked(tmp_path / "out"):
        pytest.fail("it was locked")
    holder.send(signal.SIGKILL)
    assert holder.wait().code == -signal.SIGKILL
    with runs.locked(tmp_path / "out"):
        pass
