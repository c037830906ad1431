"""How fast work goes, and when all of it is done."""

from collections.abc import Callable, Mapping
from typing import Any

_Event = Mapping[str, Any]


class Phase:
    """How fast a phase goes."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name, self._clock = name, clock
        self._began = self._now = 0.0
        self._first = self._done = self._steps = 0

    def step(self, event: _Event) -> None:
        """Take note of a step."""
        self._done, self._steps, self._now = event["step"], event["steps"], self._clock()
        if not self._first:
            self._first, self._began = self._done, self._now

    def left(self) -> float:
        """Estimate the seconds until its end; 0 if nothing is left or known."""
        done = self._done - self._first
        return (self._now - self._began) / done * (self._steps - self._done) if done else 0.0


class Forecast:
    """When a bench is done: every run that is left takes as long as those of the same method did, or as all did."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.names: list[str] = []
        self._clock, self._number, self._began = clock, 0, 0.0
        self._took: dict[str, list[float]] = {}

    def begin(self, name: str) -> str:
        """Take note of a run, and return what it is called."""
        self._number, self._began = self._number + 1, self._clock()
        return f"run {self._number} of {len(self.names)}  {name}" if self.names else name

    def finish(self, event: _Event) -> None:
        """Take note of its end; a run that was there before says nothing of the pace."""
        if not event["before"]:
            self._took.setdefault(_last(event["finished"]), []).append(self._clock() - self._began)

    def left(self) -> float | None:
        """Estimate the seconds until all is done; None if nothing is known yet."""
        every = [one for some in self._took.values() for one in some]
        if not every:
            return None
        runs = [self._took.get(_last(name), every) for name in self.names[self._number - 1 :]]
        means = [sum(some) / len(some) for some in runs]
        return max(sum(means) - (self._clock() - self._began), sum(means[1:]))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
