"""scissorhands bench: run the experiment of a recipe."""

from dataclasses import replace
from pathlib import Path

import click

from ..bench import classification, diffusion
from ..bench.recipe import Recipe
from ..report.table import Table
from ..runs.place import Place
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
    if diffusion.is_one(recipe):
        found = _bench_pipeline(recipe, output, level, trust, device)
    else:
        chosen = Recipe.read(recipe, trust)
        with progress() as log:
            found = classification.bench(replace(chosen, level=level or chosen.level), output, device, log)
    show_bench(found, output, as_json)


def _bench_pipeline(recipe: Path, output: Path, level: str | None, trust: tuple[str, ...], device: str) -> Table:
    """Run an experiment with a pipeline."""
    if level:
        raise click.UsageError(f"--level is about classifiers, and {recipe} is about a pipeline.")
    experiment, by = diffusion.read(recipe, trust)
    with progress() as log:
        return experiment.run(output, by.panel(Place(output, device=device).torch_device()), device, log)
