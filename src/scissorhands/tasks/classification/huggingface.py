"""Hugging Face image classifiers, wrapped so that they take raw images and return scores like any other model."""

import errno
import json
import math
import os
from logging import getLogger
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from ...distributed import (
    any_rank,
    is_sharded,
    load_weights,
    local,
    meta_device,
    on_rank_0,
    save_weights,
    shard,
    shard_of,
    world_size,
)
from ...errors import FailedError, ModelError, ScissorhandsError
from ..pretrained import MISFITS, first_line, load_safely, read_config, require_finite, require_safe
from .networks import Normalize, unit


class HuggingFaceClassifier(nn.Module):
    """An image classifier from `transformers`, with the resizing and normalizing that its folder asks for."""

    def __init__(self, model: Any, preprocessing: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.preprocessing = preprocessing
        self.channels = int(getattr(model.config, "num_channels", 3))
        self.size, self.crop, self.mode = _resizing(preprocessing, getattr(model.config, "image_size", None))
        self.normalize = Normalize(*_normalizing(preprocessing, self.channels))

    def forward(self, images: Tensor) -> Tensor:
        """Return one score per class."""
        images = unit(images, self.normalize.mean.dtype).expand(-1, self.channels, -1, -1)
        size = self._resized(images.shape[-2], images.shape[-1])
        if size != tuple(images.shape[-2:]):
            images = F.interpolate(images, size, mode=self.mode, antialias=True)
        if self.crop:
            images = _center(images, *self.crop)
        logits: Tensor = self.model(pixel_values=self.normalize(images)).logits
        return logits

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """Return the size to resize to: as it is, to both sides, or so that the shorter side fits."""
        if self.size is None:
            return height, width
        if isinstance(self.size, tuple):
            return self.size
        short = min(height, width)
        return self.size * height // short, self.size * width // short

    def reset_parameters(self) -> None:
        """Re-initialize all weights, as `transformers` does for a model without weights, in place."""
        self.model.load_state_dict(type(self.model)(self.model.config).state_dict())

    def restart(self, name: str) -> None:
        """Take over the weights of a pretrained classifier, all but a head of another size, in place."""
        own, given = self.model.state_dict(), load(name, self.model.config.num_labels).model.state_dict()
        if own.keys() != given.keys():
            raise ModelError(f"'{name}' is another architecture than the model's.")
        with torch.no_grad():
            for key, value in own.items():
                if value.shape == given[key].shape:
                    local(value).copy_(shard_of(given[key], value))


_MODES = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers for ways to resize
_LARGEST = 1 << 14  # pixels of a side to resize to


def _resizing(
    preprocessing: dict[str, Any], image_size: Any
) -> tuple[int | tuple[int, int] | None, tuple[int, int] | None, str]:
    """Return the size to resize images to (both sides, or the shorter one), the size to crop to, and how."""
    size = preprocessing.get("size") if _switch(preprocessing, "do_resize", True) else None
    crop = preprocessing.get("crop_size") if _switch(preprocessing, "do_center_crop", False) else None
    resample = preprocessing.get("resample", 2)
    if type(resample) is not int or resample not in _MODES:
        raise ModelError(f"the model's preprocessing asks for resample = {resample}; known are {_MODES}.")
    if not preprocessing:
        size = image_size
    if isinstance(size, dict) and "shortest_edge" in size:
        edge = _side(size["shortest_edge"])
        kept = _number("crop_pct", preprocessing["crop_pct"]) if preprocessing.get("crop_pct") else 0.0
        if kept and edge < 384:  # ConvNeXt's way: the middle of a larger picture
            return _side(int(edge / kept)), (edge, edge), _MODES[resample]
        return ((edge, edge) if kept else edge), _sides(crop), _MODES[resample]
    return _sides(size), _sides(crop), _MODES[resample]


def _sides(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        size = [size["height"], size["width"]]
    height, width = size if isinstance(size, list | tuple) and len(size) == 2 else (size, size)
    return _side(height), _side(width)


def _side(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _LARGEST:
        raise ModelError(f"the model's preprocessing asks for a size of {value!r}, not of 1 to {_LARGEST} pixels.")
    return value


def _switch(preprocessing: dict[str, Any], name: str, default: bool) -> bool:
    value = preprocessing.get(name, default)
    if value is not None and not isinstance(value, bool):
        raise ModelError(f"the model's preprocessing has {name} = {value!r}, which is neither true nor false.")
    return bool(value)


def _number(name: str, value: Any, least: float = 0.0) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or not value > least:
        raise ModelError(f"the model's preprocessing has {name} = {value!r}, where a number is needed.")
    return float(value)


def _center(images: Tensor, height: int, width: int) -> Tensor:
    """Crop the middle of the images, with zeros around those that are smaller."""
    missing = max(0, height - images.shape[-2]), max(0, width - images.shape[-1])
    images = F.pad(images, (missing[1] // 2, -(-missing[1] // 2), missing[0] // 2, -(-missing[0] // 2)))
    top, left = (images.shape[-2] - height) // 2, (images.shape[-1] - width) // 2
    return images[..., top : top + height, left : left + width]


def _normalizing(preprocessing: dict[str, Any], channels: int) -> tuple[list[float], list[float]]:
    """Return mean and deviation for images from 0 to 1, whatever range the folder's own numbers are for."""
    scale = 1.0
    if _switch(preprocessing, "do_rescale", True):
        scale = _number("rescale_factor", preprocessing.get("rescale_factor", 1 / 255))
    mean, std = [0.0] * channels, [1.0] * channels
    if _switch(preprocessing, "do_normalize", True):
        mean = _per_channel(preprocessing, "image_mean", mean, least=-math.inf)
        std = _per_channel(preprocessing, "image_std", std, least=0.0)
    full = 255 * scale
    return [m / full for m in mean], [d / full for d in std]


def _per_channel(preprocessing: dict[str, Any], name: str, default: list[float], least: float) -> list[float]:
    values = preprocessing.get(name)
    if values is None:
        return default
    if not isinstance(values, list) or len(values) != len(default):
        raise ModelError(f"the model's preprocessing has {name} = {values!r}, not {len(default)} numbers.")
    return [_number(name, value, least) for value in values]


def hush() -> None:
    """Keep the Hugging Face libraries from printing."""
    from transformers.utils import logging

    logging.set_verbosity(logging.CRITICAL)
    getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry
    logging.disable_progress_bar()


_WANTED = ["*config.json", "model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"]


def on_hub(name: str) -> tuple[str, str | None] | None:
    """Split `owner/name` or `owner/name@revision`; none where the name is that of a place here.

    >>> on_hub("microsoft/resnet-34@1a2b3c"), on_hub("microsoft/resnet-34"), on_hub("/tmp/model@1")
    (('microsoft/resnet-34', '1a2b3c'), ('microsoft/resnet-34', None), None)
    """
    repository, _, revision = name.partition("@")
    path = Path(repository)
    if Path(name).exists() or path.is_absolute() or len(path.parts) != 2 or path.parent.exists():
        return None
    return repository, revision or None


def located(name: str) -> tuple[Path, str]:
    """Find the folder of a classifier, here or on the hub, and its name: on the hub, with the commit."""
    found = on_hub(name)
    if found is None:
        return Path(name), name
    from huggingface_hub import snapshot_download

    hush()
    repository, revision = found
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=_WANTED, ignore_patterns="*/*")
    except Exception as error:  # the hub's client raises whatever its network raises
        raise _unloadable(name, error) from None
    return Path(folder), f"{repository}@{Path(folder).name}"


def load(name: str, classes: int | None = None) -> HuggingFaceClassifier:
    """Load the classifier in a folder or on the hub, with its weights.

    With `classes` it is to be trained on: a head of another size is replaced. Without, every weight must fit.
    """
    from transformers import AutoModelForImageClassification

    hush()
    changes = {"num_labels": classes} if classes else {}
    folder, _ = located(name)
    try:
        require_safe(folder)
        refused = () if classes else MISFITS
        model = load_safely(AutoModelForImageClassification, folder, name, refused, trust_remote_code=False, **changes)
    except ScissorhandsError:
        raise
    except Exception as error:  # transformers raises whatever its many readers raise
        raise _unloadable(name, error) from None
    return HuggingFaceClassifier(model, _preprocessing(folder))


def _unloadable(name: str, error: Exception) -> ModelError:
    found = "" if Path(name).is_dir() else f"there is no folder '{name}' here, and "
    return ModelError(f"{found}'{name}' cannot be loaded as a Hugging Face image classifier: {first_line(error)}")


def opened(folder: Path, device: torch.device) -> HuggingFaceClassifier:
    """Load the classifier in a folder; of many processes each reads its part, or all if `transformers` renames it."""
    if world_size() == 1:
        return load(str(folder)).to(device)
    from transformers import AutoConfig, AutoModelForImageClassification

    hush()
    require_safe(folder)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        with meta_device():
            model = AutoModelForImageClassification.from_config(config, trust_remote_code=False)
            model = model.to(config.dtype or torch.float32)
        classifier = HuggingFaceClassifier(model, _preprocessing(folder))
        shard(classifier, device)
        whole = load_weights(model, sorted(folder.glob("*.safetensors"))) == ([], [])
    except Exception:  # whatever is wrong, the ordinary way says it better
        whole = False
    if not any_rank(not whole):
        require_finite(classifier, folder)
        return classifier
    classifier = load(str(folder))
    shard(classifier, device)
    return classifier


def save(classifier: HuggingFaceClassifier, folder: Path) -> None:
    """Write the folder that `from_pretrained` reads."""
    try:
        if is_sharded(classifier):
            on_rank_0(lambda: classifier.model.config.save_pretrained(folder))
            save_weights(classifier.model, folder / "model.safetensors")
        else:
            classifier.model.save_pretrained(folder, safe_serialization=True)
    except SafetensorError as error:
        if "os error 28" in str(error) or "os error 122" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        raise FailedError(f"the weights cannot be written: {error}") from None
    if text := classifier.preprocessing and json.dumps(classifier.preprocessing, indent=2) + "\n":
        on_rank_0(lambda: (folder / "preprocessor_config.json").write_text(text))


def _preprocessing(folder: Path) -> dict[str, Any]:
    """Read how images are preprocessed; empty if the folder has no file about it."""
    about, own = folder / "processor_config.json", folder / "preprocessor_config.json"
    nested = read_config(about).get("image_processor") if os.path.lexists(about) else None
    if nested is None:
        return read_config(own) if os.path.lexists(own) else {}
    if not isinstance(nested, dict):
        raise ModelError(f"{about} does not say how images are prepared: its 'image_processor' is {nested!r}.")
    return nested
