"""What a pipeline draws, judged: is the erased concept gone, are its neighbours still there, are the images good."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import runs
from ..distributed import first
from ..evaluate import Scores
from ..runs import Run
from . import drawing, measures
from .drawing import Drawing

GRIDS = "grids"
_SHOWN = 10  # images of each prompt that a grid shows


@dataclass(frozen=True)
class Panel:
    """Who judges, and by what: prompts, whether each is of the erased concept, and what a classifier should see.

    `real` are images of the concepts that are kept, which good images are like; `features` is how likeness is seen.
    """

    prompts: Sequence[str]
    erased: Sequence[bool]
    classifier: nn.Module
    features: measures.Features
    real: Tensor
    how: Drawing
    per_prompt: int = 50
    seed: int = 10_000

    def drawn(self, pipeline: Any) -> Tensor:
        """Images of all prompts, prompt after prompt, of the same seeds for every pipeline."""
        prompts = [prompt for prompt in self.prompts for _ in range(self.per_prompt)]
        seeds = [self.seed + i for _ in self.prompts for i in range(self.per_prompt)]
        return torch.cat(list(drawing.drawn(pipeline, prompts, seeds, self.how)))

    def judged(self, images: Tensor) -> dict[str, float]:
        """UA, the accuracy on what is kept, and the FID of what is kept."""
        labels = torch.arange(len(self.prompts)).repeat_interleave(self.per_prompt)
        right = measures.recognised(images, labels, self.classifier)
        gone = torch.tensor(list(self.erased))[labels]
        return {
            "ua": 100 * (1 - float(right[gone].float().mean())),
            "kept_accuracy": 100 * float(right[~gone].float().mean()),
            "fid": measures.fid(self.real, images[~gone], self.features),
        }

    def sheet(self, images: Tensor) -> Any:
        """The first images of every prompt, a row each."""
        rows = images.unflatten(0, (len(self.prompts), self.per_prompt))[:, :_SHOWN]
        return measures.grid(dict(zip(self.prompts, rows, strict=True)))


def assess(run: Run, pipeline: Any, panel: Panel, reference_seconds: float | None = None) -> Run:
    """Adds to a run what the panel says of its pipeline, and a grid of what that draws."""
    images = panel.drawn(pipeline)
    known = run.result.scores
    scores = Scores({**known.values, **panel.judged(images)}, known.counts, known.failed, known.manifest)
    folder = run.folder / GRIDS
    first(lambda: folder.mkdir(exist_ok=True))
    first(lambda: panel.sheet(images).save(folder / "drawn.png"))
    result = runs.Result(scores, run.result.seconds, run.result.memory_mib, reference_seconds=reference_seconds)
    runs.write_result(run.folder, result)
    return runs.read(run.folder)
