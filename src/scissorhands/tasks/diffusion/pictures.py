"""Folders of images with prompts: a metadata.csv of `file_name` and `prompt` beside the images that it lists."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ...data.images import decode
from ...data.records import Stored
from ...errors import DataError, ReadError, did_you_mean
from ...files import read_text
from ..pretrained import is_inside

METADATA = "metadata.csv"
_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def read(folder: Path, side: int) -> Stored:
    """Read the images of a folder with a metadata.csv of `file_name` and `prompt`; the label is the prompt."""
    pictures = Pictures.of(folder, side)
    prompts = sorted(set(pictures.prompts))
    labels = torch.tensor([prompts.index(prompt) for prompt in pictures.prompts])
    return Stored(pictures[:], labels, classes=tuple(prompts))


@dataclass(frozen=True)
class Pictures:
    """Images in files, with their prompts, decoded when they are asked for, as 8-bit squares of one size, in color."""

    files: Sequence[Path]
    prompts: Sequence[str]
    side: int

    @classmethod
    def of(cls, folder: Path, side: int = 0) -> "Pictures":
        """Open the images that a folder's metadata.csv lists; without a side, as large as the first one."""
        rows = read_list(folder)
        files = [_own(folder, row["file_name"]) for row in rows]
        return cls(files, [row["prompt"] for row in rows], side or _side(files[0]))

    @classmethod
    def in_folder(cls, folder: Path, side: int) -> "Pictures":
        """Open the images of a folder that may have no list, and then no prompts."""
        if (folder / METADATA).is_file():
            return cls.of(folder, side)
        names = sorted(path.name for path in folder.glob("*") if path.suffix.lower() in _IMAGES)
        if not names:
            raise DataError(f"there are no images in '{folder}'.")
        files = [_own(folder, name) for name in names]
        return cls(files, [""] * len(files), side)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, some: slice) -> Tensor:
        numbers = range(len(self.files))[some]
        return torch.stack([_decoded(self.files[number], number, self.side) for number in numbers])

    def split(self, size: int) -> Iterator[Tensor]:
        """Split into batches of so many images."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def only(self, chosen: Sequence[bool]) -> "Pictures":
        """Return only the chosen images."""
        return replace(
            self,
            files=[file for file, keep in zip(self.files, chosen, strict=True) if keep],
            prompts=[prompt for prompt, keep in zip(self.prompts, chosen, strict=True) if keep],
        )


def _own(folder: Path, name: str) -> Path:
    """Return the file of an image; refuse one outside the folder, or that is not a regular file."""
    path = folder / name
    if not is_inside(path, folder):
        raise DataError(f"the image '{name}' leads out of {folder}: only images in the folder are read.")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"the image '{name}' in {folder} is not a regular file.")
    return path


def _decoded(file: Path, number: int, side: int) -> Tensor:
    """Decode an image, cut the square from its center, and resize that."""
    image = center_square(decode({"path": str(file), "bytes": None}, number, None, gray=False))
    if image.shape[-1] == side:
        return image
    square = Image.fromarray(image.permute(1, 2, 0).numpy())
    return torch.from_numpy(np.array(square.resize((side, side), Image.Resampling.BILINEAR))).permute(2, 0, 1)


def center_square(image: Tensor) -> Tensor:
    """Cut the largest square from the center of an image.

    >>> center_square(torch.arange(10).reshape(1, 2, 5))
    tensor([[[1, 2],
             [6, 7]]])
    """
    height, width = image.shape[-2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return image[..., top : top + side, left : left + side].contiguous()


def _side(file: Path) -> int:
    """Return the shorter side of the image in a file."""
    return min(decode({"path": str(file), "bytes": None}, 0, None, gray=False).shape[-2:])


def read_list(folder: Path) -> list[dict[str, str]]:
    """Read the rows of a folder's metadata.csv."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(folder / METADATA), newline=""))
        rows, columns = list(reader), [name for name in reader.fieldnames or () if name]
    except (ReadError, csv.Error) as error:
        raise DataError(f"{folder} has no readable {METADATA} of file names and prompts: {error}") from None
    for column in ("file_name", "prompt"):
        if column not in columns:
            known = did_you_mean(column, columns) if columns else "It is empty."
            raise DataError(f"{folder / METADATA} has no column '{column}'. {known}")
        if lacking := [number for number, row in enumerate(rows, start=2) if not isinstance(row[column], str)]:
            raise DataError(f"line {lacking[0]} of {folder / METADATA} has no '{column}'.")
    if not rows:
        raise DataError(f"{folder / METADATA} lists no images.")
    return rows
