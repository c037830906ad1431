"""scissorhands judge: measure what a pipeline drew."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from .arguments import FOLDER, PATH
from .options import device_option, given, json_option, judging_options


@click.command()
@click.argument("drawn", type=FOLDER)
@click.option("--against", type=FOLDER, metavar="DRAWN", help="What the pipeline drew before the concept was erased.")
@click.option("--forget", metavar="WHAT", help="The erased concept, if the pipeline's run does not say it.")
@judging_options
@click.option("-o", "--output", type=PATH, required=True, help="The run folder to write.")
@click.option("--overwrite", is_flag=True, help="Replace the run folder if it exists.")
@device_option
@json_option
def judge(
    drawn: Path,
    against: Path | None,
    forget: str | None,
    by: dict[str, Any],
    output: Path,
    overwrite: bool,
    device: str,
    as_json: bool,
) -> None:
    """Judge the images in DRAWN, a folder that 'sample' filled, or another with a metadata.csv."""
    from ..data.forget import Forget
    from ..runs.diffusion import judging
    from ..runs.diffusion.drawn import Drawn
    from ..runs.diffusion.judging import Judging
    from ..runs.place import Place
    from .progress import progress
    from .show import show

    if given("threshold") and not by["nudity"]:
        raise click.UsageError("--threshold applies only to NudeNet: add --nudity.")
    if by["flagged"] and not by["nudity"]:
        raise click.UsageError("--flagged applies only to NudeNet: add --nudity.")
    named = ("classifier", "features", "real", "clip")
    judges = Judging.make({name: str(by[name]) for name in named if by[name]} | {"nudity": by["nudity"]})
    judges = replace(judges, threshold=by["threshold"], flagged=by["flagged"])
    place = Place(output, overwrite, device=device)
    images, before = Drawn(drawn), Drawn(against) if against else None
    concept = Forget(forget) if forget else images.concept()
    for one in filter(None, (images, before)):
        one.gone(concept)  # what is wrong with the folder shows before anything is loaded
    with progress() as log:
        run = judging.judge(images, concept, judges.panel(place.torch_device()), place, before, log=log)
    show(run, as_json)
