"""Run by torchrun: checks of single functions, then the work of the cases that are named, or of all."""

import json
import sys
from pathlib import Path

import torch

from helpers import many, outcomes, pieces
from scissorhands.distributed import exit_process, process_group, rank


def main(folder: Path, *names: str) -> None:
    """What came out goes to the folder."""
    torch.set_num_threads(1)
    with process_group():
        found = pieces.checked(folder)
        if rank() == 0:
            (folder / "checks.json").write_text(json.dumps(found))
        outcomes.outcomes(folder, names or many.EVERY, controls=not names)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
    exit_process(0)
