"""scissorhands demo: forget a digit, or records at random, by every method of the paper."""

from pathlib import Path

import click

from .arguments import PATH
from .options import device_option, level_option, typed


@click.command()
@click.option("--diffusion", is_flag=True, help="Forget how to draw a digit, with a small text-to-image pipeline.")
@click.option("--random", "at_random", is_flag=True, help="Forget a tenth of what a network knows by heart.")
@click.option("-o", "--output", type=PATH, help="The folder to write: runs/demo, runs/demo-random, …")
@click.option("--overwrite", is_flag=True, help="Replace an earlier demo.")
@level_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def demo(
    diffusion: bool,
    at_random: bool,
    output: Path | None,
    overwrite: bool,
    level: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Forget a digit by every method of the paper, three seeds."""
    from ..bench import classification, diffusion_demo
    from .progress import progress
    from .show import show_bench

    if diffusion and (level or at_random):
        idle = "--level" if level else "--random"
        raise click.UsageError(f"{idle} applies only to classifiers: leave it out with --diffusion.")
    kind = "-diffusion" if diffusion else "-random" if at_random else ""
    output = output or Path(f"runs/demo{kind}")
    with progress() as log:
        if diffusion:
            found = diffusion_demo.demo(output, overwrite, device, log, typed())
        else:
            found = classification.demo(output, overwrite, device, log, level or "quick", at_random, typed())
    show_bench(found, output, as_json)
