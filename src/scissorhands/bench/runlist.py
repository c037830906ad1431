"""The runs of a bench, in their order: the log says which one begins, and what one that ended is worth."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..data.problem import Log
from ..report import page
from ..report.table import tabulate
from ..runs import Run


class RunList:
    """A log of a bench that makes its runs, and says so; `ended` is called with all of them whenever one ends."""

    def __init__(self, names: Iterable[str], log: Log, ended: Callable[[list[Run]], None] | None = None) -> None:
        self._log, self._ended = log, ended
        self._runs: list[Run] = []
        log({"runs": [*names]})

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Log an event of the run that is being made."""
        self._log(event)

    def make(self, name: str, before: bool, work: Callable[[], Run]) -> Run:
        """Make the next run, which was there `before` or not, and return it."""
        self._log({"run": name})
        run = work()
        worth = {"seconds": run.result.seconds, "scores": run.result.values(), "damage": run.damage}
        self._log({"finished": name, "before": before, **worth})
        if run.record["verb"] != "train":
            self._runs.append(run)
        if self._ended and self._runs:
            self._ended(self._runs)
        return run


def publish(folder: Path, title: str, shown: list[Run]) -> None:
    """Write the table and the page of the runs that have ended so far."""
    page.publish(folder, tabulate(shown), shown, title)
