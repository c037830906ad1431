"""The outputs of a model on some records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

# What metrics look at, by name: `forget`, `retain`, `audit`, `test` and `others` are Outputs of the model, and what
# else was gathered has its own name (see METRICS).
Observations = Mapping[str, Any]


@dataclass(frozen=True)
class Outputs:
    """The scores that a model gives to the classes of each record, and the true labels.

    Where labels are numbers to predict, there is one column: what the model says they are.
    """

    logits: Tensor
    labels: Tensor

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers to predict, and not classes."""
        return self.labels.is_floating_point()

    def __len__(self) -> int:
        return len(self.labels)
