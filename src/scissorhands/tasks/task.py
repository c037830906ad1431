"""What a task is: all that is special about one kind of model. The verbs are written once, for any task."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch
from PIL.Image import Image
from torch import nn

from ..choices import LEVELS
from ..data.inventory import Inventory
from ..data.problem import Log, Problem, ignore
from ..data.records import Augment, Part
from ..data.split import Split
from ..evaluation.evaluate import Scores
from ..methods import Method
from ..metrics import Observations

RelativePath = Callable[[str], str]
T = TypeVar("T")


class Read(Protocol):
    """How data is loaded: each time, or only the first time that it is asked for by a key."""

    def __call__(self, key: Hashable, load: Callable[[], T]) -> T:
        """Return what loading gives, or gave before."""


def each_time(key: Hashable, load: Callable[[], T]) -> T:
    """Load data whenever it is asked for."""
    return load()


def once() -> Read:
    """Return what loads each data once, and keeps it."""
    kept: dict[Hashable, Any] = {}

    def read(key: Hashable, load: Callable[[], T]) -> T:
        if key not in kept:
            kept[key] = load()
        found: T = kept[key]
        return found

    return read


class SourceRun(Protocol):
    """The run that made a model, as far as a task needs to know it."""

    @property
    def folder(self) -> Path:
        """Return the folder of the run."""

    @property
    def record(self) -> Mapping[str, Any]:
        """Return what run.toml says."""

    def ids(self, name: str) -> list[int]:
        """Return the records that it forgot (`forget`), or that were forgotten earlier (`before`)."""

    def keys(self, name: str) -> list[str]:
        """Return the keys of these records."""

    def inventory(self) -> Mapping[str, Inventory]:
        """Return what was in the `train` and `test` data; empty if it was not written down."""


@dataclass(frozen=True, kw_only=True)
class PreparedProblem:
    """A request brought together with a model: a problem that a method can solve, and what is written down of it."""

    model: nn.Module
    problem: Problem
    weights: str  # a hash of the weights
    manifest: str  # a hash of the data and of the ids of its parts
    inputs: Mapping[str, Any]  # the request as begun.toml has it
    record: Mapping[str, Any]  # what run.toml will say
    ids: Mapping[str, list[int]]  # the lists of records beside it
    keys: Sequence[str] = ()  # what people call each record, where that is not its number
    inventory: Mapping[str, Inventory] = field(default_factory=dict)  # what was in the `train` and `test` data
    counts: Mapping[str, int]  # how many records each part has that is measured


@dataclass(frozen=True, kw_only=True)
class Division(PreparedProblem):
    """A problem that was posed by dividing data."""

    split: Split


class Request(Protocol):
    """What someone asks a model of one kind to forget."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Read a request from options of the command line."""

    @classmethod
    def from_dict(cls, inputs: Mapping[str, Any]) -> Self:
        """Read a request from plain values, as begun.toml has them."""

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values."""


R = TypeVar("R", bound=Request)
P = TypeVar("P", bound=PreparedProblem)


class Task(ABC, Generic[R, P]):
    """A loaded model of one kind, and how it is posed a request, measured and saved."""

    noun: ClassVar[str]  # what a model of this kind is called; with an s, what several are called
    options: ClassVar[tuple[str, ...]]  # the options of the command line that its requests have
    asks: ClassVar[type[Any]]  # the class of its requests
    request_key: ClassVar[str]  # under which begun.toml says what to forget
    levels: ClassVar[tuple[str, ...]] = ("quick",)  # of evaluation
    titles: ClassVar[Mapping[str, str]] = {}  # of the scores that are not in the table of metrics
    next_step: ClassVar[str] = ""  # what to do with such a model once it has forgotten

    source: str
    run: SourceRun | None

    @classmethod
    @abstractmethod
    def matches(cls, source: str) -> bool:
        """Tell whether a folder or a name is a model of this kind."""

    @classmethod
    @abstractmethod
    def methods(cls) -> dict[str, type[Method]]:
        """Return the methods that apply to such a model, by name."""

    @classmethod
    @abstractmethod
    def load(cls, source: str, run: SourceRun | None, factory: str | None, device: torch.device, read: Read) -> Self:
        """Load the model in a folder, in the folder of the run that made it, or on the hub."""

    def defaults(self, method: type[Method]) -> dict[str, Any]:
        """Return settings that a method has for this model unless others are given."""
        return {}

    @abstractmethod
    def pose(self, request: R, seed: int, device: torch.device, relative: RelativePath, log: Log = ignore) -> P:
        """Pose the problem; `relative` says how a path is written down."""

    @abstractmethod
    def before(self, posed: P) -> tuple[dict[str, float], Observations]:
        """Measure what a method must not make worse, before it begins, and keep what was observed."""

    @abstractmethod
    def measure(
        self, posed: P, method: str | None = None, before: Observations | None = None
    ) -> tuple[Scores, Observations]:
        """Score the model as it is, and keep its outputs, with those from before the named method, if it has run.

        A model that the method made diverge is refused.
        """

    @abstractmethod
    def damage(self, method: type[Method], before: Mapping[str, float], scores: Scores) -> str:
        """Say what a method broke; empty if nothing."""

    @abstractmethod
    def save(self, posed: P, folder: Path) -> None:
        """Write the model into a run folder, in the format that it came in."""


class DividedTask(Task[R, Division]):
    """A task that divides data, so that its models can be evaluated at every level, beside others trained alike."""

    levels: ClassVar[tuple[str, ...]] = LEVELS

    model: nn.Module

    @property
    @abstractmethod
    def pretrained(self) -> bool:
        """Whether the model began with weights from elsewhere."""

    @abstractmethod
    def divided(self, run: SourceRun) -> tuple[Split, Augment | None]:
        """Return how a run divided the data, and what changes its training batches."""

    @abstractmethod
    def pictures(self, before: Self, parts: Mapping[str, Part]) -> Mapping[str, Image]:
        """Draw where the model looks, beside where it looked before."""
