"""What a recipe would run, for how long, and with which settings. Nothing is run or written, and no file downloaded."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..data.forget import Forget
from ..data.problem import Problem
from ..data.records import Part, Stored
from ..errors import DataError
from ..randomness import seeded
from ..runs.place import Place
from ..tasks.classification import models
from ..tasks.classification.networks import NETWORKS
from . import diffusion
from .recipe import Entry, Recipe
from .sources import source

_STEPS = 4  # of training that are timed; the first is left out, since it is slow
_FEW = 16  # records in such a step on a CPU, which may take seconds for each of a batch of 256
# How many times an epoch of a method passes over the data to forget and over that to retain; if not here, (0, 1). What
# trains nothing counts as one epoch.
_PASSES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("ascent", "expand"), (1, 0)),
    **dict.fromkeys(("shrink", "regun"), (2, 0)),
    **dict.fromkeys(("influence", "ssd", "salun", "randomlabel", "scrub", "munba"), (1, 1)),
    **dict.fromkeys(("scissorhands", "neggradplus", "gradtau", "calibrated"), (0, 2)),
    "sfron": (0, 1.2),
    "lotus": (1, 0.3),
}


@dataclass(frozen=True)
class Plan:
    """The runs by their folders, the settings with their sources, the time, and what has to be fetched first.

    `seconds` is None where something is missing, and for pipelines. It counts training steps alone.
    """

    title: str
    count: str
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
    places = sum(1 for seed in recipe.seeds for _ in recipe.places(seed))
    count = f"{_counted(len(recipe.seeds), 'training')} + {_counted(places * len(recipe.entries), 'run')}"
    return Plan(recipe.title, count, recipe.runs(), list(_settings(recipe.entries)), seconds, missing)


def _counted(number: int, what: str) -> str:
    """Return the number with its noun.

    >>> _counted(1, "run"), _counted(12, "run")
    ('1 run', '12 runs')
    """
    return f"{number} {what}" + "s" * (number != 1)


def _settings(entries: list[Entry]) -> Iterator[dict[str, Any]]:
    """Yield one row per setting of each method: its value, and where that comes from."""
    for entry in entries:
        for name, value in entry.method.to_dict().items():
            row = {"method": entry.label, "setting": name, "value": value}
            yield {**row, "source": source(name, value, entry, entries)}


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
    """Estimate the time of all runs from a few timed steps of training, on a CPU with few records each."""
    data, size = recipe.data.load(cache=False), recipe.training.batch_size
    size = min(size, _FEW) if device.type == "cpu" else size
    images, labels = data.train.fetch(torch.arange(min(len(data.train), _STEPS * size)))
    few = Stored(images, labels, classes=data.train.classes)
    with seeded(0, "model"):
        model, _ = models.create(recipe.model, few, recipe.model_set)
    part, ticks = Part(few, torch.arange(len(few))), [time.perf_counter()]
    problem = Problem(replace(part, ids=part.ids[:0]), part, augment=data.augment)
    replace(recipe.training, epochs=1, batch_size=size).fit(
        model.to(device), problem, lambda _: ticks.append(time.perf_counter())
    )
    ticks = ticks[1:] if len(ticks) > 2 else ticks
    pace = (ticks[-1] - ticks[0]) / ((len(ticks) - 1) * min(size, len(few)))
    trained = len(data.train) - round(recipe.holdout * len(data.train))
    everything = torch.arange(len(data.train))
    forgotten = trained * len(Forget(recipe.forget).ids(data.train, everything, recipe.split_seed)) / len(everything)
    cases = len(recipe.draws or [0]) * len(recipe.method_seeds or [0])
    passed = float(trained * recipe.training.epochs)
    for entry in recipe.entries:
        forget, retain = _PASSES.get(entry.name, (0, 1))
        epochs = int(entry.method.to_dict().get("epochs", 1))
        passed += cases * epochs * (forget * forgotten + retain * (trained - forgotten))
    return pace * passed * len(recipe.seeds)


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
    count = (
        f"{_counted(len(recipe.seeds) * len(entries), 'run')} + {_counted(1 + len(recipe.compare), 'pipeline')} to draw"
    )
    return Plan(recipe.title, count, runs, list(_settings(entries)), None, missing)
