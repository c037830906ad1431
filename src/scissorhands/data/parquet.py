"""Parquet files."""

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .. import files
from ..errors import DataError, FailedError, ScissorhandsError, listed
from .listing import dataset, reason


def read_parquet(paths: list[str], first: str, memory: float) -> Any:
    """Read the table in these files, with the columns of the first file of all."""
    import datasets
    import pyarrow as pa

    try:
        with _opened(first) as file:
            features = datasets.Features.from_arrow_schema(file.schema_arrow)
        size, rows = 0, 0
        for path in paths:
            with _opened(path) as file:
                _require_same_classes(path, datasets.Features.from_arrow_schema(file.schema_arrow), features)
                groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
                size += sum(group.total_byte_size for group in groups)
                rows += file.metadata.num_rows
        hold = pa.Table.from_batches if size <= memory * 2**30 else _on_disk
        table = hold(_batches(paths, features.arrow_schema), features.arrow_schema)
    except ScissorhandsError:
        raise
    except Exception as error:  # pyarrow and datasets raise a dozen kinds, none of them ours
        home = os.path.dirname(paths[0])
        raise DataError(f"the folder {home} cannot be read as a data set: {reason(error)}.") from None
    if len(table) != rows:
        raise DataError(f"{os.path.dirname(paths[0])} should have {rows} records, but has {len(table)}.")
    return dataset(table, features)


def _require_same_classes(path: str, own: Mapping[str, Any], features: Mapping[str, Any]) -> None:
    """Refuse a file that numbers the classes in another order than the first one."""
    for name, feature in features.items():
        known, others = (getattr(one, "names", None) for one in (feature, own.get(name)))
        if known and others and known != others:
            raise DataError(f"{path} numbers the classes of '{name}' unlike the first file: {listed(others)}.")


def _opened(path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.OSFile(path))


def _batches(paths: Iterable[str], schema: Any) -> Iterator[Any]:
    import pyarrow as pa
    from datasets.table import table_cast

    for path in paths:
        with _opened(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from table_cast(pa.Table.from_batches([batch]), schema).to_batches()


def _on_disk(batches: Iterable[Any], schema: Any) -> Any:
    """Write the table to a mapped file without a name, so that it is gone when the process is."""
    import pyarrow as pa

    place = files.cache("tables")
    try:
        files.private_folder(place)
        with tempfile.TemporaryFile(dir=place) as file:
            with pa.ipc.new_stream(file, schema) as stream:
                for batch in batches:
                    stream.write_batch(batch)
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        if error.errno is None:  # pyarrow's, about what is read
            raise
        raise FailedError(
            f"cannot unpack the data, which exceed the memory given, in {place}: {error.strerror}."
        ) from None
    return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()
