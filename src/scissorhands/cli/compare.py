"""scissorhands compare: what differs between two runs."""

from pathlib import Path

import click

from .arguments import RUN
from .console import err, say_json
from .escape import plain


@click.command()
@click.argument("first", type=RUN, metavar="A")
@click.argument("second", type=RUN, metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Show what differs between A and B, in settings and in scores; each is a run, or a folder of runs."""
    from ..report.compare import compare as compared
    from ..report.gathering import gathered
    from .show import show_comparison

    sides = []
    for folder in (first, second):
        found, skipped = gathered([folder])
        for sentence in skipped:
            err.print(f"[bold yellow]warning:[/] left out: {plain(sentence)}")
        sides.append(found)
    found_difference = compared(*sides)
    if as_json:
        say_json(found_difference.to_dict())
        return
    show_comparison(found_difference, str(first), str(second))
