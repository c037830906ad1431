"""Run by torchrun: a process that ends while the threads of its process group get the time that nobody else wants."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from scissorhands.distributed import exit_process, process_group, shard


def main() -> nn.Module:
    """Small collective steps, the last of them right before the end."""
    torch.set_num_threads(1)
    with process_group():
        model = shard(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), torch.device("cpu"))
        model(torch.randn(4, 8)).sum().backward()  # PyTorch now keeps the group in its caches
        for task in Path("/proc/self/task").iterdir():
            if "gloo" in (task / "comm").read_text():
                os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
        for _ in range(5):
            dist.all_reduce(torch.zeros(1))
    return model


if __name__ == "__main__":
    model = main()
    exit_process(0)
