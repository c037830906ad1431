"""scissorhands bench: run the experiment of a recipe."""

from pathlib import Path

import click

from .arguments import FILE, PATH
from .options import device_option, recipe_level_option, required_unless, track_option, typed


@click.command()
@click.argument("recipe", type=FILE)
@click.option(
    "-o",
    "--output",
    type=PATH,
    callback=required_unless("dry_run"),
    help="The folder to write; what is done there is kept.",
)
@recipe_level_option
@click.option("--trust", multiple=True, metavar="MODULE:NAME", help="Code that the recipe names and that may run.")
@device_option
@click.option(
    "--dry-run", is_flag=True, is_eager=True, help="Say what would be run, for how long, and with which settings."
)
@click.option("--watch", is_flag=True, help="Write the page whenever a run ends, so that it can be looked at.")
@track_option
@click.option("--json", "as_json", is_flag=True, help="Print the table, or the plan, as JSON.")
def bench(
    recipe: Path,
    output: Path | None,
    level: str | None,
    trust: tuple[str, ...],
    device: str,
    dry_run: bool,
    watch: bool,
    track: str | None,
    as_json: bool,
) -> None:
    """Run the experiment of a RECIPE, or go on with it."""
    from ..bench.plan import plan
    from ..bench.run import run
    from .progress import progress
    from .show import show_bench, show_plan
    from .tracking import tracking

    if output is None or dry_run:
        show_plan(plan(recipe, device, trust), as_json)
        return
    with progress() as shown, tracking(shown, track, output) as log:
        found = run(recipe, output, device, level, trust, log, watch, typed())
    show_bench(found, output, as_json)
