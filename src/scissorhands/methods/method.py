"""What every method is: settings, and one verb."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from ..data.problem import Log, Problem, ignore
from ..errors import SettingError
from ..settings import Settings
from .damage import warns_of_damage


@dataclass(frozen=True, kw_only=True)
class Method(Settings, ABC):
    """Makes a model forget. A subclass holds settings and no state; the first line of its docstring introduces it.

    Every `scrub` warns with a DamageWarning if it leaves a model that does worse on what it should have kept.
    """

    paper: ClassVar[str] = ""
    needs: ClassVar[str] = ""  # what it takes besides records to forget and to retain
    needs_classes: ClassVar[bool] = False  # whether it cannot work where labels are numbers to predict
    copies: ClassVar[int] = 3  # the most memory it takes besides the model itself, in sizes of the model
    # Data on which the model must not get worse; a method itself sees neither audit nor test.
    judged_on: ClassVar[tuple[str, ...]] = ("retain", "calibration", "audit", "test")

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "scrub" in vars(cls):
            cls.scrub = warns_of_damage(cls.scrub)  # type: ignore[method-assign]

    def require_labels(self, problem: Problem) -> None:
        """Refuse labels that are numbers to predict, if the method needs classes."""
        if self.needs_classes and problem.regression:
            name = type(self).__name__
            raise SettingError(f"{name} needs classes, and the labels are numbers to predict: choose another method.")

    @abstractmethod
    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        """Change the model, in place, so that it forgets `problem.forget` and keeps `problem.retain`."""
