"""What comes from files is printed as it is, on one line."""

import io
import itertools

import pytest
from rich.console import Console

from scissorhands.cli.escape import one_line, plain

CONSOLE = Console(file=io.StringIO(), highlight=False, emoji=False, soft_wrap=True)
PIECES = ["[", "]", "\\", "/", "x", "b", " ", "[/x]", "[bold]", "=", "@", "B", "#"]


def printed(markup: str) -> str:
    """What rich prints for some markup."""
    CONSOLE.file = file = io.StringIO()
    CONSOLE.print(markup)
    return file.getvalue().removesuffix("\n")


def test_whatever_looks_like_markup_is_printed_as_it_is() -> None:
    for length in range(1, 5):
        for pieces in itertools.product(PIECES, repeat=length):
            text = f"<{''.join(pieces)}>"
            assert printed(f"[bold]error:[/] {plain(text)}") == f"error: {one_line(text)}"


@pytest.mark.parametrize("text", ["x\\[b", "[/x] \\[", "[/x]", "a\\\\[b]", "[link=file:///x]y[/link]", ":smile:", "\\"])
def test_a_message_keeps_its_brackets_and_backslashes(text: str) -> None:
    assert printed(f"[bold red]error:[/] {plain(text)}") == f"error: {text}"


def test_a_message_is_one_line_without_control_characters() -> None:
    assert plain("a\x1b]0;x\x07\n b\u202e\ud800") == "a\ufffd]0;x\ufffd b\ufffd\ufffd"
