"""How time and memory grow with the weights, with the records, and with the share of them that is forgotten.

    python benchmarks/growth.py [--quick]

weights   a tower of equal layers, a batch of 16: trimming, and one guarded step
records   a tiny network, records that are made from their number when they are fetched: dividing the data, one pass of
          training, trimming on 100 records, the outputs on all records, and the scores of level quick from them
forgotten the same network and records, a share of 1 % to 50 %: trimming on all of them, one pass of repair, the scores

An exponent is the slope of a straight line through the logarithms: 1 is linear, 0 does not grow. That of the two
largest sizes stands beside it, where what is fixed weighs least. Memory is the peak beyond what the process has in use
before the stage. Each size runs in a process of its own, which first does the same at a tiny size to warm up.
"""

import ctypes
import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import median, quick, report, seconds, step_times
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.cost import Cost, measured
from scissorhands.data.records import Fetched, Part, Records
from scissorhands.evaluation.context import Context
from scissorhands.evaluation.evaluate import examine, outputs

Stages = dict[str, Cost]
THOUSAND = 1000
WIDTH = 512  # of a layer of the tower
SAMPLE = 100  # records that are looked at in trimming, where it is the data that grows
INPUTS, CLASSES = 16, 10
TRAINING = sh.Training(epochs=1, lr=0.05)


class MadeUp(Records):
    """Records that take no memory but for their labels: each is made from its number."""

    def __init__(self, count: int, seed: int) -> None:
        self._labels = torch.randint(CLASSES, (count,), generator=torch.Generator().manual_seed(seed))
        self._seed = seed
        self.classes = tuple(map(str, range(CLASSES)))

    @property
    def labels(self) -> Tensor:
        return self._labels

    def fetch(self, ids: Tensor) -> Fetched:
        labels = self._labels[ids]
        noise = torch.sin((ids[:, None] + 1.0 + self._seed) * (1.0 + torch.arange(INPUTS).sqrt()) * 12.9898)
        return noise + 0.5 * torch.nn.functional.one_hot(labels, INPUTS), labels


def main() -> None:
    """Prints a table for each of the three, and the largest exponent of time."""
    small = quick(__doc__)
    axes: dict[str, tuple[Callable[[int], Stages], list[int]]] = {
        "weights": (weights, [1, 4, 16] if small else [1, 3, 10, 30, 100]),
        "records": (records, [1, 10, 50] if small else [1, 10, 100, 1000]),
        "forgotten": (
            partial(forgotten, everything=THOUSAND * (50 if small else 100)),
            [1, 5, 25] if small else [1, 3, 10, 30, 50],
        ),
    }
    rows = []
    for axis, (work, counts) in axes.items():
        sizes = [count * THOUSAND * (THOUSAND if axis == "weights" else 1) for count in counts]
        found = [alone(work, size) for size in sizes]
        rows += [table(axis, stage, sizes, [one[stage] for one in found]) for stage in found[0]]
    worst = max(rows, key=lambda row: row["time"])
    print(f"\nthe fastest growth: {worst['stage']}, with the {worst['axis']}")
    report(worst["time"], "at most 1.1: linear, with noise", rows=rows)


def alone(work: Callable[[int], Stages], size: int) -> Stages:
    """The costs of one size, measured in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:  # forked, so that it need not import all again
        pool.apply(work, (300,))  # warms up
        return pool.apply(work, (size,))


def table(axis: str, stage: str, sizes: list[int], costs: list[Cost]) -> dict[str, Any]:
    """Prints the seconds and the memory of each size, and how they grow."""
    times, memory = [cost.seconds for cost in costs], [cost.memory_mib for cost in costs]
    grown = {"time": slope(sizes, times), "memory": slope(sizes, memory, least=4.0)}
    last = {"time_last": slope(sizes[-2:], times[-2:]), "memory_last": slope(sizes[-2:], memory[-2:], least=4.0)}
    print(f"\n{stage}\n{axis:>12}{'seconds':>10}{'MiB':>9}")
    for size, one, other in zip(sizes, times, memory, strict=True):
        print(f"{size:12,}{one:10.3f}{other:9.1f}")
    print(f"{'exponent':>12}{grown['time']:10.2f}{grown['memory']:9.2f}")
    print(f"{'at the end':>12}{last['time_last']:10.2f}{last['memory_last']:9.2f}", flush=True)
    measured_here = {
        "sizes": sizes,
        "seconds": [round(one, 4) for one in times],
        "mib": [round(one, 1) for one in memory],
    }
    return {"axis": axis, "stage": stage, **rounded(grown | last), **measured_here}


def rounded(values: dict[str, float]) -> dict[str, float]:
    """The values with three digits after the point."""
    return {name: round(value, 3) for name, value in values.items()}


def slope(sizes: list[int], values: list[float], least: float = 0.0) -> float:
    """The exponent of the growth; what is below the least is noise, and counts as the least."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, max(least, 1e-9))), 1)[0])


