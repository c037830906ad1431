"""Run the experiment of a recipe, whatever kind of model it is about."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ..data.problem import Log, ignore
from ..errors import SettingError
from ..report.table import Table
from . import classification, diffusion
from .diffusion import PipelineRecipe
from .recipe import BaseRecipe, Recipe, load

# The kinds of recipes, and what runs them; the last one takes what no other owns.
BENCHES: dict[type[BaseRecipe], Callable[..., Table]] = {
    PipelineRecipe: diffusion.bench,
    Recipe: classification.bench,
}


def kind_of(found: Mapping[str, Any]) -> type[BaseRecipe]:
    """Return the kind of recipe that has these settings."""
    *others, last = BENCHES
    return next((kind for kind in others if not found.keys().isdisjoint(kind.owns)), last)


def read(path: Path, trusted: Collection[str] = (), level: str | None = None) -> BaseRecipe:
    """Read a recipe of any kind; `level` overrides its own. Code that it names runs only if it is trusted."""
    found = load(path)
    kind = kind_of(found)
    if level and "level" not in {row["name"] for row in kind.described()}:
        raise SettingError(f"--level applies only to classifiers; {path} is {kind.called}.")
    return kind.of({**found, **({"level": level} if level else {})}, path, trusted)


def run(
    path: Path,
    folder: Path,
    device: str = "auto",
    level: str | None = None,
    trusted: Collection[str] = (),
    log: Log = ignore,
    watch: bool = False,
    command: str = "",
) -> Table:
    """Run what is missing of the recipe in a file; with `watch` its page is written whenever a run ends.

    `command` is what was typed, which the page says.
    """
    recipe = read(path, trusted, level)
    return BENCHES[type(recipe)](recipe, folder, device, log, watch=watch, command=command)
