"""Images by split and class, or with a file of metadata per split."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import DataError, listed
from .listing import METADATA, SPLITS, Splits, below, dataset, entries, in_order, is_image
from .tables import read_plain

_LAYOUT = "Lay images out as FOLDER/train/CLASS/image and FOLDER/test/CLASS/image"


def image_splits(root: str) -> Splits:
    places = _places(root)
    described = {name: _metadata_file(place) for name, place in places.items()}
    if all(described.values()):
        tables = {name: _described(place, str(described[name]), root) for name, place in places.items()}
        if len({tuple(table.column_names) for table in tables.values()}) > 1:
            raise DataError(f"the metadata of the splits of {root} have different columns: make them alike.")
        return {name: partial(tables.get, name) for name in in_order(tables)}
    if any(described.values()):
        raise DataError(f"{root} has metadata in some splits only: give each split a file of its own.")
    found = {name: _by_class(place, root) for name, place in places.items()}
    classes = sorted({name for images in found.values() for name in images})
    if not classes:
        raise DataError(f"the folder {root} cannot be read as a data set: it holds no images. {_LAYOUT}.")
    if empty := [name for name in classes if not any(images.get(name) for images in found.values())]:
        raise DataError(f"the class '{empty[0]}' of {root} has no images: add some, or remove its folder.")
    if len(classes) == 1:
        raise DataError(f"{root} has one class only, '{classes[0]}': there must be two or more. {_LAYOUT}.")
    return {name: partial(_labeled, found[name], classes) for name in in_order(found)}


def _places(root: str) -> dict[str, str]:
    """Return the folder of each split; the folder itself is train where it is not divided.

    Sub-folders are splits where all are called so and hold folders. Some that merely might be are refused.
    """
    folders = entries(root)[0]
    named = [folder for folder in folders if os.path.basename(folder).casefold() in SPLITS]
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
        name = SPLITS[os.path.basename(folder).casefold()]
        if name in places:
            raise DataError(f"{places[name]} and {folder} are both the split '{name}': keep one.")
        places[name] = folder
    return places


def _may_be_split(folder: str) -> bool:
    folders, paths = entries(folder)
    return bool(_metadata_file(folder)) or (bool(folders) and not any(map(is_image, paths)))


def _by_class(place: str, root: str) -> dict[str, list[str]]:
    """Return the images of each class of a split, however deep in its folder."""
    folders, paths = entries(place)
    if loose := [path for path in paths if is_image(path)]:
        raise DataError(f"{loose[0]} lies in no class folder. {_LAYOUT}.")
    return {os.path.basename(folder): list(_images(folder, root)) for folder in folders}


def _images(folder: str, root: str) -> Iterator[str]:
    """Yield the images in a folder and below. Refuse anything else, and links that lead out of the data."""
    waiting = [folder]
    while waiting:
        folders, paths = entries(waiting.pop())
        waiting += folders
        for path in paths:
            if not is_image(path) or os.path.basename(path).startswith("."):
                raise DataError(f"{path} is not an image: keep nothing else in the folders of images.")
            yield _within(path, root)


def _within(path: str, root: str) -> str:
    if os.path.islink(path) and not Path(path).resolve().is_relative_to(root):
        raise DataError(f"{path} is a link that leads out of the data folder: put the file itself there.")
    return path


def _labeled(images: Mapping[str, list[str]], classes: list[str]) -> Any:
    """Make a table of images and labels, in the order of the paths."""
    import datasets
    import pyarrow as pa

    labels = {path: number for number, name in enumerate(classes) for path in images.get(name, ())}
    paths = sorted(labels)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=classes)})
    columns = {"image": _paths(paths), "label": pa.array([labels[path] for path in paths], pa.int64())}
    return dataset(pa.table(columns), features)


def _paths(paths: list[str | None] | list[str]) -> Any:
    """Make a column of images that holds their paths and no bytes."""
    import pyarrow as pa

    return pa.StructArray.from_arrays(
        [pa.nulls(len(paths), pa.binary()), pa.array(paths, pa.string())], names=["bytes", "path"]
    )


def _metadata_file(place: str) -> str:
    found = [path for path in entries(place)[1] if os.path.basename(path) in METADATA]
    if len(found) > 1:
        raise DataError(f"{place} holds {listed(map(os.path.basename, found))}: keep one of them.")
    return found[0] if found else ""


def _described(place: str, metadata: str, root: str) -> Any:
    """Make a table with a row per line of the metadata, whose `file_name` (or `…_file_name`) is an image."""
    import datasets
    import pyarrow as pa

    folders, beside = entries(place)
    there = {_within(path, root) for path in beside if is_image(path)}
    there |= {path for folder in folders for path in _images(folder, root)}
    table = read_plain(metadata, "metadata").replace_schema_metadata(None)
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
            raise DataError(f"{metadata} {says.format(below(min(wrong), place))}: make the two agree.")
    return dataset(pa.table(columns), datasets.Features({name: features[name] for name in columns}))
