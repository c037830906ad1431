"""Image classifiers of Hugging Face, with the resizing and normalizing that their folders ask for."""

import json
import math
import os
from pathlib import Path
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from ...data.readers import IMAGES, Kind
from ...distributed import on_rank_0
from ...errors import ModelError
from ..pretrained import read_config
from .huggingface import HuggingFaceModel
from .networks import Normalize, unit


class ImageClassifier(HuggingFaceModel):
    """An image classifier from `transformers`, with the resizing and normalizing that its folder asks for."""

    noun: ClassVar[str] = "image classifier"
    auto: ClassVar[str] = "AutoModelForImageClassification"

    def __init__(self, model: Any, preprocessing: dict[str, Any]) -> None:
        super().__init__(model)
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

    @classmethod
    def wrap(cls, model: Any, folder: Path) -> "ImageClassifier":
        return cls(model, _preprocessing(folder))

    @classmethod
    def kind_of(cls, folder: Path) -> Kind:
        return IMAGES

    @property
    def kind(self) -> Kind:
        return IMAGES

    def save_beside(self, folder: Path) -> None:
        if text := self.preprocessing and json.dumps(self.preprocessing, indent=2) + "\n":
            on_rank_0(lambda: (folder / "preprocessor_config.json").write_text(text))


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


def _preprocessing(folder: Path) -> dict[str, Any]:
    """Read how images are preprocessed; empty if the folder has no file about it."""
    about, own = folder / "processor_config.json", folder / "preprocessor_config.json"
    nested = read_config(about).get("image_processor") if os.path.lexists(about) else None
    if nested is None:
        return read_config(own) if os.path.lexists(own) else {}
    if not isinstance(nested, dict):
        raise ModelError(f"{about} does not say how images are prepared: its 'image_processor' is {nested!r}.")
    return nested
