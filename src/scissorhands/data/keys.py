"""Keys: what people call records, such as the path of a file or the number of a customer."""

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError, did_you_mean, listed
from .records import Records, one_line

PATH = "path"  # what keys are in a folder of images
_MOST_GUESSED = 5000  # keys among which a similar one is looked for: comparing takes time


def image_paths(table: Any, image: str, root: str) -> tuple[str, ...]:
    """Return the path of each image below the folder `root`; none where the table holds the images itself."""
    paths = [path for chunk in table.data.column(image).chunks for path in chunk.field("path").to_pylist()]
    inside = all(path and os.path.isabs(path) and path.startswith(root + os.sep) for path in paths)
    return tuple(one_line(os.path.relpath(path, root)) for path in paths) if root and inside else ()


def column_keys(table: Any, column: str) -> tuple[str, ...]:
    """Return the values of a column as keys; a missing value is an empty key, which nothing names."""
    import pyarrow as pa

    if column not in table.column_names:
        raise DataError(
            f"the data has no column '{column}' to take keys from. {did_you_mean(column, table.column_names)}"
        )
    values = table.data.column(column)
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        raise DataError(f"the column '{column}' holds {values.type}, which cannot be keys.")
    return tuple("" if x is None else one_line(x) for x in values.cast(pa.string()).to_pylist())


def listed_keys(text: str) -> dict[str, str]:
    r"""Return the keys of a list, one in each line; and of each, whose it is, where that stands before a tab.

    A list that a run wrote has numbers there, which say nothing.

    >>> listed_keys("a.png\n7\tb.png\nrequest 2\tc.png\n")
    {'a.png': '', 'b.png': '', 'c.png': 'request 2'}
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        whose, _, key = line.rpartition("\t")
        if key := one_line(key.strip()):
            found.setdefault(key, "" if whose.isdecimal() else whose)
    return found


def names_of(key: str, path: bool) -> list[str]:
    """Return the names by which people may call a record: its key, and if that is a path, the ends of it.

    >>> names_of("train/cat/1.png", path=True)
    ['train/cat/1.png', 'cat/1.png', '1.png']
    """
    parts = key.split("/") if path else [key]
    return ["/".join(parts[number:]) for number in range(len(parts))]


def find(
    names: Iterable[str],
    records: Records,
    among: Tensor,
    *,
    before: Tensor,
    skip: bool = False,
    where: str = "the list",
) -> Tensor:
    """Return those of `among` that these keys name; a file may be named without its folders where that is unique.

    A key that names none of them is refused with the reason, or, with `skip`, passed over. `before` are records that
    were forgotten earlier; `where` says where the keys were given. A mapping says of each whose it is.
    """
    whose = names if isinstance(names, Mapping) else {}
    asked = list(dict.fromkeys(filter(None, (one_line(name.strip()) for name in names))))
    index = _Index(records)
    trained, earlier = set(among.tolist()), set(before.tolist())
    found: set[int] = set()
    unknown, missing = list[str](), list[str]()
    for name in asked:
        said = f"'{name}' of {whose[name]}" if whose.get(name) else f"'{name}'"
        ids = index.find(name, said)
        if here := trained.intersection(ids):
            found |= here
        else:
            (missing if ids else unknown).append(f"{said} {index.why(name, ids, earlier)}")
    if not skip and (why := [*unknown, *missing]):
        which = f"{len(why)} of {len(asked)} keys{f' in {where}' if where else ''} name no record that the model knows"
        raise DataError(f"{which}: {listed(why, 6)}. Correct them, or go on without them: --missing skip.")
    return torch.tensor(sorted(found), dtype=torch.int64)


class _Index:
    """Records by key, and files by name."""

    def __init__(self, records: Records) -> None:
        self.by_key: dict[str, list[int]] = {}
        self.missing = set(records.missing.tolist())
        for number, key in enumerate(records.keys):
            self.by_key.setdefault(key, []).append(number)
        self.by_file: Mapping[str, Sequence[str]] = {}
        if records.key == PATH:
            files: dict[str, list[str]] = {}
            for key in self.by_key:
                files.setdefault(PurePath(key).name, []).append(key)
            self.by_file = files

    def find(self, name: str, said: str) -> list[int]:
        """Return the records of this name; refuse one that several files have."""
        if name in self.by_key:
            return self.by_key[name]
        ends = [key for key in self.by_file.get(PurePath(name).name, ()) if key.endswith(f"/{name}")]
        if len(ends) > 1:
            raise DataError(
                f"{said} names {len(ends)} files: {listed(ends, 4)}. Give the path of the one that is meant."
            )
        return self.by_key[ends[0]] if ends else []

    def why(self, name: str, ids: Sequence[int], before: set[int]) -> str:
        """Say why a name stands for nothing that can be forgotten."""
        if before.intersection(ids):
            return "was forgotten before, or left out of training"
        if self.missing.issuperset(ids) and ids:
            return "is not there any more"
        if ids:
            return "was held out of training"
        near: Iterable[str] = self.by_file.get(PurePath(name).name, ())
        if not near and len(self.by_key) <= _MOST_GUESSED:
            near = get_close_matches(name, [*self.by_key, *self.by_file], n=1)
        guess = next(iter(near), "")
        return "is not in the data" + (f" (Did you mean '{guess}'?)" if guess else "")
