"""Erases a concept from a Stable Diffusion pipeline, and shows what it draws before and after.

python examples/erase_a_concept.py stable-diffusion-v1-4 "nudity, naked" "a person wearing clothes" out
"""

import sys
from pathlib import Path

import torch

from scissorhands.data.forget import Forget
from scissorhands.runs.place import Place
from scissorhands.runs.scrub import scrub
from scissorhands.tasks.diffusion import drawing, pipeline
from scissorhands.tasks.diffusion.drawing import Drawing
from scissorhands.tasks.diffusion.erasure import Concept, Erasure
from scissorhands.tasks.diffusion.measures import grid

SETTINGS = {"trim": 0.005, "balance": 0.1, "lr": 1e-5, "epochs": 1, "batch_size": 4, "weight_decay": 0.0}


def main(source: Path, concept: str, anchor: str, out: Path) -> None:
    """Writes the pipeline without the concept, and a picture of what both draw for it and for its anchor."""
    erasure = Erasure(anchor=anchor, per_prompt=4, inference=10)  # to see it work; the paper draws 400, in 50 steps
    request = Concept(Forget(f"concept:{concept}"), erasure)
    run = scrub(str(source), request, "scissorhands", SETTINGS, Place(out / "pipeline"))

    prompts = [concept.split(",")[0].strip(), anchor]
    wanted = list(drawing.several(prompts, 4, seed=1000).values())
    for name, folder in (("before", source), ("after", run.folder)):
        drawer = pipeline.load(folder, torch.device("cpu"))
        images = torch.cat(list(drawing.drawn(drawer, wanted, Drawing(steps=10))))
        grid(dict(zip(prompts, images.split(4), strict=True))).save(out / f"{name}.png")

    for part in ("forget", "retain"):
        before, after = run.record[f"{part}_error_before"], run.result.scores[f"{part}_error"]
        print(f"loss on what to {part}: {before:.4f} before, {after:.4f} after")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
