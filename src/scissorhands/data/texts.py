"""Texts as records: the tokens that a model reads, filled up to the longest text of a batch."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError
from .columns import label_numbers, readers, text_column
from .keys import column_keys
from .readers import Kind, Reading
from .records import Columns, Fetched, Records, content_hash, same_length

Rows = Mapping[str, Sequence[Sequence[int]]]  # by name, the numbers of each text
Encode = Callable[[Sequence[str]], Rows]

_TOGETHER = 1000  # texts that are encoded at once


class Texts(Records):
    """Texts as the numbers of their tokens, by the names of a model's inputs."""

    def __init__(self, rows: Rows, labels: Tensor, classes: tuple[str, ...], columns: Columns) -> None:
        self._rows = {name: [torch.tensor(row, dtype=torch.int32) for row in several] for name, several in rows.items()}
        self._labels, self.classes, self._columns = labels, classes, columns

    @property
    def labels(self) -> Tensor:
        return self._labels

    @property
    def columns(self) -> Columns:
        return {**super().columns, **self._columns}

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        rows = zip(*self._rows.values(), strict=True)
        return tuple(content_hash(torch.cat(row).numpy().data) for row in rows)

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        return hashlib.sha256("".join(self.hashes).encode() + self.labels.numpy().tobytes()).hexdigest()

    def fetch(self, ids: Tensor) -> Fetched:
        chosen = {name: [rows[i].long() for i in ids.tolist()] for name, rows in self._rows.items()}
        return {name: torch.stack(same_length(rows)) for name, rows in chosen.items()}, self.labels[ids]


def text_kind(encode: Encode) -> Kind:
    """Return the kind of data that are texts, read by a model's own tokenizer."""

    def read(table: Any, reading: Reading) -> Records:
        label, key = reading.label, reading.settings["key"]
        column = text_column(reading.first, reading.settings["text"], (label, key))
        texts = table.data.column(column).to_pylist()
        if missing := [number for number, text in enumerate(texts) if not isinstance(text, str)]:
            raise DataError(f"record {missing[0]} has no text in the column '{column}'.")
        rows: dict[str, list[Sequence[int]]] = {}
        for start in range(0, len(texts), _TOGETHER):
            for name, some in encode(texts[start : start + _TOGETHER]).items():
                rows.setdefault(name, []).extend(some)
        columns = readers(table, "", label, reading.classes)
        records = Texts(rows, label_numbers(table, label, reading.classes), reading.classes, columns)
        if key:
            records.keys, records.key = column_keys(table, key), key
        return records

    return Kind("texts", read)
