"""Run a recipe for classifiers: for every seed the original, the reference and the methods, then table and page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
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
from ..tasks.classification.task import read_as
from . import gradcam, tuning
from .entries import Entry
from .recipe import TUNING, Recipe, finished
from .runlist import RunList, publish

DEMO, DEMO_RANDOM = (Path(str(files("scissorhands.bench") / name)) for name in ("demo.toml", "demo_random.toml"))


def demo(
    folder: Path,
    overwrite: bool,
    device: str,
    log: Log = ignore,
    level: str = "quick",
    at_random: bool = False,
    command: str = "",
) -> Table:
    """Run the demo that forgets a class, or records at random; its folder is complete or absent."""
    recipe = replace(Recipe.read(DEMO_RANDOM if at_random else DEMO), level=level)
    require_earlier(folder, recipe.title)
    with runs.writing(folder, overwrite, replaces=BENCH) as work:
        return bench(recipe, work, device, log, command=command)


def bench(
    recipe: Recipe, folder: Path, device: str, log: Log = ignore, watch: bool = False, command: str = ""
) -> Table:
    """Run what is missing, and write table.json and report.html; gradcam.png, too, if the recipe asks for it.

    With `watch` table and page are written whenever a run ends. `command` is what was typed.
    """
    processor = Place(folder, device=device).torch_device()  # refused before anything is written
    read = once()  # every run has the same data, which is read and hashed once
    with claiming(folder, {**recipe.about(_made(recipe)), "level": recipe.level, "command": command}):
        if not (folder / f"seed-{recipe.seeds[0]}").exists():
            _require_sense(recipe, read)
        listed = RunList(_names(recipe), log, partial(publish, folder, recipe.title) if watch else None)
        try:
            entries = _entries(recipe, folder, device, read, listed)
            found = [run for seed in recipe.seeds for run in _seed(recipe, entries, folder, seed, device, read, listed)]
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
    data = read_as(models.kind_of(recipe.model), recipe.data, read)
    unseen = held_out(data.train, recipe.holdout, recipe.split_seed).tolist() if recipe.holdout else recipe.unseen
    for draw in recipe.draws or [recipe.split_seed]:
        found = split(data.train, Forget(recipe.forget), test=data.test, unseen=unseen, seed=draw)
    if any(map(recipe.is_tuned, recipe.entries)):
        require_optuna()
        calibration_of(found.problem())
    with seeded(0, "model"):
        model, _ = models.create(recipe.model, data.train, recipe.model_set)
    for entry in recipe.entries:
        entry.method.require_labels(found.problem())
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


def _names(recipe: Recipe) -> Iterator[str]:
    """Yield the folders of all runs, in their order."""
    for seed in recipe.seeds:
        yield f"seed-{seed}/trained"
        for _, _, there in recipe.places(seed):
            yield from (f"{there}/{name}" for name in ("original", *(entry.label for entry in recipe.entries)))


def _entries(recipe: Recipe, folder: Path, device: str, read: Read, log: Log) -> list[Entry]:
    """Return the methods with their settings, which are chosen first if the recipe says so."""
    if not any(map(recipe.is_tuned, recipe.entries)):
        return recipe.entries
    trained = folder / "tuning" / "trained"
    _trained(recipe, trained, TUNING, device, read, log)
    return list(tuning.tuned(recipe, trained, device, read, log))


def _trained(recipe: Recipe, folder: Path, seed: int, device: str, read: Read, log: Log) -> Run:
    """Train the original of one seed, unless it is there."""
    place = Place(folder, seed=seed, device=device, resume=runs.resumable(folder))
    how = (recipe.training, recipe.holdout, place, recipe.split_seed, log, read)
    there = finished(folder, recipe.training.to_dict())
    return there or train(recipe.model, recipe.model_set, recipe.data, *how)


def _seed(
    recipe: Recipe, entries: list[Entry], folder: Path, seed: int, device: str, read: Read, listed: RunList
) -> Iterator[Run]:
    """Train the original of one seed, and make it forget each draw."""
    trained = folder / f"seed-{seed}" / "trained"
    work = partial(_trained, recipe, trained, seed, device, read, listed)
    listed.make(f"seed-{seed}/trained", runs.is_run(trained), work)
    for draw, method_seed, there in recipe.places(seed):
        place = Place(folder / there, seed=method_seed, device=device)
        yield from _Case(recipe, entries, str(trained), draw, place, str(there), read, listed).runs()


@dataclass(frozen=True)
class _Case:
    """What an original is to forget by each method: one draw, one seed of the methods, one folder `there`."""

    recipe: Recipe
    entries: list[Entry]
    trained: str
    draw: int
    place: Place
    there: str
    read: Read
    listed: RunList

    def runs(self) -> Iterator[Run]:
        """Yield the original and a run per method, each compared with the retrained model if there is one."""
        made: list[tuple[Run, int | None]] = [(self._made("original", {}, self._original), None)]
        for entry in self.entries:
            scrubbed = partial(self._scrubbed, entry)
            made.append((self._made(entry.label, entry.method.to_dict(), scrubbed), entry.tried))
        references = [run for run, _ in made if run.method == "retrain"]
        yield from (compare(run, references[0], tried) if references else run for run, tried in made)

    def _made(self, name: str, settings: dict[str, Any], work: Callable[[], Run]) -> Run:
        """Make a run unless it is there, and evaluate it as deeply as the recipe says."""
        before = finished(self._at(name).folder, settings)

        def evaluated() -> Run:
            run, device = before or work(), self.place.torch_device()
            audit = Audit(run, self.recipe.level, {}, {}, self._factory, device, read=self.read)
            return audit.carry_out(self.listed)

        return self.listed.make(f"{self.there}/{name}", before is not None, evaluated)

    def _original(self) -> Run:
        task = load(self.trained, self._factory, self.place.torch_device(), self.read)
        return score(task, self._request, self._at("original"))

    def _scrubbed(self, entry: Entry) -> Run:
        place, settings = self._at(entry.label, entry.variant), entry.method.to_dict()
        how = (place, self._factory, self.read, self.listed, entry.tuned.cost() if entry.tuned else None)
        return scrub(self.trained, self._request, entry.name, settings, *how)

    @property
    def _request(self) -> Request:
        # The original is trained here, by what the recipe says: it may know little, but its labels fit.
        return Request(Forget(self.recipe.forget), self.recipe.data, self.draw, self.recipe.unseen, untrained=True)

    @property
    def _factory(self) -> str | None:
        return self.recipe.model if ":" in self.recipe.model else None

    def _at(self, name: str, variant: str = "") -> Place:
        there = self.place.folder / name
        return replace(self.place, folder=there, resume=runs.resumable(there), variant=variant)
