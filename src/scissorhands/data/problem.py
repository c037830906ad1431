"""A Problem: all that a method may see. It holds no test data, so a method cannot peek at any."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..distributed import Batch, Inputs, each, fetch_share, mean_over_ranks, own_share
from ..distributed.checkpoint import Progress
from ..errors import DataError, ModelError
from ..randomness import generator
from .records import Augment, Part

Loss = Callable[[nn.Module, Batch], Tensor]
Log = Callable[[Mapping[str, Any]], None]


def ignore(event: Mapping[str, Any]) -> None:
    """Ignore the event: the log that keeps nothing."""


def on_device(model: nn.Module, inputs: Tensor) -> Tensor:
    """Move the inputs to the model's device and, if they are floating point, to its precision."""
    parameter = next(model.parameters())
    return inputs.to(parameter.device, parameter.dtype if inputs.is_floating_point() else inputs.dtype)


def forward(model: nn.Module, inputs: Inputs) -> Tensor:
    """Run the model on the inputs, on its device; of several outputs by name, as in `transformers`, take `logits`."""
    inputs = each(partial(on_device, model), inputs)
    found = model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
    said: Tensor = getattr(found, "logits", found)
    return said


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Compute the mean cross-entropy of a classifier on a batch, on the model's device."""
    inputs, labels = batch
    scores = forward(model, inputs)
    return F.cross_entropy(scores, labels.to(scores.device))


@dataclass(frozen=True)
class SquaredError:
    """The mean squared error of a batch, as a share of the variance of the labels, so that their unit does not matter.

    A model that always says the mean label has 1.
    """

    variance: float

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Compute it on the model's device."""
        inputs, labels = batch
        found = predicted(forward(model, inputs))
        return F.mse_loss(found, labels.to(found)) / self.variance


def predicted(outputs: Tensor) -> Tensor:
    """Return the number that a model says of each record; refuse outputs that are not one number for each.

    >>> predicted(torch.tensor([[1.5], [2.5]]))
    tensor([1.5000, 2.5000])
    """
    if outputs.dim() == 2 and outputs.shape[1] == 1:
        return outputs[:, 0]
    if outputs.dim() != 1:
        raise ModelError(
            f"the labels are numbers to predict, so the model must return one per record, and not {outputs.shape[-1]}."
        )
    return outputs


@dataclass(frozen=True)
class Problem:
    """What to forget, what to retain, and the loss that says how well the model does on a batch of either."""

    forget: Part  # the records to forget
    retain: Part  # the records that the model was trained on and keeps
    calibration: Part | None = None  # records that the model was never trained on, for methods to look at
    loss: Loss = cross_entropy  # of a batch, over all processes; where labels are numbers, SquaredError is the default
    seed: int = 0  # of all random numbers: the same seed gives the same bits
    augment: Augment | None = None  # changes the inputs of a training batch, each record by itself
    progress: Progress = field(default_factory=Progress)  # where checkpoints are written and read
    warn_on_damage: bool = True  # whether a method measures the damage that it does, and warns of it

    def __post_init__(self) -> None:
        by_default = self.loss is cross_entropy and self.regression
        object.__setattr__(self, "loss", mean_over_ranks(SquaredError(self.variance) if by_default else self.loss))

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers to predict, and not classes."""
        return self.retain.records.regression

    @property
    def variance(self) -> float:
        """The variance of the labels that the model was trained on, where they are numbers to predict."""
        labels = torch.cat([self.forget.labels, self.retain.labels]).double()
        found = labels.var(correction=0).item()
        if not found > 0:
            raise DataError(f"all {len(labels)} labels are the same number, so there is nothing to predict.")
        return found

    @property
    def classifies(self) -> bool:
        """Whether the loss is that of a classifier, so that a record is right or wrong."""
        return getattr(self.loss, "loss", self.loss) is cross_entropy

    def batches(self, part: Part, size: int, *purpose: str | int) -> Iterator[Batch]:
        """Walk the part once, shuffled and augmented; the order depends on the seed and the purpose alone.

        A single record left over joins the batch before it, since batch normalization cannot train on one record.
        """
        shuffled = part.ids[torch.randperm(len(part), generator=generator(self.seed, "shuffle", *purpose))]
        draw = generator(self.seed, "augment", *purpose)
        for ids in shuffled.split(_sizes(len(part), size)):
            batch = fetch_share(part.records.fetch, ids)
            yield replace(batch, inputs=self._augmented(batch, draw)) if self.augment else batch

    def _augmented(self, batch: Batch, draw: torch.Generator) -> Inputs:
        """Augment this process's records by the random numbers that they get with one process."""
        assert self.augment
        if isinstance(batch.inputs, Mapping):
            raise DataError("'augment' changes inputs that are one tensor, and these are several, by name.")
        if batch.count == batch.total:
            return self.augment(batch.inputs, draw)
        own = own_share(batch.total)
        everything = batch.inputs.new_zeros(batch.total, *batch.inputs.shape[1:])
        everything[own] = batch.inputs[: batch.count]
        changed = self.augment(everything, draw)[own]
        return changed if len(changed) else batch.inputs

    def steps(self, part: Part, size: int) -> int:
        """Return the number of batches in one pass."""
        return len(_sizes(len(part), size))

    def sample(self, part: Part, share: float, *purpose: str | int) -> Part:
        """Draw a random share of the part, at least one record."""
        count = max(1, round(share * len(part)))
        chosen = torch.randperm(len(part), generator=generator(self.seed, "sample", *purpose))[:count]
        return replace(part, ids=part.ids[chosen.sort().values])


def _sizes(records: int, size: int) -> list[int]:
    """Return the sizes of the batches of one pass.

    >>> _sizes(10, 4), _sizes(9, 4), _sizes(1, 4)
    ([4, 4, 2], [4, 5], [1])
    """
    sizes = [size] * (records // size) + [records % size] * (records % size > 0)
    if sizes[-1] == 1 and len(sizes) > 1:
        sizes[-2:] = [sizes[-2] + 1]
    return sizes
