"""Drawing images from prompts, and folders of images with prompts."""

import csv
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ..distributed import first, rank, together, world_size
from ..errors import DataError, did_you_mean
from ..images import decode
from ..problem import Log, ignore
from ..records import Stored
from ..settings import Settings, at_least_one, non_negative, setting
from . import pipeline as pipelines

METADATA = "metadata.csv"


@dataclass(frozen=True, kw_only=True)
class Drawing(Settings):
    """How images are drawn."""

    steps: int = setting(50, at_least_one, "steps of denoising")
    guidance: float = setting(7.5, non_negative, "how far to go from the empty prompt towards the prompt")
    batch_size: int = setting(4, at_least_one, "images that are drawn together")


def drawn(pipeline: Any, prompts: Sequence[str], seeds: Sequence[int], how: Drawing) -> Iterator[Tensor]:
    """The images, 8-bit, in batches; each depends on its prompt and seed alone."""
    for start in range(0, len(prompts), how.batch_size):
        some = slice(start, start + how.batch_size)
        with warnings.catch_warnings(action="ignore"):
            images = pipeline(
                list(prompts[some]),
                generator=[torch.Generator().manual_seed(seed) for seed in seeds[some]],
                num_inference_steps=how.steps,
                guidance_scale=how.guidance,
                output_type="pt",
            ).images
        yield (images.clamp(0, 1) * 255).round().to(torch.uint8).cpu()


def key(pipeline: Any, prompts: Sequence[str], per_prompt: int, seed: int, how: Drawing) -> str:
    """A name for what would be drawn, the same for the same images."""
    about = json.dumps([pipelines.weights(pipeline), list(prompts), per_prompt, seed, how.to_dict()])
    return hashlib.sha256(about.encode()).hexdigest()[:32]


def sample(
    pipeline: Any, prompts: Sequence[str], per_prompt: int, seed: int, how: Drawing, folder: Path, log: Log = ignore
) -> None:
    """Fills a folder with images of the prompts, and a list of them; what is there already is not drawn again."""
    wanted = [(prompt, seed + i, f"{p:03}-{i:05}.png") for p, prompt in enumerate(prompts) for i in range(per_prompt)]
    about = {"weights": pipelines.weights(pipeline), "prompts": list(prompts), "seed": seed, **how.to_dict()}
    first(lambda: _require_same(folder, about))
    missing = [one for one in wanted if not (folder / one[2]).exists()]
    together()
    missing, done = missing[rank() :: world_size()], 0  # each process draws its share
    for images in drawn(pipeline, [one[0] for one in missing], [one[1] for one in missing], how):
        for image in images:
            _write(image, folder / missing[done][2])
            done += 1
        log({"phase": "draw", "epoch": 0, "step": done, "steps": len(missing), "loss": 0.0})
    together()
    first(lambda: _list(folder, [[name, prompt, number] for prompt, number, name in wanted]))


def _list(folder: Path, rows: list[list[Any]]) -> None:
    """Writes metadata.csv."""
    with (folder / METADATA).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "prompt", "seed"])
        table.writerows(rows)


def _require_same(folder: Path, about: dict[str, Any]) -> None:
    """Refuses to mix images of one making with those of another."""
    folder.mkdir(parents=True, exist_ok=True)
    path, own = folder / "drawn.json", json.dumps(about, indent=2) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") != own:
        raise DataError(f"{folder} holds images that were drawn otherwise: choose another folder.")
    if not path.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty, and was not filled by 'sample': choose another folder.")
    part = path.with_suffix(".part")
    part.write_text(own, encoding="utf-8")
    part.replace(path)


def _write(image: Tensor, path: Path) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(part, "PNG")
    part.replace(path)


def read(folder: Path, side: int) -> Stored:
    """The images of a folder with a metadata.csv of `file_name` and `prompt`, resized; the label is the prompt."""
    try:
        with (folder / METADATA).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), [name for name in reader.fieldnames or () if name]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{folder} has no readable {METADATA} of file names and prompts: {error}.") from None
    for column in ("file_name", "prompt"):
        if column not in columns:
            known = did_you_mean(column, columns) if columns else "It is empty."
            raise DataError(f"{folder / METADATA} has no column '{column}'. {known}")
        if lacking := [number for number, row in enumerate(rows, start=2) if not isinstance(row[column], str)]:
            raise DataError(f"line {lacking[0]} of {folder / METADATA} has no '{column}'.")
    if not rows:
        raise DataError(f"{folder / METADATA} lists no image.")
    prompts = sorted({row["prompt"] for row in rows})
    labels = torch.tensor([prompts.index(row["prompt"]) for row in rows])
    images = [
        decode({"path": str(folder / row["file_name"]), "bytes": None}, number, (side, side), grey=False)
        for number, row in enumerate(rows)
    ]
    return Stored(torch.stack(images), labels, classes=tuple(prompts))
