"""The last linear layer of a classifier: found, widened by a class, and narrowed again."""

import torch
from torch import Tensor, nn

from ..data.problem import forward
from ..distributed import full, local, shard_of
from ..errors import ModelError
from ..randomness import seeded
from .modes import evaluating


def head_of(model: nn.Module, inputs: Tensor) -> tuple[nn.Module, str, nn.Linear]:
    """Find the linear layer whose output is the model's output, the module that holds it, and its name there."""
    outputs: dict[nn.Module, Tensor] = {}
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [m.register_forward_hook(lambda module, _, out: outputs.update({module: out})) for m in linear]
    try:
        with evaluating(model), torch.no_grad():
            scores = forward(model, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    for parent in model.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear) and outputs.get(child) is scores:
                return parent, name, child
    raise ModelError("BoundaryExpand needs a model that ends in a linear layer with one output per class.")


def widened(head: nn.Linear, seed: int) -> nn.Linear:
    """Return the layer with one more output, newly initialized; the others as they were."""
    with seeded(seed, "shadow class"):
        wide = nn.Linear(head.in_features, head.out_features + 1, bias=head.bias is not None)
    wide = wide.to(head.weight.device, head.weight.dtype)
    with torch.no_grad():
        wide.weight[:-1].copy_(full(head.weight))
        if head.bias is not None:
            wide.bias[:-1].copy_(full(head.bias))
            wide.bias.requires_grad_(head.bias.requires_grad)
    wide.weight.requires_grad_(head.weight.requires_grad)
    return wide


@torch.no_grad()
def narrow(wide: nn.Linear, head: nn.Linear) -> None:
    """Copy all but the last output of the wide layer into the head, in place."""
    local(head.weight).copy_(shard_of(wide.weight[:-1], head.weight))
    if head.bias is not None:
        local(head.bias).copy_(shard_of(wide.bias[:-1], head.bias))
