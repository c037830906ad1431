"""Run by torchrun: commands as a user types them, one after the other in the same processes."""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import torch.distributed as dist

from helpers import kept
from helpers.commands import Answer, cli
from scissorhands.distributed import exit_process, process_group, rank, world_size
from scissorhands.metrics import mia


def main(file: Path) -> None:
    """Runs the commands in a file of JSON; what each process answered goes to a file beside it."""
    with process_group(), patch.object(mia, "called_other", kept.called_other):
        found = []
        for command in json.loads(file.read_text()):
            answers: list[Answer | None] = [None] * world_size()
            dist.all_gather_object(answers, cli(command))
            found.append(answers)
        if rank() == 0:
            file.with_suffix(".answers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    exit_process(0)
