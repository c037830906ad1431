"""How a command ends."""

from typing import TYPE_CHECKING

import click

from .console import err
from .escape import plain

if TYPE_CHECKING:
    from ..runs import Run

CODES = (
    "Exit codes: 0 done, 1 failed, 2 a mistake in what was asked, 3 done but the model is damaged or a policy broken."
)
DAMAGED = 3  # done as asked, but the model is damaged
BROKEN = 3  # done as asked, but a line of the company's policy is broken


def exit_if_damaged(run: "Run") -> None:
    """End with exit code 3 if the run damaged its model."""
    if run.damage:
        raise click.exceptions.Exit(DAMAGED)


def exit_if_broken(broken: list[str]) -> None:
    """Say which lines of a policy are broken, and end with exit code 3 if any is."""
    for sentence in broken:
        err.print(f"[bold yellow]policy:[/] {plain(sentence)}")
    if broken:
        raise click.exceptions.Exit(BROKEN)
