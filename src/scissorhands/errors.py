"""The errors that a user can fix, under one base class."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class ScissorhandsError(Exception):
    """The base class of errors whose message says, in one line, how to fix them."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class SettingError(ScissorhandsError):
    """A setting is unknown, of the wrong type, or breaks its rule."""


class DataError(ScissorhandsError):
    """A data set, or the description of what to forget in it, cannot be used."""


class ModelError(ScissorhandsError):
    """A model cannot be built, loaded, or used with this data."""


class MissingError(ScissorhandsError):
    """An optional package is not installed."""


class RunError(ScissorhandsError):
    """A run folder cannot be read or written."""


class ReadError(RunError):
    """A file cannot be read, or holds something else than it should."""


class WriteError(RunError):
    """A file cannot be written."""


class StoppedError(ScissorhandsError):
    """The user or the system stopped the work before it was done."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        """Support pickling, to reach another process."""
        return type(self), (str(self), self.exit_code)


class LostError(ScissorhandsError):
    """Another process of the job died or stopped responding."""

    exit_code = 1


class FailedError(ScissorhandsError):
    """The request was valid, but it failed while it ran."""

    exit_code = 1


class NoReferenceError(ScissorhandsError):
    """A comparison was asked for without anything to compare with."""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Join the names with commas; leave out the middle if there are many.

    >>> listed("abcdefghij", most=4)
    'a, b, c, … j'
    """
    names = list(names)
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[: most - 1])}, … {names[-1]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, and all of them.

    >>> did_you_mean("retrian", ["finetune", "retrain"])
    "Did you mean 'retrain'? Known: finetune, retrain."
    """
    known = list(known)
    lowered = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), lowered, n=1)
    hint = f"Did you mean '{lowered[near[0]]}'? " if near else ""
    return f"{hint}Known: {listed(known)}."


def given(value: Any) -> str:
    """Return a value as it was given, cut short, for an error message.

    >>> given(["a", True]), given("x" * 99)[-3:]
    ('["a", true]', 'xx…')
    """
    try:
        shown = json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # too many digits, or nested too deeply
        shown = f"this {type(value).__name__}"
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
