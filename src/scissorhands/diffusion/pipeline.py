"""A Stable Diffusion pipeline folder: opened, and written again with another U-Net."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..distributed import first, write
from ..errors import ModelError, listed
from ..huggingface import hush
from ..models import fingerprint
from .extras import imported

INDEX = "model_index.json"
WEIGHTS = Path("unet") / "diffusion_pytorch_model.safetensors"
_PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")


def is_pipeline(folder: str | Path) -> bool:
    """Whether the folder is that of a diffusers pipeline."""
    return (Path(folder) / INDEX).is_file()


def load(folder: Path, device: torch.device) -> Any:
    """The pipeline in a folder, on a device, as a diffusers StableDiffusionPipeline."""
    require(folder)
    hush()
    diffusers, logging = imported("diffusers", "diffusion"), imported("diffusers.utils.logging", "diffusion")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    transformers = imported("transformers", "diffusion")
    kinds = {
        "unet": diffusers.UNet2DConditionModel,
        "vae": diffusers.AutoencoderKL,
        "text_encoder": transformers.CLIPTextModel,
    }
    with warnings.catch_warnings(action="ignore"):
        parts = {name: _part(folder / name, kind) for name, kind in kinds.items()}
        try:
            pipeline = diffusers.StableDiffusionPipeline.from_pretrained(
                folder, **parts, local_files_only=True, safety_checker=None, requires_safety_checker=False
            )
        except Exception as error:  # diffusers raises whatever its many readers raise
            raise ModelError(f"{folder} cannot be loaded as a pipeline: {_reason(error)}") from None
    pipeline.set_progress_bar_config(disable=True)
    for part in (pipeline.vae, pipeline.text_encoder):
        part.requires_grad_(False)
    return pipeline.to(device)


def save(unet: nn.Module, source: Path, folder: Path) -> None:
    """Writes the pipeline of a folder into another one, with this U-Net in place of its own; all else is copied."""
    first(lambda: _copy(source, folder))
    write(unet, folder / WEIGHTS)


def _copy(source: Path, folder: Path) -> None:
    """Copies what makes up the pipeline, but for the weights of its U-Net, whatever they are called."""
    index = json.loads((source / INDEX).read_text(encoding="utf-8"))
    shutil.copy(source / INDEX, folder / INDEX)
    for part in (name for name in index if (source / name).is_dir()):
        shutil.copytree(source / part, folder / part)
    for file in (folder / "unet").iterdir():
        if file.name != "config.json":
            file.unlink()


def size(pipeline: Any) -> int:
    """The side of the images that the pipeline draws."""
    return int(pipeline.unet.config.sample_size * pipeline.vae_scale_factor)


def encoded_text(pipeline: Any, prompts: list[str]) -> Tensor:
    """What the U-Net is told for each prompt."""
    tokenizer, encoder = pipeline.tokenizer, pipeline.text_encoder
    tokens = tokenizer(prompts, padding="max_length", max_length=tokenizer.model_max_length, truncation=True)
    with torch.no_grad():
        found: Tensor = encoder(torch.tensor(tokens["input_ids"]).to(encoder.device))[0]
    return found


def encoded_images(pipeline: Any, images: Tensor, batch_size: int = 32) -> Tensor:
    """The latents of 8-bit images, as the U-Net knows them."""
    vae = pipeline.vae
    with torch.no_grad():
        found = [
            vae.encode((some.to(vae.device, vae.dtype) / 127.5) - 1).latent_dist.mode().cpu()
            for some in images.split(batch_size)
        ]
    return torch.cat(found) * float(vae.config.scaling_factor)


def weights(pipeline: Any) -> str:
    """A hash of all weights of the pipeline."""
    return "-".join(fingerprint(part) for part in (pipeline.unet, pipeline.vae, pipeline.text_encoder))


def _part(folder: Path, kind: Any) -> Any:
    """A model of the pipeline, refused if its files lack one of its weights, which would be random."""
    ours = hasattr(kind, "load_config")  # diffusers' own; the text encoder is of transformers
    more = {"torch_dtype": torch.float32, "low_cpu_mem_usage": False} if ours else {"dtype": torch.float32}
    try:
        model, info = kind.from_pretrained(
            folder,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **more,
        )
    except Exception as error:  # diffusers and transformers raise whatever their many readers raise
        raise ModelError(f"{folder} cannot be loaded: {_reason(error)}") from None
    missing = sorted(map(str, info["missing_keys"]))
    unfit = sorted(str(one[0]) for one in info["mismatched_keys"])
    for what, names in (("missing", missing), ("of another shape", unfit)):
        if names:
            raise ModelError(f"the weights in {folder} do not fit its config.json; {what}: {listed(names, 3)}.")
    return model


def _reason(error: Exception) -> str:
    """The first line of what went wrong."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def require(folder: Path) -> None:
    """Refuses a folder that is not a whole StableDiffusionPipeline with safe weights."""
    if not folder.is_dir():
        raise ModelError(f"there is no pipeline folder '{folder}'.")
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder} is no pipeline folder: it has no {INDEX}.") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / INDEX} cannot be read: {error}.") from None
    kind = index.get("_class_name") if isinstance(index, dict) else None
    if kind != "StableDiffusionPipeline":
        raise ModelError(f"{folder} is a {kind}, and only a StableDiffusionPipeline can be scrubbed.")
    for part in _PARTS:
        if not (folder / part).is_dir():
            raise ModelError(f"{folder} is damaged: it has no '{part}'.")
    for part in ("unet", "vae", "text_encoder"):
        if not any((folder / part).glob("*.safetensors")):
            raise ModelError(f"{folder / part} has no weights as safetensors, and nothing else is loaded.")
