"""The columns of a Hugging Face table: which holds the image and which the label, and what the others say."""

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, did_you_mean, listed
from .records import Array, Columns


def image_column(table: Any, given: str) -> str:
    import datasets

    images = [name for name, feature in table.features.items() if isinstance(feature, datasets.Image)]
    if given in table.column_names and given not in images:
        raise DataError(f"the column '{given}' holds no images.")
    return _one_column("image", given, images, table.column_names)


def label_column(table: Any, given: str) -> str:
    import datasets

    named = [name for name, feature in table.features.items() if isinstance(feature, datasets.ClassLabel)]
    usual = [name for name in ("label", "labels", "class", "target", "identity") if name in table.column_names]
    return _one_column("label", given, named or usual, table.column_names)


def _one_column(what: str, given: str, found: list[str], known: list[str]) -> str:
    if given and given not in known:
        raise DataError(f"the data has no column '{given}'. {did_you_mean(given, known)}")
    if not given and len(found) != 1:
        held = f"{len(found)} columns could hold" if found else "no column seems to hold"
        raise DataError(f"{held} the {what}; name it as {what}. Columns: {listed(known)}.")
    return given or found[0]


def text_column(table: Any, given: str, but: Collection[str]) -> str:
    kinds = {name: str(getattr(feature, "dtype", "")) for name, feature in table.features.items() if name not in but}
    found = [name for name, kind in kinds.items() if "string" in kind]
    return _one_column("text", given, [name for name in found if name == "text"] or found, table.column_names)


def numeric_columns(table: Any, but: Collection[str]) -> list[str]:
    """List the columns that hold one number per record, without some."""
    kinds = {name: str(getattr(feature, "dtype", "")) for name, feature in table.features.items() if name not in but}
    return [name for name, kind in kinds.items() if kind.startswith(("int", "uint", "float", "bool"))]


_MOST_CLASSES = 100_000  # a larger label is a serial number, and a network has no such output


def class_names(table: Any, label: str) -> tuple[str, ...]:
    """Return the names of the classes: those that the data gives, or the distinct labels in order."""
    feature = table.features[label]
    if names := getattr(feature, "names", None):
        return tuple(names)
    kind = getattr(feature, "dtype", "")
    distinct = set(table.unique(label)) - {None} if "int" in kind or "string" in kind else {None}
    if all(type(x) is int and 0 <= x < _MOST_CLASSES for x in distinct):
        return tuple(map(str, range(max(distinct, default=0) + 1)))
    if all(type(x) is str for x in distinct):
        return tuple(sorted(distinct))
    raise DataError(
        f"the column '{label}' cannot be the label: it holds neither names nor whole numbers from 0 to 99,999."
    )


def label_numbers(table: Any, label: str, classes: tuple[str, ...]) -> Tensor:
    values = table.data.column(label).to_pylist()
    index = {name: i for i, name in enumerate(classes)}
    found = [index.get(x, -1) if isinstance(x, str) else x for x in values]
    for record, x in enumerate(found):
        if x is None or not 0 <= x < len(classes):
            raise DataError(f"record {record} has the label {values[record]!r}, which is none of: {listed(classes)}.")
    return torch.tensor(found, dtype=torch.int64)


def readers(table: Any, image: str, label: str, classes: tuple[str, ...]) -> Columns:
    """Return a reader for each column but the image; a label with names is read as its names."""

    def read(name: str, column: Any, names: list[str] | None) -> Array:
        if names:
            return np.array(["" if x is None or x < 0 else names[x] for x in column.to_pylist()])
        return _array(name, column)

    return {
        name: partial(read, name, table.data.column(name), getattr(table.features[name], "names", None))
        for name in table.column_names
        if name != image
    }


def _array(name: str, column: Any) -> Array:
    """Return a column to compare with: numbers (a missing one is NaN), booleans, or text (dates as ISO dates)."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or (pa.types.is_boolean(kind) and not column.null_count):
        return np.asarray(column.to_numpy())
    if pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64()).to_numpy())
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"the column '{name}' holds {kind}, which cannot be compared.")
    return np.array(["" if x is None else x for x in column.cast(pa.string()).to_pylist()], dtype=np.str_)
