"""The demonstration: a small pipeline draws handwritten digits, and is made to forget how to draw one of them."""

import csv
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor, nn

from .. import runs
from ..data.problem import Log, ignore
from ..data.records import Stored
from ..report.table import Table
from ..runs.claims import BENCH, require_earlier
from ..runs.diffusion.judging import Panel
from ..tasks.diffusion import small
from ..tasks.diffusion.drawing import Drawing
from ..tasks.diffusion.measures import Features, recognized
from ..tasks.diffusion.pictures import METADATA
from ..tasks.diffusion.small_parts import PROMPTS
from .diffusion import PipelineRecipe, bench

ERASED = "three"
TITLE = "Forgetting how to draw a digit"
DRAWING = Drawing(steps=20, guidance=3.0, batch_size=100)
PER_PROMPT, FIRST_SEED = 30, 10_000
SEEDS = (0, 1, 2)

# What each method is set to, chosen by benchmarks/choose_erasure_settings.py on other digits and another original.
_THREE = {"epochs": 3, "weight_decay": 0.0}
_ACROSS = {"erasure": {"parameters": "*attn2*"}}  # cross-attention alone changes
METHODS: dict[str, dict[str, Any]] = {
    "scissorhands": {
        "trim": 0.1,
        "balance": 0.003,
        "lr": 2e-3,
        "reading": "paper",
        "project": [True, False],
        **_THREE,
        **_ACROSS,
    },
    "salun": {"lr": 3e-3, "order": "sequential", "labels": "fixed", "batch_size": 16, **_THREE, **_ACROSS},
    "esd": {"lr": 1e-4, "steps": 50, "batch_size": 16, "inference": 20},
    "finetune": {"lr": 2e-3, "batch_size": 64, **_THREE, **_ACROSS},
    "ascent": {"lr": 3e-3, "batch_size": 64, **_THREE, **_ACROSS},
}


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore, command: str = "") -> Table:
    """Run the demo; its folder is complete or absent."""
    require_earlier(folder, TITLE)
    with runs.writing(folder, overwrite, replaces=(*BENCH, "pictures", "real")) as work:
        original = small.original(0, log)
        train, test = small.pictures()
        recipe = PipelineRecipe(
            title=TITLE,
            pipeline=str(original),
            forget=f"concept:{ERASED}",
            prompts=list(PROMPTS),
            per_prompt=PER_PROMPT,
            first_seed=FIRST_SEED,
            methods=list(METHODS),
            settings=METHODS,
            seeds=list(SEEDS),
            erasure={"data": str(exported(train, work / "pictures"))},
            drawing=DRAWING,
        )
        panel, seconds = judges(exported(test, work / "real"), log), small.seconds(original)
        return bench(recipe, work, device, log, panel, seconds, command=command)


def judges(real: Path, log: Log = ignore) -> Panel:
    """Return a panel of a classifier of real digits, with its hidden layer as features."""
    classifier, (_, test) = small.judge(log), small.pictures()
    right = 100 * float(recognized(test.inputs, test.labels, classifier).float().mean())
    features = Features("its hidden layer", _Hidden(classifier))
    name = f"a small network that is right about {right:.1f} % of real test digits"
    return Panel(classifier, PROMPTS, features, real, known_as=name)


class _Hidden(nn.Module):
    """The hidden layer of the classifier."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> Tensor:
        """Return one row of features per image."""
        given: list[Tensor] = []
        hook = self.classifier.get_submodule("fc2").register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
        try:
            self.classifier(images)
        finally:
            hook.remove()
        return given[0]


def exported(records: Stored, folder: Path) -> Path:
    """Write records as a folder of images with prompts, and return the folder."""
    folder.mkdir(parents=True)
    with (folder / METADATA).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "prompt"])
        for number, (image, label) in enumerate(zip(records.inputs, records.labels, strict=True)):
            name = f"{number:05}.png"
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / name)
            table.writerow([name, records.classes[int(label)]])
    return folder
