"""Chooses the settings of the diffusion demo: on other digits, another original, and images of other seeds.

    python benchmarks/choose_erasure_settings.py [METHOD ...]

Prints for every candidate what is left of the digit and the most that is left of one, what was lost of the others,
and by how many percent FID rose over the original's, each the mean over five digits, with a seed each; and as the last
line one JSON object with the candidates of the least sum of the last three.
"""

import copy
import itertools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scissorhands.bench import diffusion_demo as demo
from scissorhands.data.forget import Forget
from scissorhands.errors import ScissorhandsError
from scissorhands.tasks import method
from scissorhands.tasks.diffusion import drawing, measures, small
from scissorhands.tasks.diffusion import pipeline as pipelines
from scissorhands.tasks.diffusion.erasure import Erasure, encoded, freed, posed
from scissorhands.tasks.diffusion.small_parts import PROMPTS, WORDS

ORIGINAL, FIRST_SEED, PER_PROMPT = 10, 50_000, 20
CASES = ((0, 20), (2, 22), (5, 25), (8, 28), (9, 29))  # digits and seeds

# `parameters` is a setting of the erasure: cross-attention alone, or all.
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "scissorhands": {
        "trim": (0.03, 0.1),
        "balance": (0.0, 0.003, 0.01),
        "reading": ("paper",),
        "lr": (2e-3, 3e-3),
        "batch_size": (64,),
        "parameters": ("*attn2*",),
    },
    "salun": {
        "lr": (1e-3, 2e-3, 3e-3),
        "order": ("sequential",),
        "labels": ("fixed",),
        "batch_size": (16,),
        "parameters": ("*attn2*", "*"),
    },
    "esd": {"lr": (1e-4, 3e-4), "steps": (50,), "batch_size": (16,), "inference": (20,), "parameters": ("*",)},
    "finetune": {"lr": (2e-3, 3e-3), "batch_size": (64,), "parameters": ("*attn2*", "*")},
    "ascent": {"lr": (3e-4, 1e-3, 3e-3), "batch_size": (64,), "parameters": ("*attn2*", "*")},
}


class Bench:
    """An original, and those who judge what it draws."""

    def __init__(self) -> None:
        self.pipeline = pipelines.load(small.original(ORIGINAL), torch.device("cpu"))
        self.unet = self.pipeline.unet
        train, self.test = small.pictures()
        self.train = encoded(self.pipeline, train)
        self.panel = demo.judges(Path())
        self.wanted = list(drawing.several(PROMPTS, PER_PROMPT, FIRST_SEED).values())
        self.labels = torch.arange(len(PROMPTS)).repeat_interleave(PER_PROMPT)
        self.original = self.drawn()

    def drawn(self) -> Tensor:
        """What the pipeline draws."""
        return torch.cat(list(drawing.drawn(self.pipeline, self.wanted, demo.DRAWING)))

    def judged(self, images: Tensor, digit: int) -> tuple[float, float, float]:
        """What is left of the digit, what of the others is not recognized, and the FID of those."""
        assert self.panel.classifier
        assert self.panel.features
        right, gone = measures.recognized(images, self.labels, self.panel.classifier), self.labels == digit
        fid = measures.fid(self.test.inputs[self.test.labels != digit], images[~gone], self.panel.features)
        return 100 * float(right[gone].float().mean()), 100 * float((~right[~gone]).float().mean()), fid

    def erased(self, name: str, settings: dict[str, Any], digit: int, seed: int) -> tuple[float, float, float]:
        """What is left and lost after a method, and how much FID rose; one that diverges leaves and loses all."""
        own = {key: value for key, value in settings.items() if key != "parameters"}
        erasure = Erasure(parameters=settings["parameters"])
        self.pipeline.unet = freed(copy.deepcopy(self.unet), erasure.parameters)
        problem, _ = posed(self.pipeline, self.train, Forget(f"concept:{WORDS[digit]}"), erasure, seed)
        try:
            method(name).make(own).scrub(self.pipeline.unet, problem)
        except ScissorhandsError:
            return 100.0, 100.0, 1000.0
        left, lost, fid = self.judged(self.drawn(), digit)
        return left, lost, 100 * (fid / self.judged(self.original, digit)[2] - 1)


def main() -> None:
    """Tries every candidate of the methods that are named, or of all."""
    bench, chosen = Bench(), {}
    print(f"{'':13}{'left':>7}{'most':>7}{'lost':>7}{'FID %':>8}")
    for name in sys.argv[1:] or GRIDS:
        tried = []
        for values in itertools.product(*GRIDS[name].values()):
            settings = dict(zip(GRIDS[name], values, strict=True))
            fixed = {"weight_decay": 0.0} | ({} if name == "esd" else {"epochs": 3})
            start = time.perf_counter()
            found = [bench.erased(name, {**fixed, **settings}, *case) for case in CASES]
            left, lost, rise = (statistics.fmean(row) for row in zip(*found, strict=True))
            seconds, most = time.perf_counter() - start, max(row[0] for row in found)
            tried.append((most + lost + max(0.0, rise), settings))
            print(f"{name:13}{left:7.1f}{most:7.1f}{lost:7.1f}{rise:8.1f}  {seconds:4.0f} s  {settings}", flush=True)
        chosen[name] = min(tried, key=lambda row: row[0])[1]
    print(json.dumps(chosen))


if __name__ == "__main__":
    main()
