"""Hugging Face image classifiers, wrapped so that they take raw images and return scores like any other model."""

import errno
import json
import os
from logging import getLogger
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from .distributed import fill, first, hollow, local, part, sharded, spread, world_size, write
from .errors import FailedError, ModelError, listed
from .networks import Normalise, unit


class HuggingFaceClassifier(nn.Module):
    """An image classifier from `transformers`, with the resizing and normalising that its folder asks for."""

    def __init__(self, model: Any, preprocessing: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.preprocessing = preprocessing
        self.channels = int(getattr(model.config, "num_channels", 3))
        self.size, self.crop, self.mode = _resizing(preprocessing, getattr(model.config, "image_size", None))
        self.normalise = Normalise(*_normalising(preprocessing, self.channels))

    def forward(self, images: Tensor) -> Tensor:
        """One score per class."""
        images = unit(images, self.normalise.mean.dtype).expand(-1, self.channels, -1, -1)
        size = self._resized(images.shape[-2], images.shape[-1])
        if size != tuple(images.shape[-2:]):
            images = F.interpolate(images, size, mode=self.mode, antialias=True)
        if self.crop:
            images = _centre(images, *self.crop)
        logits: Tensor = self.model(pixel_values=self.normalise(images)).logits
        return logits

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """The size to resize to: as it is, to both sides, or so that the shorter side fits."""
        if self.size is None:
            return height, width
        if isinstance(self.size, tuple):
            return self.size
        short = min(height, width)
        return self.size * height // short, self.size * width // short

    def reset_parameters(self) -> None:
        """Draws all weights anew, as `transformers` does for a model without weights, in place."""
        self.model.load_state_dict(type(self.model)(self.model.config).state_dict())


_MODES = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers for ways to resize


def _resizing(
    preprocessing: dict[str, Any], image_size: Any
) -> tuple[int | tuple[int, int] | None, tuple[int, int] | None, str]:
    """To what size images are resized (both sides, or the shorter one), to what they are cut, and how."""
    size = preprocessing.get("size") if preprocessing.get("do_resize", True) else None
    crop = preprocessing.get("crop_size") if preprocessing.get("do_center_crop") else None
    resample = preprocessing.get("resample", 2)
    if resample not in _MODES:
        raise ModelError(f"the model's preprocessing asks for resample = {resample}; known are {_MODES}.")
    if not preprocessing:
        size = image_size
    if isinstance(size, dict) and "shortest_edge" in size:
        edge = int(size["shortest_edge"])
        if (part := preprocessing.get("crop_pct")) and edge < 384:  # ConvNeXt's way: the middle of a larger picture
            return int(edge / part), (edge, edge), _MODES[resample]
        return ((edge, edge) if part else edge), _sides(crop), _MODES[resample]
    return _sides(size), _sides(crop), _MODES[resample]


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, dict):
        return int(size["height"]), int(size["width"])
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[1])
    return (int(size), int(size)) if size else None


