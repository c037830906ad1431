"""Runs that somebody edited, and whose hashes were computed anew, so that only what can be recomputed tells."""

import json
from pathlib import Path

from scissorhands import seals


def reseal(folder: Path) -> None:
    """Make the seal of a run fit what stands in its folder now."""
    path = folder / "scores.json"
    stored = json.loads(path.read_text())
    stored["files"] = seals._hashes(folder)
    stored["seal"] = seals._seal(stored)
    path.write_text(json.dumps(stored))
