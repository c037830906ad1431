"""What lies in a data folder: parquet files by split, or images by split and class.

Nothing is guessed from a pattern, and nothing is left out in silence: what is listed is what is loaded, or it is named
in an error. No copy of the data outlives the process.
"""

import io
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from .. import files
from ..errors import DataError, FailedError, ReadError, ScissorhandsError, listed

Splits = Mapping[str, Callable[[], Any]]

# The names that the Hugging Face hub uses.
_SPLITS = (
    dict.fromkeys(("train", "training"), "train")
    | dict.fromkeys(("validation", "valid", "val", "dev"), "validation")
    | dict.fromkeys(("test", "testing", "eval", "evaluation"), "test")
)
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_LITTER = {".ds_store", "thumbs.db", "desktop.ini", ".directory", ".gitkeep", ".git", ".cache"}
_LAYOUT = "Lay images out as FOLDER/train/CLASS/image and FOLDER/test/CLASS/image"


def splits(folder: Path, memory: float) -> Splits:
    """The splits of a folder in order of their names, train first, each behind a function that reads it.

    A table of more than `memory` GiB is kept on disk while it is used.
    """
    root = str(folder.resolve())
    _require_text(root)
    folders, paths = _entries(root)
    top = [*paths, *(path for inner in folders for path in _entries(inner)[1])]
    shards = [path for path in top if _is(".parquet", path) and os.path.basename(path) not in _METADATA]
    if not shards:
        return _image_splits(root)
    if images := [path for path in top if _is_image(path)]:
        raise DataError(
            f"{root} holds both {_below(shards[0], root)} and {_below(images[0], root)}: keep parquet files and "
            "images in folders of their own."
        )
    return _parquet_splits(root, shards, memory)


# files


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """The folders and the files in a folder, without the litter that systems leave there."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {error.strerror}.") from None
    folders, paths = [], []
    for entry in entries:
        if entry.name.lower() in _LITTER or entry.name.startswith("._"):
            continue
        _require_text(entry.path)
        if _is_folder(entry):
            folders.append(entry.path)
        else:
            paths.append(entry.path)
    return folders, paths


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or a regular file; anything else is refused."""
    regular = False
    with suppress(OSError):  # a link that leads to itself
        if entry.is_dir():
            if entry.is_symlink():
                raise DataError(f"{entry.path} is a link to a folder: put the folder itself there.")
            if entry.name.startswith("."):
                raise DataError(f"the folder {entry.path} is hidden: rename it if it is a class, or remove it.")
            return True
        regular = entry.is_file()
    if not regular:
        raise DataError(f"{entry.path} cannot be read: it is neither a folder nor a regular file.")
    return False


