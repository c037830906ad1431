"""A recipe: one complete experiment in a TOML file, which holds only what differs from the defaults."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from .. import runs
from ..choices import HOLDOUT, LEVELS
from ..data.forget import Forget
from ..data.sources import Source
from ..errors import DataError, RunError, SettingError, did_you_mean, given
from ..files import read_toml
from ..methods.search import search_space
from ..methods.training import Training
from ..runs import Run
from ..settings import REQUIRED, Rule, Settings, count, names, numbers, one_of, setting, share_below_one, table, text
from ..tasks import method
from ..tasks.classification import models
from ..tasks.classification.networks import NETWORKS
from ..tasks.classification.task import Classification, defaults
from .entries import Entry, entries
from .pace import seconds_per_record

# The paper's comparison: the oracle first, then the eight others, then its own method.
PAPER = ("retrain", "finetune", "ascent", "influence", "shrink", "expand", "l1sparse", "salun", "scissorhands")
_BYTES, _DEPTH = 4 << 20, 8  # more than any recipe has
_whole = Rule("a whole number", lambda x: True)
_records = Rule("a whole number, 0 or more", lambda x: x >= 0, most=32)
# How many times an epoch of a method passes over the data to forget and over that to retain; if not here, (0, 1). What
# trains nothing counts as one epoch.
_PASSES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("ascent", "expand"), (1, 0)),
    **dict.fromkeys(("shrink", "regun"), (2, 0)),
    **dict.fromkeys(("influence", "ssd", "salun", "randomlabel", "scrub", "munba"), (1, 1)),
    **dict.fromkeys(("scissorhands", "neggradplus", "gradtau"), (0, 2)),
    "sfron": (0, 1.2),
    "lotus": (1, 0.3),
}
_some = Rule("a list of names, each of them once", lambda x: len(x) == len({*x}))
TUNING = 1_000_000  # the seed of the original, and of the draw, that methods are tuned on; nothing else has it
_tried = Rule("a table of whole numbers by method", lambda x: all(one >= 0 for one in x.values()))


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(Settings, ABC):
    """What the recipe of every kind of experiment has; in a file, the settings of a method stand under its name.

    `tried` is how many runs chose a method's settings.
    """

    called: ClassVar[str] = "a recipe"
    owns: ClassVar[tuple[str, ...]] = ()  # settings by which this kind of recipe is known

    title: str = setting("", text, "title of the page; if empty, the name of the file")
    forget: str = setting(REQUIRED, text, "what to forget")
    methods: list[str] = setting(list(PAPER), names, "what makes the model forget")
    settings: dict[str, dict[str, Any]] = setting({}, table, "settings of the methods, by their names")
    seeds: list[int] = setting([0, 1, 2], numbers, "seeds, each for a run of every method")
    tried: dict[str, int] = setting({}, _tried, "runs that chose a method's settings")

    def __post_init__(self) -> None:
        super().__post_init__()
        Forget(self.forget)
        for name in self.tried:
            if name not in self.methods:
                raise SettingError(f"'tried' names '{name}', which is not run here. {did_you_mean(name, self.methods)}")
        _ = self.entries  # all methods are built, so that a mistake shows before the work

    @property
    @abstractmethod
    def entries(self) -> list[Entry]:
        """Return the methods with their settings."""

    @abstractmethod
    def runs(self) -> list[str]:
        """List the folders of all runs but the trainings."""

    @abstractmethod
    def count(self) -> str:
        """Say how many runs there are, and what else is made."""

    @abstractmethod
    def missing(self) -> Iterator[str]:
        """Say what a run would look for elsewhere."""

    def seconds(self, device: torch.device) -> float | None:
        """Estimate the time of all runs, where that can be done."""
        return None

    def is_tuned(self, entry: Entry) -> bool:
        """Return whether a search chooses the settings of a method."""
        return False

    def about(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Return the whole recipe as plain values, with the folders of its runs; what is `made` must not change."""
        return {
            "title": self.title,
            "made": dict(made),
            "methods": {entry.label: {"name": entry.name, **entry.method.to_dict()} for entry in self.entries},
            "tried": {entry.label: entry.tried for entry in self.entries},
            "runs": self.runs(),
        }

    @classmethod
    def read(cls, path: Path, trusted: Collection[str] = ()) -> Self:
        """Read the recipe in a file. Somebody's code runs only if it is among the `trusted`."""
        return cls.of(load(path), path, trusted)

    @classmethod
    def of(cls, found: Mapping[str, Any], path: Path, trusted: Collection[str] = ()) -> Self:
        """Make the recipe of what was found in a file."""
        try:
            return cls.make(cls._grouped({"title": path.stem, **found}, trusted))
        except (SettingError, DataError) as error:
            raise SettingError(f"{path}: {error}") from None

    @classmethod
    def _grouped(cls, found: Mapping[str, Any], trusted: Collection[str]) -> dict[str, Any]:
        """Put the tables of methods under `settings`; refuse what is neither a setting nor a method that is run."""
        rows = {row["name"]: row["default"] for row in cls.described() if row["name"] != "settings"}
        chosen = found.get("methods", rows["methods"])
        texts = isinstance(chosen, list) and all(isinstance(name, str) for name in chosen)
        chosen = chosen if texts and names.holds(chosen) else []  # what is no list of names will be refused
        for key in cls.required():
            if key not in found:
                raise SettingError(f"{cls.called} needs '{key}'.")
        for key, value in found.items():
            if key not in rows and key not in chosen and chosen:
                raise SettingError(f"{cls.called} has no '{key}'. {did_you_mean(key, [*rows, *chosen])}")
            if key not in rows and not isinstance(value, dict):
                raise SettingError(f"the settings of '{key}' stand in a table: [{key}].")
        require_trusted([str(found.get("model", "")), *chosen], trusted)
        own = {name: found[name] for name in rows if name in found}
        return {**own, "settings": {name: found[name] for name in chosen if name in found}}


