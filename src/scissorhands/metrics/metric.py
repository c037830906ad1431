"""What a row of the table of metrics says."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from .outputs import Observations

LIKE_RETRAINED = "as retrained"
CLASSES, NUMBERS, ANY = "classes", "numbers", "any"  # what labels may be


@dataclass(frozen=True)
class Metric:
    """A row of the table: the name of a number, how to read and show it, and how to compute it from observations.

    `best` is what a good value is. A row without `compute` is a number that comes from elsewhere, such as time. The
    level `drawn` is for numbers about the images that a pipeline draws. `labels` says for what labels it is: classes,
    numbers to predict, or any.
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
    labels: str = CLASSES

    def decimals(self, value: float) -> int:
        """Return how many decimals to show; more than usual of a number in the unit of the labels that is very small.

        >>> Metric("MAE", "lower", "", "", "", labels=NUMBERS).decimals(0.00123)
        4
        """
        if self.labels == CLASSES or not 0 < abs(value) < 10 ** (1 - self.digits):
            return self.digits
        return 1 - math.floor(math.log10(abs(value)))

    def applies_to(self, regression: bool) -> bool:
        """Return whether it is for such labels."""
        return self.labels in (ANY, NUMBERS if regression else CLASSES)
