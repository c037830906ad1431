"""Ctrl-C while a command imports the package, which takes seconds: it ends in one line, without a traceback."""

import os
import signal
import sys
from typing import Any, NoReturn


def _end(*_: Any) -> NoReturn:
    os.write(2, b"error: interrupted; nothing was begun.\n")
    os._exit(130)


def restore() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, as it does by default."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """Tell whether this process is `scissorhands …` or `python -m scissorhands …`, and no other program."""
    program = (sys.argv or [""])[0]
    return os.path.basename(program) == "scissorhands" or (program == "-m" and "scissorhands" in sys.orig_argv)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored on purpose
    signal.signal(signal.SIGINT, _end)
