"""Images that look alike, by perceptual hashes: what is kept may show what was deleted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .records import Array, Part

_SIDE, _KEPT = 32, 8  # of the small image that is hashed, and of the part of its spectrum that is kept
_ALIKE = 6  # bits of 64 in which the hashes of near-duplicates differ at most
_BATCH = 512


@dataclass(frozen=True)
class Duplicate:
    """A record to forget, the one of the `part` that looks most like it, and in how many bits their hashes differ."""

    record: int
    part: str
    other: int
    bits: int


def near_duplicates(forget: Part, others: Mapping[str, Part]) -> list[Duplicate]:
    """List the images to forget that have a near-duplicate in one of the other parts, most alike first.

    Empty where records are no images.
    """
    inputs, _ = forget.records.fetch(forget.ids[:1])
    if not isinstance(inputs, Tensor) or inputs.dim() != 4 or inputs.shape[1] not in (1, 3):
        return []
    found: list[Duplicate] = []
    own = _hashes(forget)
    for name, part in others.items():
        hashes = _hashes(part)
        for record, one in zip(forget.ids.tolist(), own, strict=True):
            bits = np.bitwise_count(hashes ^ one)
            nearest = int(bits.argmin())
            if bits[nearest] <= _ALIKE:
                found.append(Duplicate(record, name, int(part.ids[nearest]), int(bits[nearest])))
    return sorted(found, key=lambda one: (one.bits, one.record))


def _hashes(part: Part) -> Array:
    batches = (perceptual_hashes(part.records.fetch(ids)[0]) for ids in part.ids.split(_BATCH))
    return np.concatenate(list(batches))


def perceptual_hashes(images: Tensor) -> Array:
    """Return a hash of 64 bits for each image: which of its low frequencies are above their median.

    It hardly changes when an image is compressed or made brighter.

    >>> photo = torch.rand(1, 3, 40, 40, generator=torch.Generator().manual_seed(0))
    >>> one, brighter, other = perceptual_hashes(torch.cat([photo, photo / 2 + 9, photo.flip(3)]))
    >>> bool(np.bitwise_count(one ^ brighter) < 2), bool(np.bitwise_count(one ^ other) > 10)
    (True, True)
    """
    gray = images.float().mean(1, keepdim=True)
    small = F.interpolate(gray, (_SIDE, _SIDE), mode="bilinear", antialias=True, align_corners=False)[:, 0]
    spectrum = (_COSINES @ small @ _COSINES.T).flatten(1)
    spectrum[:, 0] = 0.0  # the brightness
    bits = (spectrum > spectrum.median(1, keepdim=True).values).numpy()
    packed: Array = np.packbits(bits, axis=1).view(np.uint64)[:, 0]
    return packed


def _cosines() -> Tensor:
    """Return the lowest rows of the discrete cosine transform."""
    place, frequency = torch.arange(_SIDE) + 0.5, torch.arange(_KEPT)
    return torch.cos(torch.pi / _SIDE * frequency[:, None] * place)


_COSINES = _cosines()
