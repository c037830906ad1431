"""Images of a Hugging Face table, decoded when they are fetched."""

import hashlib
import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import files
from ..errors import DataError, ReadError
from .columns import label_numbers, readers
from .images import decode, refusing_bombs
from .keys import PATH, column_keys, image_paths
from .records import Columns, Fetched, Records, content_hash


def shown(shape: tuple[int, ...]) -> str:
    """Return a shape in words.

    >>> shown((3, 32, 32))
    '3 × 32 × 32'
    """
    return " × ".join(map(str, shape))


def _require_room(count: int, shape: tuple[int, ...]) -> None:
    """Refuse to hold more images at once than the machine has memory for."""
    needed, there = count * math.prod(shape), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise DataError(
            f"{count} images of {shown(shape)} take {needed / 2**30:,.0f} GiB and this machine has "
            f"{there / 2**30:,.0f}: give a smaller 'size', 'memory' or 'batch_size'."
        )


_WORTH_A_THREAD = 1 << 16  # bytes of an image; handing a smaller one to a thread takes longer than decoding it


class Streamed(Records):
    """Records that are decoded when they are fetched."""

    def __init__(
        self, table: Any, image: str, label: str, classes: tuple[str, ...], size: int, root: str = "", key: str = ""
    ) -> None:
        import datasets

        self.table = table.cast_column(image, datasets.Image(decode=False))
        self.image, self.classes = image, classes
        self._labels = label_numbers(table, label, classes)
        self._columns = dict(readers(table, image, label, classes))
        if paths := image_paths(self.table, image, root):
            self._columns["file_name"] = lambda: np.array([PurePath(path).name for path in paths])
        if key or paths:
            self.keys, self.key = (column_keys(table, key), key) if key else (paths, PATH)
        with refusing_bombs():
            first = decode(self.table[0][image], 0, (size, size) if size else None, None)
        self.shape = tuple(first.shape)
        self._resize = bool(size)

    @property
    def labels(self) -> Tensor:
        return self._labels

    @property
    def columns(self) -> Columns:
        return {**super().columns, **self._columns}

    @property
    def gibibytes(self) -> float:
        """Return the size of the decoded records."""
        return len(self) * math.prod(self.shape) / 2**30

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Hash the encoded images, the labels, and what decoding makes of them."""
        return self._hashed[0]

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        return self._hashed[1]

    @cached_property
    def _hashed(self) -> tuple[str, tuple[str, ...]]:
        """Read all images once; return a hash of everything, and one for each."""
        digest, hashes = hashlib.sha256(repr((self.shape, self._resize)).encode()), []
        digest.update(self.labels.numpy().tobytes())
        for encoded in self._encoded():
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
            hashes.append(content_hash(encoded))
        return digest.hexdigest(), tuple(hashes)

    def _encoded(self) -> Iterable[bytes]:
        """Yield the bytes of every image, from the table or its file; none for a missing one (decoding reports it)."""
        for chunk in self.table.data.column(self.image).chunks:
            for inside, path in zip(chunk.field("bytes"), chunk.field("path"), strict=True):
                encoded = inside.as_py()
                if not encoded and path.is_valid:
                    with suppress(ReadError):
                        encoded = files.read_bytes(Path(path.as_py()))
                yield encoded or b""

    def fetch(self, ids: Tensor) -> Fetched:
        _require_room(len(ids), self.shape)
        rows = self.table[ids.tolist()][self.image]
        channels, height, width = self.shape
        images = torch.empty((len(ids), *self.shape), dtype=torch.uint8)

        def place(row: int) -> None:
            image = decode(rows[row], int(ids[row]), (height, width) if self._resize else None, gray=channels == 1)
            if tuple(image.shape) != self.shape:
                _, h, w = image.shape
                raise DataError(
                    f"record {int(ids[row])} is {h} × {w} pixels while the first is {height} × {width}: give a size."
                )
            images[row] = image

        with refusing_bombs():
            if images[:1].numel() < _WORTH_A_THREAD:
                for row in range(len(ids)):
                    place(row)
            else:
                with ThreadPoolExecutor() as pool:
                    list(pool.map(place, range(len(ids))))
        return images, self.labels[ids]
