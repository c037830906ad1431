"""scissorhands train: train a classifier, with some data held out."""

from pathlib import Path
from typing import Any

import click

from ..choices import HOLDOUT
from .arguments import MODEL, PATH
from .console import err
from .escape import plain
from .options import (
    arguments,
    data_options,
    long_run_options,
    required_unless,
    run_option,
    settings_option,
)


@click.command()
@click.option(
    "--model",
    type=MODEL,
    callback=required_unless("resume"),
    help="small, resnet18, resnet34, mlp (tables), module:factory, or Hugging Face name.",
)
@settings_option("--model-set", help="An argument of the model, such as width=16.")
@data_options
@settings_option("--set", "settings", help="A setting of training, such as epochs=30.")
@click.option("--holdout", default=HOLDOUT, show_default=True, help="Share of the training data to hold out as unseen.")
@click.option("--split-seed", default=0, show_default=True, help="Seed of the choice of what is held out.")
@click.option(
    "--exclude", type=PATH, metavar="FILE", help="Leave out the records whose keys it lists; see 'request exclude'."
)
@run_option
@click.option("--factory", metavar="MODULE:NAME", help="With --resume: the code that builds the model, if it is yours.")
@long_run_options
def train(
    model: str | None,
    model_set: tuple[str, ...],
    data: str | None,
    data_set: tuple[str, ...],
    label: str | None,
    key: str | None,
    settings: tuple[str, ...],
    holdout: float,
    split_seed: int,
    exclude: Path | None,
    output: Path | None,
    factory: str | None,
    placing: dict[str, Any],
    track: str | None,
    as_json: bool,
    resume: Path | None,
) -> None:
    """Train a classifier, with some data held out."""
    from ..data.keys import listed_keys
    from ..files import read_text
    from ..methods.training import Training
    from ..runs.place import Place
    from ..runs.train import train as train_model
    from ..tasks.classification.request import named_data
    from .progress import progress
    from .resume import resumed
    from .show import show_made
    from .tracking import tracking

    if resume:
        resumed("train", resume, factory, None, as_json, track)
        return
    assert model is not None
    assert output is not None
    if not 0 <= holdout < 1:
        raise click.BadParameter(f"'holdout' must be a share from 0, below 1, not {holdout}.")
    named = named_data("digits" if data is None else data, data_set, label, key)
    training = Training.make(Training.parsed(settings))
    keys = [*listed_keys(read_text(exclude))] if exclude else []
    place = Place(output, **placing)
    with progress(f"{model}, seed {place.seed}") as shown, tracking(shown, track, output) as log:
        run = train_model(model, arguments(model_set), named, training, holdout, place, split_seed, log, exclude=keys)
        log({"scores": run.result.values()})
    if exclude:
        err.print(f"left out {len(run.ids('before'))} records, which {len(keys)} keys in {plain(exclude)} name")
    show_made(run, as_json)