def _require_text(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise DataError(f"{path!a} has a name that is not UTF-8: rename it.") from None


def _is(ending: str, path: str) -> bool:
    return path.lower().endswith(ending)


def _is_image(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _image_endings()


@cache
def _image_endings() -> frozenset[str]:
    from datasets.packaged_modules.imagefolder.imagefolder import ImageFolder

    return frozenset(ImageFolder.EXTENSIONS)


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")


def _below(path: str, root: str) -> str:
    return os.path.relpath(path, root)


# parquet


def _parquet_splits(root: str, paths: Iterable[str], memory: float) -> Splits:
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        found.setdefault(_split_of(path, root), []).append(path)
    for name, shards in found.items():
        if len(homes := {os.path.dirname(path) for path in shards}) > 1:
            raise DataError(
                f"{root} holds parquet files of '{name}' in {len(homes)} folders: {listed(sorted(homes))}. Give one."
            )
    first = found.get("train", next(iter(found.values())))[0]
    return {name: partial(_parquet, found[name], first, memory) for name in _in_order(found)}


def _split_of(path: str, root: str) -> str:
    """The split that a parquet file belongs to, by its folder or by a word of its name: `train-00000-of-00002`."""
    home, stem = os.path.basename(os.path.dirname(path)), os.path.basename(path)[: -len(".parquet")]
    home, stem = home.casefold(), stem.casefold()
    if os.path.dirname(path) != root and home in _SPLITS:
        return _SPLITS[home]
    named = {_SPLITS[word] for word in re.split(r"[-._ 0-9]+", stem) if word in _SPLITS}
    if len(named) > 1:
        raise DataError(f"{path} could belong to {listed(sorted(named))}: name it after one of them.")
    return named.pop() if named else re.sub(r"-\d{5}-of-\d{5}.*$", "", stem)


def _in_order(names: Iterable[str]) -> list[str]:
    usual = ("train", "validation", "test")
    return sorted(names, key=lambda name: (usual.index(name) if name in usual else len(usual), name))


def _parquet(paths: list[str], first: str, memory: float) -> Any:
    """The table in these files, with the columns of the first file of all."""
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
        raise DataError(f"the folder {home} cannot be read as a data set: {_reason(error)}.") from None
    if len(table) != rows:
        raise DataError(f"{os.path.dirname(paths[0])} promises {rows} records and holds {len(table)}.")
    return _dataset(table, features)


def _require_same_classes(path: str, own: Mapping[str, Any], features: Mapping[str, Any]) -> None:
    """Refuse a file that numbers the classes in another order than the first one."""
    for name, feature in features.items():
        known, others = (getattr(one, "names", None) for one in (feature, own.get(name)))
        if known and others and known != others:
            raise DataError(f"{path} numbers the classes of '{name}' otherwise than the first file: {listed(others)}.")


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
    """The table in a mapped file that has no name, so that it is gone when the process is."""
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


def _dataset(table: Any, features: Any) -> Any:
    """A Hugging Face table of one in memory; with a fingerprint, or it would hash the data."""
    import datasets

    return datasets.Dataset(table, info=datasets.DatasetInfo(features=features), fingerprint="local")


# images


def _image_splits(root: str) -> Splits:
    places = _places(root)
    described = {name: _metadata_file(place) for name, place in places.items()}
    if all(described.values()):
        tables = {name: _described(place, str(described[name]), root) for name, place in places.items()}
        if len({tuple(table.column_names) for table in tables.values()}) > 1:
            raise DataError(f"the metadata of the splits of {root} have different columns: make them alike.")
        return {name: partial(tables.get, name) for name in _in_order(tables)}
    if any(described.values()):
        raise DataError(f"{root} has metadata in some splits only: give each split a file of its own.")
    found = {name: _by_class(place, root) for name, place in places.items()}
    classes = sorted({name for images in found.values() for name in images})
    if not classes:
        raise DataError(f"the folder {root} cannot be read as a data set: it holds no images. {_LAYOUT}.")
    if empty := [name for name in classes if not any(images.get(name) for images in found.values())]:
        raise DataError(f"the class '{empty[0]}' of {root} holds no image: fill its folder, or remove it.")
    if len(classes) == 1:
        raise DataError(f"{root} has one class only, '{classes[0]}': there must be two or more. {_LAYOUT}.")
    return {name: partial(_labelled, found[name], classes) for name in _in_order(found)}


def _places(root: str) -> dict[str, str]:
    """The folder of each split; the folder itself is train where it is not divided.

    Sub-folders are splits where all are called so and hold folders. Some that merely might be are refused.
    """
    folders = _entries(root)[0]
    named = [folder for folder in folders if os.path.basename(folder).casefold() in _SPLITS]
    divided = [folder for folder in named if _may_be_split(folder)]
    if not named or (not divided and len(named) < len(folders)):
        return {"train": root}
    if divided != folders:
        names = listed(map(os.path.basename, folders))
        raise DataError(f"the folders in {root} ({names}) could be splits or classes. {_LAYOUT}, with no other folder.")
    if _metadata_file(root):
        raise DataError(f"{_metadata_file(root)} describes no split: put metadata into the folder of each split.")
    places: dict[str, str] = {}
    for folder in folders:
        name = _SPLITS[os.path.basename(folder).casefold()]
        if name in places:
            raise DataError(f"{places[name]} and {folder} are both the split '{name}': keep one.")
        places[name] = folder
    return places


def _may_be_split(folder: str) -> bool:
    folders, paths = _entries(folder)
    return bool(_metadata_file(folder)) or (bool(folders) and not any(map(_is_image, paths)))


def _by_class(place: str, root: str) -> dict[str, list[str]]:
    """The images of each class of a split, wherever in its folder they lie."""
    folders, paths = _entries(place)
    if loose := [path for path in paths if _is_image(path)]:
        raise DataError(f"{loose[0]} lies in no class folder. {_LAYOUT}.")
    return {os.path.basename(folder): list(_images(folder, root)) for folder in folders}


def _images(folder: str, root: str) -> Iterator[str]:
    """The images in a folder and in those inside it. Anything else is refused, and so is what leads out of the data."""
    waiting = [folder]
    while waiting:
        folders, paths = _entries(waiting.pop())
        waiting += folders
        for path in paths:
            if not _is_image(path) or os.path.basename(path).startswith("."):
                raise DataError(f"{path} is not an image: keep nothing else in the folders of images.")
            yield _within(path, root)


def _within(path: str, root: str) -> str:
    if os.path.islink(path) and not Path(path).resolve().is_relative_to(root):
        raise DataError(f"{path} is a link that leads out of the data folder: put the file itself there.")
    return path


def _labelled(images: Mapping[str, list[str]], classes: list[str]) -> Any:
    """A table of images and labels, in the order of the paths."""
    import datasets
    import pyarrow as pa

    labels = {path: number for number, name in enumerate(classes) for path in images.get(name, ())}
    paths = sorted(labels)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=classes)})
    columns = {"image": _paths(paths), "label": pa.array([labels[path] for path in paths], pa.int64())}
    return _dataset(pa.table(columns), features)


