"""A batch that is divided among the processes, and a loss over all of it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .processes import rank, total, world_size

_MARK = "stands_in_for_none"


def own_share(count: int) -> slice:
    """Which of `count` records this process works on."""
    bounds = [count * i // world_size() for i in (rank(), rank() + 1)]
    return slice(*bounds)


def fetch_share(fetch: Callable[[Tensor], tuple[Tensor, Tensor]], ids: Tensor) -> tuple[Tensor, Tensor]:
    """This process's share of a batch.

    A process without a record must compute all the same, since the others wait for it, and few layers take an empty
    batch. So it gets a record that is marked, and counts for nothing.
    """
    own = ids[own_share(len(ids))]
    if len(own):
        return fetch(own)
    inputs, labels = fetch(ids[:1])
    return marked(inputs), labels


def marked(inputs: Tensor) -> Tensor:
    """Marks inputs that only stand in for none."""
    setattr(inputs, _MARK, True)
    return inputs


def counted(batch: tuple[Tensor, Tensor]) -> int:
    """How many records of a batch of this process count."""
    return 0 if getattr(batch[0], _MARK, False) else len(batch[1])


def gather_rows(values: Tensor, count: int) -> Tensor:
    """The rows of all processes, each of which has those of its records, in the order of the `count` records."""
    if world_size() == 1:
        return values
    most = -(-count // world_size())
    padded = values.new_zeros(most, *values.shape[1:])
    padded[: len(values)] = values
    found = [torch.empty_like(padded) for _ in range(world_size())]
    dist.all_gather(found, padded)
    sizes = [count * (i + 1) // world_size() - count * i // world_size() for i in range(world_size())]
    return torch.cat([rows[:size] for rows, size in zip(found, sizes, strict=True)])


class _Mean(torch.autograd.Function):
    """The mean over all records, and the gradient of this process's share in it."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, count: int) -> Tensor:
        pair = torch.tensor([count, 0.0], dtype=torch.float64, device=loss.device)
        if count:  # the mean over no records is not a number
            pair[1] = count * loss.detach()
        total(pair)
        ctx.share = count * world_size() / float(pair[0])  # FSDP divides the sum of gradients by the world size
        return (pair[1] / pair[0]).to(loss.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.share, None


def mean_over_ranks(loss: Callable[[nn.Module, Any], Tensor]) -> Callable[[nn.Module, Any], Tensor]:
    """The loss over the records of all processes, made of one that is a mean over those of this process."""
    if world_size() == 1 or isinstance(loss, _OverAll):
        return loss
    return _OverAll(loss)


def standing_in() -> bool:
    """Whether what is being computed is a loss on a record that only stands in for none."""
    return _OverAll.empty


class _OverAll:
    inside = False
    empty = False

    def __init__(self, loss: Callable[[nn.Module, Any], Tensor]) -> None:
        self.loss = loss

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if _OverAll.inside:  # another loss was put around this one, and is the one that is taken over all
            return self.loss(model, batch)
        _OverAll.inside, _OverAll.empty = True, counted(batch) == 0
        try:
            own = self.loss(model, batch)
        finally:
            _OverAll.inside = _OverAll.empty = False
        found: Tensor = _Mean.apply(own, counted(batch))  # type: ignore[no-untyped-call]
        return found