@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """An experiment with a classifier: which data and model, what to forget, by which methods, how often.

    Chance enters at three levels: `seeds` of the training, `draws` of what is forgotten at random, and `method_seeds`;
    without the last, a method runs with the seed of the training.
    """

    data: Source = setting(REQUIRED, table, "which data, and how to read it")
    model: str = setting(REQUIRED, text, "name of the model")
    model_set: dict[str, Any] = setting({}, table, "arguments of the model")
    training: Training = setting(Training(), table, "how the original is trained")
    draws: list[int] | None = setting(None, numbers, "seeds of what is forgotten at random")
    method_seeds: list[int] | None = setting(None, numbers, "seeds of the methods")
    level: str = setting("quick", one_of(*LEVELS), "how much to spend on evaluation")
    split_seed: int = setting(0, _whole, "seed of the division of data")
    holdout: float = setting(HOLDOUT, share_below_one, "share of the training data to hold out as unseen")
    unseen: float = setting(
        0.2, share_below_one, "share of the test data to set aside as unseen, if nothing is held out"
    )
    tune: int = setting(0, count, "trials that choose the settings of each method, on another original and draw")
    untuned: list[str] = setting([], _some, "methods, or rows, that run as they are all the same")
    gradcam: int = setting(0, _records, "forgotten and retained records that gradcam.png shows, of each so many")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.draws or ()) > 1 and not Forget(self.forget).seeded:
            raise SettingError(f"'draws' are of what is forgotten at random, and '{self.forget}' is not.")
        if TUNING in (*self.seeds, *(self.draws or [self.split_seed])):
            raise SettingError(f"{TUNING} is the seed that methods are tuned with: choose another one.")
        known = [name for entry in self.entries for name in {entry.name: 0, entry.label: 0}]
        for name in self.untuned:
            if name not in known:
                raise SettingError(f"'untuned' names '{name}', which is not run here. {did_you_mean(name, known)}")
        for entry in self.entries:
            if entry.tried is not None and self.is_tuned(entry):
                raise SettingError(f"'{entry.name}' is tuned here, so 'tried' says nothing of it: leave that out.")
            _ = self.is_tuned(entry) and search_space(entry.method, entry.given)

    @cached_property
    def entries(self) -> list[Entry]:
        """Return the methods with their settings; those that follow from the training unless they are given."""
        return [
            entry
            for name in self.methods
            for kind in [method(name, Classification)]
            for entry in entries(
                name,
                kind,
                self.settings.get(name, {}),
                self.tried.get(name),
                defaults(kind, self.training.to_dict()),
            )
        ]

    def is_tuned(self, entry: Entry) -> bool:
        """Return whether a search chooses the settings of a method; of retraining they follow from the training."""
        as_it_is = {"retrain", *self.untuned}
        return bool(self.tune) and entry.name not in as_it_is and entry.label not in as_it_is

    def places(self, seed: int) -> Iterator[tuple[int, int, Path]]:
        """Yield the draws and the seeds of methods on the original of one seed, and where the runs of each go."""
        for draw in self.draws or [self.split_seed]:
            there = Path(f"seed-{seed}", f"draw-{draw}" if self.draws else "")
            for method_seed in self.method_seeds or [seed]:
                yield draw, method_seed, there / (f"method-{method_seed}" if self.method_seeds else "")

    def runs(self) -> list[str]:
        names = ["original", *(entry.label for entry in self.entries)]
        places = [there for seed in self.seeds for _, _, there in self.places(seed)]
        return [f"{there}/{name}" for there in places for name in names]

    def count(self) -> str:
        places = sum(1 for seed in self.seeds for _ in self.places(seed))
        trials = self.tune * sum(map(self.is_tuned, self.entries))
        trainings = len(self.seeds) + bool(trials)
        said = f"{counted(trainings, 'training')} + {counted(places * len(self.entries), 'run')}"
        return said + (f" + {counted(trials, 'trial')} that choose settings" if trials else "")

    def missing(self) -> Iterator[str]:
        try:
            if not self.data.here():
                name = self.data.name
                yield f"the data {name}: a folder of that name in $SCISSORHANDS_DATA, or a download from the hub"
        except DataError as error:
            yield str(error)
        if self.model not in NETWORKS and ":" not in self.model and not Path(self.model).is_dir():
            yield f"the model {self.model}: a folder of that name, or a download from the hub"

    def seconds(self, device: torch.device) -> float:
        """Estimate the time of all runs from a few timed steps of training."""
        data = self.data.load(cache=False, kind=models.kind_of(self.model))
        trained, everything = len(data.train) - round(self.holdout * len(data.train)), torch.arange(len(data.train))
        chosen = len(Forget(self.forget).ids(data.train, everything, self.split_seed))
        forgotten = trained * chosen / len(everything)
        cases = len(self.seeds) * len(self.draws or [0]) * len(self.method_seeds or [0])
        tunes = any(map(self.is_tuned, self.entries))
        passed = float(trained * self.training.epochs * (len(self.seeds) + tunes))
        for entry in self.entries:
            forget, retain = _PASSES.get(entry.name, (0, 1))
            epochs = int(entry.method.to_dict().get("epochs", 1))
            runs = cases + self.tune * self.is_tuned(entry)
            passed += runs * epochs * (forget * forgotten + retain * (trained - forgotten))
        pace = seconds_per_record(data, self.model, self.model_set, self.training, device)
        return pace * passed

    @classmethod
    def make(cls, values: Mapping[str, Any]) -> Self:
        """Make the recipe of these values; data may be given by its name alone."""
        data = values.get("data")
        return super().make({**values, "data": {"name": data}} if isinstance(data, str) else values)


