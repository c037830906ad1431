"""Odd arguments, terminals and machines: each is answered in one line."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.commands import cli
from scissorhands import interrupts
from scissorhands.cli import main
from scissorhands.tasks.classification import models


def test_a_terminal_that_knows_only_ascii_shows_another_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C locale, and the λ among the settings of Scissorhands."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    monkeypatch.setattr(sys, "argv", ["scissorhands", "methods", "scissorhands"])
    with pytest.raises(SystemExit, match="0"):
        main()
    sys.stdout.flush()
    assert b"the paper's ?" in out.getvalue()


@pytest.mark.parametrize("command", ["evaluate", "report", "train --set epochs=1 -o"])
def test_an_argument_that_is_no_utf8_is_refused_in_one_line(command: str) -> None:
    answer = cli(command, "a\udcff")
    assert (answer.code, answer.err) == (2, "error: an argument is not UTF-8 text: 'a\\udcff'\n")


@pytest.mark.parametrize("place", ["", ".", "/"])
@pytest.mark.parametrize("command", ["evaluate", "scrub --forget class:3 --method finetune -o out", "report"])
def test_a_place_without_a_name_is_no_run(
    command: str, place: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder := tmp_path_factory.mktemp("empty"))
    answer = cli(command, place)
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1)
    assert "fault of scissorhands" not in answer.err
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")]
)
def test_too_little_memory_is_told_in_one_line(
    error: Exception, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(*_: object) -> None:
        raise error

    monkeypatch.setattr(models, "create", create)
    monkeypatch.chdir(folder := tmp_path_factory.mktemp("empty"))
    answer = cli("train --data digits --model small -o out")
    assert (answer.code, len(answer.err.splitlines())) == (1, 1)
    assert "there is not enough memory: try a smaller batch_size" in answer.err
    assert not list(folder.iterdir())


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as a terminal has it; what runs in the background ignores it, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("module", [True, False], ids=["python -m scissorhands", "scissorhands"])
def test_an_interrupt_while_torch_is_imported_ends_in_one_line(module: bool, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    script = tmp_path / "scissorhands"  # what pip makes of the entry point
    script.write_text("from scissorhands.cli import main\nmain()\n")
    program = ["-m", "scissorhands"] if module else [str(script)]
    path = os.pathsep.join(filter(None, [str(tmp_path), *sys.path]))
    with subprocess.Popen(
        [sys.executable, *program, "methods"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert (process.returncode, said) == (130, "error: interrupted; nothing was begun.\n")


@pytest.mark.usefixtures("interruptible")
def test_once_a_command_runs_an_interrupt_is_raised_again() -> None:
    signal.signal(signal.SIGINT, interrupts._end)
    cli("methods")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
