"""A user's own data: a Dataset of pairs or of rows by name, or a table of Hugging Face `datasets`."""

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from ..distributed import Inputs
from ..errors import DataError, listed
from .columns import class_names, label_numbers, readers, task_of
from .listing import in_memory
from .records import MASK, Columns, Fetched, Records, checked_labels, same_length
from .streamed import Streamed

_LABELS = ("labels", "label")  # what the label of a row is called


def as_records(data: "Records | Dataset[Any]") -> Records:
    """Return records unchanged, and wrap a user's Dataset or Hugging Face table."""
    if isinstance(data, Records):
        return data
    return _from_table(data) if _is_table(data) else Foreign(data)


class Foreign(Records):
    """A user's own `torch.utils.data.Dataset`.

    A record is a pair `(input, label)`, or a row by name with its `label` or `labels`. Inputs by name become keyword
    arguments of the model. If there is an `attention_mask` among them, rows may differ in length.
    """

    def __init__(self, dataset: Any, *, drawn_from: str = "") -> None:
        if isinstance(dataset, IterableDataset) or not callable(getattr(dataset, "__len__", None)):
            raise DataError(f"a {type(dataset).__name__} cannot be indexed; forgetting needs records with numbers.")
        self.dataset = dataset
        self.drawn_from = drawn_from

    def __len__(self) -> int:
        return len(self.dataset)

    @cached_property
    def labels(self) -> Tensor:
        given = torch.cat([torch.zeros(0).long(), *(self._label(i).reshape(1) for i in range(len(self)))])
        if given.is_floating_point() and ((given == 0) | (given == 1)).all():
            raise DataError(
                "the labels are 0.0 and 1.0: give classes as whole numbers, and numbers to predict as floats."
            )
        return checked_labels(given)

    def _label(self, index: int) -> Tensor:
        try:
            _, label = _pair(self.dataset[index])
            label = torch.as_tensor(label)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"record {index} is not an (input, label) pair: {error}") from error
        if label.numel() != 1 or (not label.is_floating_point() and label.item() < 0):
            raise DataError(
                f"record {index} has the label {label.tolist()}, which is not a whole number from 0, nor a float."
            )
        return label

    def fetch(self, ids: Tensor) -> Fetched:
        if type(self.dataset) is TensorDataset:
            return self.dataset.tensors[0][ids].contiguous(), self.labels[ids]
        return _collated([_pair(row)[0] for row in self._rows(ids.tolist())]), self.labels[ids]

    def _rows(self, ids: list[int]) -> Sequence[Any]:
        """Return the records as the data set gives them; together, where it can."""
        together = getattr(self.dataset, "__getitems__", None)
        return together(ids) if together else [self.dataset[i] for i in ids]


class Table(Foreign):
    """A Hugging Face table. The columns that hold numbers are inputs; those that hold text serve for `where:`."""

    def __init__(self, table: Any, label: str, inputs: list[str]) -> None:
        super().__init__(table.select_columns([*inputs, label]))
        names = class_names(table, label, task_of(table, label))
        self._labels = label_numbers(table, label, names)
        self._columns = readers(table, "", label, names)
        self.classes = () if names == tuple(map(str, range(len(names)))) else names

    @property
    def labels(self) -> Tensor:
        return self._labels

    @property
    def columns(self) -> Columns:
        return {**super().columns, **self._columns}


def _pair(row: Any) -> tuple[Any, Any]:
    """Divide a record into its inputs and its label."""
    if not isinstance(row, Mapping):
        inputs, label = row
        return inputs, label
    named = [name for name in _LABELS if name in row]
    if len(named) != 1:
        raise ValueError(f"its label must be called {' or '.join(_LABELS)}, and it has {listed(row)}.")
    return {name: value for name, value in row.items() if name != named[0]}, row[named[0]]


def _collated(inputs: list[Any]) -> Inputs:
    """Make a batch of the inputs of some records."""
    if not isinstance(inputs[0], Mapping):
        return _stacked(inputs)
    fill = MASK in inputs[0]
    try:
        return {name: _stacked([one[name] for one in inputs], f"'{name}'", fill) for name in inputs[0]}
    except KeyError as error:
        raise DataError(f"some records have {error}, and others have not.") from None


def _stacked(values: list[Any], name: str = "inputs", fill: bool = False) -> Tensor:
    """Stack tensors, arrays or numbers; if asked to, fill up those that are shorter."""
    try:
        if not all(isinstance(x, Tensor | np.ndarray | np.generic | float | int | list | tuple) for x in values):
            raise TypeError
        tensors = [torch.as_tensor(x) for x in values]
        return torch.stack(same_length(tensors) if fill and tensors[0].dim() else tensors)
    except (TypeError, ValueError, RuntimeError):
        kinds = listed(sorted({_kind(x) for x in values}), 3)
        raise DataError(f"{name} must be tensors or arrays of one shape to make a batch; here are: {kinds}.") from None


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")


def _is_table(data: Any) -> bool:
    """Return whether it is a table of `datasets`, whose rows nobody changes as they are read."""
    library = sys.modules.get("datasets")
    return library is not None and isinstance(data, library.Dataset) and data.format["type"] != "custom"


def _from_table(table: Any) -> Records:
    """Return the records of a Hugging Face table: of its columns of numbers or, without any, of its images."""
    import datasets

    named = [name for name in _LABELS if name in table.column_names]
    if len(named) != 1:
        raise DataError(
            f"the label must be in a column {' or '.join(_LABELS)}; the table has {listed(table.column_names)}."
        )
    table, label = in_memory(table), named[0]
    rest = {name: feature for name, feature in table.features.items() if name != label}
    if inputs := [name for name, feature in rest.items() if _is_numeric(feature)]:
        return Table(table, label, inputs)
    if images := [name for name, feature in rest.items() if isinstance(feature, datasets.Image)]:
        return Streamed(table, images[0], label, class_names(table, label, task_of(table, label)), 0)
    raise DataError(f"none of the columns {listed(rest)} holds numbers: text is to be tokenized first, with table.map.")


def _is_numeric(feature: Any) -> bool:
    """Return whether a column holds numbers, or lists or arrays of them."""
    inner = getattr(feature, "feature", None)
    kind = str(getattr(feature, "dtype", ""))
    return _is_numeric(inner) if inner is not None else kind.startswith(("int", "uint", "float", "bool"))
