"""An inventory: the records that a model was trained on, by key and hash, so that they keep their numbers for ever."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError, ReadError
from ..files import read_json
from .records import Array, Columns, Fetched, Records, checked_labels

_MOST_CLASSES = 1 << 31


@dataclass(frozen=True)
class Inventory:
    """What was there when a model was trained: for each record its label, a hash of its content, and its key.

    A hash is empty where the record is not there any more. Without keys, records are called by their numbers.
    `fingerprint` is that of the data at first, and stays when records are erased; `shape` is that of an input.
    """

    fingerprint: str
    shape: Sequence[int]
    labels: Sequence[float]  # whole numbers where they are classes
    hashes: Sequence[str]
    keys: Sequence[str] = ()

    @classmethod
    def of(cls, records: Records) -> "Inventory":
        """Take the inventory of what is there."""
        keys = records.keys if records.key else ()
        some = records.records if isinstance(records, Aligned) else records
        first, _ = some.fetch(torch.arange(1))
        shape = list(first.shape[1:]) if isinstance(first, Tensor) else []  # texts have no shape of their own
        return cls(records.fingerprint, shape, records.labels.tolist(), records.hashes, keys)

    @property
    def missing(self) -> Tensor:
        """Return the records that were not there any more."""
        return _places(not one for one in self.hashes)

    def having(self, keys: Collection[str], labels: Collection[float]) -> set[int]:
        """Return the records that have one of these keys or labels."""
        found = {number for number, label in enumerate(self.labels) if label in labels}
        return found | {number for number, key in enumerate(self.keys) if key in keys}

    def name(self, number: int) -> str:
        """Return what people call a record."""
        return f"'{self.keys[number]}'" if self.keys else f"record {number}"


def inventories(train: Records, test: Records) -> dict[str, Inventory]:
    """Take the inventory of training and test data; empty where their content is the user's own object."""
    known = bool(train.hashes and test.hashes)
    return {"train": Inventory.of(train), "test": Inventory.of(test)} if known else {}


def as_json(known: Mapping[str, Inventory]) -> str:
    """Return inventories by name as JSON, a line for each value of a record."""
    return json.dumps({name: vars(one) for name, one in known.items()}, indent=0, ensure_ascii=False) + "\n"


def read_inventories(path: Path) -> dict[str, Inventory]:
    """Read the inventories of training and test data."""
    try:
        found = {name: Inventory(**one) for name, one in read_json(path, dict).items()}
    except TypeError:
        found = {}
    if found.keys() != {"train", "test"} or not all(map(_is_whole, found.values())):
        raise ReadError(f"{path} cannot be read as an inventory of records.")
    return found


def _is_whole(one: Inventory) -> bool:
    kinds = ((one.shape, int), (one.labels, int | float), (one.hashes, str), (one.keys, str))
    lists = all(isinstance(values, list) and all(isinstance(x, kind) for x in values) for values, kind in kinds)
    known = lists and all((isinstance(x, float) and isfinite(x)) or 0 <= x < _MOST_CLASSES for x in one.labels)
    counts = known and len(one.labels) == len(one.hashes) and len(one.keys) in (0, len(one.labels))
    return counts and isinstance(one.fingerprint, str)


class Aligned(Records):
    """Records under the numbers that they had when a model was trained. Some may be `missing`."""

    def __init__(self, records: Records, known: Inventory, places: Tensor, missing: Tensor | None = None) -> None:
        """Take `places`: where each record of the inventory is now, or -1."""
        self.records, self.known, self.places = records, known, places
        self.classes, self.key, self.drawn_from = records.classes, records.key, records.drawn_from
        self.fingerprint = known.fingerprint
        self.missing = _places(place < 0 for place in places.tolist()) if missing is None else missing

    def as_of_then(self) -> "Aligned":
        """Return the records with nothing missing but what was missing when the inventory was taken."""
        return Aligned(self.records, self.known, self.places, self.known.missing)

    @cached_property
    def labels(self) -> Tensor:
        return checked_labels(torch.tensor(self.known.labels))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.known.keys) or tuple(map(str, range(len(self))))

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        there = (self.places >= 0).tolist()
        return tuple(one if here else "" for one, here in zip(self.known.hashes, there, strict=True))

    @property
    def columns(self) -> Columns:
        return {name: lambda read=read: self._spread(read()) for name, read in self.records.columns.items()} | {
            "label": self.labels.numpy
        }

    def _spread(self, values: Array) -> Array:
        """Give each record its value; what stands at a missing one means nothing."""
        spread: Array = values[self.places.clamp(min=0).numpy()]
        return spread

    def fetch(self, ids: Tensor) -> Fetched:
        places = self.places[ids]
        if (places < 0).any():
            gone = self.known.name(int(ids[places < 0][0]))
            raise DataError(f"{gone} is not in the data any more, so nothing that needs it can be done.")
        return self.records.fetch(places)[0], self.labels[ids]


def aligned(records: Records, known: Inventory, expected: Collection[int] = ()) -> tuple[Aligned, list[str]]:
    """Give records the numbers that they had at first, and say in words what is not as it was.

    Nothing is said of those that are `expected` to be gone, whether they are there or not.
    """
    now = Inventory.of(records)
    if list(now.shape) != list(known.shape):
        raise DataError(f"an input has the shape {list(now.shape)}, and had {list(known.shape)}: read it as before.")
    forgotten = set(expected)
    wanted: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for number in sorted(range(len(known.labels)), key=lambda number: (number not in forgotten, -number)):
        if known.hashes[number]:
            wanted[_identity(known, number)].append(number)  # of twins, the one to retain is found first
    places = torch.full((len(known.labels),), -1)
    new: dict[str, int] = {}
    for place in range(len(records)):
        if numbers := wanted[_identity(now, place)]:
            places[numbers.pop()] = place
        else:
            new[now.name(place)] = place
    found = Aligned(records, known, places)
    gone = [number for number in found.missing.tolist() if known.hashes[number]]
    said = []
    for number in gone:
        if new.pop(name := known.name(number), None) is not None:
            said.append(f"{name} has changed")
        elif number not in forgotten:
            said.append(f"{name} is not there any more")
    return found, said + [f"{name} is new" for name in new]


def _identity(inventory: Inventory, number: int) -> tuple[Any, ...]:
    key = inventory.keys[number] if inventory.keys else ""
    return key, inventory.labels[number], inventory.hashes[number]


def _places(marks: Any) -> Tensor:
    return torch.tensor([place for place, mark in enumerate(marks) if mark], dtype=torch.int64)
