"""Runs a recipe: for every seed the original, the reference and the methods, then one table and one page."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import jobs, report, runs
from .errors import RunError
from .jobs import Place, Request, Subject
from .problem import Log, ignore
from .recipe import Recipe
from .runs import Run
from .table import Table, tabulate

DEMO = Path(str(files("scissorhands") / "demo.toml"))


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore) -> Table:
    """Runs the demonstration; its folder is complete or not there."""
    with runs.writing(folder, overwrite) as work:
        return bench(Recipe.read(DEMO), work, device, log)


def bench(recipe: Recipe, folder: Path, device: str, log: Log = ignore) -> Table:
    """Runs what is not there yet, and writes table.json and report.html."""
    found = [run for seed in recipe.seeds for run in _seed(recipe, folder / f"seed-{seed}", seed, device, log)]
    table = tabulate(found)
    runs.write_file(folder / "table.json", json.dumps(table.to_dict(), indent=2) + "\n")
    runs.write_file(folder / "report.html", report.page(table, found, recipe.title))
    return table


def _seed(recipe: Recipe, folder: Path, seed: int, device: str, log: Log) -> list[Run]:
    """Original, reference and methods for one seed, each compared with the reference if there is one."""
    request = Request(recipe.forget, recipe.source, recipe.split_seed, recipe.unseen)

    def place(name: str) -> Place:
        return Place(folder / name, seed=seed, device=device)

    def subject() -> Subject:
        return Subject.load(str(folder / "trained"), recipe.model if ":" in recipe.model else None)

    if not _finished(folder / "trained", recipe, recipe.training.to_dict()):
        jobs.train(
            recipe.model,
            recipe.arguments,
            recipe.source,
            recipe.training,
            recipe.holdout,
            place("trained"),
            recipe.split_seed,
            log,
        )
    original = _finished(folder / "original", recipe, {}) or jobs.score(subject(), request, place("original"))
    made = []
    for entry in recipe.entries:
        settings = entry.method.to_dict()
        made.append(
            _finished(folder / entry.label, recipe, settings)
            or jobs.scrub(subject(), request, entry.name, settings, place(entry.label), log)
        )
    references = [run for run in made if run.method == "retrain"]
    return [jobs.compare(run, references[0]) if references else run for run in (original, *made)]


def _finished(folder: Path, recipe: Recipe, settings: dict[str, Any]) -> Run | None:
    """The run that is there already; refused if the recipe has changed since."""
    if not folder.exists():
        return None
    run = runs.read(folder)
    divided = run.record["split"]
    wanted: dict[str, Any] = {"holdout": recipe.holdout, "held_seed": recipe.split_seed}
    if run.record["verb"] != "train":
        wanted |= {"forget": recipe.forget.text, "seed": recipe.split_seed, "unseen": recipe.unseen}
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
