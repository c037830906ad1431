"""The command line: its commands, how errors are reported, and exit codes."""

import errno
import os
import signal
import sys
import time
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import click

from .. import interrupts
from ..distributed import exit_process, process_group, rank, under_torchrun
from ..errors import ScissorhandsError, did_you_mean
from .bench import bench
from .demo import demo
from .escape import plain
from .evaluate import evaluate
from .exit_codes import CODES
from .judge import judge
from .methods import methods
from .report import report
from .sample import sample
from .scrub import scrub
from .show import err, out
from .train import train

_DEBUG = "SCISSORHANDS_DEBUG"
_MISTAKES = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)


class _Group(click.Group):
    """Suggests the nearest command for a misspelled one, and lists commands in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(f"there is no command '{args[0]}'. {did_you_mean(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=CODES
)
@click.version_option(package_name="scissorhands", message="%(prog)s %(version)s")
def group() -> None:
    """Make a trained model forget chosen training data, and measure how well it forgot."""


for command in (train, scrub, evaluate, report, sample, judge, methods, bench, demo):
    group.add_command(command)


def main() -> None:
    """Run the command that the arguments of this process ask for."""
    signal.signal(signal.SIGTERM, _stop)
    interrupts.restore()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another
    try:
        _answer()
    except SystemExit as end:
        if not isinstance(end.code, int):  # a message, which Python prints
            raise
        exit_process(end.code)
    exit_process(0)


def _stop(*_: Any) -> None:
    """Handle SIGTERM. torchrun sends it when another process died; an error that is being raised is still reported."""
    if not (under_torchrun() and sys.exc_info()[1]):
        sys.exit(143)


def _answer() -> None:
    """Run the command. Report any error in one line, with exit code 2 for a user's mistake."""
    try:
        _require_text(sys.argv[1:])
        with process_group():
            out.quiet = err.quiet = rank() > 0
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
        time.sleep(3)
        err.quiet = False
    err.print(f"[bold red]error:[/] {plain(message)}")
    sys.exit(code)
