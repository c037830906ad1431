"""Chooses the settings of the diffusion demo: on another digit, another original, and images of other seeds.

    python benchmarks/choose_erasure_settings.py [METHOD ...]

Prints for every candidate what is left of the digit, what was lost of the others, and by how many percent FID rose
over the original's; and as the last line one JSON object with what was chosen: of the candidates that leave at most
2 % of the digit, or else the least, the one with the least sum of the other two.
"""

import copy
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from scissorhands.diffusion import demo, drawing, measures, small
from scissorhands.diffusion import pipeline as pipelines
from scissorhands.diffusion.erase import Erasure, method_named, posed
from scissorhands.errors import ScissorhandsError
from scissorhands.forget import Forget

ORIGINAL, SEED, FIRST_SEED, PER_PROMPT = 10, 20, 50_000, 30
DIGIT = 8

_FIXED = {"batch_size": 64, "weight_decay": 0.0}
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "scissorhands": {
        "trim": (0.001, 0.003),
        "lr": (3e-4, 5e-4, 1e-3),
        "balance": (0.0, 0.001, 0.01),
        "epochs": (3,),
    },
    "salun": {
        "lr": (3e-4, 1e-3),
        "salient": (0.5, 1.0),
        "order": ("mixed", "sequential"),
        "batch_size": (16, 64),
        "epochs": (3,),
    },
    "esd": {
        "lr": (3e-5, 1e-4, 3e-4),
        "steps": (50, 100),
        "batch_size": (16,),
        "inference": (20,),
        "weight_decay": (0.0,),
    },
    "finetune": {"lr": (3e-4, 1e-3, 3e-3), "epochs": (3,)},
    "ascent": {"lr": (1e-4, 1.5e-4, 2e-4, 3e-4), "epochs": (1, 3)},
}


class Bench:
    """An original, and those who judge what it draws."""

    def __init__(self, place: Path) -> None:
        self.pipeline = pipelines.load(small.original(ORIGINAL), torch.device("cpu"))
        self.unet = self.pipeline.unet
        self.train, test = small.pictures()
        self.panel = demo.judges(place)
        self.real = test.inputs[test.labels != DIGIT]
        self.wanted = list(drawing.several(small.PROMPTS, PER_PROMPT, FIRST_SEED).values())
        self.labels = torch.arange(len(small.PROMPTS)).repeat_interleave(PER_PROMPT)

    def judged(self) -> tuple[float, float, float]:
        """What is left of the digit, what of the others is not recognised, and the FID of those."""
        assert self.panel.classifier
        assert self.panel.features
        images = torch.cat(list(drawing.drawn(self.pipeline, self.wanted, demo.DRAWING)))
        right, gone = measures.recognised(images, self.labels, self.panel.classifier), self.labels == DIGIT
        fid = measures.fid(self.real, images[~gone], self.panel.features)
        return 100 * float(right[gone].float().mean()), 100 * float((~right[~gone]).float().mean()), fid

    def erased(self, name: str, settings: dict[str, Any]) -> tuple[float, float, float] | None:
        """The same after a method; none if it diverged."""
        self.pipeline.unet = copy.deepcopy(self.unet).requires_grad_(True)
        problem, _ = posed(self.pipeline, self.train, Forget(f"concept:{small.WORDS[DIGIT]}"), Erasure(), SEED)
        try:
            method_named(name).make(settings).scrub(self.pipeline.unet, problem)
        except ScissorhandsError:
            return None
        return self.judged()


def main() -> None:
    """Tries every candidate of the methods that are named, or of all."""
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place))
    left, lost, original = bench.judged()
    print(f"original: {left:.1f} % of the digit, {lost:.1f} % of the others lost, FID {original:.2f}", flush=True)
    chosen = {}
    for name in sys.argv[1:] or GRIDS:
        tried = []
        for values in itertools.product(*GRIDS[name].values()):
            settings = {**_FIXED, **dict(zip(GRIDS[name], values, strict=True))}
            start = time.perf_counter()
            if found := bench.erased(name, settings):
                left, lost, fid = found
                rise = 100 * max(0.0, fid / original - 1)
                tried.append(((max(2.0, left), lost + rise), settings))
                seconds = time.perf_counter() - start
                print(f"{name:13}{left:7.1f}{lost:7.1f}{rise:8.1f}  {seconds:5.0f} s  {settings}", flush=True)
        tried.sort(key=lambda row: row[0])
        chosen[name] = tried[0][1]
    print(json.dumps(chosen))


if __name__ == "__main__":
    main()
