"""Images as uint8 tensors: decoding them, and augmenting a whole batch at once."""

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor

from .. import files
from ..errors import DataError, ReadError, did_you_mean
from .records import Augment

LARGEST = 8192  # pixels along a side that images are resized to
_MOST_PIXELS = LARGEST**2


def decode(encoded: Mapping[str, Any], record: int, size: tuple[int, int] | None, gray: bool | None) -> Tensor:
    """Decode an image (its bytes, or the path to it) to channels × height × width.

    With a size it is resized to height × width. `gray` says how many channels to expect, or that either will do.
    """
    try:
        with Image.open(io.BytesIO(encoded["bytes"] or files.read_bytes(Path(encoded["path"])))) as file:
            if file.width * file.height > _MOST_PIXELS:
                raise Image.DecompressionBombError
            if file.format == "EPS":
                raise ValueError("it is a program, which Pillow would run")
            image: Image.Image = ImageOps.exif_transpose(file)
            image.load()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        most = f"{_MOST_PIXELS:,} or fewer"
        raise DataError(f"{_shown(encoded, record)} has too many pixels: resize it to {most}.") from None
    except ReadError as error:
        raise DataError(f"record {record} is not a readable image: {error}") from None
    except Exception:  # Pillow raises a dozen kinds for a broken file
        raise DataError(f"{_shown(encoded, record)} is not a readable image.") from None
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    is_gray = image.mode in ("1", "L")
    if gray and not is_gray:
        raise DataError(f"record {record} has colors while the first record is gray: convert the images to one kind.")
    image = image.convert("L" if (is_gray if gray is None else gray) else "RGB")
    if size and image.size != size[::-1]:
        image = image.resize(size[::-1], Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(image))
    return pixels[None] if pixels.dim() == 2 else pixels.permute(2, 0, 1)


@contextmanager
def refusing_bombs() -> Iterator[None]:
    """Turn Pillow's warning about a huge image into an error. Not thread-safe: all threads share the filters."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _shown(encoded: Mapping[str, Any] | None, record: int) -> str:
    """Return the number of the record, and its file where it has one."""
    path = None if not encoded or encoded["bytes"] else encoded["path"]
    return f"record {record} ({path})" if path else f"record {record}"


def flip(images: Tensor, draw: torch.Generator) -> Tensor:
    """Mirror each image left to right with probability one half."""
    coin = torch.rand(len(images), generator=draw) < 0.5
    return torch.where(coin[:, None, None, None], images.flip(-1), images)


def crop(images: Tensor, draw: torch.Generator) -> Tensor:
    """Shift each image at random by up to an eighth of its size, and fill with zeros."""
    n, channels, height, width = images.shape
    pad_y, pad_x = height // 8, width // 8
    padded = F.pad(images, (pad_x, pad_x, pad_y, pad_y))
    rows = torch.randint(2 * pad_y + 1, (n, 1), generator=draw) + torch.arange(height)
    columns = torch.randint(2 * pad_x + 1, (n, 1), generator=draw) + torch.arange(width)
    which = torch.arange(n)[:, None, None, None]
    channel = torch.arange(channels)[None, :, None, None]
    return padded[which, channel, rows[:, None, :, None], columns[:, None, None, :]]


_AUGMENTATIONS: dict[str, Augment] = {"crop": crop, "flip": flip}


def augmentation(names: str) -> Augment | None:
    """Return the augmentation named by `crop`, `flip`, `crop,flip` or `none`."""
    if names == "none":
        return None
    for name in names.split(","):
        if name not in _AUGMENTATIONS:
            raise DataError(f"there is no augmentation '{name}'. {did_you_mean(name, _AUGMENTATIONS)} Or none.")
    steps = [_AUGMENTATIONS[name] for name in names.split(",")]

    def augment(images: Tensor, draw: torch.Generator) -> Tensor:
        for step in steps:
            images = step(images, draw)
        return images

    return augment
