"""The parameters of a model: which may change, what is held here of them, and how they are kept and swapped.

Of many processes each holds a shard of every weight. What works on weights here works on these shards, so that a method
need not know of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from ..distributed import all_reduce_sum_, local, local_state
from ..errors import ModelError, SettingError


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters by name; raise if there are none."""
    found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise ModelError("the model has no trainable parameter, so nothing in it can be scrubbed.")
    return found


def select(model: nn.Module, names: str) -> dict[str, nn.Parameter]:
    """Return the trainable parameters whose name matches one of the comma-separated patterns in `names`.

    A pattern after a minus leaves out what it matches of those before it.

    >>> list(select(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), "*,-1.*"))
    ['0.weight', '0.bias']
    """
    candidates = trainable(model)
    chosen: set[str] = set()
    for pattern in filter(None, (pattern.strip() for pattern in names.split(","))):
        matches = {name for name in candidates if fnmatchcase(name, pattern.removeprefix("-"))}
        if not matches and not pattern.startswith("-"):
            example = next(iter(candidates))
            raise SettingError(
                f"'parameters' is '{pattern}', which matches no trainable parameter. One is '{example}'."
            )
        chosen = chosen - matches if pattern.startswith("-") else chosen | matches
    if not chosen:
        raise SettingError(f"'parameters' is '{names}', which leaves no parameter.")
    return {name: p for name, p in candidates.items() if name in chosen}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the local shards of the trainable parameters by name; they share the model's memory."""
    return {name: local(p).detach() for name, p in trainable(model).items()}


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights and buffers."""
    return {name: value.clone() for name, value in local_state(model).items()}


@torch.no_grad()
def restore(model: nn.Module, other: dict[str, Tensor]) -> None:
    """Copy the values of a snapshot into the model, in place."""
    for name, value in local_state(model).items():
        value.copy_(other[name])


@contextmanager
def swapped(model: nn.Module, other: dict[str, Tensor]) -> Iterator[None]:
    """Give the model the values of a snapshot inside the block, in place, and its own again after it."""
    _swap(model, other)
    try:
        yield
    finally:
        _swap(model, other)


def _swap(model: nn.Module, other: dict[str, Tensor]) -> None:
    for name, value in local_state(model).items():
        own = value.clone()
        value.copy_(other[name])
        other[name].copy_(own)


def l1_norm(weights: list[Tensor]) -> Tensor:
    """Sum the absolute values of all weights, over all processes; the gradient of that is their sign.

    >>> l1_norm([torch.tensor([1.0, -2.0]), torch.tensor([3.0])])
    tensor(6.)
    """
    return all_reduce_sum_(torch.stack([weight.abs().sum() for weight in weights]).sum())


def clip_(gradient: list[Tensor], largest: float) -> None:
    """Scale a gradient, in place, so that its norm over all processes is at most `largest`.

    >>> gradient = [torch.tensor([3.0]), torch.tensor([4.0])]
    >>> clip_(gradient, 1.0)
    >>> gradient
    [tensor([0.6000]), tensor([0.8000])]
    """
    norm = all_reduce_sum_(torch.stack([(slope * slope).sum() for slope in gradient]).sum()).sqrt().item()
    if norm > largest:
        torch._foreach_mul_(gradient, largest / norm)