def counted(number: int, what: str) -> str:
    """Return the number with its noun.

    >>> counted(1, "run"), counted(12, "run")
    ('1 run', '12 runs')
    """
    return f"{number} {what}" + "s" * (number != 1)


def load(path: Path) -> dict[str, Any]:
    """Return the text of a recipe; refuse dates, numbers beyond 64 bits and deep nesting, since none needs them."""
    text = read_toml(path, _BYTES)
    level: list[Any] = [text]
    for _ in range(_DEPTH):
        inner = [x for one in level for x in (one.values() if isinstance(one, dict) else one)]
        for value in inner:
            if not isinstance(value, str | int | float | list | dict) or (type(value) is int and abs(value) >= 2**63):
                raise SettingError(
                    f"{path}: {given(value)} is neither text, nor a number of 64 bits, nor true or false."
                )
        level = [value for value in inner if isinstance(value, list | dict)]
    if level:
        raise SettingError(f"{path}: it is nested too deeply for a recipe.")
    return text


def require_trusted(names: Iterable[str], trusted: Collection[str]) -> None:
    """Refuse code that a recipe names and the user does not: a file that one was sent must not decide what runs."""
    for name in names:
        if ":" in name and name not in trusted:
            raise SettingError(f"it runs the code '{name}'. If you trust it, name it: --trust {name}")


def finished(folder: Path, settings: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> Run | None:
    """Return the finished run in a folder, or None; refuse a run with other settings of its method, or other data."""
    if not folder.exists():
        return None
    run = runs.read(folder)
    if run.settings != settings or any(run.record["data"].get(name) != value for name, value in (data or {}).items()):
        raise RunError(f"{folder} was made with other settings than this recipe's: choose another folder.")
    return run
