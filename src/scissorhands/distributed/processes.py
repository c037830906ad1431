"""Many processes, as `torchrun` starts them: each holds a part of every weight and works on a part of every batch.

The only module that knows of them. With one process each function here does the obvious, or nothing: the same code
runs alone and in company. Weights are shared out by FSDP2 along their first dimension, so that the processes in their
order hold a weight's rows in their order.
"""

import copy
import ctypes
import json
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from ..errors import LostError, ModelError, SettingError

T = TypeVar("T")

_TIMEOUT = "SCISSORHANDS_TIMEOUT"  # seconds that the processes wait for each other; 600 if it is not set
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}  # as safetensors calls them
_MARK = "stands_in_for_none"
_MMAP_THRESHOLD = -3  # the number of this setting in malloc.h: above that size, memory is mapped for itself
_SKELETONS: "WeakKeyDictionary[nn.Module, nn.Module]" = WeakKeyDictionary()  # sharded models as they were before


def among_many() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def started() -> Iterator[None]:
    """Joins the processes that torchrun started, inside the block; alone, does nothing.

    A process that dies or hangs becomes a LostError in all others, within the time that $SCISSORHANDS_TIMEOUT allows.
    """
    if not among_many() or dist.is_initialized():
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if not torch.cuda.is_available():
        _give_memory_back()
    dist.init_process_group(backend, timeout=timedelta(seconds=_timeout()))
    try:
        yield
        dist.barrier()  # none leaves while another may still want to hear from it
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower() or "nccl" in str(error).lower():
            raise LostError(
                f"process {dist.get_rank()} lost another one, which died or was silent for {_timeout():.0f} s: "
                f"{str(error).splitlines()[0]}"
            ) from None
        raise
    finally:
        dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """Ends this process; one that was among many without taking Python apart first.

    Its process group has threads that live as long as anything refers to the group, as PyTorch's caches do. Such a
    thread needs the interpreter to let go of a tensor, and aborts the process if the interpreter is about to end.
    """
    if among_many() and not dist.is_initialized():
        for text in (sys.stdout, sys.stderr):
            with suppress(OSError):
                text.flush()
        os._exit(code)
    sys.exit(code)


def _give_memory_back() -> None:
    """Has what is freed go back to the system at once, where the C library would keep it for later.

    FSDP gathers blocks of layers and frees them again. What glibc keeps of that is more than sharding saves.
    """
    if sys.platform == "linux" and (adjust := getattr(ctypes.CDLL(None), "mallopt", None)):
        adjust(_MMAP_THRESHOLD, 1 << 20)


def _timeout() -> float:
    given = os.environ.get(_TIMEOUT, "600")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e8:
        raise SettingError(f"${_TIMEOUT} must be a number of seconds above 0, not '{given}'.")
    return seconds


def world_size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def own_device(device: torch.device) -> torch.device:
    """The device for this process, where each has its own accelerator."""
    if world_size() == 1 or device.type == "cpu":
        return device
    if device.index is not None:
        raise SettingError(f"each process takes its own device: say '{device.type}', not '{device}'.")
    return torch.device(device.type, int(os.environ.get("LOCAL_RANK", 0)))


def stream() -> tuple[int, ...]:
    """What sets the random numbers of this process apart from those of the others; the first has those of one alone."""
    return (rank(),) if rank() else ()


def first(action: Callable[[], T]) -> T:
    """Does something in the first process only. All get what it returned, or its error."""
    if world_size() == 1:
        return action()
    outcome: list[Any] = [None, None]
    if rank() == 0:
        try:
            outcome[0] = action()
        except Exception as error:  # whatever it is, the others wait for it
            outcome[1] = _portable(error)
    dist.broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]  # type: ignore[no-any-return]


def _portable(error: Exception) -> Exception:
    """The error, if it can be sent to another process; else one that says the same."""
    try:
        copy.deepcopy(error)
    except Exception:  # its class decides what goes wrong
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def together(problem: Exception | None = None) -> None:
    """Waits for all processes, and raises in every one what went wrong in one of them."""
    if world_size() == 1:
        if problem:
            raise problem
        return
    all_of_them: list[Exception | None] = [None] * world_size()
    dist.all_gather_object(all_of_them, problem)
    for found in all_of_them:
        if found is not None:
            raise found


def total(value: Tensor) -> Tensor:
    """The sum of `value` over all processes, in place."""
    if world_size() > 1:
        dist.all_reduce(value)
    return value


def shared(value: Tensor) -> Tensor:
    """The value that the first process has, in place."""
    if world_size() > 1:
        dist.broadcast(value, 0)
    return value


