"""The command line: its commands, how errors are reported, and exit codes."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from .. import interrupts
from ..errors import ScissorhandsError, did_you_mean
from ..launcher import under_torchrun
from .console import err, out
from .escape import plain
from .exit_codes import CODES

_DEBUG = "SCISSORHANDS_DEBUG"
_HEAD_START = 3.0  # seconds in which the first process tells an error that all have, and torchrun ends the others
_MISTAKES = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)


# In the order of use. Each is the command of that name in the module of that name.
VERBS = (
    *("train", "preview", "scrub", "tune", "evaluate", "report", "compare", "purge"),
    *("evidence", "verify", "key", "request"),
    *("sample", "judge", "methods", "bench", "demo"),
)


_QUICK = ("verify",)  # what needs no torch


class _Group(click.Group):
    """Imports a command when it is asked for, suggests the nearest one for a misspelled name, lists all as in VERBS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VERBS and cmd_name not in self.commands:
            command: click.Command = getattr(import_module(f".{cmd_name}", __package__), cmd_name)
            for one in command.commands.values() if isinstance(command, click.Group) else (command,):
                one.callback = _ready(one.callback, slow=cmd_name not in _QUICK)
            self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            raise click.UsageError(f"there is no command '{args[0]}'. {did_you_mean(args[0], VERBS)}")
        return super().resolve_command(ctx, args)


def _ready(work: Callable[..., Any] | None, slow: bool) -> Callable[..., Any]:
    """Return the work of a command; if it is `slow`, done once torch and all else that takes seconds is imported."""
    assert work

    @wraps(work)
    def begin(*args: Any, **values: Any) -> Any:
        if slow:
            import_module(".show", __package__)
        interrupts.restore()
        return work(*args, **values)

    return begin


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=CODES
)
@click.version_option(package_name="scissorhands", message="%(prog)s %(version)s")
def group() -> None:
    """Make a trained model forget chosen training data, and measure how well it forgot."""


def main() -> None:
    """Run the command that the arguments of this process ask for."""
    signal.signal(signal.SIGTERM, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another
    try:
        _answer()
    except SystemExit as end:
        if not isinstance(end.code, int):  # a message, which Python prints
            raise
        _exit(end.code)
    _exit(0)


def _exit(code: int) -> NoReturn:
    """End this process, as one that torchrun started has to be ended."""
    if under_torchrun():
        from ..distributed import exit_process

        exit_process(code)
    sys.exit(code)


@contextmanager
def _processes() -> Iterator[None]:
    """Join the processes that torchrun started, of which the first one prints; alone, do nothing."""
    out.quiet = err.quiet = False
    if not under_torchrun():
        yield
        return
    from ..distributed import process_group, rank

    with process_group():
        out.quiet = err.quiet = rank() > 0
        yield


def _stop(*_: Any) -> None:
    """Handle SIGTERM. torchrun sends it when another process died; an error that is being raised is still reported."""
    if not (under_torchrun() and sys.exc_info()[1]):
        sys.exit(143)


def _answer() -> None:
    """Run the command. Report any error in one line, with exit code 2 for a user's mistake."""
    try:
        _require_text(sys.argv[1:])
        with _processes():
            code = group.main(prog_name="scissorhands", standalone_mode=False)
        if code:  # what a command ended with by `Exit`
            sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        sys.exit(2)
    except click.ClickException as error:
        _fail(error.format_message(), 2)
    except ScissorhandsError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted; no unfinished run was kept, only what was finished.", 130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        code = 2 if error.errno in _MISTAKES else 1
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", code)
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        _fail(_unexpected(error), 1)


def _require_text(words: Sequence[str]) -> None:
    """Refuse arguments that are no text, and that could not be written down."""
    for word in words:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise click.UsageError(f"an argument is not UTF-8 text: {ascii(word)[:60]}")


def _unexpected(error: Exception) -> str:
    """Report an unexpected error, and say what to do about it."""
    said = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error).lower():
        return "there is not enough memory: try a smaller batch_size, smaller images or a smaller model."
    where = f"this is a fault of scissorhands. Set {_DEBUG}=1 to see where, and tell us."
    return f"{type(error).__name__}: {said[:200]}; {where}"


def _fail(message: str, code: int) -> None:
    """Tell an error, and end with this exit code."""
    if err.quiet:  # if the first process fails alike, it says so, and this one is ended before it can say it too
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(_HEAD_START)
        err.quiet = False
    err.print(f"[bold red]error:[/] {plain(message)}")
    sys.exit(code)
