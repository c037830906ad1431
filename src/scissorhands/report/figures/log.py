"""The log of a run, as the page reads it."""

import json
from typing import Any

from ...files import read_text
from ...runs import LOG, Run

_BYTES = 256 << 20  # the most of a log


def events(run: Run) -> list[dict[str, Any]]:
    """Return the events of a run's log in their order; none where there is no log, and no line that is not one."""
    path = run.folder / LOG
    if not path.is_file() or path.is_symlink():
        return []
    found = []
    for line in read_text(path, _BYTES).splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found
