"""The log of a run, which is also kept as a file."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ..data.problem import Log
from ..distributed import rank
from ..errors import RunError
from ..files import require_regular


class Journal:
    """A log that also keeps every event as a line of log.jsonl.

    When a run is resumed, the lines up to `position` are in the file already, and are not written again.
    """

    def __init__(self, path: Path, log: Log, known: int) -> None:
        self.position, self._known, self._log = 0, known, log
        self._file = _opened(path, known) if rank() == 0 else None

    def __call__(self, event: Mapping[str, Any]) -> None:
        line = (json.dumps(event) + "\n").encode()
        if self._file and self.position >= self._known:
            self._file.write(line)
        self.position += len(line)
        self._log(event)

    def flush(self) -> None:
        """Flush to disk (fsync)."""
        if self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def _opened(path: Path, known: int) -> BinaryIO:
    """Open the file to write after its first `known` bytes. Refuse a link, through which another file would be cut."""
    if path.is_symlink():
        raise RunError(f"{path} is a link, and a log is not written through one.")
    if path.exists():
        require_regular(path)
    if known > (path.stat().st_size if path.exists() else 0):
        raise RunError(f"{path} is shorter than it was when the last checkpoint was written.")
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666), "ab")
    file.truncate(known)
    return file