def _centre(images: Tensor, height: int, width: int) -> Tensor:
    """The middle of the images, with zeros around those that are smaller."""
    missing = max(0, height - images.shape[-2]), max(0, width - images.shape[-1])
    images = F.pad(images, (missing[1] // 2, -(-missing[1] // 2), missing[0] // 2, -(-missing[0] // 2)))
    top, left = (images.shape[-2] - height) // 2, (images.shape[-1] - width) // 2
    return images[..., top : top + height, left : left + width]


def _normalising(preprocessing: dict[str, Any], channels: int) -> tuple[list[float], list[float]]:
    """Mean and deviation for images from 0 to 1, whatever range the folder's own numbers are for."""
    scale = preprocessing.get("rescale_factor", 1 / 255) if preprocessing.get("do_rescale", True) else 1.0
    mean, std = [0.0] * channels, [1.0] * channels
    if preprocessing.get("do_normalize", True):
        mean, std = preprocessing.get("image_mean") or mean, preprocessing.get("image_std") or std
    full = 255 * scale
    return [m / full for m in mean], [d / full for d in std]


def hush() -> None:
    """Keeps the Hugging Face libraries from printing."""
    from transformers.utils import logging

    logging.set_verbosity(logging.CRITICAL)
    getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry
    logging.disable_progress_bar()


def load(name: str, classes: int | None = None) -> HuggingFaceClassifier:
    """The classifier in a folder or on the hub, with its weights.

    With `classes` it is to be trained on: a head of another size is replaced. Without, every weight must fit.
    """
    from transformers import AutoModelForImageClassification

    hush()
    changes = {"num_labels": classes} if classes else {}
    try:
        model, info = AutoModelForImageClassification.from_pretrained(
            name,
            use_safetensors=True,
            output_loading_info=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # reported below, with the name of the weight
            **changes,
        )
    except Exception as error:  # transformers raises whatever its many readers raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        found = "" if Path(name).is_dir() else f"there is no folder '{name}' here, and "
        raise ModelError(f"{found}'{name}' cannot be loaded as a Hugging Face image classifier: {reason}") from None
    if not classes:
        _require_whole(name, info)
    try:
        return HuggingFaceClassifier(model, _preprocessing(name))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ModelError(f"the preprocessing of '{name}' is not understood: {type(error).__name__}: {error}") from None


def opened(folder: Path, device: torch.device) -> HuggingFaceClassifier:
    """The classifier in a folder, on a device. Of many processes each reads its part, where the names in the files are
    those in the model; where `transformers` renames them, each reads all of it first.
    """
    if world_size() == 1:
        return load(str(folder)).to(device)
    from transformers import AutoConfig, AutoModelForImageClassification

    hush()
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with hollow():
            model = AutoModelForImageClassification.from_config(config).to(config.dtype or torch.float32)
        classifier = HuggingFaceClassifier(model, _preprocessing(str(folder)))
        spread(classifier, device)
        if fill(model, sorted(folder.glob("*.safetensors"))) == ([], []):
            return classifier
    except Exception:  # whatever is wrong, the ordinary way says it better
        pass
    classifier = load(str(folder))
    spread(classifier, device)
    return classifier


def save(classifier: HuggingFaceClassifier, folder: Path) -> None:
    """Writes the folder that `from_pretrained` reads."""
    try:
        if sharded(classifier):
            first(lambda: classifier.model.config.save_pretrained(folder))
            write(classifier.model, folder / "model.safetensors")
        else:
            classifier.model.save_pretrained(folder, safe_serialization=True)
    except SafetensorError as error:
        if "os error 28" in str(error) or "os error 122" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        raise FailedError(f"the weights cannot be written: {error}") from None
    if text := classifier.preprocessing and json.dumps(classifier.preprocessing, indent=2) + "\n":
        first(lambda: (folder / "preprocessor_config.json").write_text(text))


def restart(model: nn.Module, name: str) -> None:
    """Takes over the weights of a pretrained classifier, all but a head of another size, in place."""
    if not isinstance(model, HuggingFaceClassifier):
        raise ModelError(f"only a Hugging Face classifier can start from '{name}', and this model is none.")
    own, given = model.model.state_dict(), load(name, model.model.config.num_labels).model.state_dict()
    if own.keys() != given.keys():
        raise ModelError(f"'{name}' is another architecture than the model's.")
    with torch.no_grad():
        for key, value in own.items():
            if value.shape == given[key].shape:
                local(value).copy_(part(given[key], value))


def _require_whole(name: str, info: dict[str, Any]) -> None:
    """Loading is strict: a weight that is missing would be random, and one too many is a sign of another model."""
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if keys := sorted(str(key) for key in info.get(what, ())):
            raise ModelError(
                f"the weights in '{name}' do not fit its config.json; {what.replace('_', ' ')}: {listed(keys, 3)}."
            )


def _preprocessing(name: str) -> dict[str, Any]:
    from transformers.image_processing_base import ImageProcessingMixin

    try:
        return dict(ImageProcessingMixin.get_image_processor_dict(name)[0])
    except OSError:
        return {}
