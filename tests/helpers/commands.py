"""Commands as a user types them, run in this process."""

import io
import shlex
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from scissorhands.cli import main


class Answer(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    err: str


def cli(command: str, *more: str | Path) -> Answer:
    """The command, run in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["scissorhands", *shlex.split(command), *map(str, more)])
        patch.setattr(sys, "path", [*sys.path])
        patch.setattr(
            sys.modules[main.__module__], "_HEAD_START", 0.0
        )  # here no torchrun ends the others once the first has failed
        try:
            main()
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 1
        finally:
            signal.signal(signal.SIGTERM, handler)
    return Answer(code, out.getvalue(), err.getvalue())


def done(command: str, *more: str | Path) -> Answer:
    """The command, which must do what it was asked to, whatever becomes of the small models of tests."""
    answer = cli(command, *more)
    assert answer.code in (0, 3), answer.err
    return answer
