"""Run a recipe for classifiers: for every seed the original, the reference and the methods, then table and page."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from .. import runs
from ..data.forget import Forget
from ..data.problem import Log, ignore
from ..data.records import Part
from ..data.split import held_out, split
from ..distributed import rank
from ..evaluation.context import discard_shadows
from ..methods.outputs import calibration_of
from ..methods.parameters import select
from ..randomness import seeded
from ..report import page as report
from ..report.table import Table, tabulate
from ..runs import Run
from ..runs.audit import Audit
from ..runs.claims import BENCH, claiming, require_earlier
from ..runs.place import Place
from ..runs.score import compare, score
from ..runs.scrub import scrub
from ..runs.subject import load
from ..runs.train import train
from ..runs.tune import require_optuna
from ..tasks import Read, once
from ..tasks.classification import models
from ..tasks.classification.gradcam import as_images, examples, looked_at
from ..tasks.classification.request import Request
from . import gradcam, tuning
from .entries import Entry
from .recipe import TUNING, Recipe, finished

DEMO = Path(str(files("scissorhands.bench") / "demo.toml"))


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore, level: str = "quick") -> Table:
    """Run the demo; its folder is complete or absent."""
    recipe = replace(Recipe.read(DEMO), level=level)
    require_earlier(folder, recipe.title)
    with runs.writing(folder, overwrite, replaces=BENCH) as work:
        return bench(recipe, work, device, log)


def bench(recipe: Recipe, folder: Path, device: str, log: Log = ignore) -> Table:
    """Run what is missing, and write table.json and report.html; gradcam.png, too, if the recipe asks for it."""
    processor = Place(folder, device=device).torch_device()  # refused before anything is written
    read = once()  # every run has the same data, which is read and hashed once
    with claiming(folder, {**recipe.about(_made(recipe)), "level": recipe.level}):
        if not (folder / f"seed-{recipe.seeds[0]}").exists():
            _require_sense(recipe, read)
        try:
            entries = _entries(recipe, folder, device, read, log)
            found = [run for seed in recipe.seeds for run in _seed(recipe, entries, folder, seed, device, read, log)]
        finally:
            if rank() == 0:
                discard_shadows()
    table = tabulate(found)
    if recipe.gradcam:
        gradcam.write(recipe, folder, processor, read)
    report.publish(folder, table, found, recipe.title, pictures=bool(recipe.gradcam))
    return table


def _require_sense(recipe: Recipe, read: Read) -> None:
    """Refuse early what would fail only after training: an empty forget set, no such parameters, nothing to look at."""
    data = read(recipe.data, recipe.data.load)
    unseen = held_out(data.train, recipe.holdout, recipe.split_seed).tolist() if recipe.holdout else recipe.unseen
    for draw in recipe.draws or [recipe.split_seed]:
        found = split(data.train, Forget(recipe.forget), test=data.test, unseen=unseen, seed=draw)
    if any(map(recipe.is_tuned, recipe.entries)):
        require_optuna()
        calibration_of(found.problem())
    with seeded(0, "model"):
        model, _ = models.create(recipe.model, data.train, recipe.model_set)
    for entry in recipe.entries:
        if names := entry.method.to_dict().get("parameters"):
            select(model, names)
    if recipe.gradcam:
        inputs, labels = examples(Part(data.train, torch.arange(len(data.train))), 1)
        as_images(inputs)
        looked_at(model, inputs, labels)


def _made(recipe: Recipe) -> dict[str, Any]:
    """Return what must not change between two runs of a recipe, as plain values."""
    names = ("data", "model", "model_set", "training", "forget", "split_seed", "holdout", "unseen")
    tuning = ("tune", "untuned") if recipe.tune else ()
    return {name: value for name, value in recipe.to_dict().items() if name in (*names, *tuning)}


def _entries(recipe: Recipe, folder: Path, device: str, read: Read, log: Log) -> list[Entry]:
    """Return the methods with their settings, which are chosen first if the recipe says so."""
    if not any(map(recipe.is_tuned, recipe.entries)):
        return recipe.entries
    trained = _trained(recipe, folder / "tuning", TUNING, device, read, log)
    return list(tuning.tuned(recipe, trained, device, read, log))


def _trained(recipe: Recipe, folder: Path, seed: int, device: str, read: Read, log: Log) -> Path:
    """Train the original of one seed, unless it is there; return its run."""
    trained = folder / "trained"
    if not finished(trained, recipe.training.to_dict()):
        train(
            recipe.model,
            recipe.model_set,
            recipe.data,
            recipe.training,
            recipe.holdout,
            Place(trained, seed=seed, device=device, resume=runs.resumable(trained)),
            recipe.split_seed,
            log,
            read,
        )
    return trained


def _seed(
    recipe: Recipe, entries: list[Entry], folder: Path, seed: int, device: str, read: Read, log: Log
) -> Iterator[Run]:
    """Train the original of one seed, and make it forget each draw."""
    trained = _trained(recipe, folder / f"seed-{seed}", seed, device, read, log)
    for draw, method_seed, there in recipe.places(seed):
        place = Place(folder / there, seed=method_seed, device=device)
        yield from _draw(recipe, entries, trained, draw, place, read, log)


def _draw(
    recipe: Recipe, entries: list[Entry], trained: Path, draw: int, place: Place, read: Read, log: Log
) -> Iterator[Run]:
    """Yield the original and a run per method on one draw, each compared with the retrained model if there is one."""
    # The original is trained here, by what the recipe says: it may know little, but its labels fit.
    request = Request(Forget(recipe.forget), recipe.data, draw, recipe.unseen, untrained=True)

    def at(name: str, variant: str = "") -> Place:
        there = place.folder / name
        return replace(place, folder=there, resume=runs.resumable(there), variant=variant)

    factory = recipe.model if ":" in recipe.model else None
    device = place.torch_device()
    original = finished(at("original").folder, {})
    if not original:
        original = score(load(str(trained), factory, device, read), request, at("original"))
    made: list[tuple[Run, int | None]] = [(original, None)]
    for entry in entries:
        settings = entry.method.to_dict()
        run = finished(at(entry.label).folder, settings)
        there = at(entry.label, entry.variant)
        cost = entry.tuned.cost() if entry.tuned else None
        run = run or scrub(str(trained), request, entry.name, settings, there, factory, read, log, cost)
        made.append((run, entry.tried))
    deeper = [(Audit(run, recipe.level, {}, {}, factory, device, read=read).carry_out(log), n) for run, n in made]
    references = [run for run, _ in deeper if run.method == "retrain"]
    yield from (compare(run, references[0], tried) if references else run for run, tried in deeper)
