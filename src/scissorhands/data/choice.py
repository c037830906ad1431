"""What to forget, as a value of Python: a string, ids or keys, a mask, or a function of rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, given
from .forget import NOTHING, Forget, some_of
from .keys import find
from .records import Records

Row = Mapping[str, Any]
What = str | Forget | Iterable[int] | Iterable[str] | Callable[[Row], bool]


@dataclass(frozen=True)
class Choice:
    """Records that were chosen in Python; it answers as a Forget does."""

    what: Any
    drawn = False

    def ids(self, records: Records, among: Tensor, seed: int = 0, before: Tensor = NOTHING) -> Tensor:
        """Return the sorted numbers of the records to forget, out of those that the model was trained on (`among`)."""
        if callable(self.what):
            return some_of(among, _fulfilling(self.what, records, among), "the function that chooses what to forget")
        values = self.what.tolist() if isinstance(self.what, Tensor | np.ndarray) else list(self.what)
        if values and all(isinstance(value, str) for value in values):
            found = find(values, records, among, before=before)
        elif values and all(isinstance(value, bool) for value in values):
            found = _marked(values, records, among)
        else:
            found = _numbered(values, records, among)
        return some_of(among, found, "what to forget")


def asked(what: What) -> "Forget | Choice":
    """Return a Forget of what says in any way what to forget."""
    if isinstance(what, Forget | Choice):
        return what
    if isinstance(what, str):
        return Forget(what)
    if not callable(what) and not isinstance(what, Iterable):
        raise DataError(f"what to forget is a text such as 'class:3', ids, keys or a function, not {given(what)}.")
    return Choice(what if callable(what) or isinstance(what, Tensor | np.ndarray) else list(what))


class _Row(Mapping[str, Any]):
    """What the columns say of one record; a column is read when it is asked for."""

    def __init__(self, columns: Mapping[str, Callable[[], Any]], number: int) -> None:
        self._columns, self._number = columns, number

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]()[self._number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _fulfilling(test: Callable[[Row], bool], records: Records, among: Tensor) -> Tensor:
    """Return the records for whose row of columns the function is true; `key` is one of the columns."""
    columns: dict[str, Callable[[], Any]] = {name: cache(read) for name, read in records.columns.items()}
    columns["key"] = lambda: records.keys
    rows = (_Row(columns, i) for i in among.tolist())
    return among[torch.tensor([bool(test(row)) for row in rows], dtype=torch.bool)]


def _marked(marks: list[bool], records: Records, among: Tensor) -> Tensor:
    if len(marks) != len(records):
        raise DataError(f"{len(marks)} marks (true or false) are not one for each of the {len(records)} records.")
    return among[torch.tensor(marks)[among]]


def _numbered(values: Iterable[Any], records: Records, among: Tensor) -> Tensor:
    try:
        numbers = sorted({index(value) for value in values})
    except TypeError:
        raise DataError("what to forget must be ids, which are whole numbers, or keys, which are texts.") from None
    trained = set(among.tolist())
    if wrong := [number for number in numbers if number not in trained]:
        inside = 0 <= wrong[0] < len(records)
        reason = "is not in the model: it was held out, or forgotten before" if inside else "is no record of the data"
        raise DataError(f"{wrong[0]} is to be forgotten, and {reason}.")
    return torch.tensor(numbers, dtype=torch.int64)
