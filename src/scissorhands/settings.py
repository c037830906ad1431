"""Settings: frozen dataclasses in which one line gives a field's default, its rule, and its meaning.

That line feeds the check when the object is made, the command line's help, the documentation, and the report.
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

import tomli_w

from .errors import SettingError, did_you_mean, given

MOST: dict[type, float] = {int: 2**31 - 1, float: 1e30}  # counts fit 32 bits, and numbers float32 with room to spare


@dataclass(frozen=True)
class Rule:
    """What a value must be, in words and as a test; `most` is the largest number, if not that of its type."""

    says: str
    holds: Callable[[Any], bool]
    most: float | None = None


positive = Rule("a number above 0", lambda x: 0 < x < math.inf)
non_negative = Rule("a number, 0 or more", lambda x: 0 <= x < math.inf)
share = Rule("a share from 0 to 1", lambda x: 0 <= x <= 1)
positive_share = Rule("a share above 0, up to 1", lambda x: 0 < x <= 1)
share_below_one = Rule("a share from 0, below 1", lambda x: 0 <= x < 1)
below_one = Rule("a number from 0, below 1", lambda x: 0 <= x < 1)
count = Rule("a whole number, 0 or more", lambda x: x >= 0)
at_least_one = Rule("a whole number, 1 or more", lambda x: x >= 1)
at_least_two = Rule("a whole number, 2 or more", lambda x: x >= 2)
seed = Rule("a whole number, 0 or more", lambda x: x >= 0, most=2**62)  # files of settings hold 64 bits
switch = Rule("true or false", lambda x: True)
text = Rule("text", lambda x: True)
path = Rule("a path", lambda x: True)
table = Rule("a table of names with values", lambda x: True)
numbers = Rule("a list of whole numbers, each of them once", lambda x: x is None or 0 < len(x) == len({*x}))
names = Rule("a list of names, each of them once", lambda x: 0 < len(x) == len({*x}))
patterns = Rule("one or more name patterns, separated by commas", lambda x: bool(x.strip(" ,")))


def one_of(*names: str) -> Rule:
    """Return the rule that a value is one of the names."""
    return Rule("one of " + ", ".join(names), lambda x: x in names)


REQUIRED = MISSING  # the default of a setting that has none


@dataclass(frozen=True)
class Depends:
    """A default that depends on another setting: the value for some of its values, and for any other.

    >>> print(Depends("optimizer", 0.1, {"adam": 0.002, "adamw": 0.002}))
    0.1 (adam, adamw: 0.002)
    """

    on: str
    otherwise: Any
    values: Mapping[str, Any]

    def of(self, settings: Any) -> Any:
        """Return the value that follows from the settings."""
        value = self.values.get(getattr(settings, self.on), self.otherwise)
        return value.of(settings) if isinstance(value, Depends) else value

    def __str__(self) -> str:
        names: dict[str, list[str]] = {}
        for name, value in self.values.items():
            names.setdefault(str(value), []).append(name)
        return f"{self.otherwise} ({'; '.join(', '.join(some) + ': ' + value for value, some in names.items())})"


def setting(default: Any, rule: Rule, meaning: str, search: float | None = None) -> Any:
    """Return one field of a Settings class: default, rule, meaning.

    A search may change the value by a factor of up to `search`, either way.
    """
    about = {"rule": rule, "meaning": meaning, "search": search}
    if isinstance(default, list | dict):
        return field(default_factory=partial(copy.deepcopy, default), metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of all objects that a person configures; a bad value is refused when the object is made."""

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for f in sorted(fields(self), key=lambda f: isinstance(getattr(self, f.name), Depends)):
            value = getattr(self, f.name)  # what depends on others comes last, when those are checked
            value = value.of(self) if isinstance(value, Depends) else value
            object.__setattr__(self, f.name, self._checked(f, kinds[f.name], value))

    @classmethod
    def make(cls, values: Mapping[str, Any]) -> Self:
        """Make the object with these values; an unknown name is answered with the nearest known one."""
        if not isinstance(values, Mapping):
            raise SettingError(f"the settings of {cls.__name__} are names with values, not {given(values)}.")
        known = [f.name for f in fields(cls)]
        for name in values:
            if name not in known:
                raise SettingError(f"{cls.__name__} has no setting '{name}'. {did_you_mean(name, known)}")
        missing = [name for name in cls.required() if name not in values]
        if missing:
            raise SettingError(f"{cls.__name__} needs '{missing[0]}'.")
        return cls(**values)

    @classmethod
    def required(cls) -> list[str]:
        """Return the names of the settings that have no default."""
        return [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]

    @classmethod
    def parsed(cls, assignments: Iterable[str]) -> dict[str, Any]:
        """Read `name=value` texts, each by the type of its field."""
        kinds = get_type_hints(cls)
        values: dict[str, Any] = {}
        for assignment in assignments:
            name, equals, value = (part.strip() for part in assignment.partition("="))
            if not equals or not name:
                raise SettingError(f"'{assignment}' is not of the form name=value.")
            if name in values:
                raise SettingError(f"'{name}' is set twice.")
            values[name] = _read(value, kinds.get(name, str))
        return values

    @classmethod
    def described(cls) -> Iterator[dict[str, Any]]:
        """Yield one row per setting: name, default, rule, meaning."""
        for f in fields(cls):
            default = f.default if f.default_factory is MISSING else f.default_factory()
            if "rule" not in f.metadata:
                raise SettingError(f"{cls.__name__}: write '{f.name}' as a setting(default, rule, meaning).")
            yield {
                "name": f.name,
                "default": None if default is MISSING else str(default) if isinstance(default, Depends) else default,
                "rule": f.metadata["rule"].says,
                "meaning": f.metadata["meaning"],
            }

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return dataclasses.asdict(self)

    def _checked(self, f: dataclasses.Field[Any], kind: type, value: Any) -> Any:
        if "rule" not in f.metadata:
            raise SettingError(f"{type(self).__name__}: write '{f.name}' as a setting(default, rule, meaning).")
        if isinstance(kind, type) and issubclass(kind, Settings):
            return value if isinstance(value, kind) else kind.make(value)
        rule: Rule = f.metadata["rule"]
        kind = next((one for one in _kinds(kind) if _fits(value, one)), kind)
        if kind is float and type(value) is int and not _beyond(value, kind):
            value = float(value)
        most = _beyond(value, kind, rule.most)
        if not _fits(value, kind) or most or not rule.holds(value):
            says = f"{rule.says}, and at most {most}" if most else rule.says
            raise SettingError(f"{type(self).__name__}: '{f.name}' must be {says}, not {given(value)}.")
        return value


