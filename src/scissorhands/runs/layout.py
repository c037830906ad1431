"""What a run folder holds.

run.toml says what was done, log.jsonl how it went, model/ what came out, scores.json what it is worth,
outputs.safetensors what the scores were computed from, inventory.json which records there were, and gradcam/ where the
model looks.

A run is written beside its place and renamed into it when it is complete, so a folder that exists is whole. One that
was killed is still there under a hidden name, with begun.toml to say what was asked, and may hold checkpoints.
"""

import os
from pathlib import Path

from .seals import INDEX, INVENTORY, MODEL, OUTPUTS, SCORES

BEGUN, LOG, GRIDS, PICTURES, FLAGGED = "begun.toml", "log.jsonl", "grids", "gradcam", "flagged"
ROWS = "rows.txt"  # the prompts of the rows of pictures in `grids`
_FILES = ("run.toml", SCORES, LOG, "forget.txt", "before.txt", INVENTORY, OUTPUTS, INDEX)
HOLDS = (*_FILES, GRIDS, PICTURES, FLAGGED, *MODEL)  # all that a run folder may hold; a pipeline is its own run folder
# What is written where in a run folder, besides the files that scores.json lists.
WRITTEN = {".": _FILES, PICTURES: ("*.png",), GRIDS: ("*.png", ROWS), FLAGGED: ("*.png",)}
# What is written into the folders of images beside the runs of a pipeline.
DRAWN = ("*.png", "metadata.csv", "drawn.json", "pipeline.json", "nudity.jsonl", LOG)


def is_run(folder: Path) -> bool:
    """Return whether the folder is a run's."""
    return (folder / "run.toml").is_file()


def from_there(path: str | Path, folder: Path) -> str:
    """Return a path relative to a run's folder, so that both can be moved together; a name stays a name."""
    return os.path.relpath(Path(path).resolve(), folder.resolve()) if Path(path).exists() else str(path)
