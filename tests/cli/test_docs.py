"""The generated pages are current, and the commands that pages print are commands."""

import re
import shlex
from pathlib import Path

import click
import pytest

from scissorhands.cli.docs import PAGES
from scissorhands.cli.main import group

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_what_the_code_says(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), "run: python -m scissorhands.cli.docs docs"


def typed() -> list[str]:
    """Every command that the pages print, on one line each."""
    found = []
    for page in [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]:
        for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line for line in lines if re.match(r"scissorhands [a-z]+( |$)", line)]
    return found


@pytest.mark.parametrize("line", sorted({*typed()}))
def test_every_command_that_is_printed_has_the_verb_and_the_options(line: str) -> None:
    words = shlex.split(line.replace("[OPTIONS]", ""), comments=True)[1:]
    command: click.Command = group
    context = click.Context(group)
    while isinstance(command, click.Group) and words and words[0] != "--help":
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found, f"there is no command {name}"
        command, context = found, click.Context(found, context, name)
    command.make_parser(context).parse_args(words)
