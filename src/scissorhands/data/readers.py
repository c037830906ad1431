"""How the rows of a table become records: as images, or as rows of numbers."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import files
from ..errors import DataError, FailedError, ReadError, WriteError, did_you_mean, listed
from .columns import image_column, label_numbers, numeric_columns, readers
from .keys import column_keys
from .records import Records, Stored, held
from .streamed import Streamed


@dataclass(frozen=True)
class Reading:
    """What is known of a table before its rows become records.

    `first` is the table of the training records, by which the others are read, too. `root` is the folder of the data,
    `memory` how many GiB of records may be held, `settings` how the user wants the data to be read.
    """

    first: Any
    label: str
    classes: tuple[str, ...]
    root: str
    memory: float
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of data: what its records are called, and how they are read from a table."""

    noun: str
    read: Callable[[Any, Reading], Records]


def images(table: Any, reading: Reading) -> Records:
    """Read images: decoded and cached where they fit, streamed where they do not."""
    image, size, key = (reading.settings[name] for name in ("image", "size", "key"))
    image = image_column(reading.first, image)
    streamed = Streamed(table, image, reading.label, reading.classes, size, reading.root, key)
    if streamed.gibibytes > reading.memory:
        return streamed
    path = files.cache("images") / f"{streamed.fingerprint}.safetensors"
    found = _kept(path)
    if found is None or found.dtype != torch.uint8 or tuple(found.shape) != (len(table), *streamed.shape):
        found, _ = streamed.fetch(torch.arange(len(table)))
        with suppress(WriteError, FailedError, OSError):  # a machine without room for it does without
            files.private_folder(path.parent)
            files.write_tensors(path, {"images": found}, private=True, metadata=held(streamed.hashes))
    known = {name: getattr(streamed, name) for name in ("classes", "columns", "fingerprint", "keys", "key", "hashes")}
    return Stored(found, streamed.labels, **known)


def _kept(path: Path) -> Tensor | None:
    with suppress(ReadError):
        return files.read_tensors(path).get("images")
    return None


def numbers(table: Any, reading: Reading) -> Records:
    """Read rows of numbers: the columns that were named, or all that hold numbers but the label and the key."""
    label, key = reading.label, reading.settings["key"]
    given = [name.strip() for name in reading.settings["columns"].split(",") if name.strip()]
    known = numeric_columns(reading.first, (label, key))
    if not known:
        raise DataError(f"no column holds images or numbers to learn from. Columns: {listed(table.column_names)}.")
    if wrong := [name for name in given if name not in known]:
        raise DataError(f"the data has no column '{wrong[0]}' of numbers. {did_you_mean(wrong[0], known)}")
    names = given or known
    if missing := [name for name in names if name not in numeric_columns(table, (label, key))]:
        raise DataError(f"the test records have no numbers in the column '{missing[0]}', which training records have.")
    rows = torch.from_numpy(np.stack([_values(table, name) for name in names], axis=1))
    columns = readers(table, "", label, reading.classes)
    keys = {"keys": column_keys(table, key), "key": key} if key else {}
    return Stored(rows, label_numbers(table, label, reading.classes), classes=reading.classes, columns=columns, **keys)


def _values(table: Any, name: str) -> Any:
    """Return a column as numbers; refuse one with gaps."""
    values = table.data.column(name).to_numpy().astype(np.float32)
    if len(wrong := np.flatnonzero(~np.isfinite(values))):
        raise DataError(
            f"record {wrong[0]} has no number in the column '{name}': fill it in, or name the columns to read, "
            "--data-set columns=…"
        )
    return values


IMAGES, NUMBERS = Kind("images", images), Kind("numbers", numbers)
# The settings of a Source that are for one kind of data alone, with what its records are called.
_OWN = {**dict.fromkeys(("image", "size", "augment", "mean", "std"), "images"), "columns": "numbers", "text": "texts"}


def kind_of(table: Any, image: str) -> Kind:
    """Tell whether a table holds images, and then in one column, or else numbers."""
    import datasets

    if image or any(isinstance(feature, datasets.Image) for feature in table.features.values()):
        image_column(table, image)
        return IMAGES
    return NUMBERS


def require_own(settings: Mapping[str, Any], defaults: Mapping[str, Any], kind: Kind, name: str) -> None:
    """Refuse settings that are for another kind of data."""
    for setting, noun in _OWN.items():
        if noun != kind.noun and settings[setting] != defaults[setting]:
            raise DataError(f"'{setting}' is for {noun}, and {name} is read as {kind.noun}.")
