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
