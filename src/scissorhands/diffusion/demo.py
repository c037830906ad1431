"""The demonstration: a small pipeline draws handwritten digits, and is made to forget how to draw one of them."""

import csv
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor, nn

from .. import runs
from ..forget import Forget
from ..problem import Log, ignore
from ..recipe import entries
from ..records import Stored
from ..table import Table
from . import drawing, small
from .drawing import Drawing
from .erase import Erasure, method_named
from .experiment import Experiment
from .judging import Panel
from .measures import Features
from .pictures import METADATA

ERASED = "three"
TITLE = "Forgetting how to draw a digit"
DRAWING = Drawing(steps=20, guidance=3.0, batch_size=100)
PER_PROMPT, FIRST_SEED = 30, 10_000
SEEDS = (0, 1, 2)

# What each method is set to, chosen on another digit, another original and other seeds.
_ADAM = {"batch_size": 64, "weight_decay": 0.0}
METHODS: dict[str, dict[str, Any]] = {
    "scissorhands": {"trim": 0.01, "lr": 3e-4, "balance": 0.3, "epochs": 5, **_ADAM, "project": [True, False]},
    "salun": {"lr": 3e-4, "epochs": 5, **_ADAM},
    "esd": {"lr": 1e-4, "steps": 100, "batch_size": 16, "inference": 20},
    "finetune": {"lr": 3e-4, "epochs": 5, **_ADAM},
    "ascent": {"lr": 1e-4, "epochs": 3, **_ADAM},
}


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore) -> Table:
    """Runs the demonstration; its folder is complete or not there."""
    with runs.writing(folder, overwrite) as work:
        original = small.original(0, log)
        train, test = small.pictures()
        erasure = Erasure(data=str(exported(train, work / "pictures")))
        panel = judges(exported(test, work / "real"), log)
        chosen = [entry for name, values in METHODS.items() for entry in entries(name, method_named(name), values)]
        wanted = drawing.several(small.PROMPTS, PER_PROMPT, FIRST_SEED)
        forget = Forget(f"concept:{ERASED}")
        experiment = Experiment(TITLE, original, forget, erasure, chosen, wanted, DRAWING, SEEDS)
        return experiment.run(work, panel, device, log, small.seconds(original))


def judges(real: Path, log: Log = ignore) -> Panel:
    """A classifier of real digits, and what it makes of an image before it decides."""
    classifier = small.judge(log)
    features = Features("the classifier's hidden layer", _Hidden(classifier))
    return Panel(classifier, small.PROMPTS, features, real, named={"classifier": "small, trained on real digits"})


class _Hidden(nn.Module):
    """What the classifier makes of an image before it decides."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> Tensor:
        """One row of features per image."""
        given: list[Tensor] = []
        hook = self.classifier.get_submodule("fc2").register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
        try:
            self.classifier(images)
        finally:
            hook.remove()
        return given[0]


def exported(records: Stored, folder: Path) -> Path:
    """Records as a folder of images with prompts, as a user would have them."""
    folder.mkdir(parents=True)
    with (folder / METADATA).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "prompt"])
        for number, (image, label) in enumerate(zip(records.inputs, records.labels, strict=True)):
            name = f"{number:05}.png"
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / name)
            table.writerow([name, records.classes[int(label)]])
    return folder
