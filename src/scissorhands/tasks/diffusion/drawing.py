"""Drawing images from prompts, into folders."""

import csv
import hashlib
import io
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ...data.problem import Log, ignore
from ...distributed import barrier, on_rank_0, rank, world_size
from ...errors import DataError, RunError, SettingError
from ...files import read_json, replacing, require_kinds, write_text
from ...settings import Settings, at_least_one, non_negative, setting
from . import pipeline as pipelines
from .pictures import METADATA
from .prompts import Prompt

DRAWN = "drawn.json"


@dataclass(frozen=True, kw_only=True)
class Drawing(Settings):
    """How images are drawn."""

    steps: int = setting(50, at_least_one, "steps of denoising")
    guidance: float = setting(7.5, non_negative, "how far to go from the empty prompt towards the prompt")
    batch_size: int = setting(4, at_least_one, "images that are drawn together")


def drawn(pipeline: Any, prompts: Sequence[Prompt], how: Drawing) -> Iterator[Tensor]:
    """Draw the images, 8-bit, in batches of one guidance; each depends on its prompt, seed and guidance alone."""
    most = int(pipeline.scheduler.config.num_train_timesteps)
    if how.steps > most:
        raise SettingError(f"'steps' is {how.steps}, and the pipeline has {most} steps at most.")
    for guidance, some in groupby(prompts, lambda prompt: prompt.guidance):
        batches = list(some)
        for start in range(0, len(batches), how.batch_size):
            batch = batches[start : start + how.batch_size]
            with warnings.catch_warnings(action="ignore"):
                images = pipeline(
                    [prompt.text for prompt in batch],
                    generator=[torch.Generator().manual_seed(prompt.seed or 0) for prompt in batch],
                    num_inference_steps=how.steps,
                    guidance_scale=how.guidance if guidance is None else guidance,
                    output_type="pt",
                ).images
            yield (images.clamp(0, 1) * 255).round().to(torch.uint8).cpu()


def several(prompts: Sequence[str], per_prompt: int, seed: int, number: int = 0) -> dict[str, Prompt]:
    """List several images of each prompt, with seeds that count up, by file name; the names count from a number."""
    return {
        f"{p:03}-{i:05}.png": Prompt(prompt, p, seed + i)
        for p, prompt in enumerate(prompts, start=number)
        for i in range(per_prompt)
    }


def each(prompts: Sequence[Prompt], seed: int) -> dict[str, Prompt]:
    """List one image of each prompt, by file name; a prompt without a seed gets this one."""
    return {
        f"{number:06}.png": prompt if prompt.seed is not None else replace(prompt, seed=seed)
        for number, prompt in enumerate(prompts)
    }


def key(pipeline: Any, wanted: Mapping[str, Prompt], how: Drawing) -> str:
    """Return a name for what would be drawn, the same for the same images."""
    named = {name: vars(prompt) for name, prompt in wanted.items()}
    about = json.dumps([pipelines.weights(pipeline), named, how.to_dict()])
    return hashlib.sha256(about.encode()).hexdigest()[:32]


def sample(pipeline: Any, wanted: Mapping[str, Prompt], how: Drawing, folder: Path, log: Log = ignore) -> None:
    """Draw the images into a folder, and list them; what is there already is not drawn again."""
    on_rank_0(lambda: _require_same(folder, {"weights": pipelines.weights(pipeline), **how.to_dict()}, wanted))
    missing = sorted(
        ((name, prompt) for name, prompt in wanted.items() if not (folder / name).exists()),
        key=lambda one: (one[1].guidance is not None, one[1].guidance or 0.0),  # those of one guidance together
    )
    barrier()
    missing, done = missing[rank() :: world_size()], 0  # each process draws its share
    for images in drawn(pipeline, [prompt for _, prompt in missing], how):
        for image in images:
            _write(image, folder / missing[done][0])
            done += 1
        log({"phase": "draw", "epoch": 0, "step": done, "steps": len(missing)})
    barrier()
    on_rank_0(lambda: _list(folder, wanted, how))


def _list(folder: Path, wanted: Mapping[str, Prompt], how: Drawing) -> None:
    """Write metadata.csv."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(["file_name", "prompt", "seed", "guidance"])
    for name, prompt in wanted.items():
        table.writerow([name, prompt.text, prompt.seed, how.guidance if prompt.guidance is None else prompt.guidance])
    write_text(folder / METADATA, text.getvalue())


def _require_same(folder: Path, how: dict[str, Any], wanted: Mapping[str, Prompt]) -> None:
    """Refuse to mix images that were drawn differently, and write down how these are drawn."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}.") from None
    path, images = folder / DRAWN, {name: [p.text, p.seed, p.guidance] for name, p in wanted.items()}
    if not path.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty, and was not filled by 'sample': choose another folder.")
    known = read_json(path, dict) if path.exists() else {**how, "images": images}
    require_kinds(path, known, {"images": dict})
    before = known.pop("images")
    if known != how or any(before.get(name, image) != image for name, image in images.items()):
        raise DataError(f"{folder} holds images drawn with other settings: choose another folder.")
    write_text(path, json.dumps({**how, "images": {**before, **images}}, indent=1) + "\n")


def _write(image: Tensor, path: Path) -> None:
    with replacing(path) as part:
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(part, "PNG")
