"""Measures whether training many models together is faster than one by one, on made-up data.

    python benchmarks/ensemble.py [--quick]

Prints one row per network, batch size and number of models. `speed-up` is the time one by one over the time together:
above 1, together pays. `rule` is what reference models go by. The last line is one JSON object;
its `ratio` is the best speed-up on the digits with 16 models.
"""

import argparse
import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

from scissorhands import Problem
from scissorhands.ensemble import fit_together, pays
from scissorhands.networks import resnet18, small
from scissorhands.records import Part, Stored
from scissorhands.train import Training


class Network(NamedTuple):
    """A network, the images it takes, for how many steps it is timed, and with which batch sizes."""

    build: Callable[[int, int], nn.Module]
    channels: int
    side: int
    steps: int
    batches: tuple[int, ...] = (64, 256)


def mlp(classes: int, channels: int) -> nn.Module:
    """A network so small that calling its layers takes longer than computing them."""
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, 32), nn.ReLU(), nn.Linear(32, classes))


NETWORKS = {
    "mlp 8×8": Network(mlp, 1, 8, steps=32),
    "small 8×8 (digits)": Network(small, 1, 8, steps=8),
    "small 32×32": Network(small, 3, 32, steps=2),
    "resnet18 width 8": Network(partial(resnet18, width=8), 3, 32, steps=1, batches=(64,)),
    "resnet18 width 16": Network(partial(resnet18, width=16), 3, 32, steps=1, batches=(64,)),
}


def main() -> None:
    """Measures every case, prints the table and the JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="leave out the slow cases, to end within a minute")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads, PyTorch {torch.__version__}, milliseconds per step of one model")
    print(f"{'network':20}{'batch':>6}{'models':>8}{'one by one':>12}{'together':>10}{'speed-up':>10}  rule")
    rows = []
    for name, size, count in cases(quick):
        row = measure(name, size, count, turns=2 if quick else 4)
        print("{network:20}{batch:6}{models:8}{alone:12.2f}{together:10.2f}{speedup:10.2f}  {rule}".format(**row))
        rows.append(row)
    print(verdict(rows))
    best = max(row["speedup"] for row in rows if "digits" in row["network"] and row["models"] == 16)
    print(json.dumps({"ratio": best, "threads": torch.get_num_threads(), "rows": rows}))


def cases(quick: bool) -> Iterator[tuple[str, int, int]]:
    """The name of the network, the batch size and the number of models of every row."""
    for name, network in NETWORKS.items():
        for size, count in itertools.product(network.batches, (1, 4, 16)):
            slow = size > 64 or (name.startswith("resnet") and count != 4)
            if not (quick and slow):
                yield name, size, count


def measure(name: str, size: int, count: int, turns: int) -> dict[str, Any]:
    """One row: `count` models trained both ways in turn, the quickest of each counts, which leaves the warm-up out."""
    network = NETWORKS[name]
    models = [network.build(10, network.channels) for _ in range(count)]
    problems = [made_up(network.steps * size, network) for _ in range(count)]
    training = Training(epochs=1, lr=1e-3, batch_size=size)
    alone, together = math.inf, math.inf
    for _ in range(turns):
        alone = min(alone, seconds(models, lambda m: one_by_one(m, problems, training)))
        together = min(together, seconds(models, lambda m: fit_together(m, problems, training)))
    per_step = 1000 / (network.steps * count)
    return {
        "network": name,
        "batch": size,
        "models": count,
        "alone": round(per_step * alone, 3),
        "together": round(per_step * together, 3),
        "speedup": round(alone / together, 3),
        "rule": "together" if pays(models[0]) else "one by one",
    }


def one_by_one(models: list[nn.Module], problems: list[Problem], training: Training) -> None:
    """Trains each model by itself, in place."""
    for model, problem in zip(models, problems, strict=True):
        training.fit(model, problem)


def made_up(count: int, network: Network) -> Problem:
    """A problem of random images in ten classes."""
    images = torch.rand(count, network.channels, network.side, network.side)
    records = Stored(images, torch.randint(10, (count,)))
    return Problem(forget=Part(records, torch.arange(1)), retain=Part(records, torch.arange(count)))


def seconds(models: list[nn.Module], fit: Callable[[list[nn.Module]], None]) -> float:
    """The time to train copies of the models."""
    copies = copy.deepcopy(models)
    start = perf_counter()
    fit(copies)
    return perf_counter() - start


def verdict(rows: list[dict[str, Any]]) -> str:
    """In words: for which networks together pays, which is to be faster by more than a tenth."""
    lines = []
    for network in dict.fromkeys(row["network"] for row in rows):
        many = [row["speedup"] for row in rows if row["network"] == network and row["models"] > 1]
        worst, best = min(many), max(many)
        word = "pays" if worst > 1.1 else "does not pay" if best < 1.1 else "pays in some cases only"
        lines.append(f"{network}: together {word} ({worst:.2f} to {best:.2f} times as fast, 4 models or more)")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
