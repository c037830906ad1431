"""Which settings of PyTorch pay: the time of a training step with one setting changed, against the plain one.

    python benchmarks/settings_cost.py [--quick]

ResNet-18 on batches of 256 images of 32 × 32. Each setting has a model of its own; they take turns, so that a busy
moment hits all. Compiling itself is not counted: it happens before the clock starts.
"""

import copy
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import median, quick, report, seconds
from torch import Tensor, nn

from scissorhands.tasks.classification.networks import resnet18

BATCH = 256


@dataclass(frozen=True)
class Setting:
    """What is changed: the optimizer's arguments, the model, the memory format of both, or the precision."""

    optimizer: dict[str, bool] = field(default_factory=dict)
    prepare: Callable[[nn.Module], Any] = lambda model: model
    memory_format: torch.memory_format = torch.contiguous_format
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext


SETTINGS = {
    "plain": Setting(),
    "channels last": Setting(memory_format=torch.channels_last),
    "SGD fused": Setting({"fused": True}),
    "SGD foreach": Setting({"foreach": True}),
    "compiled": Setting(prepare=torch.compile),
    "bfloat16": Setting(precision=partial(torch.autocast, "cpu", torch.bfloat16)),
}


def main() -> None:
    """Prints a table per width, and the best ratio of the last."""
    small = quick(__doc__)
    widths, rounds = ((16,), 3) if small else ((16, 64), 7)
    missing = {"compiled": no_compiler(), "bfloat16": no_bfloat16()}
    for name, reason in missing.items():
        if reason:
            print(f"{name} is left out: {reason}")
    names = [name for name in SETTINGS if not missing.get(name)]
    rows = [row for width in widths for row in table(width, names, rounds)]
    changed = [row for row in rows if row["width"] == widths[-1] and row["setting"] != "plain"]
    best = min(changed, key=lambda row: row["ratio"])
    report(best["ratio"], f"none; the best at width {widths[-1]} is {best['setting']}", batch=BATCH, rows=rows)


def no_compiler() -> str:
    """Why `torch.compile` cannot work here; empty if it can."""
    found = any(shutil.which(name) for name in ("g++", "c++", "clang++"))
    return "" if found else "there is no C++ compiler here."


def no_bfloat16() -> str:
    """Why bfloat16 cannot work here; empty if it can. Some machines promise instructions that they do not have."""
    step = "import settings_cost as s; s.step(s.SETTINGS['bfloat16'], s.resnet18(10, 3, 8))()"
    done = subprocess.run([sys.executable, "-c", step], cwd=Path(__file__).parent, capture_output=True)
    hint = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may help"
    return f"a step of it ends the process ({done.returncode}); {hint}." if done.returncode else ""


def table(width: int, names: list[str], rounds: int) -> list[dict[str, Any]]:
    """Prints the seconds of a step with each setting, and their ratio to the plain ones."""
    model = resnet18(10, 3, width)
    steps = {name: step(SETTINGS[name], copy.deepcopy(model)) for name in names}
    first = {name: seconds(work) for name, work in steps.items()}
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, work in steps.items():
            times[name].append(seconds(work))
    found = {name: median(values) for name, values in times.items()}
    print(f"\nwidth {width}\n{'setting':14}{'first s':>9}{'step s':>9}{'ratio':>8}")
    rows = []
    for name, middle in found.items():
        middle, ratio = round(middle, 4), round(middle / found["plain"], 4)
        print(f"{name:14}{first[name]:9.3f}{middle:9.3f}{ratio:8.3f}")
        rows.append(
            {"width": width, "setting": name, "first": round(first[name], 4), "seconds": middle, "ratio": ratio}
        )
    return rows


def step(setting: Setting, model: nn.Module) -> Callable[[], None]:
    """One step of training with the setting, on the same batch each time."""
    model.to(memory_format=setting.memory_format)  # type: ignore[call-overload]
    images, labels = batch()
    images = images.contiguous(memory_format=setting.memory_format)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, 0.9, weight_decay=5e-4, **setting.optimizer)
    forward = setting.prepare(model)

    def work() -> None:
        with setting.precision():
            loss = F.cross_entropy(forward(images).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return work


def batch() -> tuple[Tensor, Tensor]:
    """Random images as large as those of CIFAR-10, as they are stored."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, generator=draw)
    return images, torch.randint(10, (BATCH,), generator=draw)


if __name__ == "__main__":
    main()
