"""The columns of a Hugging Face table: which holds the image and which the label, and what the others say."""

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, did_you_mean, listed
from .records import Array, Columns, checked_labels


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


CLASSIFICATION, REGRESSION = "classification", "regression"
_MOST_CLASSES = 100_000  # a larger label is a serial number, and a network has no such output
_FEW = 10  # different numbers, which may be classes though they are floats; of whole numbers more may be no classes
_FLOATS = ("float", "decimal")


def task_of(table: Any, label: str, given: str = "") -> str:
    """Tell whether labels are classes or, where they are floats, numbers to predict; refuse what may be either."""
    feature = table.features[label]
    kind = str(getattr(feature, "dtype", ""))
    if given or getattr(feature, "names", None) or not kind.startswith((*_FLOATS, "int", "uint")):
        return given or CLASSIFICATION
    floats, distinct = kind.startswith(_FLOATS), set(table.unique(label)) - {None}
    few_floats = floats and len(distinct) <= _FEW and all(float(x).is_integer() for x in distinct)
    if few_floats or (not floats and len(distinct) > max(_FEW, len(table) / 3)):
        raise DataError(
            f"the column '{label}' holds {len(distinct)} different whole numbers in {len(table)} records"
            f"{', as floats' * floats}: say whether they are classes or numbers to predict, --data-set "
            f"task={CLASSIFICATION} or --data-set task={REGRESSION}."
        )
    return REGRESSION if floats else CLASSIFICATION


def class_names(table: Any, label: str, task: str) -> tuple[str, ...]:
    """Return the names of the classes: those that the data gives, or the distinct labels in order.

    There are none where labels are numbers to predict.
    """
    feature = table.features[label]
    names, kind = getattr(feature, "names", None), str(getattr(feature, "dtype", ""))
    if task == REGRESSION:
        if names or not kind.startswith((*_FLOATS, "int", "uint")):
            raise DataError(f"the column '{label}' cannot be predicted as a number: it holds none.")
        return ()
    if names:
        return tuple(names)
    known = any(one in kind for one in ("int", "string", *_FLOATS))
    distinct = {_whole(x) for x in table.unique(label)} - {None} if known else {None}
    if all(type(x) is int and 0 <= x < _MOST_CLASSES for x in distinct):
        return tuple(map(str, range(max(distinct, default=0) + 1)))
    if all(type(x) is str for x in distinct):
        return tuple(sorted(distinct))
    hint = f" To predict numbers: --data-set task={REGRESSION}." if kind.startswith((*_FLOATS, "int", "uint")) else ""
    raise DataError(
        f"the column '{label}' cannot be the label: it holds neither names nor whole numbers from 0 to 99,999.{hint}"
    )


def _whole(value: Any) -> Any:
    """Return a float that is a whole number as such."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def label_numbers(table: Any, label: str, classes: tuple[str, ...]) -> Tensor:
    """Return the numbers of the classes or, without any, the numbers to predict."""
    if not classes:
        return _to_predict(table, label)
    values = [_whole(x) for x in table.data.column(label).to_pylist()]
    index = {name: i for i, name in enumerate(classes)}
    found = [index.get(x, -1) if isinstance(x, str) else x for x in values]
    for record, x in enumerate(found):
        if x is None or not 0 <= x < len(classes):
            raise DataError(f"record {record} has the label {values[record]!r}, which is none of: {listed(classes)}.")
    return torch.tensor(found, dtype=torch.int64)


def _to_predict(table: Any, label: str) -> Tensor:
    import pyarrow as pa

    try:
        values = table.data.column(label).cast(pa.float64()).to_numpy()
    except pa.ArrowException:
        raise DataError(
            f"the column '{label}' holds numbers in the training data, and others in the test data."
        ) from None
    if len(wrong := np.flatnonzero(~np.isfinite(values))):
        raise DataError(f"record {wrong[0]} has no number in the column '{label}', which is to be predicted.")
    return checked_labels(torch.from_numpy(values.copy()))


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
