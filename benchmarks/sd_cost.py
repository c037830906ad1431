"""What erasing costs at full size: trimming and one guarded step against one plain training step.

    python benchmarks/sd_cost.py [--quick]

The U-Net of Stable Diffusion v1.4 in its published configuration, 860 million weights, drawn at random: the cost of a
step does not depend on their values. SGD with momentum, one image of 512 × 512 pixels (64 × 64 latents) in a batch.
Each piece of work has a process of its own, so that none sees what another left, and what is freed goes back to the
system (MALLOC_MMAP_THRESHOLD_), so that what the C library keeps for later does not count. The plain step holds the
weights, their momentum and one gradient; what it needs beyond that are its activations. The guarded step may hold one
gradient more.
"""

import json
import os
import subprocess
import sys
from typing import Any

import torch
from timing import quick, report, step_times

import scissorhands as sh
from scissorhands.cost import measured
from scissorhands.data.problem import Log
from scissorhands.data.records import Part, Stored
from scissorhands.methods.training import Training
from scissorhands.tasks.diffusion.denoising import Denoising

STEPS = 3
CPU = torch.device("cpu")
SETTINGS: dict[str, Any] = {"lr": 1e-6, "momentum": 0.9, "weight_decay": 0.0, "batch_size": 1, "epochs": 1}


def main() -> None:
    """Prints time and peak memory of each piece of work, and the ratio of the steps."""
    if len(sys.argv) > 2:
        print(json.dumps(work(sys.argv[1], sys.argv[2] == "small")))
        return
    size = "small" if quick(__doc__) else "full"
    rows = {}
    for name in ("plain", "trim", "guarded"):
        command, env = [sys.executable, __file__, name, size], os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        rows[name] = json.loads(done.stdout)
    weights = rows["plain"]["weights"]
    share = 4 * weights / 2**20
    print(
        f"{weights / 1e6:.0f} million weights, {share:.0f} MiB\n{'':10}{'seconds':>9}{'peak MiB':>10}{'× weights':>11}"
    )
    for name, row in rows.items():
        print(f"{name:10}{row['seconds']:9.1f}{row['peak']:10.0f}{row['peak'] / share:11.2f}")
    activations = rows["plain"]["peak"] - 3 * share
    held = (rows["guarded"]["peak"] - activations) / share
    print(f"\nactivations {activations:.0f} MiB; a guarded step holds {held:.2f} times the weights (at most 4.2)")
    ratio = rows["guarded"]["seconds"] / rows["plain"]["seconds"]
    report(ratio, "at most 2.2 plain steps", weights=weights, held=round(held, 3), activations=activations, rows=rows)


def work(name: str, small: bool) -> dict[str, float]:
    """One of the pieces of work, measured."""
    unet = network(small)
    case = problem(unet, small)
    pieces = {
        "plain": (lambda log: Training(schedule="constant", **SETTINGS).fit(unet, case, log, phase="plain"), "plain"),
        "trim": (
            lambda log: sh.Scissorhands(reading="paper", trim=0.005, epochs=0, batch_size=1).scrub(unet, case, log),
            "trim",
        ),
        "guarded": (
            lambda log: sh.Scissorhands(reading="paper", trim=0.0, sample=1e-9, **SETTINGS).scrub(unet, case, log),
            "repair",
        ),
    }
    return {"weights": sum(p.numel() for p in unet.parameters()), **timed(*pieces[name])}


def network(small: bool) -> Any:
    """The U-Net of Stable Diffusion v1.4, or one of the same form with a quarter of the channels."""
    from diffusers import UNet2DConditionModel

    channels = (80, 160, 320, 320) if small else (320, 640, 1280, 1280)
    across = "CrossAttnDownBlock2D"
    return UNet2DConditionModel(
        sample_size=32 if small else 64,
        in_channels=4,
        out_channels=4,
        down_block_types=(across, across, across, "DownBlock2D"),
        up_block_types=("UpBlock2D", *["CrossAttnUpBlock2D"] * 3),
        block_out_channels=channels,
        layers_per_block=2,
        cross_attention_dim=768,
        attention_head_dim=8,
        norm_num_groups=16 if small else 32,
    )


def problem(unet: Any, small: bool) -> sh.Problem:
    """A few random latents of two prompts."""
    from diffusers import DDIMScheduler

    draw = torch.Generator().manual_seed(0)
    side = unet.config.sample_size
    latents = Stored(torch.randn(2 * STEPS, 4, side, side, generator=draw), torch.arange(2 * STEPS) % 2)
    text = torch.randn(3, 77, 768, generator=draw)
    scheduler = DDIMScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    ids = torch.arange(2 * STEPS)
    loss = Denoising(scheduler, text[:2], text[2:])
    return sh.Problem(Part(latents, ids[ids % 2 == 0]), Part(latents, ids[ids % 2 == 1]), loss=loss)


def timed(work: Any, phase: str) -> dict[str, float]:
    """The seconds of a step, or of all of it where it is one piece, and the peak memory of the process."""

    def logged(log: Log) -> None:
        work(log)

    with measured(CPU) as cost:
        times = step_times(logged, phase)
    return {"seconds": min(times) if times else cost.seconds, "peak": cost.memory_mib}


if __name__ == "__main__":
    main()
