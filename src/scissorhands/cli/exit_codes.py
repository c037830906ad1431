"""How a command ends."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..runs import Run

CODES = "Exit codes: 0 done, 1 failed, 2 a mistake in what was asked, 3 done but the model is damaged."
DAMAGED = 3  # done as asked, but the model is damaged


def exit_if_damaged(run: "Run") -> None:
    """End with exit code 3 if the run damaged its model."""
    if run.damage:
        raise click.exceptions.Exit(DAMAGED)
