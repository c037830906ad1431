"""Run the experiment of a recipe, whatever kind of model it is about."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from ..data.problem import Log, ignore
from ..errors import SettingError
from ..report.table import Table
from ..runs.place import Place
from . import classification, diffusion
from .recipe import Recipe


def run(
    path: Path,
    folder: Path,
    device: str = "auto",
    level: str | None = None,
    trusted: Collection[str] = (),
    log: Log = ignore,
) -> Table:
    """Run what is missing; `level` overrides the recipe's. Code that a recipe names runs only if it is trusted."""
    if not diffusion.is_one(path):
        recipe = Recipe.read(path, trusted)
        return classification.bench(replace(recipe, level=level or recipe.level), folder, device, log)
    if level:
        raise SettingError(f"--level applies only to classifiers; {path} is a recipe for a pipeline.")
    experiment, judging = diffusion.read(path, trusted)
    return experiment.run(folder, judging.panel(Place(folder, device=device).torch_device()), device, log)
