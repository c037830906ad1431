"""Progress while a command works: one line that moves in a terminal, a line per epoch where there is none."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from ..data.problem import Log
from ..metrics import METRICS
from .console import err
from .describe import duration
from .escape import plain
from .forecast import Forecast, Phase

_EPOCHS, _STEPS = 1.0, 30.0  # seconds between two lines: of epochs, and of work that has none
_SCORES = (
    *("forget_accuracy", "retain_accuracy", "test_accuracy", "mia", "forget_mae", "retain_mae", "test_mae"),
    *("ua", "kept_accuracy", "fid", "nudity"),
)
_Event = Mapping[str, Any]


@contextmanager
def progress(run: str = "") -> Iterator[Log]:
    """Give a log that shows how far the work is; `run` says what is done, where the log does not."""
    shown = Progress(err, run)
    try:
        yield shown
        shown.flush()
    finally:
        shown.stop()


class Progress:
    """A log that shows what is done, the losses, and how long it takes; runs of a bench that end leave a line.

    It shows three kinds of events. A bench begins with its `runs`, says of each `run` which one it is, and when it is
    `finished`, with scores. Whatever walks `steps` says its phase, its epoch if there are some, and losses by name.
    """

    def __init__(self, console: Console, run: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._run, self._clock = console, run, clock
        self._forecast = Forecast(clock)
        self._phase = Phase("", clock)
        self._epoch: int | None = None
        self._losses: dict[str, list[float]] = {}
        self._event: _Event = {}
        self._said = -_STEPS
        self._bar: Bar | None = None

    def __call__(self, event: _Event) -> None:
        """Show one event."""
        if "runs" in event:
            self._forecast.names = list(event["runs"])
        elif "run" in event:
            self._run = self._forecast.begin(event["run"])
        elif "finished" in event:
            self.flush()
            self.stop()
            self._forecast.finish(event)
            self._console.print(plain(_finished(self._run, event)))
        elif "steps" in event:
            self._step(event)

    def stop(self) -> None:
        """Remove the line that moves."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _step(self, event: _Event) -> None:
        if event["phase"] != self._phase.name or event["step"] <= self._event.get("step", 0):
            self.flush()
            self._phase = Phase(event["phase"], self._clock)
        elif event["epoch"] != self._epoch:
            self.flush()
        self._event, self._epoch = event, event["epoch"]
        for name in ("retain", "forget") if {"retain", "forget"} & event.keys() else ("loss",):
            if name in event:
                self._losses.setdefault(name, []).append(event[name])
        self._phase.step(event)
        if self._console.is_terminal:
            self._move()
        elif "epochs" not in event and self._clock() - self._said >= _STEPS:
            self.flush()

    def flush(self) -> None:
        """Print a line for the epoch that ended, but not many in a second; the last one of a phase always."""
        event, losses = self._event, self._losses
        self._event, self._losses = {}, {}
        if not event or self._console.is_terminal:
            return
        if event["step"] >= event["steps"] or self._clock() - self._said >= _EPOCHS:
            self._said = self._clock()
            means = {name: sum(some) / len(some) for name, some in losses.items()}
            words = [f"{event['phase']} {_where(event)}", *_losses(means), *self._left()]
            self._console.print(plain(": ".join(filter(None, [self._run, ", ".join(words)]))))

    def _move(self) -> None:
        """Move the line in the terminal."""
        if not self._bar:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._bar.add_task("")
            self._bar.start()
        event, last = self._event, {name: some[-1] for name, some in self._losses.items()}
        where = f" {_where(event)}" if "epochs" in event else ""
        above = ", ".join(filter(None, [self._run, *self._left()]))
        below = ", ".join([f"{event['phase']}{where}", *_losses(last)])
        (task,) = self._bar.task_ids
        text = "\n".join(plain(line) for line in (above, below) if line)
        self._bar.update(task, description=text, completed=event["step"], total=event["steps"])

    def _left(self) -> list[str]:
        """Return how long this phase takes, and when all runs of a bench are done, where that can be told."""
        phase, whole = self._phase.left(), self._forecast.left()
        found = [f"{duration(phase)} left"] if phase else []
        return found + ([f"all done about {_at(whole)}"] if whole is not None else [])


def _where(event: _Event) -> str:
    if "epochs" in event:
        return f"epoch {event['epoch'] + 1} of {event['epochs']}"
    return f"{event['step']} of {event['steps']}"


def _losses(values: Mapping[str, float]) -> list[str]:
    """Return losses in words.

    >>> _losses({"retain": 0.25, "forget": 2.0}), _losses({"loss": 0.25})
    (['loss on retain 0.2500', 'on forget 2.0000'], ['loss 0.2500'])
    """
    if "loss" in values:
        return [f"loss {values['loss']:.4f}"]
    found = [f"on {name} {value:.4f}" for name, value in values.items()]
    return [f"loss {found[0]}", *found[1:]] if found else []


def _finished(name: str, event: _Event) -> str:
    """Return the line that a run leaves."""
    scores = event["scores"]
    known = {key: METRICS[key] for key in _SCORES if key in scores}
    shown = [f"{one.title} {scores[key]:.{one.decimals(scores[key])}f}" for key, one in known.items()]
    took = [duration(event["seconds"])] if event["seconds"] else []
    done = ["was there already"] if event["before"] else took
    return f"{name}: " + ", ".join([*done, *shown, *(["damaged"] if event["damage"] else [])])


def _at(seconds: float) -> str:
    """Return the time of day in so many seconds, with the date if that is another day."""
    then = time.localtime(time.time() + seconds)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M" if today else "%d %b %H:%M", then)
