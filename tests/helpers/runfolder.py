"""A small run folder, written by hand."""

from pathlib import Path
from typing import Any

from scissorhands import runs
from scissorhands.evaluation.evaluate import Scores
from scissorhands.runs import Result

VALUES = {"forget_accuracy": 40.0, "retain_accuracy": 99.0, "test_accuracy": 95.0, "mia": 60.0}
REFERENCE = {"forget_accuracy": 44.0, "retain_accuracy": 100.0, "test_accuracy": 94.0, "mia": 58.0}
RECORD: dict[str, Any] = {
    "verb": "scrub",
    "seed": 3,
    "model": {"source": "../trained", "origin": "small", "name": "small", "arguments": {"classes": 10, "width": 4}},
    "data": {"name": "digits"},
    "split": {"manifest": "abc", "fingerprint": "0123456789abcdef", "holdout": 0.1, "forget": 'where:city == "Zürich"'},
    "method": {"name": "finetune", "epochs": 2, "lr": 0.1},
}


def result() -> Result:
    """A result with something in every field."""
    scores = Scores(VALUES, {"forget": 2, "test": 7}, {"other": "it broke"}, "abc", REFERENCE)
    return Result(scores, 2.0, 300.5, "../reference", 8.0)


def write(folder: Path, overwrite: bool = False, record: dict[str, Any] = RECORD) -> None:
    """Write a small run."""
    with runs.writing(folder, overwrite) as work:
        runs.write_record(work, record, {"forget": [5, 9], "before": []})
        runs.write_result(work, result())


def names(folder: Path) -> list[str]:
    """What is in a folder, hidden or not."""
    return sorted(p.name for p in folder.iterdir())