def queue(count: int) -> tuple[int, int]:
    """How many things the processes before this one have, and all together, where this one has `count`."""
    counts = torch.zeros(world_size(), dtype=torch.int64)
    counts[rank()] = count
    total(counts)
    return int(counts[: rank()].sum()), int(counts.sum())


def agreed(flag: bool) -> bool:
    """Whether any process says so."""
    return bool(total(torch.tensor(int(flag))))


def mine(count: int) -> slice:
    """Which of `count` records this process works on."""
    bounds = [count * i // world_size() for i in (rank(), rank() + 1)]
    return slice(*bounds)


def fetched(fetch: Callable[[Tensor], tuple[Tensor, Tensor]], ids: Tensor) -> tuple[Tensor, Tensor]:
    """This process's share of a batch.

    A process without a record must compute all the same, since the others wait for it, and few layers take an empty
    batch. So it gets a record that is marked, and counts for nothing.
    """
    own = ids[mine(len(ids))]
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


def gathered(values: Tensor, count: int) -> Tensor:
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


def over_all(loss: Callable[[nn.Module, Any], Tensor]) -> Callable[[nn.Module, Any], Tensor]:
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


def local(value: Tensor) -> Tensor:
    """The part of a weight that this process holds, as a plain tensor with the same memory."""
    if isinstance(value, DTensor):
        with torch.no_grad():
            return value.to_local()
    return value


def whole(value: Tensor) -> Tensor:
    """All of a weight."""
    with torch.no_grad():
        return value.full_tensor() if isinstance(value, DTensor) else value.detach()


def rows_here(weight: Tensor) -> slice | None:
    """The rows of a weight that this process holds; none if it holds it whole."""
    if not isinstance(weight, DTensor):
        return None
    size = -(-len(weight) // world_size())
    return slice(min(len(weight), size * rank()), min(len(weight), size * (rank() + 1)))


def part(full: Tensor, weight: Tensor) -> Tensor:
    """What of a full tensor belongs to the part of the weight that this process holds."""
    rows = rows_here(weight)
    return full[rows] if rows else full


@torch.no_grad()
def add_(weight: Tensor, full: Tensor) -> None:
    """Adds a full tensor to a weight, in place: each process that which belongs to the part that it holds."""
    here = local(weight)
    here.add_(part(full, weight).to(here))


def gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The gradient of the loss over the records of all processes, for the part of each weight that is held here."""
    if world_size() == 1:
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [alike(g, p) for g, p in zip(found, parameters, strict=True)]
    for model in _SKELETONS:  # a gradient that nobody takes would hold on to the memory of its whole block
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
            taken.append(total(gradient).div_(world_size()))
    for model in _SKELETONS:
        model.zero_grad()
    return taken


def alike(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    """The gradient as its parameter lies in memory, since a fused optimiser does not look; zero if there is none."""
    if gradient is None:
        return torch.zeros_like(parameter)
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def spread(model: nn.Module, device: torch.device) -> nn.Module:
    """Moves the model to the device, in place; of many processes each holds a part of every weight.

    Batch normalisation is over the batch of all processes. A model whose weights are still to be loaded is given
    memory for them.
    """
    if world_size() == 1:
        return model.to(device)
    if model in _SKELETONS:
        return model
    from .batchnorm import normalise_over_all

    shape = _skeleton(model)
    empty = any(p.is_meta for p in model.parameters())
    if not empty:
        model.to(device)
    normalise_over_all(model)
    mesh = init_device_mesh(device.type, (world_size(),))
    scalars = {name: p for name, p in model.named_parameters() if p.dim() == 0}
    if len({p.dtype for p in model.parameters()}) > 1:
        raise ModelError("the weights are of several precisions, and only those of one can be shared out.")
    for name, parameter in scalars.items():
        if parameter.requires_grad:
            raise ModelError(f"{name} is a single number, which cannot be shared out: make it a tensor of one element.")
    for block in [*_blocks(model), model]:
        fully_shard(block, mesh=mesh, reshard_after_forward=True, ignored_params=set(scalars.values()))
    if empty:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers() if not buffer.is_meta}
        model.to_empty(device=device)
        for name, buffer in model.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])
    _SKELETONS[model] = shape
    return model


def _skeleton(model: nn.Module) -> nn.Module:
    """A copy of the model whose weights have a shape and no memory."""
    empty = {id(p): nn.Parameter(torch.empty_like(p, device="meta"), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, dict(empty))


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The parts that are gathered one at a time: the outermost members of lists and sequences of layers.

    A part that shares a weight with the rest of the model is left to the whole.
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


def sharded(model: nn.Module) -> bool:
    """Whether the model is shared out among many processes."""
    return model in _SKELETONS


def copied(model: nn.Module) -> nn.Module:
    """A copy of the model, shared out as the model is."""
    if model not in _SKELETONS:
        return copy.deepcopy(model)
    twin = spread(copy.deepcopy(_SKELETONS[model]), next(model.parameters()).device)
    with torch.no_grad():
        for mine_, other in zip(state(twin).values(), state(model).values(), strict=True):
            mine_.copy_(other)
    twin.train(model.training)
    return twin


def state(model: nn.Module) -> dict[str, Tensor]:
    """All that a model remembers, by name: the parts of its weights that this process holds, and its buffers."""
    named = {name: local(p).detach() for name, p in model.named_parameters()}
    return named | {name: local(b).detach() for name, b in model.named_buffers()}


def plain(model: nn.Module) -> nn.Module:
    """The model as it was before it was shared out: its modules, and the shapes of its weights."""
    return _SKELETONS.get(model, model)


def tangible(module: nn.Module, device: torch.device) -> nn.Module:
    """Gives memory to the weights that have none, in place; what is in it is not set."""
    for inner in module.modules():
        for name, parameter in inner.named_parameters(recurse=False):
            if parameter.is_meta:
                memory = torch.empty_like(parameter, device=device)
                setattr(inner, name, nn.Parameter(memory, parameter.requires_grad))
    return module


@contextmanager
def unsharded(model: nn.Module, name: str) -> Iterator[nn.Module]:
    """One module of the model with all its weights; what the block writes into it reaches the model when it ends.

    Of many processes each has a copy for itself.
    """
    module = model.get_submodule(name)
    if model not in _SKELETONS:
        yield module
        return
    twin = tangible(copy.deepcopy(_SKELETONS[model].get_submodule(name)), next(model.parameters()).device)
    shards = dict(module.named_parameters()) | dict(module.named_buffers())
    wholes = dict(twin.named_parameters()) | dict(twin.named_buffers())
    with torch.no_grad():
        for key, weight in shards.items():
            wholes[key].copy_(whole(weight))
    yield twin
    with torch.no_grad():
        for key, weight in shards.items():
            local(weight).copy_(part(wholes[key], weight))


@contextmanager
def hollow() -> Iterator[None]:
    """Models that are built inside the block have weights without memory, which `fill` loads; alone, does nothing."""
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


def fill(model: nn.Module, files: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Loads the weights in these safetensors files, of which each process reads its rows, in place.

    Returns what the model has and the files have not, and the other way round.
    """
    wanted = model.state_dict(keep_vars=True)
    found: dict[str, Tensor] = {}
    unexpected: list[str] = []
    for path in files:
        with safe_open(path, framework="pt") as file, torch.no_grad():
            for name in file.keys():  # noqa: SIM118  # it is no dictionary
                if name not in wanted:
                    unexpected.append(name)
                    continue
                there, weight = file.get_slice(name), wanted[name]
                if there.get_shape() != list(weight.shape):
                    sizes = f"{there.get_shape()} in the file, {list(weight.shape)} in the model"
                    raise ModelError(f"size mismatch for {name}: {sizes}.")
                rows = rows_here(weight)
                local(weight).copy_(there[rows] if rows else file.get_tensor(name))
                found[name] = weight
    tied = {id(weight) for weight in found.values()}  # a weight with two names is in the file under one
    missing = [name for name, weight in wanted.items() if name not in found and id(weight) not in tied]
    return sorted(missing), sorted(unexpected)


def _once(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor under the first of its names."""
    names: dict[int, str] = {}
    for name, value in named.items():
        names.setdefault(id(value), name)
    return {name: named[name] for name in names.values()}


def write(model: nn.Module, path: Path) -> None:
    """Writes the weights into one safetensors file. They are gathered one at a time: no process holds them all."""
    named = _once(model.state_dict(keep_vars=True))
    order = sorted(named, key=lambda name: (-named[name].element_size(), name))  # so that each is aligned in the file
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in order:
        start, end = end, end + named[name].numel() * named[name].element_size()
        about = {"dtype": _DTYPES[named[name].dtype], "shape": list(named[name].shape), "data_offsets": [start, end]}
        header[name] = about
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    first(path.touch)
    problem: OSError | None = None
    file = path.open("wb") if rank() == 0 else None
    for piece in _pieces(text, (named[name] for name in order)):
        try:
            if file and not problem:
                file.write(piece)
        except OSError as error:
            problem = error
    try:
        if file:
            file.flush()
            os.fsync(file.fileno())
            file.close()
    except OSError as error:
        problem = problem or error
    together(problem)


def _pieces(header: bytes, weights: Iterable[Tensor]) -> Iterator[Any]:
    """What a safetensors file is made of: the length of its header, the header, and the weights one by one."""
    yield struct.pack("<Q", len(header)) + header
    for weight in weights:
        yield whole(weight).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
