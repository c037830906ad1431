"""Run by torchrun: the noise that each process draws, and then commands, one after the other in the same processes."""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from diffusers import DDIMScheduler
from safetensors.torch import save_file
from torch import Tensor

from helpers import kept
from helpers.commands import cli
from scissorhands.distributed import Batch, exit_process, process_group, rank
from scissorhands.tasks.diffusion import pipeline
from scissorhands.tasks.diffusion.denoising import Denoising

COUNTS = (8, 5, 2, 1)


def noises() -> dict[str, Tensor]:
    """The noise and the times for the records of this process, out of batches of some sizes."""
    denoising = Denoising(DDIMScheduler(), torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))
    found: dict[str, Tensor] = {}
    for count in COUNTS:
        torch.manual_seed(100 * rank() + count)  # what the others draw from must not matter
        batch = Batch.of(torch.zeros(count, 4, 3, 3), torch.zeros(count, dtype=torch.int64))
        noise, times = denoising.drawn(batch)
        found |= {f"noise {count}": noise[: batch.count].clone(), f"times {count}": times[: batch.count].clone()}
    return found


def answered(command: str) -> list[Any]:
    """What this process answered; where it let an error through, that is an answer too."""
    try:
        return list(cli(command))
    except Exception:
        return [-1, "", traceback.format_exc()]


def main(file: Path) -> None:
    """Runs the commands in a file until one sets the processes apart; noise and answers go to files beside it."""
    torch.set_num_threads(1)
    pipeline.load = kept.load
    number = os.environ["RANK"]
    with process_group():
        save_file(noises(), file.with_name(f"noise-{number}.safetensors"))
        found: list[Any] = []
        for command in json.loads(file.read_text()):
            found.append(answered(command))
            file.with_name(f"answers-{number}.json").write_text(json.dumps(found))
            if found[-1][0] not in (0, 2):
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    exit_process(0)
