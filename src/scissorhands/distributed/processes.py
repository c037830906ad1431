"""The processes that `torchrun` starts: who they are, and how they wait for each other and agree.

With one process each function does the obvious, or nothing: the same code runs alone and with others.
"""

import copy
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import LostError, SettingError
from ..launcher import under_torchrun

T = TypeVar("T")

_TIMEOUT = "SCISSORHANDS_TIMEOUT"  # seconds that the processes wait for each other; 600 if it is not set
_MMAP_THRESHOLD = -3  # the number of this setting in malloc.h: above that size, memory is mapped for itself


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that torchrun started inside the block; alone, do nothing.

    A process that dies or hangs becomes a LostError in all others, within the time that $SCISSORHANDS_TIMEOUT allows.
    """
    if not under_torchrun() or dist.is_initialized():
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
        # gloo raises a plain RuntimeError where a process is lost, which only its text tells from any other.
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower() or "nccl" in str(error).lower():
            raise LostError(
                f"process {dist.get_rank()} lost another one, which died or was silent for {_timeout():.0f} s: "
                f"{str(error).splitlines()[0]}"
            ) from None
        raise
    finally:
        dist.destroy_process_group()


def exit_process(code: int) -> NoReturn:
    """End this process; under torchrun, without finalizing the interpreter.

    Its process group has threads that live as long as anything refers to the group, as PyTorch's caches do. Such a
    thread needs the interpreter to let go of a tensor, and aborts the process if the interpreter is about to end.
    """
    if under_torchrun() and not dist.is_initialized():
        for text in (sys.stdout, sys.stderr):
            with suppress(OSError):
                text.flush()
        os._exit(code)
    sys.exit(code)


def _give_memory_back() -> None:
    """Make the C library return freed memory to the system at once.

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
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def own_device(device: torch.device) -> torch.device:
    """Return the device of this process, where each has its own accelerator."""
    if world_size() == 1 or device.type == "cpu":
        return device
    if device.index is not None:
        raise SettingError(f"each process takes its own device: say '{device.type}', not '{device}'.")
    return torch.device(device.type, int(os.environ.get("LOCAL_RANK", 0)))


def rank_key() -> tuple[int, ...]:
    """Return the key of this rank's random numbers; it is empty on rank 0, which draws what one process would."""
    return (rank(),) if rank() else ()


def on_rank_0(action: Callable[[], T]) -> T:
    """Run an action on rank 0 only; return its result, or raise its error, on all ranks."""
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
    """Return the error if it can be sent to another process; else one with the same text."""
    try:
        copy.deepcopy(error)
    except Exception:  # its class decides what goes wrong
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def barrier() -> None:
    """Wait for all processes."""
    raise_on_all_ranks(None)


def raise_on_all_ranks(error: Exception | None) -> None:
    """Raise on every rank the error of the first rank that has one; wait for all of them."""
    errors: list[Exception | None] = [error]
    if world_size() > 1:
        errors = [None] * world_size()
        dist.all_gather_object(errors, error)
    for found in errors:
        if found is not None:
            raise found


def all_reduce_sum_(value: Tensor) -> Tensor:
    """Sum `value` over all processes, in place."""
    if world_size() > 1:
        dist.all_reduce(value)
    return value


def all_gather(value: Tensor) -> Tensor:
    """Stack the values of all processes, in the order of their ranks."""
    if world_size() == 1:
        return value[None]
    found = [torch.empty_like(value) for _ in range(world_size())]
    dist.all_gather(found, value.contiguous())
    return torch.stack(found)


def broadcast(value: Tensor) -> Tensor:
    """Copy the value of rank 0 to all ranks, in place."""
    if world_size() > 1:
        dist.broadcast(value, 0)
    return value


def exclusive_sum(count: int) -> tuple[int, int]:
    """Return the sum of `count` over the ranks before this one, and over all ranks."""
    counts = all_gather(torch.tensor(int(count)))
    return int(counts[: rank()].sum()), int(counts.sum())


def any_rank(flag: bool) -> bool:
    """Return whether the flag is set on any rank."""
    return bool(all_reduce_sum_(torch.tensor(int(flag))))
