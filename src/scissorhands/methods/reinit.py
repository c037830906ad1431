"""Re-initialize chosen weights.

A draw is made for the parameter's full shape from a generator keyed by the seed and the parameter's name, and each
process takes its part. So it changes nothing which other parameters are drawn, or by how many processes.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from ..distributed import all_reduce_sum_, full_module, local, materialize, shard_of, unsharded
from ..errors import ModelError
from ..randomness import generator, key, seeded

NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def owners(model: nn.Module) -> dict[str, nn.Module]:
    """Return the module that holds each parameter, by the parameter's name."""
    return {
        f"{prefix}.{name}" if prefix else name: module
        for prefix, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }


def without_norms(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """Return the parameters that no normalization layer holds, told by the layer's type and never by its name."""
    owner = owners(model)
    kept = {name: p for name, p in parameters.items() if not isinstance(owner[name], NORMS)}
    if not kept:
        raise ModelError("only normalization layers are chosen, and those are never re-initialized.")
    return kept


def reinitialize(
    model: nn.Module, masks: Iterable[tuple[str, Tensor]], init: str, seed: int, *, zero_biases: bool = False
) -> dict[str, int]:
    """Re-initialize the marked weights, in place, and return how many there were of each parameter."""
    parameters, owner = dict(model.named_parameters()), owners(unsharded(model))
    drawn: dict[str, int] = {}
    with torch.no_grad():
        for name, mask in masks:
            weight = local(parameters[name])
            draw = _zero if zero_biases and name.rpartition(".")[2] == "bias" else INITS[init]
            fresh = shard_of(draw(owner[name], name, parameters[name], seed), parameters[name])
            weight.copy_(torch.where(mask, fresh.to(weight), weight))
            drawn[name] = int(mask.sum())
    counts = all_reduce_sum_(torch.tensor([*drawn.values()], dtype=torch.int64))
    return dict(zip(drawn, counts.tolist(), strict=True))


def trim_event(scope: Mapping[str, nn.Parameter], drawn: Mapping[str, int]) -> dict[str, Any]:
    """Return what to log of a trim: how many weights were drawn anew, of how many, in all and by parameter."""
    sizes = {name: parameter.numel() for name, parameter in scope.items()}
    layers = {name: [count, sizes[name]] for name, count in drawn.items() if count}
    return {"phase": "trim", "drawn": sum(drawn.values()), "of": sum(sizes.values()), "layers": layers}


def reset(model: nn.Module, seed: int) -> None:
    """Re-initialize the whole model, in place, each layer in its own way; frozen weights stay."""
    frozen = {p: local(p).detach().clone() for p in model.parameters() if not p.requires_grad}
    with seeded(seed, "reset"):
        for name in list(_layers(unsharded(model))):
            with full_module(model, name) as layer:
                _draw(layer, name)
    with torch.no_grad():
        for parameter, value in frozen.items():
            local(parameter).copy_(value)


@runtime_checkable
class Pretrained(Protocol):
    """A model that can take over published weights."""

    def restart(self, name: str) -> None:
        """Take over the weights of that name, all but a head of another size, in place."""


def restart(model: nn.Module, name: str) -> None:
    """Take over published weights, in place."""
    if not isinstance(model, Pretrained):
        raise ModelError(f"only a Hugging Face classifier can start from '{name}', and this model is not one.")
    model.restart(name)


def _layers(module: nn.Module, name: str = "") -> Iterator[str]:
    """Yield the names of the outermost modules that can re-initialize themselves, or hold a weight directly."""
    if _own_reset(module) or next(module.parameters(recurse=False), None) is not None:
        yield name
        return
    for child, inner in module.named_children():
        yield from _layers(inner, f"{name}.{child}" if name else child)


def _draw(layer: nn.Module, name: str) -> None:
    """Re-initialize all weights of a layer, in place."""
    own = _own_reset(layer)
    if own is None:
        what = f"{name or 'the model'} ({type(layer).__name__})"
        raise ModelError(f"{what} cannot be re-initialized: give it a method reset_parameters().")
    own()


def _own_reset(layer: nn.Module) -> Callable[[], None] | None:
    """Return the layer's own initialization; PyTorch's attention layers keep theirs under a private name."""
    for name in ("reset_parameters", "_reset_parameters"):
        if callable(found := getattr(layer, name, None)):
            return found  # type: ignore[no-any-return]
    return None


def _bound(module: nn.Module, parameter: Tensor) -> float:
    """Return 1/√(number of inputs of a unit), the bound that PyTorch's own layers use for weights and biases."""
    weight = max(module.parameters(recurse=False), key=lambda p: p.dim()) if parameter.dim() < 2 else parameter
    return 1 / math.sqrt(max(1, weight.shape[1:].numel()))


def _uniform(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    bound = _bound(module, parameter)
    draw = torch.rand(parameter.shape, generator=generator(seed, "reinit", name), dtype=torch.float64)
    return draw.mul_(2 * bound).sub_(bound)


def _normal(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    """Draw from the normal distribution with the variance of the uniform one."""
    draw = torch.randn(parameter.shape, generator=generator(seed, "reinit", name), dtype=torch.float64)
    return draw.mul_(_bound(module, parameter) / math.sqrt(3))


def _kaiming(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    """Draw weights from ±√(6 / number of inputs) and set biases to zero, as the published code does for nudity."""
    if parameter.dim() < 2:
        return torch.zeros(parameter.shape)
    draw = torch.rand(parameter.shape, generator=generator(seed, "reinit", name), dtype=torch.float64)
    bound = math.sqrt(6) * _bound(module, parameter)
    return draw.mul_(2 * bound).sub_(bound)


def _truncated(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    """Draw weights from a normal distribution of width 0.02 and set biases to zero, as published for classes.

    It is truncated at ±2 there, a hundred widths away.
    """
    if parameter.dim() < 2:
        return torch.zeros(parameter.shape)
    draw = torch.randn(parameter.shape, generator=generator(seed, "reinit", name), dtype=torch.float64)
    return draw.mul_(0.02)


def _zero(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    return torch.zeros(parameter.shape)


def _one(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    return torch.ones(parameter.shape)


def _layer(module: nn.Module, name: str, parameter: Tensor, seed: int) -> Tensor:
    twin = materialize(copy.deepcopy(module), parameter.device)
    with seeded(key(seed, "reinit", name)):
        _draw(twin, name)
    return dict(twin.named_parameters())[name.rpartition(".")[2]].detach()


INITS: dict[str, Callable[[nn.Module, str, Tensor, int], Tensor]] = {
    "uniform": _uniform,
    "normal": _normal,
    "kaiming": _kaiming,
    "truncated": _truncated,
    "zero": _zero,
    "one": _one,
    "layer": _layer,
}
