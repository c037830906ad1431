"""Hugging Face image classifiers, wrapped so that they take raw images and return scores like any other model."""

import json
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .errors import ModelError, listed
from .networks import Normalise


class HuggingFaceClassifier(nn.Module):
    """An image classifier from `transformers`, with the resizing and normalising that its folder asks for."""

    def __init__(self, model: Any, preprocessing: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.preprocessing = preprocessing
        self.channels = int(getattr(model.config, "num_channels", 3))
        self.size = _size(preprocessing) or getattr(model.config, "image_size", None)
        mean = preprocessing.get("image_mean") or [0.0] * self.channels
        std = preprocessing.get("image_std") or [1.0] * self.channels
        self.normalise = Normalise(list(mean), list(std))

    def forward(self, images: Tensor) -> Tensor:
        """One score per class."""
        images = self.normalise(images.expand(-1, self.channels, -1, -1))
        if self.size and images.shape[-1] != self.size:
            images = F.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        logits: Tensor = self.model(pixel_values=images).logits
        return logits

    def reset_parameters(self) -> None:
        """Draws all weights anew, as `transformers` does for a model without weights, in place."""
        self.model.load_state_dict(type(self.model)(self.model.config).state_dict())

    def save(self, folder: Path) -> None:
        """Writes the folder that `from_pretrained` reads."""
        self.model.save_pretrained(folder, safe_serialization=True)
        if self.preprocessing:
            (folder / "preprocessor_config.json").write_text(json.dumps(self.preprocessing, indent=2) + "\n")


def _size(preprocessing: dict[str, Any]) -> int | None:
    size = preprocessing.get("crop_size") or preprocessing.get("size")
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    return int(size) if size else None


def load(name: str, classes: int | None = None) -> HuggingFaceClassifier:
    """The classifier in a folder or on the hub, with its weights.

    With `classes` it is to be trained on: a head of another size is replaced. Without, every weight must fit.
    """
    from transformers import AutoModelForImageClassification
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    changes = {"num_labels": classes, "ignore_mismatched_sizes": True} if classes else {}
    try:
        model, info = AutoModelForImageClassification.from_pretrained(
            name, use_safetensors=True, output_loading_info=True, **changes
        )
    except Exception as error:  # transformers raises whatever its many readers raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"'{name}' cannot be loaded as a Hugging Face image classifier: {reason}") from None
    if not classes:
        _require_whole(name, info)
    return HuggingFaceClassifier(model, _preprocessing(name))


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
