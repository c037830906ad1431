"""Tune every method of a recipe with the same number of trials, on an original and a draw that nothing reports."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..data.forget import Forget
from ..data.problem import Log, ignore
from ..evaluation.practice import practice
from ..runs.place import Place
from ..runs.subject import load_classifier
from ..runs.tune import Search, Study, require_optuna
from ..tasks import Read
from ..tasks.classification.request import Request
from .entries import Entry
from .recipe import TUNING, Recipe


def tuned(recipe: Recipe, trained: Path, device: str, read: Read, log: Log = ignore) -> Iterator[Entry]:
    """Yield the methods of a recipe with the settings that were found; what was found before is not searched again.

    Where nothing is drawn at random, as with a class, other records take the place of those to forget.
    """
    optuna, processor = require_optuna(), Place(trained, device=device).torch_device()
    factory = recipe.model if ":" in recipe.model else None
    wanted = Forget(recipe.forget)
    task = load_classifier(str(trained), factory, processor, read)
    posed = task.pose(Request(wanted, recipe.data, TUNING, recipe.unseen, untrained=True), TUNING, processor, str, log)
    problem = posed.problem if wanted.seeded else practice(posed.problem)
    for entry in recipe.entries:
        if not recipe.is_tuned(entry):
            yield entry
            continue
        about = posed.weights + posed.manifest
        search = Search(posed.model, problem, entry.name, entry.method, entry.given, about)
        study = Study(folder=trained.parent / entry.label, trials=recipe.tune)
        found = search.carry_out(study, optuna, log)
        yield replace(entry, method=replace(entry.method, **found.settings), tuned=found)
