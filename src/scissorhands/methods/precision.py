"""Mixed precision: weights, losses and steps in full, what the layers compute in between in half."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def computing_in(precision: str, model: nn.Module) -> Iterator[None]:
    """Let the model's layers compute in this precision inside the block; outputs and weights stay as they are."""
    if precision == "full":
        yield
        return
    cast = torch.autocast(next(model.parameters()).device.type, getattr(torch, precision))

    def begin(module: nn.Module, given: Any) -> None:
        cast.__enter__()

    def end(module: nn.Module, given: Any, said: Any) -> Any:
        cast.__exit__(None, None, None)
        return _full(said)

    hooks = [model.register_forward_pre_hook(begin), model.register_forward_hook(end, always_call=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _full(said: Any) -> Any:
    """Convert a model's output to full precision."""
    if isinstance(said, tuple):
        return tuple(map(_full, said))
    return said.float() if isinstance(said, Tensor) and said.dtype == torch.bfloat16 else said
