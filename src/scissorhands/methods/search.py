"""Which settings of a method a search may change, and how far."""

from collections.abc import Collection
from dataclasses import dataclass, fields

from ..errors import SettingError
from .method import Method

_USUAL = {"lr": 10.0, "epochs": 2.0}  # factors of settings that do not say their own


@dataclass(frozen=True)
class Span:
    """From where to where a setting is searched, on a logarithmic scale; some settings are whole numbers."""

    low: float
    high: float
    whole: bool

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"


def search_space(method: Method, given: Collection[str] = ()) -> dict[str, Span]:
    """Return the settings that are searched: learning rate, epochs, and what says that a search may change it.

    Each goes from a part to a multiple of the value that it has. One that is zero, or that is `given`, stays.

    >>> from . import FineTune
    >>> search_space(FineTune(), given=["lr"])
    {'epochs': Span(low=5, high=20, whole=True)}
    """
    found = {}
    for f in fields(method):
        value, factor = getattr(method, f.name), f.metadata["search"] or _USUAL.get(f.name)
        if not factor or not value or f.name in given:
            continue
        low, high, whole = value / factor, value * factor, isinstance(value, int)
        high = high if f.metadata["rule"].holds(high) else 1.0  # a share
        found[f.name] = Span(max(1, round(low)), round(high), whole) if whole else Span(low, high, whole)
    if not found:
        raise SettingError(f"{type(method).__name__} has no setting left to search.")
    return found
