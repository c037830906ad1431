"""Tables in files: parquet, CSV, JSON lines; a file by itself, or one for each split."""

import io
import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..errors import DataError, ReadError, listed
from .listing import SPLITS, Splits, dataset, has_ending, in_memory, in_order, reason
from .parquet import read_parquet

_PLAIN = (".csv", ".jsonl")
_ENDINGS = (".parquet", *_PLAIN)


def is_table(path: str) -> bool:
    return any(has_ending(ending, path) for ending in _ENDINGS)


def table_splits(root: str, paths: Iterable[str], memory: float, key: str = "") -> Splits:
    """Return the splits that these files make, each behind a function that reads it.

    The column `key` of a CSV file is read as it is written, so that a key such as 007 keeps its zeros.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        found.setdefault(_split_of(path, root), []).append(path)
    for name, shards in found.items():
        if len(homes := {os.path.dirname(path) for path in shards}) > 1:
            raise DataError(
                f"{root} holds parquet files of '{name}' in {len(homes)} folders: {listed(sorted(homes))}. Give one."
            )
        if len(shards) > 1 and not all(has_ending(".parquet", path) for path in shards):
            raise DataError(f"'{name}' is in {len(shards)} files: {listed(shards)}. Keep one, or write parquet files.")
    first = found.get("train", next(iter(found.values())))[0]
    return {name: partial(_read, found[name], first, memory, key) for name in in_order(found)}


def one_table(path: str, memory: float, key: str = "") -> Any:
    """Return the table in a file."""
    return _read([path], path, memory, key)


def divided(table: Any, share: str) -> tuple[Any, Any]:
    """Take a share of the rows, such as 20%, and return the other rows and these, each in their order.

    Which they are depends on the content of each alone, so a row that is erased moves no other.
    """
    try:
        most = float(share[:-1]) / 100
    except ValueError:
        most = 0.0
    taken = _scattered(table) < most
    if not taken.any() or taken.all():
        raise DataError(f"'test' is {share} of {len(table)} records, which does not leave some for both.")
    rest, test = (in_memory(table.select(np.flatnonzero(some))) for some in (~taken, taken))
    return rest, test


def _scattered(table: Any) -> Any:
    """Return a number from 0 to 1 for each row, by a hash of it."""
    import pandas as pd

    columns = {name: _hashable(table.data.column(name)) for name in table.column_names}
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy() / 2.0**64


def _hashable(column: Any) -> Any:
    """Return a column as numbers, or as texts; of images, their bytes or the ends of their paths."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return column.to_numpy().astype(np.float64)  # a gap that is filled must not make other numbers of a column
    return [str(Path(x["path"]).parts[-2:] if _is_file(x) else x) for x in column.to_pylist()]


def _is_file(value: Any) -> bool:
    return isinstance(value, dict) and not value.get("bytes") and isinstance(value.get("path"), str)


def read_plain(path: str, what: str, key: str = "") -> Any:
    """Read an Arrow table from a CSV, JSON lines or parquet file into memory; `what` says what it should be."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.json
    import pyarrow.parquet as pq

    try:
        content = files.read_bytes(Path(path))
        if has_ending(".csv", path):
            types = {key: str} if key else None
            return pa.Table.from_pandas(pd.read_csv(io.BytesIO(content), dtype=types), preserve_index=False)
        if has_ending(".jsonl", path):
            whole = pa.json.ReadOptions(block_size=len(content) + 1)
            return pa.json.read_json(io.BytesIO(content), read_options=whole)
        return pq.read_table(io.BytesIO(content))
    except (ReadError, pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read as {what}: {reason(error)}.") from None


def _read(paths: list[str], first: str, memory: float, key: str) -> Any:
    """Read the table in these files, with the columns of the first file of all if they are parquet."""
    import datasets

    if has_ending(".parquet", paths[0]):
        return read_parquet(paths, first if has_ending(".parquet", first) else paths[0], memory)
    table = read_plain(paths[0], "a table", key).replace_schema_metadata(None)
    try:
        return dataset(table, datasets.Features.from_arrow_schema(table.schema))
    except (ValueError, TypeError) as error:  # such as a column without a name
        raise DataError(f"{paths[0]} cannot be read as a table: {reason(error)}.") from None


def _split_of(path: str, root: str) -> str:
    """Return the split of a file, by its folder or by a word of its name: `train-00000-of-00002`."""
    home, stem = os.path.basename(os.path.dirname(path)), os.path.splitext(os.path.basename(path))[0]
    home, stem = home.casefold(), stem.casefold()
    if os.path.dirname(path) != root and home in SPLITS:
        return SPLITS[home]
    named = {SPLITS[word] for word in re.split(r"[-._ 0-9]+", stem) if word in SPLITS}
    if len(named) > 1:
        raise DataError(f"{path} could belong to {listed(sorted(named))}: name it after one of them.")
    return named.pop() if named else re.sub(r"-\d{5}-of-\d{5}.*$", "", stem)
