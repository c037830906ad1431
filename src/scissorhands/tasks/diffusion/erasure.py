"""Erasing a concept from a pipeline: images and prompts become latents and text, then any method does the work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import files
from ...data.forget import Forget
from ...data.problem import Log, Problem
from ...data.records import Part, Stored
from ...distributed import on_rank_0
from ...errors import DataError, SettingError
from ...methods.damage import mean_loss
from ...methods.parameters import select
from ...settings import REQUIRED, Settings, at_least_one, non_negative, patterns, setting, table, text
from . import drawing
from . import pipeline as pipelines
from .denoising import Denoising, Latents

_LOOKED_AT = 256  # images of a kind that the loss before and after is measured on


@dataclass(frozen=True, kw_only=True)
class Erasure(Settings):
    """How a concept is erased, whatever the method."""

    anchor: str = setting("", text, "prompt to replace the concept with; if empty, images are unlearned")
    data: str = setting("", text, "folder of images with prompts; if empty, images are drawn from the pipeline itself")
    per_prompt: int = setting(100, at_least_one, "images that are drawn for each word; as many in all of what is kept")
    retain: str = setting("", text, "prompts to keep, separated by semicolons, for images that are drawn")
    parameters: str = setting("*", patterns, "which parameters may change, such as *attn2* or *,-time_emb*")
    inference: int = setting(50, at_least_one, "steps in which an image is drawn")
    guidance: float = setting(7.5, non_negative, "guidance with which images are drawn")


@dataclass(frozen=True)
class Concept(Settings):
    """A concept that is to be erased, and how."""

    forget: Forget = setting(REQUIRED, text, "which concept to erase")
    erasure: Erasure = setting(REQUIRED, table, "how it is erased")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.forget.text.startswith("concept:"):
            what = f"such as concept:nudity,naked, and not '{self.forget.text}'"
            raise DataError(f"a pipeline forgets a concept, {what}.")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "Concept":
        """Read a request from options of the command line."""
        given = {name: options[name] for name in ("anchor", "data") if options[name]}
        erasure = Erasure.make({**Erasure.parsed(options["erase"]), **given})
        if not options["forget"]:
            raise SettingError("say what to forget: --forget concept:nudity,naked.")
        return cls(Forget(options["forget"]), erasure)

    @classmethod
    def from_dict(cls, inputs: Mapping[str, Any]) -> "Concept":
        """Read a request from plain values."""
        return cls.make({"forget": Forget(inputs["concept"]), "erasure": inputs["erasure"]})

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values."""
        return {"concept": self.forget.text, "erasure": self.erasure.to_dict()}  # as begun.toml has them


def posed(
    pipeline: Any, images: Stored, forget: Forget, erasure: Erasure, seed: int, before: Sequence[int] = ()
) -> tuple[Problem, str]:
    """Return the problem of unlearning some encoded images, and the hash of what is forgotten.

    Those that were forgotten before are not retained.
    """
    everything = torch.arange(len(images))
    forgotten = forget.ids(images, everything, seed)
    gone = torch.cat([forgotten, torch.tensor(before, dtype=torch.int64)])
    retained = everything[~torch.isin(everything, gone)]
    if len(retained) == 0:
        raise DataError(
            f"'{forget.text}' and what was forgotten before are all images, which leaves nothing to retain."
        )
    anchor = [erasure.anchor] if erasure.anchor else []
    given = pipelines.encoded_text(pipeline, [*images.classes, *anchor, ""])
    prompts = given[:-1]
    latents = Latents(
        images.inputs,
        images.labels,
        torch.tensor([len(images.classes)]) if anchor else images.labels[retained].unique(),
        len(prompts),
        classes=images.classes,
        fingerprint=images.fingerprint,
    )
    anchors = {int(label): prompts[-1] for label in images.labels[forgotten].unique()} if anchor else {}
    loss = Denoising(pipeline.scheduler, prompts, given[-1:], anchors)
    problem = Problem(Part(latents, forgotten), Part(latents, retained), loss=loss, seed=seed)
    return problem, Part(latents, forgotten).fingerprint[:16]


def errors(unet: nn.Module, problem: Problem) -> dict[str, float]:
    """Return the mean loss on images to forget and to retain, up to 256 of each, with the same noise each time."""
    parts = {"forget": problem.forget, "retain": problem.retain}
    some = {name: problem.sample(part, min(1.0, _LOOKED_AT / len(part)), "errors") for name, part in parts.items()}
    return {f"{name}_error": mean_loss(unet, problem, part) for name, part in some.items()}


def freed(unet: nn.Module, parameters: str) -> nn.Module:
    """Let only the chosen parameters of a U-Net change."""
    unet.requires_grad_(True)
    chosen = select(unet, parameters)
    for name, parameter in unet.named_parameters():
        parameter.requires_grad_(name in chosen)
    return unet


def encoded(pipeline: Any, images: Stored) -> Stored:
    """Encode images as latents, which keep the fingerprint of the images."""
    latents = pipelines.encoded_images(pipeline, images.inputs)
    return Stored(latents, images.labels, classes=images.classes, fingerprint=images.fingerprint)


def images_for(pipeline: Any, forget: Forget, erasure: Erasure, seed: int, log: Log) -> Path:
    """Return the folder of the user's images, or of those drawn for the concept and for what is to be kept."""
    if erasure.data:
        return Path(erasure.data)
    words = [word.strip() for word in forget.text.partition(":")[2].split(",") if word.strip()]
    kept = [prompt.strip() for prompt in (erasure.retain or erasure.anchor).split(";") if prompt.strip()]
    if not kept:
        raise SettingError("say what is to be kept: --anchor PROMPT, --erase retain=PROMPTS, or --data FOLDER.")
    how = drawing.Drawing(steps=erasure.inference, guidance=erasure.guidance)
    many = max(1, erasure.per_prompt * len(words) // len(kept))  # as many images in all as there are to forget
    wanted = drawing.several(words, erasure.per_prompt, seed) | drawing.several(kept, many, seed, len(words))
    folder = files.cache("drawn") / drawing.key(pipeline, wanted, how)
    on_rank_0(lambda: files.private_folder(folder.parent))
    drawing.sample(pipeline, wanted, how, folder, log)
    on_rank_0(lambda: files.make_private(folder))
    return folder
