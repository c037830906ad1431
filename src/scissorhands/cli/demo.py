"""scissorhands demo: forget a digit, by every method of the paper."""

from pathlib import Path

import click

from .options import PATH, device_option, level_option


@click.command()
@click.option("--diffusion", is_flag=True, help="Forget how to draw a digit, with a small text-to-image pipeline.")
@click.option("-o", "--output", type=PATH, help="The folder to write: runs/demo or runs/demo-diffusion.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier demo.")
@level_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def demo(diffusion: bool, output: Path | None, overwrite: bool, level: str | None, device: str, as_json: bool) -> None:
    """Forget a digit by every method of the paper, three seeds."""
    from ..bench import classification, diffusion_demo
    from .progress import progress
    from .show import show_bench

    if diffusion and level:
        raise click.UsageError("--level applies only to classifiers: leave it out with --diffusion.")
    output = output or Path("runs/demo-diffusion" if diffusion else "runs/demo")
    with progress() as log:
        if diffusion:
            found = diffusion_demo.demo(output, overwrite, device, log)
        else:
            found = classification.demo(output, overwrite, device, log, level or "quick")
    show_bench(found, output, as_json)
