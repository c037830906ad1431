"""Weights that are divided among the processes by FSDP2, along their first dimension.

The processes in their order hold a weight's rows in their order.
"""

import copy
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from ..errors import ModelError
from .batchnorm import normalize_over_all
from .processes import all_reduce_sum_, rank, world_size

_META_COPIES: "WeakKeyDictionary[nn.Module, nn.Module]" = WeakKeyDictionary()  # sharded models as they were before


def local(value: Tensor) -> Tensor:
    """Return the local shard of a weight as a plain tensor that shares its memory."""
    if isinstance(value, DTensor):
        with torch.no_grad():
            return value.to_local()
    return value


def full(value: Tensor) -> Tensor:
    """Gather the full tensor of a weight."""
    with torch.no_grad():
        return value.full_tensor() if isinstance(value, DTensor) else value.detach()


def own_rows(weight: Tensor) -> slice | None:
    """Return the rows of a weight that this process holds; none if the weight is not sharded."""
    if not isinstance(weight, DTensor):
        return None
    size = -(-len(weight) // world_size())
    return slice(min(len(weight), size * rank()), min(len(weight), size * (rank() + 1)))


def shard_of(full: Tensor, weight: Tensor) -> Tensor:
    """Return the part of a full tensor that belongs to the local shard of the weight."""
    rows = own_rows(weight)
    return full[rows] if rows else full


@torch.no_grad()
def add_(weight: Tensor, full: Tensor) -> None:
    """Add a full tensor to a weight, in place; each process adds to its own shard."""
    here = local(weight)
    here.add_(shard_of(full, weight).to(here))


def gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Compute the gradient of the loss over the records of all processes, for the local shard of each weight."""
    if world_size() == 1:
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [match_strides(g, p) for g, p in zip(found, parameters, strict=True)]
    for model in _META_COPIES:  # a gradient that nobody takes would hold on to the memory of its whole block
        model.zero_grad()
    loss.backward()
    taken = []
    for parameter in parameters:
        gradient, parameter.grad = parameter.grad, None
        if gradient is None:
            taken.append(torch.zeros_like(local(parameter)))
        elif isinstance(parameter, DTensor):
            taken.append(local(gradient))
        else:  # a weight that every process holds whole: FSDP does not add up its gradients
            taken.append(all_reduce_sum_(gradient).div_(world_size()))
    for model in _META_COPIES:
        model.zero_grad()
    return taken


def match_strides(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    """Return the gradient with its parameter's strides, which a fused optimizer assumes; zero if there is none."""
    if gradient is None:
        return torch.zeros_like(parameter)
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def shard(model: nn.Module, device: torch.device) -> nn.Module:
    """Move the model to the device, in place; with many processes, shard every weight among them.

    Batch normalization is over the batch of all processes. A model whose weights are still to be loaded is given
    memory for them.
    """
    if world_size() == 1:
        return model.to(device)
    if model in _META_COPIES:
        return model
    gc.collect()  # a sharded model that is done with is a cycle: it holds its memory, and `gradients` looks at it
    shape = _meta_copy(model)
    empty = any(p.is_meta for p in model.parameters())
    if not empty:
        model.to(device)
    normalize_over_all(model)
    mesh = init_device_mesh(device.type, (world_size(),))
    scalars = {name: p for name, p in model.named_parameters() if p.dim() == 0}
    if len({p.dtype for p in model.parameters()}) > 1:
        raise ModelError("the weights are of several precisions, and only those of one can be sharded.")
    for name, parameter in scalars.items():
        if parameter.requires_grad:
            raise ModelError(f"{name} is a single number, which cannot be sharded: make it a tensor of one element.")
    for block in [*_blocks(model), model]:
        fully_shard(block, mesh=mesh, reshard_after_forward=True, ignored_params=set(scalars.values()))
    if empty:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers() if not buffer.is_meta}
        model.to_empty(device=device)
        for name, buffer in model.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])
    _META_COPIES[model] = shape
    return model


