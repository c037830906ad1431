"""What the benchmarks share: made-up images, a clock over logged steps, and how a result is printed."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch

import scissorhands as sh
from scissorhands.data.problem import Log
from scissorhands.data.records import Part, Stored


def quick(description: str | None) -> bool:
    """Whether the smaller size was asked for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller size, within a minute")
    return bool(parser.parse_args().quick)


def problem(retain: int, forget: int, augment: Any = None) -> sh.Problem:
    """A problem of random images in ten classes, as large as those of CIFAR-10."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(256, (retain + forget, 3, 32, 32), dtype=torch.uint8, generator=draw)
    records = Stored(images, torch.randint(10, (retain + forget,), generator=draw), classes=tuple("0123456789"))
    ids = torch.arange(retain + forget)
    return sh.Problem(Part(records, ids[retain:]), Part(records, ids[:retain]), augment=augment)


def step_times(work: Callable[[Log], None], phase: str) -> list[float]:
    """The seconds of each step that the work logs in a phase, but for the first, which warms up."""
    ends: list[float] = []

    def log(event: Mapping[str, Any]) -> None:
        if event["phase"] == phase:
            ends.append(time.perf_counter())

    work(log)
    return [end - start for start, end in pairwise(ends)]


def seconds(work: Callable[..., object], *arguments: Any) -> float:
    """The seconds that a piece of work takes."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def report(ratio: float, limit: str, **rest: Any) -> None:
    """Prints the figure in words, and as the last line everything as JSON."""
    print(f"\nratio {ratio:.3f} ({limit})")
    print(json.dumps({"ratio": round(ratio, 4), "limit": limit, "threads": torch.get_num_threads(), **rest}))


def median(values: list[float]) -> float:
    """The middle value, which a busy moment does not move."""
    return statistics.median(values)
