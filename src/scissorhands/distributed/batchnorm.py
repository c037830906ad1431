"""Batch normalization over the batch of all processes, so that many give what one would.

PyTorch's own synchronized layer runs on a GPU only; this one runs anywhere.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .batches import is_padding
from .processes import all_gather, all_reduce_sum_


def normalize_over_all(model: nn.Module) -> None:
    """Turn every batch normalization of the model into one over all processes, in place; names and weights stay."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            kind = type(module)
            module.__class__ = type(f"Global{kind.__name__}", (kind, _Global), {})


class _Global(_BatchNorm):
    """A batch normalization whose mean and variance are those of the records of all processes."""

    def forward(self, values: Tensor) -> Tensor:
        """Normalize by the batch of all processes in training, by the running statistics otherwise."""
        if not self.training and self.running_mean is not None:
            return super().forward(values)
        self._check_input_dim(values)  # type: ignore[no-untyped-call]
        y, mean, variance, count = _Normalize.apply(values, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        if self.training and self.running_mean is not None and self.running_var is not None:
            self._follow(mean, variance * (count / (count - 1)))
        found: Tensor = y
        return found

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics, in place, as PyTorch's own layer does."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        factor = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked or 1)
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            if running is not None:
                running.lerp_(now.to(running), factor)


class _Normalize(torch.autograd.Function):
    """(x − mean) / √(variance + eps) · weight + bias, with mean and variance of the records of all processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
        over = [d for d in range(x.dim()) if d != 1]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        own = 0 if is_padding() else 1  # what a process without records computes with is not of the batch
        size = x.numel() // x.shape[1]
        here = x.sum(over) / max(size, 1)
        spread = own * (x - here.view(shape)).square().sum(over)
        known = torch.tensor([own * size], dtype=torch.float64, device=x.device), here, spread
        sizes, means, spreads = all_gather(torch.cat(known)).split([1, len(here), len(here)], dim=1)
        count = sizes.sum()
        mean = (sizes * means).sum(0) / count
        variance = ((spreads + sizes * (means - mean).square()).sum(0) / count).to(x.dtype)
        mean = mean.to(x.dtype)
        inverse = (variance + eps).rsqrt()
        normal = (x - mean.view(shape)).mul_(inverse.view(shape))
        ctx.save_for_backward(normal, inverse, weight, count)
        ctx.own = own
        ctx.mark_non_differentiable(mean, variance, count)
        y = normal if weight is None else normal * weight.view(shape)
        return y if bias is None else y + bias.view(shape), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> Any:
        normal, inverse, weight, count = ctx.saved_tensors
        over = [d for d in range(normal.dim()) if d != 1]
        shape = [1, -1, *[1] * (normal.dim() - 2)]
        own = torch.stack([gradient.sum(over), (gradient * normal).sum(over)])
        everywhere = all_reduce_sum_(own.clone()) / count.to(own.dtype)
        scale = inverse if weight is None else inverse * weight
        x = (gradient - everywhere[0].view(shape) - normal * everywhere[1].view(shape)) * scale.view(shape)
        x = x * ctx.own
        return x, (own[1] if weight is not None else None), (own[0] if ctx.needs_input_grad[2] else None), None
