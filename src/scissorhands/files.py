"""Read files with limits, and write them atomically, by rename; private if they list records to forget."""

import errno
import json
import os
import re
import secrets
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from platformdirs import user_cache_path
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from .errors import FailedError, ReadError, SettingError, WriteError

T = TypeVar("T")

FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST = 256 << 20  # bytes of a text file; a larger one is not what it should be
_PARTS = 64  # of a dotted key in TOML: reading it takes time and memory that grow with their square
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{_PARTS}}}{_PART}")


def require_regular(path: Path) -> None:
    """Refuse what is not a regular file: reading a FIFO waits for ever, and a device has no end."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise ReadError(f"{path} cannot be read: {_reason(error)}.") from None
    if not stat.S_ISREG(kind):
        raise ReadError(f"{path} cannot be read: it is not a regular file.")


def read_bytes(path: Path, most: int = _MOST) -> bytes:
    """Read a regular file of at most so many bytes."""
    require_regular(path)
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {_reason(error)}.") from None
    if len(content) > most:
        raise ReadError(f"{path} cannot be read: it has more than {most:,} bytes.")
    return content


def read_text(path: Path, most: int = _MOST) -> str:
    """Read a text file in UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ReadError(f"{path} cannot be read: it is not UTF-8 text.") from None


def read_toml(path: Path, most: int = _MOST) -> dict[str, Any]:
    """Read a TOML file of at most so many bytes."""
    text = read_text(path, most)
    if _LONG_KEY.search(text):
        raise ReadError(f"{path} cannot be read as TOML: it is nested too deeply, a key has more than {_PARTS} parts.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path} cannot be read as TOML: {_reason(error)}.") from None


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file whose content is of this kind, such as `dict`."""
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path} cannot be read as JSON: {_reason(error)}.") from None
    if not isinstance(content, kind):
        raise ReadError(f"{path} cannot be read: it is not a JSON {'object' if kind is dict else kind.__name__}.")
    return content


Kinds = Mapping[str, type | UnionType]


def require_kinds(path: Path, content: Mapping[str, Any], kinds: Kinds, optional: Kinds | None = None) -> None:
    """Refuse a file in which a value is missing or of another kind; those that are `optional` may be missing.

    A name with a dot is that of a value in a table.
    """
    for name, kind in {**kinds, **(optional or {})}.items():
        table, _, inner = name.rpartition(".")
        there = content.get(table) if table else content
        if isinstance(there, Mapping) and inner in there:
            if not isinstance(there[inner], kind) or isinstance(there[inner], bool):
                raise ReadError(f"{path} cannot be read: '{name}' is {str(there[inner])[:40]!r}.")
        elif name in kinds:
            raise ReadError(f"{path} cannot be read: it has no '{name}'.")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file into memory of its own.

    The file is mapped, and what is mapped need not be aligned: sums over it may be taken in another order, and differ
    in their last bits.
    """
    require_regular(path)
    try:
        return {name: value.clone() for name, value in load_file(path).items()}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ReadError(f"{path} cannot be read: {_reason(error)}.") from None


def read_metadata(path: Path) -> dict[str, str]:
    """Read what a safetensors file says besides its tensors."""
    require_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError, ValueError) as error:
        raise ReadError(f"{path} cannot be read: {_reason(error)}.") from None


def fsync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path, *, private: bool = False, flushed: bool = False) -> Iterator[Path]:
    """Write to a temporary file, then rename it to `path`.

    A link, a device or a folder is not replaced. A private file is readable by its owner only. One that is `flushed`
    outlives a loss of power.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise WriteError(f"cannot write {path}: it is not a regular file, so it is not replaced.")
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # nobody can guess it and put a link there
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600 if private else 0o666))
        try:
            yield part
            if flushed:
                fsync(part)
            part.replace(path)
            if flushed:
                fsync(path.parent)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) in FULL or any(f"os error {number}" in str(error) for number in FULL)
        if full:
            raise FailedError(f"the disk under {path.parent} is full; {path.name} was not written.") from None
        raise WriteError(f"cannot write {path}: {_reason(error)}.") from None


def write_text(path: Path, content: str, *, private: bool = False, flushed: bool = False) -> None:
    """Write a text file, by rename."""
    try:
        encoded = content.encode()
    except UnicodeEncodeError as error:
        wrong = content[max(0, error.start - 40) : error.end]
        raise WriteError(f"cannot write {path}: {wrong!a} is not UTF-8 text.") from None
    with replacing(path, private=private, flushed=flushed) as part:
        part.write_bytes(encoded)


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, private: bool = False, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file, by rename."""
    with replacing(path, private=private) as part:
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, part, metadata)


def cache(room: str) -> Path:
    """Return the path of a folder of the cache: under $SCISSORHANDS_CACHE or the user's cache folder.

    Who writes there makes it first, with `private_folder`.
    """
    given = os.environ.get("SCISSORHANDS_CACHE")
    try:
        given = given and str(Path(given).expanduser())
    except RuntimeError:
        raise SettingError(f"SCISSORHANDS_CACHE is '{given}', and there is no such home folder.") from None
    if given:
        return Path(given) / room
    root = Path("~")
    with suppress(RuntimeError):  # of a user without a home; older versions return a path in ~
        root = user_cache_path("scissorhands")
    if not root.is_absolute():
        root = Path(tempfile.gettempdir()) / f"scissorhands-{os.getuid()}"
    return root / room


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)


def make_private(folder: Path) -> None:
    """Let only its owner look into a folder and read its files."""
    private_folder(folder)
    for path in folder.iterdir():
        path.chmod(0o600)


def _reason(error: Exception) -> str:
    """Say in a few words what went wrong."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    said = getattr(error, "strerror", None) or next(iter(str(error).strip().splitlines()), type(error).__name__)
    return str(said).rstrip(".")
