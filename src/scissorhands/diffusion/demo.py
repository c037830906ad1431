"""The demonstration: a small pipeline draws handwritten digits, and is made to forget how to draw one of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .. import jobs, report, runs
from ..evaluate import Scores
from ..forget import Forget
from ..jobs import Place
from ..problem import Log, ignore
from ..runs import Result, Run
from ..table import Table, tabulate
from . import drawing, small
from . import pipeline as pipelines
from .assess import Panel, assess
from .drawing import Drawing
from .erase import Erasure, erase
from .measures import Features

ERASED = 3
SEEDS = (0, 1, 2)
TITLE = "Forgetting how to draw a digit"
DRAWING = Drawing(steps=20, guidance=3.0, batch_size=64)


@dataclass(frozen=True)
class Entry:
    """A row of the table: a method, its settings, and those of the erasure."""

    label: str
    method: str
    settings: Mapping[str, Any]
    erasure: Mapping[str, Any] = field(default_factory=dict)


_STEPS = {"batch_size": 64, "weight_decay": 0.0}
_TRIM = {"trim": 0.01, "lr": 3e-4, "balance": 0.3, "epochs": 5, **_STEPS}
ENTRIES = (
    Entry("scissorhands", "scissorhands", _TRIM),
    Entry("scissorhands-project=false", "scissorhands", {**_TRIM, "project": False}),
    Entry("salun", "salun", {"lr": 3e-4, "epochs": 5, **_STEPS}),
    Entry("esd", "esd", {"lr": 1e-4, "steps": 100, "batch_size": 16, "inference": 20}),
    Entry("finetune", "finetune", {"lr": 3e-4, "epochs": 5, **_STEPS}),
    Entry("ascent", "ascent", {"lr": 1e-4, "epochs": 3, **_STEPS}),
)


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore) -> Table:
    """Runs the demonstration; its folder is complete or not there."""
    with runs.writing(folder, overwrite) as work:
        original, panel = small.original(0, log), judges(ERASED, log)
        pictures = exported(work / "pictures")
        found = [scored(original, panel, Place(work / "original", device=device))]
        for entry in ENTRIES:
            for seed in SEEDS:
                place = Place(work / f"seed-{seed}" / entry.label, seed=seed, device=device)
                found.append(tried(original, pictures, entry, panel, place, log))
        table = tabulate(found)
        runs.write_file(work / "table.json", json.dumps(table.to_dict(), indent=2) + "\n")
        runs.write_file(work / "report.html", report.page(table, found, TITLE))
        return table


def tried(original: Path, pictures: Path, entry: Entry, panel: Panel, place: Place, log: Log = ignore) -> Run:
    """One method on one digit: erased, then judged."""
    (word,) = [prompt.split()[-1] for prompt, gone in zip(panel.prompts, panel.erased, strict=True) if gone]
    erasure = Erasure.make({"data": str(pictures), **entry.erasure})
    run = erase(original, Forget(f"concept:{word}"), erasure, entry.method, entry.settings, place, log)
    return assess(run, pipelines.load(run.folder, place.torch_device()), panel, small.seconds(original))


def scored(original: Path, panel: Panel, place: Place) -> Run:
    """The original as a row of the table."""
    with runs.writing(place.folder, place.overwrite) as work:
        record = {
            **jobs.about("evaluate", place.seed, place.torch_device()),
            "model": {"source": original.name, "origin": original.name, "name": "pipeline", "arguments": {}},
            "data": {"name": "digits"},
            "split": {"manifest": "", "fingerprint": "", "holdout": 0.0},
            "method": {"name": "original"},
        }
        runs.write_record(work, record, {})
        runs.write_result(work, Result(Scores({}, {}), small.seconds(original)))
    pipeline = pipelines.load(original, place.torch_device())
    return assess(runs.read(place.folder), pipeline, panel, small.seconds(original))


def judges(erased: int, log: Log = ignore, seed: int = 10_000, per_prompt: int = 50) -> Panel:
    """The panel for one digit: a classifier of real digits, and its features."""
    _, test = small.pictures()
    classifier = small.judge(log)
    gone = [digit == erased for digit in range(len(small.PROMPTS))]
    real = test.inputs[test.labels != erased]
    features = Features("the judge's hidden layer", _Hidden(classifier))
    return Panel(small.PROMPTS, gone, classifier, features, real, DRAWING, per_prompt, seed)


class _Hidden(nn.Module):
    """What the judge makes of an image before it decides."""

    def __init__(self, judge: nn.Module) -> None:
        super().__init__()
        self.judge = judge

    def forward(self, images: Tensor) -> Tensor:
        """One row of features per image."""
        given: list[Tensor] = []
        head = self.judge.get_submodule("fc2")
        hook = head.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
        try:
            self.judge(images)
        finally:
            hook.remove()
        return given[0]


def exported(folder: Path) -> Path:
    """The training pictures as a folder of images with prompts, as a user would have them."""
    train, _ = small.pictures()
    drawing.export(train, folder)
    return folder
