"""Which recipe a folder of runs was made by, so that another recipe does not replace its results."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..choices import PAGE
from ..distributed import on_rank_0, rank
from ..errors import ReadError, RunError
from ..files import read_json, write_text

ABOUT, TABLE = "recipe.json", "table.json"  # beside PAGE, what a bench leaves beside its runs
CURVES = ("curves.csv", "curves.svg")  # where a setting was swept
GRADCAM = "gradcam.png"  # of classifiers, if the recipe asks for it
GRID = "grid.png"  # of pipelines
BODY_PARTS = ("body_parts.csv", "body_parts.svg")  # of pipelines that NudeNet judged
# All that the folder of a bench may hold.
BENCH = (ABOUT, TABLE, PAGE, *CURVES, GRADCAM, GRID, *BODY_PARTS, "seed-*", "tuning", "original", "compared")


@contextmanager
def claiming(folder: Path, about: Mapping[str, Any]) -> Iterator[None]:
    """Record which recipe writes a folder; refuse the folder of another recipe, whose table would be replaced.

    Values under `made` must not change, nor the settings of a method; `runs` may be added. If the block fails before
    anything else was written, nothing is left.
    """
    missing = on_rank_0(lambda: [path for path in (folder, *folder.parents) if not path.exists()])
    on_rank_0(lambda: _claim(folder, json.loads(json.dumps(about))))
    try:
        yield
    except BaseException:
        if rank() == 0:
            _withdraw(folder, missing)
        raise


def _withdraw(folder: Path, made: list[Path]) -> None:
    """Remove the note of a recipe that wrote nothing else, and the folders that were made for it."""
    with suppress(OSError):
        if os.listdir(folder) == [ABOUT]:
            (folder / ABOUT).unlink()
        for path in made:
            path.rmdir()


def _claim(folder: Path, about: dict[str, Any]) -> None:
    known = claimed(folder) if (folder / ABOUT).exists() else {}
    others = {path.name for path in folder.iterdir()} - {ABOUT} if folder.is_dir() else set()
    if not known and others & {"run.toml", TABLE, PAGE, *(Path(run).parts[0] for run in about["runs"])}:
        raise RunError(f"{folder} contains files this recipe did not write: choose another folder.")
    if known and others:
        changed = [name for name, value in about["made"].items() if known["made"].get(name) != value]
        changed += [name for name, value in about["methods"].items() if known["methods"].get(name, value) != value]
        if changed:
            raise RunError(f"{folder} was made by another recipe, with another '{changed[0]}': choose another folder.")
        if missing := [run for run in known["runs"] if run not in about["runs"]]:
            what = f"which has {missing[0]} too: keep that in the recipe, or choose another folder"
            raise RunError(f"{folder} was made by another recipe, {what}.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}.") from None
    if {**about, "command": ""} != {**known, "command": ""}:  # the command that made it stays, however it goes on
        write_text(folder / ABOUT, json.dumps(about, indent=1) + "\n", private=True)


def claimed(folder: Path) -> dict[str, Any]:
    """Read the note about the recipe of a folder."""
    known = read_json(folder / ABOUT, dict)
    kinds = {"title": str, "made": dict, "methods": dict, "runs": list}
    if any(not isinstance(known.get(name), kind) for name, kind in kinds.items()):
        raise ReadError(f"{folder / ABOUT} cannot be read: it does not say what recipe it is about.")
    return known


def require_earlier(folder: Path, title: str) -> None:
    """Refuse a folder that holds something else than an earlier result of the recipe with this title."""
    earlier = (folder / ABOUT).exists() and claimed(folder)["title"] == title
    if folder.is_dir() and any(folder.iterdir()) and not earlier:
        raise RunError(f"{folder} is not an earlier demo, so it is not replaced: choose another folder.")
