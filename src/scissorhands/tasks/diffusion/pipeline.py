"""A Stable Diffusion pipeline folder: opened, and written again with another U-Net."""

import copy
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...distributed import on_rank_0, save_weights
from ...errors import ModelError
from ..classification.huggingface import hush
from ..classification.models import fingerprint
from ..pretrained import (
    files_of,
    first_line,
    load_safely,
    read_config,
    require_inside,
    require_no_code,
    require_safe,
)
from .extras import imported

INDEX = "model_index.json"
WEIGHTS = Path("unet") / "diffusion_pytorch_model.safetensors"
_ENCODED = 32  # images in a batch of the autoencoder
_PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
_OPTIONAL = ("safety_checker", "feature_extractor", "image_encoder")
_LIBRARIES = (None, "diffusers", "transformers", "stable_diffusion")  # any other is code that the folder brings along


def is_pipeline(folder: str | Path) -> bool:
    """Return whether the folder is that of a diffusers pipeline."""
    return (Path(folder) / INDEX).is_file()


def load(folder: Path, device: torch.device) -> Any:
    """Load the pipeline in a folder, on a device, as a diffusers StableDiffusionPipeline.

    Each part is loaded as what it has to be, not as what the folder says it is.
    """
    index = require(folder)
    hush()
    diffusers, logging = imported("diffusers", "diffusion"), imported("diffusers.utils.logging", "diffusion")
    logging.set_verbosity(logging.CRITICAL)
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
            words = transformers.CLIPTokenizer.from_pretrained(
                folder / "tokenizer", local_files_only=True, trust_remote_code=False
            )
            scheduler = _scheduler(index, diffusers).from_pretrained(folder / "scheduler", local_files_only=True)
            pipeline = diffusers.StableDiffusionPipeline(
                **parts,
                tokenizer=words,
                scheduler=scheduler,
                safety_checker=None,
                feature_extractor=None,
                requires_safety_checker=False,
            )
        except ModelError:
            raise
        except Exception as error:  # diffusers raises whatever its many readers raise
            raise ModelError(f"{folder} cannot be loaded as a pipeline: {first_line(error)}") from None
    pipeline.set_progress_bar_config(disable=True)
    for part in (pipeline.vae, pipeline.text_encoder):
        part.requires_grad_(False)
    pipeline.to(device)
    _require_works(pipeline, folder)
    return pipeline


def _require_works(pipeline: Any, folder: Path) -> None:
    """Draw and encode a very small image, so that invalid settings fail early."""
    if type(pipeline.unet.config.sample_size) is not int or pipeline.unet.config.sample_size < 1:
        raise ModelError(f"{folder} cannot draw: its U-Net has a sample_size of {pipeline.unet.config.sample_size!r}.")
    scheduler, side = copy.deepcopy(pipeline.scheduler), 8 * int(pipeline.vae_scale_factor)
    how = {"height": side, "width": side, "num_inference_steps": 2, "generator": torch.Generator().manual_seed(0)}
    try:
        with warnings.catch_warnings(action="ignore"):
            encoded_text(pipeline, ["", "a picture"])
            drawn = pipeline("", **how, output_type="pt").images
        latents = encoded_images(pipeline, torch.zeros(1, 3, side, side, dtype=torch.uint8))
    except Exception as error:  # diffusers and transformers raise whatever their many layers raise
        raise ModelError(f"{folder} cannot draw: {first_line(error)}") from None
    if not torch.isfinite(drawn).all() or not torch.isfinite(latents).all():
        raise ModelError(f"{folder} cannot draw: its images are not finite.")
    pipeline.scheduler = scheduler  # drawing leaves its steps in it


def save(unet: nn.Module, source: Path, folder: Path) -> None:
    """Write the pipeline of a folder into another one, with this U-Net in place of its own; all else is copied."""
    on_rank_0(lambda: _copy(source, folder))
    save_weights(unet, folder / WEIGHTS)


def _copy(source: Path, folder: Path) -> None:
    """Copy the files of the pipeline, but for the weights of its U-Net, whatever they are called."""
    index = require(source)
    shutil.copyfile(source / INDEX, folder / INDEX)
    for part in (name for name in (*_PARTS, *_OPTIONAL) if name in index and (source / name).is_dir()):
        (folder / part).mkdir()
        for file in files_of(source / part, source):
            if part != "unet" or file.name == "config.json":
                shutil.copyfile(file, folder / part / file.name)