def _kinds(kind: Any) -> tuple[Any, ...]:
    """Return the types that a field may have."""
    return get_args(kind) if get_origin(kind) is UnionType else (kind,)


def _leaves(value: Any, kind: Any) -> Iterator[tuple[Any, Any]]:
    """Walk the values in a list or a table, each with the type that it must have."""
    if get_origin(kind) is list and type(value) is list:
        inside = value
    elif get_origin(kind) is dict and isinstance(value, dict) and all(type(name) is str for name in value):
        inside = list(value.values())
    else:
        yield value, kind
        return
    for one in inside:
        yield from _leaves(one, get_args(kind)[-1])


def _fits(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a type, and so is everything in it."""
    return all(
        wanted is Any or type(one) is wanted or (wanted is Path and isinstance(one, Path))
        for one, wanted in _leaves(value, kind)
    )


def _beyond(value: Any, kind: Any, most: float | None = None) -> float | None:
    """Return the largest number that a setting of this type may hold, if one of its numbers is larger."""
    leaves = [(one, most or MOST.get(wanted, math.inf)) for one, wanted in _leaves(value, kind)]
    return next((most for one, most in leaves if type(one) in MOST and abs(one) > most), None)


def _read(value: str, kind: Any) -> Any:
    """Read the text as a value of the kind, or leave it for the field's rule to refuse."""
    if kind is bool:
        return {"true": True, "false": False}.get(value.lower(), value)
    if kind not in (int, float):
        return value
    try:
        return kind(value)
    except ValueError:
        return value


def to_toml(tables: Mapping[str, Any]) -> str:
    """Write the values and tables as TOML.

    >>> print(to_toml({"seed": 0, "method": {"name": "scissorhands", "trim": 0.03, "project": True}}))
    seed = 0
    <BLANKLINE>
    [method]
    name = "scissorhands"
    trim = 0.03
    project = true
    <BLANKLINE>
    """
    return tomli_w.dumps(tables)
