"""A recipe: one complete experiment in a TOML file, which holds only what differs from the defaults."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from ..data.forget import Forget
from ..data.sources import Source
from ..errors import DataError, SettingError, did_you_mean, given
from ..files import read_toml
from ..methods import Method
from ..methods.training import Training
from ..metrics import LEVELS
from ..settings import REQUIRED, Rule, Settings, names, numbers, one_of, setting, share_below_one, table, text
from ..tasks import method
from ..tasks.classification.task import Classification

# The paper's comparison: the oracle first, then the eight others, then its own method.
PAPER = ("retrain", "finetune", "ascent", "influence", "shrink", "expand", "l1sparse", "salun", "scissorhands")
# Where the settings of a method come from: the paper's text, the scripts of its published code, or our own trials.
VARIANTS = ("paper", "script", "ours")
HOLDOUT = 0.1  # the share of the training data that is held out as unseen, unless something else is asked
_BYTES, _DEPTH = 4 << 20, 8  # more than any recipe has
_ENTRIES = 1000  # combinations of the settings of one method
_whole = Rule("a whole number", lambda x: True)
_records = Rule("a whole number, 0 or more", lambda x: x >= 0, most=32)
_tried = Rule("a table of whole numbers by method", lambda x: all(one >= 0 for one in x.values()))


@dataclass(frozen=True)
class Entry:
    """One method of a recipe, and what the recipe calls it."""

    label: str
    name: str
    method: Method
    tried: int | None = None
    variant: str = ""


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(Settings):
    """What the recipe of every kind of experiment has; in a file, the settings of a method stand under its name."""

    called: ClassVar[str] = "a recipe"

    title: str = setting("", text, "title of the page; if empty, the name of the file")
    forget: str = setting(REQUIRED, text, "what to forget")
    methods: list[str] = setting(list(PAPER), names, "what makes the model forget")
    settings: dict[str, dict[str, Any]] = setting({}, table, "settings of the methods, by their names")
    seeds: list[int] = setting([0, 1, 2], numbers, "seeds, each for a run of every method")

    @classmethod
    def read(cls, path: Path, trusted: Collection[str] = ()) -> Self:
        """Read the recipe in a file. Somebody's code runs only if it is among the `trusted`."""
        found = {"title": path.stem, **load(path)}
        try:
            return cls.make(cls._grouped(found, trusted))
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
    without the last, a method runs with the seed of the training. `tried` is how many runs chose a method's settings.
    """

    data: Source = setting(REQUIRED, table, "which data, and how to read it")
    model: str = setting(REQUIRED, text, "name of the model")
    model_set: dict[str, Any] = setting({}, table, "arguments of the model")
    training: Training = setting(Training(), table, "how the original is trained")
    tried: dict[str, int] = setting({}, _tried, "runs that chose a method's settings")
    draws: list[int] | None = setting(None, numbers, "seeds of what is forgotten at random")
    method_seeds: list[int] | None = setting(None, numbers, "seeds of the methods")
    level: str = setting("quick", one_of(*LEVELS), "how much to spend on evaluation")
    split_seed: int = setting(0, _whole, "seed of the division of data")
    holdout: float = setting(HOLDOUT, share_below_one, "share of the training data to hold out as unseen")
    unseen: float = setting(
        0.2, share_below_one, "share of the test data to set aside as unseen, if nothing is held out"
    )
    gradcam: int = setting(0, _records, "forgotten and retained records that gradcam.png shows, of each so many")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.draws or ()) > 1 and not Forget(self.forget).seeded:
            raise SettingError(f"'draws' are of what is forgotten at random, and '{self.forget}' is not.")
        for name in self.tried:
            if name not in self.methods:
                raise SettingError(f"'tried' names '{name}', which is not run here. {did_you_mean(name, self.methods)}")
        Forget(self.forget)
        _ = self.entries  # all that it names is built, so that a mistake shows before the work

    @cached_property
    def entries(self) -> list[Entry]:
        """Return the methods with their settings; `retrain` has those of the training."""
        return [
            entry
            for name in self.methods
            for entry in entries(
                name,
                method(name, Classification),
                {**(self.training.to_dict() if name == "retrain" else {}), **self.settings.get(name, {})},
                self.tried.get(name),
            )
        ]

    def places(self, seed: int) -> Iterator[tuple[int, int, Path]]:
        """Yield the draws and the seeds of methods on the original of one seed, and where the runs of each go."""
        for draw in self.draws or [self.split_seed]:
            there = Path(f"seed-{seed}", f"draw-{draw}" if self.draws else "")
            for method_seed in self.method_seeds or [seed]:
                yield draw, method_seed, there / (f"method-{method_seed}" if self.method_seeds else "")

    def runs(self) -> list[str]:
        """List the folders of all runs but the trainings."""
        names = ["original", *(entry.label for entry in self.entries)]
        places = [there for seed in self.seeds for _, _, there in self.places(seed)]
        return [f"{there}/{name}" for there in places for name in names]

    @classmethod
    def make(cls, values: Mapping[str, Any]) -> Self:
        """Make the recipe of these values; data may be given by its name alone."""
        data = values.get("data")
        return super().make({**values, "data": {"name": data}} if isinstance(data, str) else values)


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


def entries(name: str, kind: type[Method], settings: Mapping[str, Any], tried: int | None = None) -> Iterator[Entry]:
    """Return the method with its settings, once for every variant where there are some."""
    common = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    variants = {key: value for key, value in settings.items() if isinstance(value, dict)}
    for variant, own in (variants or {"": {}}).items():
        if variant and variant not in VARIANTS:
            raise SettingError(f"'{name}' has no variant '{variant}'. {did_you_mean(variant, VARIANTS)}")
        if lists := [key for key, value in own.items() if isinstance(value, dict)]:
            raise SettingError(f"'{lists[0]}' of '{name}.{variant}' is a table, and settings are plain values.")
        for swept in _swept({**common, **own}, ".".join(filter(None, (name, variant)))):
            chosen = [f"{key}={value}" for key, value in swept.items()]
            label = "-".join([name.replace(":", "."), *filter(None, [variant]), *chosen])
            label = label.replace("/", "_").replace("\0", "_")  # it is the name of a folder
            yield Entry(label, name, kind.make({**common, **own, **swept}), tried, variant)


def _swept(settings: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values in lists."""
    lists = {key: value for key, value in settings.items() if isinstance(value, list)}
    if empty := [key for key, value in lists.items() if not value]:
        raise SettingError(f"'{empty[0]}' of '{name}' is an empty list: give it a value, or leave it out.")
    if (count := math.prod(map(len, lists.values()))) > _ENTRIES:
        raise SettingError(f"the lists of '{name}' stand for {count:,} settings, and at most {_ENTRIES:,} are run.")
    yield from (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
