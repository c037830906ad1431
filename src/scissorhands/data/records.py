"""Records: labeled inputs that can be fetched by number, wherever they are kept."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from ..distributed import Batch, fetch_share
from ..errors import DataError, did_you_mean, listed

Fetched = tuple[Tensor, Tensor]  # inputs and labels
Augment = Callable[[Tensor, torch.Generator], Tensor]
Array = np.ndarray[Any, Any]
Columns = Mapping[str, Callable[[], Array]]


class Records(ABC):
    """Labeled inputs. `classes` names the labels, and is empty where nobody named them.

    `fingerprint` is a hash of the content, and is empty where the content is the user's own object. `drawn_from` names
    the table of which the records are a random draw: two draws of one table are alike. It is empty where nobody knows.
    """

    classes: tuple[str, ...] = ()
    fingerprint: str = ""
    drawn_from: str = ""

    @property
    @abstractmethod
    def labels(self) -> Tensor:
        """The label of every record, as whole numbers from 0."""

    @abstractmethod
    def fetch(self, ids: Tensor) -> Fetched:
        """Return the inputs and labels of these records."""

    @property
    def columns(self) -> Columns:
        """What is known of the records besides the input, each behind a function that reads it."""
        return {"label": self.labels.numpy}

    def wrong_labels(self, ids: Tensor, draw: torch.Generator) -> Tensor:
        """Draw a random label for each of these records, from all classes, including the true one."""
        classes = len(self.classes) or int(self.labels.max()) + 1
        return torch.randint(classes, (len(ids),), generator=draw)

    def __len__(self) -> int:
        return len(self.labels)

    def column(self, name: str) -> Array:
        """One value per record."""
        if name not in self.columns:
            raise DataError(f"the data has no column '{name}'. {did_you_mean(name, self.columns)}")
        return self.columns[name]()


class Stored(Records):
    """Records held in memory as two tensors."""

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        *,
        classes: tuple[str, ...] = (),
        columns: Columns | None = None,
        fingerprint: str = "",
        drawn_from: str = "",
    ) -> None:
        if len(inputs) != len(labels) or labels.dim() != 1 or labels.is_floating_point():
            raise DataError(f"{len(inputs)} inputs need as many labels, each a whole number.")
        self.inputs = inputs
        self._labels = labels.to(torch.int64)
        self.classes = classes
        self._columns = columns or {}
        self._fingerprint = fingerprint
        self.drawn_from = drawn_from

    @property
    def labels(self) -> Tensor:
        return self._labels

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        if self._fingerprint:
            return self._fingerprint
        digest = hashlib.sha256(repr((self.inputs.dtype, tuple(self.inputs.shape))).encode())
        digest.update(self.inputs.contiguous().view(torch.uint8).numpy().data)
        digest.update(self.labels.contiguous().numpy().data)
        return digest.hexdigest()

    @property
    def columns(self) -> Columns:
        return {**super().columns, **self._columns}

    def fetch(self, ids: Tensor) -> Fetched:
        return self.inputs[ids], self.labels[ids]


class Foreign(Records):
    """A user's own `torch.utils.data.Dataset` of `(input, label)`."""

    def __init__(self, dataset: Dataset[Any], *, drawn_from: str = "") -> None:
        if isinstance(dataset, IterableDataset) or not callable(getattr(dataset, "__len__", None)):
            raise DataError(f"a {type(dataset).__name__} cannot be indexed; forgetting needs records with numbers.")
        self.dataset = dataset
        self.drawn_from = drawn_from

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    @cached_property
    def labels(self) -> Tensor:
        return torch.cat([torch.zeros(0, dtype=torch.int64), *(self._label(i).reshape(1) for i in range(len(self)))])

    def _label(self, index: int) -> Tensor:
        try:
            _, label = self.dataset[index]
            label = torch.as_tensor(label)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"record {index} is not an (input, label) pair: {error}") from error
        if label.numel() != 1 or label.is_floating_point() or label.item() < 0:
            raise DataError(f"record {index} has the label {label.tolist()}, which is not a whole number from 0.")
        return label.to(torch.int64)

    def fetch(self, ids: Tensor) -> Fetched:
        if type(self.dataset) is TensorDataset:
            return self.dataset.tensors[0][ids].contiguous(), self.labels[ids]
        inputs = [self.dataset[int(i)][0] for i in ids]
        try:
            batch = default_collate(inputs)
        except (TypeError, RuntimeError):
            batch = None
        if not isinstance(batch, Tensor):
            kinds = listed(sorted({_kind(x) for x in inputs}), 3)
            raise DataError(f"inputs must be tensors or arrays of one shape to make a batch; here are: {kinds}.")
        return batch, self.labels[ids]


class Joined(Records):
    """Parts of several data sets as one, in their order."""

    def __init__(self, *parts: "Part") -> None:
        self.parts = parts
        self.classes = parts[0].records.classes
        self._starts = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)

    @cached_property
    def labels(self) -> Tensor:
        return torch.cat([part.labels for part in self.parts])

    def fetch(self, ids: Tensor) -> Fetched:
        inputs: Tensor | None = None
        for part, start, end in zip(self.parts, self._starts, self._starts[1:], strict=False):
            here = (ids >= start) & (ids < end)
            if here.any():
                found, _ = part.records.fetch(part.ids[ids[here] - start])
                inputs = found.new_empty(len(ids), *found.shape[1:]) if inputs is None else inputs
                inputs[here] = found
        if inputs is None:
            raise DataError("a batch needs at least one record.")
        return inputs, self.labels[ids]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(part.fingerprint.encode())
        return digest.hexdigest() if all(part.fingerprint for part in self.parts) else ""


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")


def as_records(data: "Records | Dataset[Any]") -> Records:
    """Return records unchanged, and wrap a user's Dataset."""
    return data if isinstance(data, Records) else Foreign(data)


@dataclass(frozen=True)
class Part:
    """Some of the records."""

    records: Records
    ids: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labels(self) -> Tensor:
        """The label of every record of the part."""
        return self.records.labels[self.ids]

    @property
    def fingerprint(self) -> str:
        """A hash of the content and of which records they are; empty where the content's is."""
        content = self.records.fingerprint
        return hashlib.sha256(content.encode() + self.ids.numpy().tobytes()).hexdigest() if content else ""

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the batches of one pass, in the order of the ids; each process gets its share of every batch."""
        return (fetch_share(self.records.fetch, ids) for ids in self.ids.split(size))


def one_table(records: Records, other: Records) -> bool:
    """Return whether both are known to be random draws of one table."""
    return records is other or (records.drawn_from != "" and records.drawn_from == other.drawn_from)


def same(part: Part, other: Part) -> bool:
    """Return whether two parts are the same records in the same order."""
    return part.records is other.records and torch.equal(part.ids, other.ids)
