"""What is special about a kind of model: load, pose the problem, measure, save. And the table of kinds.

To add one: write its class, a Task, and add it here.
"""

from collections.abc import Mapping
from typing import Any

from ..errors import ModelError, SettingError, did_you_mean
from ..methods import Method
from ..methods import find as find_method
from .classification.task import Classification
from .diffusion.task import Diffusion
from .task import DividedTask, Division, PreparedProblem, Read, SourceRun, Task, each_time, once

TASKS: tuple[type[Task[Any, Any]], ...] = (Diffusion, Classification)  # the last one takes what no other owns


def find(source: str) -> type[Task[Any, Any]]:
    """Return the kind of model that a folder holds or a name stands for."""
    return next((task for task in TASKS if task.matches(source)), TASKS[-1])


def asked_of(source: str, request: object) -> type[Task[Any, Any]]:
    """Return the kind of model that a source is; refuse a request for another kind."""
    task = find(source)
    if not isinstance(request, task.asks):
        others = " or ".join(f"a {other.noun}" for other in TASKS if isinstance(request, other.asks))
        raise ModelError(f"{source} is not {others}, or does not exist.")
    return task


def begun_by(inputs: Mapping[str, Any]) -> type[Task[Any, Any]]:
    """Return the kind of model that a run was begun with."""
    return next(task for task in TASKS if task.request_key in inputs or task is TASKS[-1])


def methods() -> dict[str, type[Method]]:
    """Return every method by its name, whatever kind of model it applies to."""
    return {name: kind for task in reversed(TASKS) for name, kind in task.methods().items()}


def method(name: str, task: type[Task[Any, Any]] | None = None, source: str = "the model") -> type[Method]:
    """Return the method of that name, or the class that `module:Class` names; refuse one that does not apply."""
    if ":" in name:
        return find_method(name)
    every = methods()
    known = task.methods() if task else every
    if name in known:
        return known[name]
    if task and name in every:
        others = [other for other in TASKS if name in other.methods()]
        raise SettingError(only_for(f"'{name}'", others, task, source))
    raise SettingError(f"there is no method '{name}'. {did_you_mean(name, known)} Or name your own: module:Class.")


def require_level(level: str, task: type[Task[Any, Any]], source: str) -> None:
    """Refuse a level of evaluation that a kind of model does not have."""
    if level not in task.levels:
        raise SettingError(only_for(f"level {level}", [one for one in TASKS if level in one.levels], task, source))


def only_for(what: str, others: list[type[Task[Any, Any]]], task: type[Task[Any, Any]], source: str) -> str:
    """Say that something is for other kinds of models than this one."""
    return f"{what} applies only to {' and '.join(f'{one.noun}s' for one in others)}; {source} is a {task.noun}."


__all__ = [
    "TASKS",
    "DividedTask",
    "Division",
    "PreparedProblem",
    "Read",
    "SourceRun",
    "Task",
    "asked_of",
    "begun_by",
    "each_time",
    "find",
    "method",
    "methods",
    "once",
    "only_for",
    "require_level",
]