def weights(size: int) -> Stages:
    """Trimming and guarded steps of a model with so many weights."""
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(round(size / WIDTH**2))]
    model = nn.Sequential(nn.Linear(INPUTS, WIDTH), *layers, nn.Linear(WIDTH, CLASSES))
    data, found = MadeUp(96, 0), Stages()
    case = sh.Problem(Part(data, torch.arange(16)), Part(data, torch.arange(16, 96)))
    trim = sh.Scissorhands(reading="paper", epochs=0, batch_size=16)
    times = took(found, "trimming", lambda: [seconds(trim.scrub, model, case) for _ in range(3)])
    found["trimming"].seconds = median(times)
    guarded = partial(
        sh.Scissorhands(reading="paper", trim=0.0, sample=1e-9, epochs=1, batch_size=16).scrub, model, case
    )
    times = took(found, "a guarded step", lambda: step_times(guarded, "repair"))
    found["a guarded step"].seconds = median(times)
    return found


def records(size: int) -> Stages:
    """All that is done with so many records."""
    train, test, model, found = MadeUp(size, 0), MadeUp(size // 5, 1), taught(), Stages()
    split = took(found, "dividing the data", lambda: sh.split(train, sh.Forget("random:10%"), test=test))
    took(found, "one pass of training", lambda: TRAINING.fit(network(), split.problem()))
    trim = sh.Scissorhands(reading="paper", epochs=0, sample=min(1.0, SAMPLE / len(split.forget)))
    took(found, f"trimming on {SAMPLE} records", lambda: trim.scrub(model, split.problem()))
    said = took(found, "the outputs", lambda: outputs(model, split.parts()))
    took(found, "the scores", lambda: examine(Context(model, split), said))
    return found


def forgotten(size: int, everything: int) -> Stages:
    """All that is done with so many records to forget."""
    split = sh.split(MadeUp(everything, 0), sh.Forget(f"random:{size}"), test=MadeUp(everything // 5, 1))
    case, model, found = split.problem(), taught(), Stages()
    took(found, "trimming on all of them", lambda: sh.Scissorhands(reading="paper", epochs=0).scrub(model, case))
    took(
        found,
        "one pass of repair",
        lambda: sh.Scissorhands(reading="paper", trim=0.0, sample=1e-9, epochs=1).scrub(model, case),
    )
    said = outputs(model, split.parts())
    took(found, "the scores", lambda: examine(Context(model, split), said))
    return found


def network() -> nn.Module:
    """A network so small that it is the data that counts."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def taught() -> nn.Module:
    """The network, trained on the same records whatever the size: what it says decides how long scoring takes."""
    data, model = MadeUp(20 * THOUSAND, 2), network()
    TRAINING.fit(model, sh.Problem(Part(data, torch.arange(1)), Part(data, torch.arange(len(data)))))
    return model


def took(stages: Stages, name: str, work: Callable[[], Any]) -> Any:
    """Does the work, writes down its seconds and its memory beyond what is in use before, and returns what it did."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # what is free counts as free: the GNU C library keeps some of it
    before = 4096 * float(Path("/proc/self/statm").read_text().split()[1]) / 2**20
    with measured(torch.device("cpu")) as stages[name]:
        done = work()
    stages[name].memory_mib -= before
    return done


if __name__ == "__main__":
    main()