def _meta_copy(model: nn.Module) -> nn.Module:
    """Return a copy of the model with its weights on the meta device."""
    empty = {id(p): nn.Parameter(torch.empty_like(p, device="meta"), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, dict(empty))


def _blocks(model: nn.Module) -> list[nn.Module]:
    """Return the modules that are gathered one at a time: the outermost members of lists and sequences of layers.

    A module that shares a weight with the rest of the model is gathered with the rest.
    """
    homes: dict[nn.Parameter, set[nn.Module]] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            homes.setdefault(parameter, set()).add(module)
    found: list[nn.Module] = []

    def search(module: nn.Module) -> None:
        for child in module.children():
            listed = isinstance(module, nn.Sequential | nn.ModuleList)
            container = isinstance(child, nn.Sequential | nn.ModuleList | nn.ModuleDict)
            weights = set(child.parameters())
            if listed and not container and weights:
                if all(home in set(child.modules()) for p in weights for home in homes[p]):
                    found.append(child)
            else:
                search(child)

    search(model)
    return found


def is_sharded(model: nn.Module) -> bool:
    """Return whether the model is sharded."""
    return model in _META_COPIES


def copy_model(model: nn.Module) -> nn.Module:
    """Return a copy of the model, sharded as the model is."""
    if model not in _META_COPIES:
        return copy.deepcopy(model)
    twin = shard(copy.deepcopy(_META_COPIES[model]), next(model.parameters()).device)
    with torch.no_grad():
        for target, source in zip(local_state(twin).values(), local_state(model).values(), strict=True):
            target.copy_(source)
    twin.train(model.training)
    return twin


def local_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the local shards of the weights, and the buffers, by name."""
    named = {name: local(p).detach() for name, p in model.named_parameters()}
    return named | {name: local(b).detach() for name, b in model.named_buffers()}


def unsharded(model: nn.Module) -> nn.Module:
    """Return the model as it was before it was sharded, with its weights on the meta device."""
    return _META_COPIES.get(model, model)


def materialize(module: nn.Module, device: torch.device) -> nn.Module:
    """Allocate uninitialized memory for weights on the meta device, in place."""
    for inner in module.modules():
        for name, parameter in inner.named_parameters(recurse=False):
            if parameter.is_meta:
                memory = torch.empty_like(parameter, device=device)
                setattr(inner, name, nn.Parameter(memory, parameter.requires_grad))
    return module


@contextmanager
def full_module(model: nn.Module, name: str) -> Iterator[nn.Module]:
    """Gather one module with its full weights; what the block writes into it reaches the model when it ends.

    Of many processes each has a copy for itself.
    """
    module = model.get_submodule(name)
    if model not in _META_COPIES:
        yield module
        return
    twin = materialize(copy.deepcopy(_META_COPIES[model].get_submodule(name)), next(model.parameters()).device)
    shards = dict(module.named_parameters()) | dict(module.named_buffers())
    full_tensors = dict(twin.named_parameters()) | dict(twin.named_buffers())
    with torch.no_grad():
        for key, weight in shards.items():
            full_tensors[key].copy_(full(weight))
    yield twin
    with torch.no_grad():
        for key, weight in shards.items():
            local(weight).copy_(shard_of(full_tensors[key], weight))


@contextmanager
def meta_device() -> Iterator[None]:
    """Give models that are built inside the block weights without memory, for `load_weights`; alone, do nothing.

    `torch.device("meta")` would take the values of buffers, too, and files of weights do not hold all of them.
    """
    if world_size() == 1:
        yield
        return
    register = nn.Module.register_parameter
    seen: dict[int, tuple[ref[nn.Parameter], nn.Parameter]] = {}  # a weight with two names stays one

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, parameter)
        if parameter is not None and not parameter.is_meta:
            known, empty = seen.get(id(parameter), (None, None))
            if known is None or known() is not parameter or empty is None:
                empty = nn.Parameter(parameter.to("meta"), parameter.requires_grad)
                seen[id(parameter)] = ref(parameter), empty
            module._parameters[name] = empty

    nn.Module.register_parameter = registered  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]
