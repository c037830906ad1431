"""A batch that is divided among the processes, and a loss over all of it."""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .processes import all_gather, all_reduce_sum_, rank, world_size

Inputs = Any  # of several records: a tensor, or a mapping of tensors by name, which are a model's keyword arguments


def each(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """Apply a function to the inputs, or to each of several by name."""
    return {name: function(x) for name, x in inputs.items()} if isinstance(inputs, Mapping) else function(inputs)


@dataclass(frozen=True)
class Batch:
    """Inputs and labels: this process's share of a batch of `total` records, of which `count` are here.

    A process without a record must compute all the same, since the others wait for it, and few layers take an empty
    batch. So it gets a record of another process, and its `count` is 0.
    """

    inputs: Inputs
    labels: Tensor
    count: int
    total: int

    @classmethod
    def of(cls, inputs: Inputs, labels: Tensor) -> "Batch":
        """Take this process's share of a batch that every process has."""
        return fetch_share(lambda ids: (each(lambda x: x[ids], inputs), labels[ids]), torch.arange(len(labels)))

    def __iter__(self) -> Iterator[Any]:
        yield self.inputs
        yield self.labels


def own_share(count: int) -> slice:
    """Return which of `count` records this process works on."""
    bounds = [count * i // world_size() for i in (rank(), rank() + 1)]
    return slice(*bounds)


def fetch_share(fetch: Callable[[Tensor], tuple[Inputs, Tensor]], ids: Tensor) -> Batch:
    """Fetch this process's share of a batch."""
    own = ids[own_share(len(ids))]
    return Batch(*fetch(own if len(own) else ids[:1]), len(own), len(ids))


def gather_rows(values: Tensor, count: int) -> Tensor:
    """Gather the rows of all processes, each of which has those of its records, in the order of the `count` records."""
    if world_size() == 1:
        return values
    most = -(-count // world_size())
    padded = values.new_zeros(most, *values.shape[1:])
    padded[: len(values)] = values
    sizes = [count * (i + 1) // world_size() - count * i // world_size() for i in range(world_size())]
    return torch.cat([rows[:size] for rows, size in zip(all_gather(padded), sizes, strict=True)])


# Batch normalization reads it: a layer sees activations, and no Batch that says whether they count.
_CURRENT: ContextVar[Batch | None] = ContextVar("the batch whose loss is being computed", default=None)


def is_padding() -> bool:
    """Return whether the batch being computed is padding: a record of another process, which does not count here."""
    batch = _CURRENT.get()
    return batch is not None and batch.count == 0


class _Mean(torch.autograd.Function):
    """The mean over all records, and the gradient of this process's share in it."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, batch: Batch) -> Tensor:
        ctx.share = batch.count * world_size() / batch.total  # FSDP divides the sum of gradients by the world size
        own = batch.count * loss.detach().double() if batch.count else torch.zeros_like(loss, dtype=torch.float64)
        return (all_reduce_sum_(own) / batch.total).to(loss.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.share, None


def mean_over_ranks(loss: Callable[[nn.Module, Batch], Tensor]) -> Callable[[nn.Module, Batch], Tensor]:
    """Turn a loss that is a mean over this process's records into the mean over those of all processes."""
    if world_size() == 1 or isinstance(loss, _MeanOverRanks):
        return loss
    return _MeanOverRanks(loss)


class _MeanOverRanks:
    def __init__(self, loss: Callable[[nn.Module, Batch], Tensor]) -> None:
        self.loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        if _CURRENT.get() is not None:  # another loss was put around this one, and is the one that is averaged
            return self.loss(model, batch)
        token = _CURRENT.set(batch)
        try:
            own = self.loss(model, batch)
        finally:
            _CURRENT.reset(token)
        found: Tensor = _Mean.apply(own, batch)  # type: ignore[no-untyped-call]
        return found
