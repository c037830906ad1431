"""scissorhands bench: run the experiment of a recipe."""

from pathlib import Path

import click

from ..bench.run import run
from .options import PATH, device_option, level_option
from .show import progress, show_bench


@click.command()
@click.argument("recipe", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The folder to write; what is done there is kept.")
@level_option
@click.option("--trust", multiple=True, metavar="MODULE:NAME", help="Code that the recipe names and that may run.")
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def bench(recipe: Path, output: Path, level: str | None, trust: tuple[str, ...], device: str, as_json: bool) -> None:
    """Run the experiment of a RECIPE, or go on with it."""
    with progress() as log:
        found = run(recipe, output, device, level, trust, log)
    show_bench(found, output, as_json)
