"""--log: the losses and scores of a run in an experiment tracker, which is a package of its own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ..data.problem import Log
from ..errors import FailedError, ScissorhandsError, SettingError
from .console import err, out
from .escape import plain

_PROJECT = "scissorhands"  # what runs are filed under


class Tracker(ABC):
    """Where a run is written to: from its first step on, so that a mistake leaves nothing."""

    def __init__(self, output: Path) -> None:
        self.output, self.name, self.is_open = output, "", False

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Write what an event says; runs of a bench are runs of their own."""
        if "run" in event:
            self.name = str(event["run"])
        elif "scores" in event:
            self.end(event["scores"])
        elif "steps" in event:
            self._open()
            named = {name: event[name] for name in ("loss", "retain", "forget", "guard") if name in event}
            self.write({f"{event['phase']}/{name}": value for name, value in named.items()}, event["step"])

    def end(self, scores: Mapping[str, float]) -> None:
        """End the run that is open, with its scores if it has any."""
        if self.is_open:
            self.is_open = False
            self.write({f"scores/{name}": value for name, value in scores.items()}, 0)
            self.close()

    def _open(self) -> None:
        """Begin a run unless one is open; say what the tracker needs if it refuses."""
        if not self.is_open:
            try:
                self.begin(str(self.output / self.name))
            except Exception as error:
                raise FailedError(f"--log: {type(self).__name__} does not work: {str(error).splitlines()[0]}") from None
            self.is_open = True

    @abstractmethod
    def begin(self, name: str) -> None:
        """Begin a run."""

    @abstractmethod
    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write some numbers."""

    @abstractmethod
    def close(self) -> None:
        """End the run."""


class TensorBoard(Tracker):
    """Writes into the folder `tensorboard` beside the run: tensorboard --logdir FOLDER."""

    def __init__(self, output: Path) -> None:
        super().__init__(output)
        self._library: Any = _import("tensorboard", "torch.utils.tensorboard")
        self._writer: Any = None

    def begin(self, name: str) -> None:
        folder = self.output.parent / "tensorboard" / self.output.name / self.name
        self._writer = self._library.SummaryWriter(str(folder))

    def write(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class MLflow(Tracker):
    """Writes to where MLFLOW_TRACKING_URI says."""

    def __init__(self, output: Path) -> None:
        super().__init__(output)
        self._library: Any = _import("mlflow", "mlflow")

    def begin(self, name: str) -> None:
        self._library.set_experiment(_PROJECT)
        self._library.start_run(run_name=name)

    def write(self, values: Mapping[str, float], step: int) -> None:
        self._library.log_metrics(dict(values), step=step)

    def close(self) -> None:
        self._library.end_run()


class Wandb(Tracker):
    """Writes to Weights & Biases; with WANDB_MODE=offline into the folder `wandb`."""

    def __init__(self, output: Path) -> None:
        super().__init__(output)
        self._library: Any = _import("wandb", "wandb")
        self._run: Any = None

    def begin(self, name: str) -> None:
        settings = self._library.Settings(silent=True)
        self._run = self._library.init(project=_PROJECT, name=name, settings=settings)

    def write(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, "step": step})

    def close(self) -> None:
        self._run.finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": Wandb}


@contextmanager
def tracking(log: Log, name: str | None, output: Path) -> Iterator[Log]:
    """Give a log that does what `log` does, and writes to the tracker of that name, if there is a name."""
    if not name or out.quiet:  # of several processes one writes
        yield log
        return
    tracker = TRACKERS[name](output)

    lost = False

    def both(event: Mapping[str, Any]) -> None:
        nonlocal lost
        log(event)
        try:
            if not lost:
                tracker(event)
        except ScissorhandsError:
            raise
        except Exception as error:  # such as a server that went away: that must not end hours of work
            lost = True
            err.print(f"[bold yellow]warning:[/] --log {name} has stopped: {plain(error)}")

    try:
        yield both
    finally:
        with suppress(Exception):
            tracker.end({})


def _import(name: str, module: str) -> Any:
    """Import a tracker's package; say how to get it where it is missing."""
    try:
        return import_module(module)
    except ImportError:
        raise SettingError(f"--log {name} needs a package: pip install 'scissorhands[{name}]'.") from None