def size(pipeline: Any) -> int:
    """Return the side of the images that the pipeline draws."""
    return int(pipeline.unet.config.sample_size * pipeline.vae_scale_factor)


def encoded_text(pipeline: Any, prompts: list[str]) -> Tensor:
    """Encode each prompt for the U-Net."""
    tokenizer, encoder = pipeline.tokenizer, pipeline.text_encoder
    tokens = tokenizer(prompts, padding="max_length", max_length=tokenizer.model_max_length, truncation=True)
    with torch.no_grad():
        found: Tensor = encoder(torch.tensor(tokens["input_ids"]).to(encoder.device))[0]
    return found


def encoded_images(pipeline: Any, images: Tensor) -> Tensor:
    """Encode 8-bit images as latents for the U-Net."""
    vae = pipeline.vae
    with torch.no_grad():
        found = [
            vae.encode((some.to(vae.device, vae.dtype) / 127.5) - 1).latent_dist.mode().cpu()
            for some in images.split(_ENCODED)
        ]
    return torch.cat(found) * float(vae.config.scaling_factor)


def weights(pipeline: Any) -> str:
    """Compute a hash of all weights of the pipeline."""
    return "-".join(fingerprint(part) for part in (pipeline.unet, pipeline.vae, pipeline.text_encoder))


def _scheduler(index: dict[str, Any], diffusers: Any) -> Any:
    """Return the class of the scheduler, which must be one of diffusers."""
    name = index["scheduler"][1]
    kind = getattr(diffusers, name, None)
    if not isinstance(kind, type) or not issubclass(kind, diffusers.SchedulerMixin):
        raise ModelError(f"the pipeline's scheduler is a {name}, which diffusers does not have.")
    return kind


def _part(folder: Path, kind: Any) -> Any:
    """Load a model of the pipeline; refuse it if its files lack a weight, which would be random."""
    ours = hasattr(kind, "load_config")  # diffusers' own; the text encoder is of transformers
    more: dict[str, Any] = {"dtype": torch.float32, "trust_remote_code": False}
    if ours:
        more = {"torch_dtype": torch.float32, "low_cpu_mem_usage": False}
    try:
        return load_safely(kind, folder, folder, ("missing_keys", "mismatched_keys"), **more)
    except ModelError:
        raise
    except Exception as error:  # diffusers and transformers raise whatever their many readers raise
        raise ModelError(f"{folder} cannot be loaded: {first_line(error)}") from None


def require(folder: Path) -> dict[str, Any]:
    """Return the index of a folder; refuse one that is not a whole StableDiffusionPipeline with safe weights."""
    if not folder.is_dir():
        raise ModelError(f"there is no pipeline folder '{folder}'.")
    if not (folder / INDEX).exists():
        raise ModelError(f"{folder} is not a pipeline folder: it has no {INDEX}.")
    require_inside(folder / INDEX, folder)
    index = read_config(folder / INDEX)
    require_no_code(folder / INDEX, index)
    kind = index.get("_class_name")
    if kind != "StableDiffusionPipeline":
        raise ModelError(f"{folder} is a {kind}, and only a StableDiffusionPipeline can be scrubbed.")
    for part in _PARTS:
        if not (folder / part).is_dir():
            raise ModelError(f"{folder} is damaged: it has no '{part}'.")
    for part in [name for name, value in index.items() if isinstance(value, list)] + list(_PARTS):
        _require_part(folder, part, index.get(part))
    for part in ("unet", "vae", "text_encoder"):
        if not any((folder / part).glob("*.safetensors")):
            raise ModelError(f"{folder / part} has no weights as safetensors, and nothing else is loaded.")
    return index


def _require_part(folder: Path, name: str, named: Any) -> None:
    """Refuse a part that a StableDiffusionPipeline does not have, that is code, or that leads elsewhere."""
    if name not in (*_PARTS, *_OPTIONAL):
        raise ModelError(f"{folder / INDEX} lists '{name}', which is not part of a StableDiffusionPipeline.")
    if not (isinstance(named, list) and len(named) == 2 and all(isinstance(one, str | None) for one in named)):
        raise ModelError(f"{folder / INDEX} does not name the class of '{name}'.")
    if named[0] not in _LIBRARIES:
        raise ModelError(f"{folder / INDEX} names code of its own for '{name}', '{named[0]}', which is not run.")
    if (folder / name).is_dir():
        require_safe(folder / name, folder)
        if any((folder / name).glob("*.py")):
            raise ModelError(f"{folder / name} holds code, which is not run: a part has none.")
