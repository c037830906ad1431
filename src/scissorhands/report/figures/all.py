"""The figures of a page, in their order."""

from collections.abc import Callable

from ..table import Table
from .attacks import attacks
from .body_parts import body_parts
from .classes import classes
from .differences import differences
from .figure import Figure
from .losses import losses
from .progress import progress
from .sweep import sweep
from .tradeoff import tradeoff
from .trimmed import trimmed

_FIGURES: tuple[Callable[[Table], Figure | None], ...] = (
    *(tradeoff, differences, losses, attacks, classes, sweep, body_parts, trimmed, progress),
)


def figures(table: Table, named: bool = True) -> list[Figure]:
    """Return the figures for which the runs of a table have data; classes have names only if they are to be `named`."""
    made = (classes(table, named) if figure is classes else figure(table) for figure in _FIGURES)
    return [figure for figure in made if figure]
