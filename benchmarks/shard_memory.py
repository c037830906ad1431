"""What sharing out saves: the memory of one process where 1, 2 and 4 share a model.

    python benchmarks/shard_memory.py [--quick]

A tower of 48 equal blocks, about 100 million weights, is loaded from its folder, scrubbed by Scissorhands in a few
guarded steps, and saved. The batch is small, so that it is the weights that count. *Held* is what a process keeps from
step to step: its part of the weights and of their momentum. *Peaks* are the resident memory of the largest process,
less what it had before loading; while a file is read, what is mapped of it counts too.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from timing import quick, report
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.cost import Cost, measured
from scissorhands.data.records import Part, Stored
from scissorhands.distributed import exit_process, local_state, process_group, rank
from scissorhands.distributed.checkpoint import Loop, Progress
from scissorhands.tasks.classification import models

FACTORY = "shard_memory:tower"
STAGES = ("load", "trim", "repair", "save")
BATCH = 16
CPU = torch.device("cpu")
MIB = 2**20


class Block(nn.Module):
    """A residual block of two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.back = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        wide: Tensor = self.back(self.wide(self.norm(x)).relu())
        return x + wide / 8


def tower(blocks: int, width: int) -> nn.Module:
    """The model: many equal blocks, one after another."""
    return nn.Sequential(nn.Linear(64, width), *(Block(width) for _ in range(blocks)), nn.Linear(width, 10))


def main() -> None:
    """Starts itself with 1, 2 and 4 processes, and compares."""
    if len(sys.argv) > 2:
        worker(Path(sys.argv[1]), Path(sys.argv[2]))
        exit_process(0)
    small = quick(__doc__)
    size = {"blocks": 40, "width": 256} if small else {"blocks": 48, "width": 512}
    with tempfile.TemporaryDirectory() as place:
        model = tower(**size)
        weights = sum(p.numel() for p in model.parameters())
        models.save(model, models.Blueprint(FACTORY, size), Path(place) / "model")
        del model
        print(f"{weights / 1e6:.1f} million weights, {4 * weights / MIB:.0f} MiB; MiB in the largest process")
        rows = table((1, 2) if small else (1, 2, 4), Path(place))
    report(rows[1]["held"] / rows[0]["held"], "at most 0.6 with 2 processes", weights=weights, rows=rows)


def table(counts: tuple[int, ...], place: Path) -> list[dict[str, Any]]:
    """Prints a row for each number of processes, with its share of what one process takes."""
    names = ["held", *STAGES, "peak"]
    print(f"\n{'processes':>9}" + "".join(f"{name:>15}" for name in [*names, "repair s"]))
    rows: list[dict[str, Any]] = []
    for count in counts:
        row = run(count, place)
        rows.append({"processes": count, **row})
        cells = [f"{row[name]:.0f} ({row[name] / rows[0][name]:.2f})" for name in names] + [f"{row['seconds']:.1f}"]
        print(f"{count:9}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
    return rows


def run(count: int, place: Path) -> dict[str, float]:
    """What the largest of so many processes holds and needs, in MiB, and the seconds of its repair."""
    out = place / str(count)
    out.mkdir()
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    done = subprocess.run(
        [*start, __file__, str(place / "model"), str(out)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{count} processes failed:\n{done.stderr}")
    found = [json.loads((out / f"{i}.json").read_text()) for i in range(count)]
    shutil.rmtree(out)
    return {name: round(max(one[name] for one in found), 1) for name in found[0]}


def worker(folder: Path, out: Path) -> None:
    """One of the processes: loads, scrubs and saves the model, and writes down what that took."""
    with process_group():
        watch = Watch()
        before, costs = resident(), dict[str, Cost]()
        with measured(CPU) as costs["load"]:
            model, blueprint = models.load(folder, factory=FACTORY)
        with measured(CPU) as costs["trim"]:
            sh.Scissorhands(reading="paper", epochs=0, batch_size=BATCH).scrub(model, problem(Progress()))
        with measured(CPU) as costs["repair"]:
            sh.Scissorhands(reading="paper", trim=0.0, sample=1e-9, epochs=1, batch_size=BATCH).scrub(
                model, problem(watch)
            )
        with measured(CPU) as costs["save"]:
            models.save(model, blueprint, out / "model")
        extra = {name: cost.memory_mib - before for name, cost in costs.items()}
        row = {"held": watch.held / MIB, **extra, "peak": max(extra.values()), "seconds": costs["repair"].seconds}
        (out / f"{rank()}.json").write_text(json.dumps(row))


class Watch(Progress):
    """Counts, after every step, what a process keeps from step to step."""

    held = 0

    def save_if_due(self, loop: Loop) -> None:
        assert loop.optimizer
        kept = [*local_state(loop.model).values(), *loop.optimizer.state_dict().values()]
        self.held = sum(tensor.numel() * tensor.element_size() for tensor in kept)


def problem(progress: Progress) -> sh.Problem:
    """A few random records, enough for four steps."""
    draw = torch.Generator().manual_seed(0)
    records = Stored(torch.randn(5 * BATCH, 64, generator=draw), torch.randint(10, (5 * BATCH,), generator=draw))
    ids = torch.arange(5 * BATCH)
    return sh.Problem(Part(records, ids[:BATCH]), Part(records, ids[BATCH:]), progress=progress)


def resident() -> float:
    """The memory in use now, in MiB."""
    return 4096 * float(Path("/proc/self/statm").read_text().split()[1]) / MIB


if __name__ == "__main__":
    main()
