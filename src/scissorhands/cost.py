"""What a piece of work costs: seconds, and the most memory in use at any time."""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Cost:
    """Seconds on the clock, and the peak memory in MiB: of the accelerator if there is one, else of the process."""

    seconds: float = 0.0
    memory_mib: float = 0.0


@contextmanager
def measured(device: torch.device) -> Iterator[Cost]:
    """Measure the block; the cost is complete when the block ends."""
    cost = Cost()
    _forget_peak(device)
    start = time.perf_counter()
    yield cost
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    cost.seconds = time.perf_counter() - start
    cost.memory_mib = _peak(device) / 2**20


def _forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # where there is no such file, the peak is that of the whole process so far
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from what is in use now


def _peak(device: torch.device) -> float:
    """Return the peak in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * float(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(peak if sys.platform == "darwin" else 1024 * peak)
