"""What a recipe would run, for how long, and with which settings. Nothing is run or written, and no file downloaded."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..data.problem import Problem
from ..data.records import Part, Stored
from ..errors import DataError
from ..randomness import seeded
from ..runs.place import Place
from ..tasks.classification import models
from ..tasks.classification.networks import NETWORKS
from . import diffusion
from .recipe import Entry, Recipe

_STEPS = 4  # of training that are timed; the first is left out, since it is slow


@dataclass(frozen=True)
class Plan:
    """The runs by their folders, the settings with their sources, the time, and what has to be fetched first.

    `seconds` is None where something is missing. It counts training steps alone: one pass over the training data for
    each epoch of a method.
    """

    title: str
    runs: list[str]
    settings: list[dict[str, Any]]
    seconds: float | None
    missing: list[str]


def plan(path: Path, device: str = "auto", trusted: Collection[str] = ()) -> Plan:
    """Say what the recipe in a file would run."""
    if diffusion.is_one(path):
        return _of_pipeline(diffusion.PipelineRecipe.read(path, trusted))
    recipe = Recipe.read(path, trusted)
    missing = list(_missing(recipe))
    seconds = None if missing else _seconds(recipe, Place(Path(), device=device).torch_device())
    repeated = recipe.training.to_dict().keys() - recipe.settings.get("retrain", {}).keys()
    return Plan(recipe.title, recipe.runs(), list(_settings(recipe.entries, repeated)), seconds, missing)


def _settings(entries: list[Entry], repeated: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one row per setting of each method: its value, and where that comes from.

    What retraining has `repeated` comes from the training.
    """
    for entry in entries:
        for name, value in entry.method.to_dict().items():
            trained = entry.name == "retrain" and name in repeated
            source = "training" if trained else entry.sources.get(name, "default")
            yield {"method": entry.label, "setting": name, "value": value, "source": source}


def _missing(recipe: Recipe) -> Iterator[str]:
    """Say what a run would look for elsewhere."""
    try:
        if not recipe.data.here():
            name = recipe.data.name
            yield f"the data {name}: a folder of that name in $SCISSORHANDS_DATA, or a download from the hub"
    except DataError as error:
        yield str(error)
    if recipe.model not in NETWORKS and ":" not in recipe.model and not Path(recipe.model).is_dir():
        yield f"the model {recipe.model}: a folder of that name, or a download from the hub"


def _seconds(recipe: Recipe, device: torch.device) -> float:
    """Estimate the time of all runs from a few timed steps of training."""
    data, size = recipe.data.load(cache=False), recipe.training.batch_size
    images, labels = data.train.fetch(torch.arange(min(len(data.train), _STEPS * size)))
    few = Stored(images, labels, classes=data.train.classes)
    with seeded(0, "model"):
        model, _ = models.create(recipe.model, few, recipe.model_set)
    part, ticks = Part(few, torch.arange(len(few))), [time.perf_counter()]
    problem = Problem(replace(part, ids=part.ids[:0]), part, augment=data.augment)
    replace(recipe.training, epochs=1).fit(model.to(device), problem, lambda _: ticks.append(time.perf_counter()))
    ticks = ticks[1:] if len(ticks) > 2 else ticks
    pace = (ticks[-1] - ticks[0]) / ((len(ticks) - 1) * min(size, len(few)))
    trained = len(data.train) - round(recipe.holdout * len(data.train))
    cases = len(recipe.draws or [0]) * len(recipe.method_seeds or [0])
    epochs = sum(int(entry.method.to_dict().get("epochs", 1)) for entry in recipe.entries)
    return pace * trained * (recipe.training.epochs + cases * epochs) * len(recipe.seeds)


def _of_pipeline(recipe: diffusion.PipelineRecipe) -> Plan:
    """Say what a recipe for a pipeline would run; its time depends on the device, and is not estimated."""
    methods = {name: recipe.settings.get(name, {}) for name in recipe.methods}
    entries = [attempt.entry for attempt in diffusion.attempts(methods, recipe.erasure)]
    judges = [recipe.judging.to_dict()[name] for name in ("classifier", "features", "real", "clip")]
    prompts = [recipe.prompts] if isinstance(recipe.prompts, str) else []
    pipelines = [recipe.pipeline, *recipe.compare.values()]
    needed = dict.fromkeys([*pipelines, *prompts, str(recipe.erasure.get("data", "")), *judges])
    missing = [name for name in needed if name and not Path(name).exists()]
    runs = ["original", *(f"compared/{name}" for name in recipe.compare)]
    runs += [f"seed-{seed}/{entry.label}" for seed in recipe.seeds for entry in entries]
    return Plan(recipe.title, runs, list(_settings(entries)), None, missing)
