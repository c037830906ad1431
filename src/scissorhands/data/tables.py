"""Tables in files: parquet, CSV, JSON lines; a file by itself, or one for each split."""

import io
import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..errors import DataError, ReadError, listed
from ..randomness import generator
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
    """Draw a share of the rows, such as 20%, and return the other rows and those drawn, each in their order."""
    try:
        count = round(float(share[:-1]) / 100 * len(table))
    except (ValueError, OverflowError):
        count = 0
    if not 0 < count < len(table):
        raise DataError(
            f"'test' is {share} of {len(table)} records, which does not leave some to train and to test on."
        )
    drawn = torch.randperm(len(table), generator=generator(0, "test"))[:count]
    mask = torch.zeros(len(table), dtype=torch.bool).index_fill(0, drawn, True)
    train, test = (table.select(some.nonzero()[:, 0].tolist()) for some in (~mask, mask))
    return in_memory(train), in_memory(test)


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
