"""Runs a recipe: for every seed the original, the reference and the methods, then one table and one page."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import jobs, report, runs
from .audit import Audit
from .errors import RunError
from .jobs import Place, Request, Subject
from .problem import Log, ignore
from .recipe import Recipe
from .runs import Run
from .table import Table, tabulate

DEMO = Path(str(files("scissorhands") / "demo.toml"))


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore, level: str = "quick") -> Table:
    """Runs the demonstration; its folder is complete or not there."""
    with runs.writing(folder, overwrite) as work:
        return bench(replace(Recipe.read(DEMO), level=level), work, device, log)


def bench(recipe: Recipe, folder: Path, device: str, log: Log = ignore) -> Table:
    """Runs what is not there yet, and writes table.json and report.html."""
    found = [run for seed in recipe.seeds for run in _seed(recipe, folder / f"seed-{seed}", seed, device, log)]
    table = tabulate(found)
    runs.write_file(folder / "table.json", json.dumps(table.to_dict(), indent=2) + "\n")
    runs.write_file(folder / "report.html", report.page(table, found, recipe.title))
    return table


def _seed(recipe: Recipe, folder: Path, seed: int, device: str, log: Log) -> Iterator[Run]:
    """Trains the original of one seed, and makes it forget each draw."""
    if not _finished(folder / "trained", recipe, recipe.split_seed, recipe.training.to_dict()):
        jobs.train(
            recipe.model,
            recipe.arguments,
            recipe.source,
            recipe.training,
            recipe.holdout,
            Place(folder / "trained", seed=seed, device=device, resume=runs.resumable(folder / "trained")),
            recipe.split_seed,
            log,
        )
    for draw in recipe.draws or [recipe.split_seed]:
        there = folder / f"draw-{draw}" if recipe.draws else folder
        for method_seed in recipe.method_seeds or [seed]:
            place = Place(
                there / f"method-{method_seed}" if recipe.method_seeds else there, seed=method_seed, device=device
            )
            yield from _draw(recipe, folder / "trained", draw, place, log)


def _draw(recipe: Recipe, trained: Path, draw: int, place: Place, log: Log) -> Iterator[Run]:
    """Original, reference and methods on one draw, each compared with the reference if there is one."""
    request = Request(recipe.forget, recipe.source, draw, recipe.unseen)

    def subject() -> Subject:
        return Subject.load(str(trained), factory, place.torch_device())

    def at(name: str) -> Place:
        there = place.folder / name
        return replace(place, folder=there, resume=runs.resumable(there))

    factory = recipe.model if ":" in recipe.model else None
    original = _finished(at("original").folder, recipe, draw, {}) or jobs.score(subject(), request, at("original"))
    made: list[tuple[Run, int | None]] = [(original, None)]
    for entry in recipe.entries:
        settings = entry.method.to_dict()
        run = _finished(at(entry.label).folder, recipe, draw, settings)
        run = run or jobs.scrub(subject(), request, entry.name, settings, at(entry.label), log)
        made.append((run, entry.tried))
    deeper = [(Audit(run, recipe.level, {}, {}, factory, place.torch_device()).carry_out(log), n) for run, n in made]
    references = [run for run, _ in deeper if run.method == "retrain"]
    yield from (jobs.compare(run, references[0], tried) if references else run for run, tried in deeper)


def _finished(folder: Path, recipe: Recipe, draw: int, settings: dict[str, Any]) -> Run | None:
    """The run that is there already; refused if the recipe has changed since."""
    if not folder.exists():
        return None
    run = runs.read(folder)
    divided = run.record["split"]
    wanted: dict[str, Any] = {"holdout": recipe.holdout, "held_seed": recipe.split_seed}
    if run.record["verb"] != "train":
        wanted |= {"forget": recipe.forget.text, "seed": draw, "unseen": recipe.unseen}
    same = (
        run.settings == settings
        and run.record["data"] == recipe.source.to_dict()
        and recipe.arguments.items() <= run.record["model"]["arguments"].items()
        and recipe.model in (run.record["model"]["source"], run.record["model"]["name"], run.record["model"]["origin"])
        and {name: divided.get(name) for name in wanted} == wanted
    )
    if not same:
        raise RunError(f"{folder} was made by another recipe than this. Remove it, or choose another folder.")
    return run
