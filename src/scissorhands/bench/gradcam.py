"""Where the models of a bench look: one picture with a row for each record and a column for each model."""

from pathlib import Path

import torch
from PIL import Image

from .. import runs
from ..distributed import on_rank_0
from ..report import grids
from ..runs.claims import GRADCAM
from ..runs.subject import load_classifier
from ..tasks import Read
from ..tasks.classification.gradcam import as_images, examples, looked_at, overlaid
from .recipe import Recipe

_CELL, _SIDE = 112, 80  # height and width of a cell, roughly, and the text beside a row, in pixels


def write(recipe: Recipe, folder: Path, device: torch.device, read: Read) -> None:
    """Write gradcam.png into the folder of a bench: forgotten and retained records of its first seed and draw."""
    seed, factory = recipe.seeds[0], recipe.model if ":" in recipe.model else None
    *_, there = next(recipe.places(seed))
    trained = folder / f"seed-{seed}" / "trained"
    models = {"original": trained, **{entry.label: folder / there / entry.label for entry in recipe.entries}}
    split, _ = load_classifier(str(trained), factory, device, read).divided(runs.read(folder / there / "original"))
    parts = {"forgotten": split.forget, "retained": split.retain}
    found = {name: examples(part, recipe.gradcam) for name, part in parts.items()}
    inputs, labels = (torch.cat(tensors) for tensors in zip(*found.values(), strict=True))
    rows = [f"{name}\nclass {label}" for name, (_, its) in found.items() for label in its.tolist()]
    columns = {"record": _small(as_images(inputs))}
    for name, path in models.items():
        model = load_classifier(str(path), factory, device, read).model
        columns[name] = _small(overlaid(inputs, looked_at(model, inputs, labels)))
    on_rank_0(lambda: grids.save(grids.labeled(columns, rows, _SIDE), folder / GRADCAM, private=True))


def _small(images: list[Image.Image]) -> list[Image.Image]:
    """Shrink images of twice the size of a cell or more, by a whole number."""
    return [image.reduce(max(1, min(image.size) // _CELL)) for image in images]
