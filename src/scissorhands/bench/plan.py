"""What a recipe would run, for how long, and with which settings. Nothing is run or written, and no file downloaded."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..methods.search import search_space
from ..runs.place import Place
from .recipe import BaseRecipe
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
    return Plan(recipe.title, recipe.count(), recipe.runs(), list(_settings(recipe)), seconds, missing)


def _settings(recipe: BaseRecipe) -> Iterator[dict[str, Any]]:
    """Yield one row per setting of each method: its value, or between what it is searched, and its source."""
    entries = recipe.entries
    for entry in entries:
        searched = search_space(entry.method, entry.given) if recipe.is_tuned(entry) else {}
        for name, value in entry.method.to_dict().items():
            row = {"method": entry.label, "setting": name}
            if name in searched:
                yield {**row, "value": str(searched[name]), "source": "searched"}
            else:
                yield {**row, "value": value, "source": source(name, value, entry, entries)}
