"""What every method is: settings, and one verb."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from ..problem import Log, Problem, ignore
from ..settings import Settings


@dataclass(frozen=True, kw_only=True)
class Method(Settings, ABC):
    """Makes a model forget. A subclass holds settings and no state; the first line of its docstring introduces it."""

    paper: ClassVar[str] = ""
    copies: ClassVar[int] = 3  # the most memory it takes besides the model itself, in sizes of the model

    @abstractmethod
    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        """Changes the model, in place, so that it forgets `problem.forget` and keeps `problem.retain`."""
