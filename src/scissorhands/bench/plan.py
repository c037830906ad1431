"""What a recipe would run, for how long, and with which settings. Nothing is run or written, and no file downloaded."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runs.place import Place
from .entries import Entry
from .run import read
from .sources import source


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
    recipe = read(path, trusted)
    missing = list(recipe.missing())
    seconds = None if missing else recipe.seconds(Place(Path(), device=device).torch_device())
    return Plan(recipe.title, recipe.count(), recipe.runs(), list(_settings(recipe.entries)), seconds, missing)


def _settings(entries: list[Entry]) -> Iterator[dict[str, Any]]:
    """Yield one row per setting of each method: its value, and where that comes from."""
    for entry in entries:
        for name, value in entry.method.to_dict().items():
            row = {"method": entry.label, "setting": name, "value": value}
            yield {**row, "source": source(name, value, entry, entries)}
<<<<<<< HEAD
=======


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
>>>>>>> 3c0b10c4491a20f61b70b177b1552adca357e573
