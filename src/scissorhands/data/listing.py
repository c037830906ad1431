"""List a data folder: skip files that the operating system created, and refuse anything unexpected."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from ..errors import DataError

Splits = Mapping[str, Callable[[], Any]]

# The names that the Hugging Face hub uses.
SPLITS = (
    dict.fromkeys(("train", "training"), "train")
    | dict.fromkeys(("validation", "valid", "val", "dev"), "validation")
    | dict.fromkeys(("test", "testing", "eval", "evaluation"), "test")
)
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_LITTER = {".ds_store", "thumbs.db", "desktop.ini", ".directory", ".gitkeep", ".git", ".cache"}


def entries(folder: str) -> tuple[list[str], list[str]]:
    """List the folders and the files in a folder, without those that the operating system created."""
    try:
        with os.scandir(folder) as found:
            inside = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {error.strerror}.") from None
    folders, paths = [], []
    for entry in inside:
        if _is_litter(entry):
            continue
        require_text(entry.path)
        if _is_folder(entry):
            folders.append(entry.path)
        else:
            paths.append(entry.path)
    return folders, paths


def _is_litter(entry: os.DirEntry[str]) -> bool:
    """Return whether the operating system created it; refuse such a folder with images in it: it may be a class."""
    if entry.name.lower() not in _LITTER and not entry.name.startswith("._"):
        return False
    for folder, _, names in os.walk(entry.path):
        if any(map(is_image, names)):
            inside = f"{ascii(folder)[1:-1]} holds images, and folders called '{entry.name}' are not read"
            raise DataError(f"{inside}: rename it if it is a class, or remove it.")
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder (or else a regular file); refuse anything else."""
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


def require_text(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise DataError(f"{path!a} has a name that is not UTF-8: rename it.") from None


def has_ending(ending: str, path: str) -> bool:
    return path.lower().endswith(ending)


def is_image(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _image_endings()


@cache
def _image_endings() -> frozenset[str]:
    from datasets.packaged_modules.imagefolder.imagefolder import ImageFolder

    return frozenset(ImageFolder.EXTENSIONS)


def reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")


def below(path: str, root: str) -> str:
    return os.path.relpath(path, root)


def in_order(names: Iterable[str]) -> list[str]:
    usual = ("train", "validation", "test")
    return sorted(names, key=lambda name: (usual.index(name) if name in usual else len(usual), name))


def dataset(table: Any, features: Any) -> Any:
    """Make a Hugging Face table of one in memory; with a fingerprint, or it would hash the data."""
    import datasets

    return datasets.Dataset(table, info=datasets.DatasetInfo(features=features), fingerprint="local")


def in_memory(table: Any) -> Any:
    """Copy a Hugging Face table of chosen rows, so that its columns hold these rows alone, in their order."""
    return dataset(table.with_format("arrow")[:], table.features)
