"""The log of a run, which is also kept as a file."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.problem import Log
from ..distributed import rank
from ..errors import RunError
from ..files import require_regular


class Journal:
    """A log that also keeps every event as a line of log.jsonl.

    Of a run that goes on, the lines up to `position` are there already, and are not written again.
    """

    def __init__(self, path: Path, log: Log, known: int) -> None:
        self.position, self._known, self._log = 0, known, log
        if rank() == 0 and path.exists():
            require_regular(path)
        if rank() == 0 and known > (path.stat().st_size if path.exists() else 0):
            raise RunError(f"{path} is shorter than it was when the last checkpoint was written.")
        self._file = path.open("ab") if rank() == 0 else None
        if self._file:
            self._file.truncate(known)

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