def _paths(paths: list[str | None] | list[str]) -> Any:
    """A column of images that holds their paths and no bytes."""
    import pyarrow as pa

    return pa.StructArray.from_arrays(
        [pa.nulls(len(paths), pa.binary()), pa.array(paths, pa.string())], names=["bytes", "path"]
    )


# images with metadata


def _metadata_file(place: str) -> str:
    found = [path for path in _entries(place)[1] if os.path.basename(path) in _METADATA]
    if len(found) > 1:
        raise DataError(f"{place} holds {listed(map(os.path.basename, found))}: keep one of them.")
    return found[0] if found else ""


def _described(place: str, metadata: str, root: str) -> Any:
    """A table with a row per line of the metadata, whose `file_name` (or `…_file_name`) is an image."""
    import datasets
    import pyarrow as pa

    folders, beside = _entries(place)
    there = {_within(path, root) for path in beside if _is_image(path)}
    there |= {path for folder in folders for path in _images(folder, root)}
    table = _read_metadata(metadata).replace_schema_metadata(None)
    features, columns = dict(datasets.Features.from_arrow_schema(table.schema)), {}
    named: set[str] = set()
    for name in table.column_names:
        kind = table.schema.field(name).type
        if re.fullmatch(r"(.*_)?file_name", name) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            image = name.removesuffix("file_name").removesuffix("_") or "image"
            paths = [x and os.path.normpath(os.path.join(place, x)) for x in table[name].to_pylist()]
            named |= {path for path in paths if path}
            columns[image], features[image] = _paths(paths), datasets.Image()
        else:
            columns[name] = table[name]
    if not named:
        raise DataError(f"{metadata} needs a column 'file_name' that names the images.")
    for wrong, says in ((named - there, "names {}, which is no image there"), (there - named, "does not name {}")):
        if wrong:
            raise DataError(f"{metadata} {says.format(_below(min(wrong), place))}: make the two agree.")
    return _dataset(pa.table(columns), datasets.Features({name: features[name] for name in columns}))


def _read_metadata(path: str) -> Any:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.json
    import pyarrow.parquet as pq

    try:
        content = files.read_bytes(Path(path))
        if _is(".csv", path):
            return pa.Table.from_pandas(pd.read_csv(io.BytesIO(content)), preserve_index=False)
        if _is(".jsonl", path):
            whole = pa.json.ReadOptions(block_size=len(content) + 1)
            return pa.json.read_json(io.BytesIO(content), read_options=whole)
        return pq.read_table(io.BytesIO(content))
    except (ReadError, pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read as metadata: {_reason(error)}.") from None
