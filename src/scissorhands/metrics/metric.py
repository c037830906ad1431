"""What a row of the table of metrics says."""

from collections.abc import Callable
from dataclasses import dataclass

from .outputs import Observations

LIKE_RETRAINED = "as retrained"


@dataclass(frozen=True)
class Metric:
    """A row of the table: the name of a number, how to read and show it, and how to compute it from observations.

    `best` is what a good value is. A row without `compute` is a number that comes from elsewhere, such as time. The
    level `drawn` is for numbers about the images that a pipeline draws.
    """

    title: str
    best: str
    meaning: str
    retrained: str
    misleads: str
    needs: tuple[str, ...] = ()
    compute: Callable[[Observations], float] | None = None
    level: str = "quick"
    digits: int = 2
