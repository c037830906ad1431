"""Records: labeled inputs that can be fetched by number, wherever they are kept."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..distributed import Batch, Inputs, fetch_share
from ..errors import DataError, did_you_mean

Fetched = tuple[Inputs, Tensor]  # inputs and labels
_RECORDS = "records"  # what a cached file calls those that it was made from
MASK = "attention_mask"  # the name of an input that says where a text ends
Augment = Callable[[Tensor, torch.Generator], Tensor]
Array = np.ndarray[Any, Any]
Columns = Mapping[str, Callable[[], Array]]


class Records(ABC):
    """Labeled inputs. `classes` names the labels, and is empty where nobody named them, or where labels are numbers.

    `fingerprint` is a hash of the content, and is empty where the content is the user's own object. `drawn_from` names
    the table of which the records are a random draw: two draws of one table are alike. It is empty where nobody knows.
    `key` says what `keys` are: the `path` of an image below its data folder, the name of a column, or, where it is
    empty, the number of the record. `missing` are records that were there once, and cannot be fetched any more.
    """

    classes: tuple[str, ...] = ()
    fingerprint: str = ""
    drawn_from: str = ""
    key: str = ""
    missing: Tensor = torch.zeros(0, dtype=torch.int64)

    @property
    @abstractmethod
    def labels(self) -> Tensor:
        """The label of every record: its class, as a whole number from 0, or the number to predict, as a float."""

    @abstractmethod
    def fetch(self, ids: Tensor) -> Fetched:
        """Return the inputs and labels of these records."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Return what people call each record; records may share a key, such as that of a customer."""
        return tuple(map(str, range(len(self))))

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """Return a hash of the content of each record; empty where the content is the user's own object."""
        return ()

    @property
    def columns(self) -> Columns:
        """What is known of the records besides the input, each behind a function that reads it."""
        return {"label": self.labels.numpy}

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers to predict, and not classes."""
        return self.labels.is_floating_point()

    @property
    def groups(self) -> Tensor:
        """The class of every record; where labels are numbers to predict, all are of one."""
        return torch.zeros(len(self), dtype=torch.int64) if self.regression else self.labels

    def wrong_labels(self, ids: Tensor, draw: torch.Generator) -> Tensor:
        """Draw a random label for each of these records, from all classes, including the true one.

        Where labels are numbers to predict, it is the label of a random record.
        """
        if self.regression:
            return self.labels[torch.randint(len(self), (len(ids),), generator=draw)]
        classes = len(self.classes) or int(self.labels.max()) + 1
        return torch.randint(classes, (len(ids),), generator=draw)

    def __len__(self) -> int:
        return len(self.labels)

    def column(self, name: str) -> Array:
        """One value per record."""
        if name not in self.columns:
            raise DataError(f"the data has no column '{name}'. {did_you_mean(name, self.columns)}")
        return self.columns[name]()


def content_hash(content: Any) -> str:
    """Return a short hash of the content of a record.

    >>> content_hash(b"a photo")
    'd4e24d749a4fe2f1'
    """
    return hashlib.sha256(content).hexdigest()[:16]


def held(hashes: Sequence[str]) -> dict[str, str]:
    """Return what a cached file says of itself: from which records it was made."""
    return {_RECORDS: " ".join(hashes)}


def held_by(metadata: Mapping[str, str]) -> set[str]:
    """Return the hashes of the records that a cached file says it was made from; empty if it does not say.

    >>> sorted(held_by(held(["9f86", "d081"])))
    ['9f86', 'd081']
    """
    return {*metadata.get(_RECORDS, "").split()}


def checked_labels(labels: Tensor) -> Tensor:
    """Return labels as 64-bit whole numbers, or as 32-bit floats; refuse one that is not finite.

    >>> checked_labels(torch.tensor([2, 0], dtype=torch.uint8)), checked_labels(torch.tensor([2.5]).double())
    (tensor([2, 0]), tensor([2.5000]))
    """
    if not labels.is_floating_point():
        return labels.to(torch.int64)
    found = labels.to(torch.float32)
    if len(wrong := (~found.isfinite()).nonzero()):
        raise DataError(
            f"record {int(wrong[0])} has the label {float(labels[wrong[0]])}, which is no number to predict."
        )
    return found


def one_line(key: object) -> str:
    r"""Return a key as one line of text, in which control characters are escaped.

    >>> one_line("a\tb"), one_line(17)
    ('a\\tb', '17')
    """
    text = str(key)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


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
        keys: Sequence[str] | None = None,
        key: str = "",
        hashes: Sequence[str] = (),
    ) -> None:
        if len(inputs) != len(labels) or labels.dim() != 1:
            raise DataError(f"{len(inputs)} inputs need as many labels, each a number.")
        self.inputs = inputs
        self._labels = checked_labels(labels)
        self.classes = classes
        self._columns = columns or {}
        self._fingerprint = fingerprint
        self.drawn_from = drawn_from
        if keys is not None:
            if len(keys) != len(labels):
                raise DataError(f"{len(labels)} records need as many keys, not {len(keys)}.")
            self.keys, self.key = tuple(map(one_line, keys)), key
        if hashes:
            self.hashes = tuple(hashes)

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

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        rows = self.inputs.reshape(len(self.inputs), -1).contiguous().view(torch.uint8).numpy()
        return tuple(content_hash(row.data) for row in rows)

    @property
    def columns(self) -> Columns:
        return {**super().columns, **self._columns}

    def fetch(self, ids: Tensor) -> Fetched:
        return self.inputs[ids], self.labels[ids]


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
        places, found = [], []
        for part, start, end in zip(self.parts, self._starts, self._starts[1:], strict=False):
            here = (ids >= start) & (ids < end)
            if here.any():
                places.append(here)
                found.append(part.records.fetch(part.ids[ids[here] - start])[0])
        if not found:
            raise DataError("a batch needs at least one record.")
        return _merged(places, found), self.labels[ids]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(part.fingerprint.encode())
        return digest.hexdigest() if all(part.fingerprint for part in self.parts) else ""


def same_length(texts: Sequence[Tensor]) -> list[Tensor]:
    """Fill up shorter rows with zeros at their end; a mask tells the model what is no text.

    >>> same_length([torch.tensor([5, 6, 7]), torch.tensor([8])])
    [tensor([5, 6, 7]), tensor([8, 0, 0])]
    """
    longest = max(text.shape[-1] for text in texts)
    return [F.pad(text, (0, longest - text.shape[-1])) for text in texts]


def _merged(places: Sequence[Tensor], found: Sequence[Any]) -> Inputs:
    """Put the inputs of some records into the places that each mask marks."""
    if not isinstance(found[0], Mapping):
        merged = found[0].new_empty(len(places[0]), *found[0].shape[1:])
        for here, inputs in zip(places, found, strict=True):
            merged[here] = inputs
        return merged
    by_name = {name: [inputs[name] for inputs in found] for name in found[0]}
    if MASK in by_name:
        by_name = {name: same_length(several) for name, several in by_name.items()}
    return {name: _merged(places, several) for name, several in by_name.items()}


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
    def groups(self) -> Tensor:
        """The class of every record of the part; where labels are numbers to predict, all are of one."""
        return self.records.groups[self.ids]

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
