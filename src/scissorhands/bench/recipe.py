"""A recipe: one complete experiment in a TOML file, which holds only what differs from the defaults."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.forget import Forget
from ..data.sources import Source
from ..errors import DataError, SettingError, did_you_mean, given
from ..files import read_toml
from ..methods import Method, find
from ..methods.training import Training
from ..metrics import LEVELS
from ..settings import MOST

# The paper's comparison: the oracle first, then the eight others, then its own method.
PAPER = ("retrain", "finetune", "ascent", "influence", "shrink", "expand", "l1sparse", "salun", "scissorhands")
HOLDOUT = 0.1  # the share of the training data that is held out as unseen, unless something else is asked
_BYTES, _DEPTH = 4 << 20, 8  # more than any recipe has
_ENTRIES = 1000  # combinations of the settings of one method
_KEYS = (
    "title",
    "data",
    "model",
    "model_set",
    "forget",
    "seeds",
    "draws",
    "method_seeds",
    "split_seed",
    "holdout",
    "unseen",
    "level",
    "methods",
    "tried",
    "training",
)


@dataclass(frozen=True)
class Entry:
    """One method of a recipe, and what the recipe calls it."""

    label: str
    name: str
    method: Method
    tried: int | None = None


@dataclass(frozen=True)
class Recipe:
    """Which data and model, what to forget, by which methods, how often.

    Chance enters at three levels: `seeds` of the training, `draws` of what is forgotten at random, and `method_seeds`;
    without the last, a method runs with the seed of the training. `tried` is how many runs chose a method's settings.
    """

    title: str
    source: Source
    model: str
    arguments: Mapping[str, Any]
    forget: Forget
    training: Training
    entries: list[Entry]
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    draws: list[int] = field(default_factory=list)
    method_seeds: list[int] = field(default_factory=list)
    level: str = "quick"
    split_seed: int = 0
    holdout: float = HOLDOUT
    unseen: float = 0.2

    @classmethod
    def read(cls, path: Path, trusted: Collection[str] = ()) -> "Recipe":
        """The recipe in a file; everything that it names is built, so that a mistake shows before the work.

        Somebody's code runs only if it is among the `trusted`.
        """
        text = load(path)
        try:
            return cls._made(text, path.stem, trusted)
        except (SettingError, DataError) as error:
            raise SettingError(f"{path}: {error}") from None

    @classmethod
    def _made(cls, text: dict[str, Any], stem: str, trusted: Collection[str]) -> "Recipe":
        _check_types(text)
        names = list(text.get("methods", PAPER))
        for key in text:
            if key not in _KEYS and key not in names:
                raise SettingError(f"a recipe has no '{key}'. {did_you_mean(key, [*_KEYS, *names])}")
            if key not in _KEYS and not isinstance(text[key], dict):
                raise SettingError(f"the settings of '{key}' stand in a table: [{key}].")
        for key in ("data", "model", "forget"):
            if key not in text:
                raise SettingError(f"a recipe needs '{key}'.")
        require_trusted([text["model"], *names], trusted)
        data = text["data"] if isinstance(text["data"], dict) else {"name": text["data"]}
        training = Training.make(text.get("training", {}))
        tried = text.get("tried", {})
        for name in tried:
            if name not in names:
                raise SettingError(f"'tried' names '{name}', which is not run here. {did_you_mean(name, names)}")
        found = [
            entry
            for name in names
            for entry in entries(
                name,
                find(name),
                {**(training.to_dict() if name == "retrain" else {}), **text.get(name, {})},
                tried.get(name),
            )
        ]
        plain = ("seeds", "draws", "method_seeds", "level", "split_seed")
        rest: dict[str, Any] = {key: text[key] for key in plain if key in text}
        rest |= {key: float(text[key]) for key in ("holdout", "unseen") if key in text}
        title = text.get("title", stem)
        arguments = text.get("model_set", {})
        forget = Forget(text["forget"])
        return cls(title, Source.make(data), text["model"], arguments, forget, training, found, **rest)


def load(path: Path) -> dict[str, Any]:
    """The text of a recipe; dates, numbers beyond 64 bits and deep nesting are refused, since none needs them."""
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
    """Refuses code that a recipe names and the user does not: a file that one was sent must not decide what runs."""
    for name in names:
        if ":" in name and name not in trusted:
            raise SettingError(f"it runs the code '{name}'. If you trust it, name it: --trust {name}")


def _check_types(text: Mapping[str, Any]) -> None:
    """Refuses values of the wrong kind, which TOML lets through."""
    for key in ("seeds", "draws", "method_seeds"):
        numbers = text.get(key, [0])
        if not isinstance(numbers, list) or not numbers or any(type(x) is not int for x in numbers):
            raise SettingError(f"'{key}' must be a list of whole numbers, not {given(numbers)}.")
        if any(abs(number) > MOST[int] for number in numbers):
            raise SettingError(f"'{key}' must be whole numbers of at most {MOST[int]}, not {given(numbers)}.")
        if len({*numbers}) < len(numbers):
            raise SettingError(f"'{key}' names a number twice: {given(numbers)}.")
    if len(text.get("draws", [])) > 1 and not str(text.get("forget", "random:")).startswith(("random:", "classes:")):
        raise SettingError(f"'draws' are of what is forgotten at random, and '{text['forget']}' is not.")
    if text.get("level", "quick") not in LEVELS:
        raise SettingError(f"there is no level '{text['level']}'. {did_you_mean(str(text['level']), LEVELS)}")
    tried = text.get("tried", {})
    if not isinstance(tried, dict) or any(type(x) is not int or x < 0 for x in tried.values()):
        raise SettingError(f"'tried' must be a table of whole numbers by method, not {given(tried)}.")
    if not isinstance(text.get("methods", []), list) or any(type(x) is not str for x in text.get("methods", [])):
        raise SettingError(f"'methods' must be a list of names, not {given(text['methods'])}.")
    if len(set(text.get("methods", ()))) < len(text.get("methods", ())):
        raise SettingError(f"'methods' names one twice: {given(text['methods'])}.")
    for key in ("holdout", "unseen"):
        if type(text.get(key, 0)) not in (int, float) or not 0 <= text.get(key, 0) < 1:
            raise SettingError(f"'{key}' must be a share from 0, below 1, not {given(text[key])}.")
    for key, kind in (("split_seed", int), ("model", str), ("forget", str), ("title", str), ("model_set", dict)):
        if key in text and type(text[key]) is not kind:
            raise SettingError(f"'{key}' cannot be {given(text[key])}.")
    if abs(text.get("split_seed", 0)) > MOST[int]:
        raise SettingError(f"'split_seed' must be a whole number of at most {MOST[int]}, not {text['split_seed']}.")


def entries(name: str, kind: type[Method], settings: Mapping[str, Any], tried: int | None = None) -> Iterator[Entry]:
    """The method with its settings; a list stands for each of its values in turn."""
    lists = {key: value for key, value in settings.items() if isinstance(value, list)}
    if empty := [key for key, value in lists.items() if not value]:
        raise SettingError(f"'{empty[0]}' of '{name}' is an empty list: give it a value, or leave it out.")
    if (count := math.prod(map(len, lists.values()))) > _ENTRIES:
        raise SettingError(f"the lists of '{name}' stand for {count:,} settings, and at most {_ENTRIES:,} are run.")
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        label = "-".join([name.replace(":", "."), *(f"{key}={value}" for key, value in chosen.items())])
        label = label.replace("/", "_").replace("\0", "_")  # it is the name of a folder
        yield Entry(label, name, kind.make({**settings, **chosen}), tried)
