"""The figures of a page, in their order."""

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

_FIGURES = (tradeoff, differences, losses, attacks, classes, sweep, body_parts, trimmed, progress)


def figures(table: Table) -> list[Figure]:
    """Return the figures for which the runs of a table have data."""
    return [found for figure in _FIGURES if (found := figure(table))]
