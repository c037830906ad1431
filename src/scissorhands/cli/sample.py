"""scissorhands sample: draw images from a diffusion pipeline."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import RunError
from .arguments import PATH, PIPELINE
from .console import err
from .escape import plain
from .options import device_option, given, settings_option

if TYPE_CHECKING:
    from ..tasks.diffusion.prompts import Prompt


@click.command()
@click.argument("pipeline", type=PIPELINE)
@click.option(
    "--prompts",
    required=True,
    help="What to draw, separated by commas, or by semicolons if there are any; or a FILE.csv.",
)
@click.option("--per-prompt", default=100, show_default=True, type=click.IntRange(min=1), help="Images of each.")
@settings_option("--set", "settings", help="How to draw: steps=50, guidance=7.5, batch_size=4.")
@click.option("-o", "--output", required=True, type=PATH, help="The folder to write; images in it are not drawn again.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**62), help="Seed of the first image.")
@device_option
def sample(
    pipeline: Path, prompts: str, per_prompt: int, settings: tuple[str, ...], output: Path, seed: int, device: str
) -> None:
    """Draw images from a diffusion PIPELINE, with their prompts."""
    from ..runs.diffusion.drawn import sign
    from ..runs.place import Place
    from ..tasks.diffusion import drawing
    from ..tasks.diffusion import pipeline as pipelines
    from ..tasks.diffusion.drawing import Drawing
    from .progress import progress

    how = Drawing.make(Drawing.parsed(settings))
    if output.exists() and not output.is_dir():
        raise RunError(f"cannot write to {output}: it is not a folder.")
    wanted = _wanted(prompts, per_prompt, seed)
    if not wanted:
        raise click.UsageError("say what to draw: --prompts 'a cat, a dog'.")
    with progress() as log:
        drawer = pipelines.load(pipeline, Place(output, device=device).torch_device())
        drawing.sample(drawer, wanted, how, output, log)
        sign(output, pipeline)
    err.print(f"wrote {len(wanted)} images to {plain(output)}")


def _wanted(prompts: str, per_prompt: int, seed: int) -> "dict[str, Prompt]":
    """Return what to draw, by the names of files: prompts that are typed, or those in a file."""
    from ..tasks.diffusion import drawing
    from ..tasks.diffusion.prompts import prompts as read_prompts

    if prompts.lower().endswith(".csv") or _is_file(prompts):
        if idle := given("per_prompt"):
            raise click.UsageError(f"{idle} applies only to typed prompts; a file has one image for each line.")
        return drawing.each(read_prompts(Path(prompts).expanduser()), seed)
    typed = [prompt.strip() for prompt in prompts.split(";" if ";" in prompts else ",") if prompt.strip()]
    return drawing.several(typed, per_prompt, seed)


def _is_file(text: str) -> bool:
    """Tell whether the text is the path of a file; one that is too long for a path is not."""
    with suppress(OSError):
        return Path(text).is_file()
    return False
