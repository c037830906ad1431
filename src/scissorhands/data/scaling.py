"""Images as floats, scaled as a model was trained on them."""

import hashlib
import math
from functools import cached_property

import torch
from torch import Tensor

from ..errors import DataError
from .labels import Relabeled
from .records import Fetched, Records


class Scaled(Relabeled):
    """Images as floats from 0 to 1, less a mean, divided by a deviation, channel by channel."""

    def __init__(self, records: Records, mean: Tensor, std: Tensor) -> None:
        super().__init__(records, records.labels)
        self._mean, self._std = mean[:, None, None], std[:, None, None]

    def fetch(self, ids: Tensor) -> Fetched:
        images, labels = self.records.fetch(ids)
        assert isinstance(images, Tensor)
        return (images / 255 - self._mean) / self._std, labels

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        digest = hashlib.sha256(self.records.fingerprint.encode())
        digest.update(torch.cat([self._mean, self._std]).numpy().tobytes())
        return digest.hexdigest()


def scaled(records: Records, mean: str, std: str) -> Scaled:
    """Scale images by numbers in a text: one, or one for each channel, as in 0.5,0.4,0.4."""
    images, _ = records.fetch(torch.arange(1))
    assert isinstance(images, Tensor)
    return Scaled(records, _numbers("mean", mean or "0", images.shape[1]), _numbers("std", std or "1", images.shape[1]))


def _numbers(name: str, text: str, channels: int) -> Tensor:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, channels) or not all(map(math.isfinite, values)) or (name == "std" and min(values) <= 0):
        above = " above 0" if name == "std" else ""
        raise DataError(f"'{name}' must be one number{above}, or one for each of {channels} channels, not '{text}'.")
    return torch.tensor(values).expand(channels).clone()
