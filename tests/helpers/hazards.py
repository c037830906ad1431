"""Run by torchrun: what may set the processes against each other, each in a group of its own."""

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from helpers import many
from scissorhands import distributed, files, runs
from scissorhands.distributed import exit_process, process_group, rank, shard

PLACE = Path()  # the folder of the test, set by main


def one_begins_a_run_late() -> None:
    """A slow process finds the note that the first has written already."""
    with runs.writing(PLACE / "run", overwrite=False) as work:
        if rank():
            time.sleep(1)
        runs.begin(work, {"verb": "train", "seed": 0, "begun": "2000-01-01T00:00:00Z"})
        answer = distributed.on_rank_0(lambda: "after it")
    assert answer == "after it"


def one_still_reads_what_the_first_moves_away() -> None:
    """The folder must stay where it is until every process has left the block."""
    with runs.writing(PLACE / "read", overwrite=False) as work:
        distributed.on_rank_0(lambda: files.write_text(work / "run.toml", "seed = 0"))
        if rank():
            time.sleep(1)
        text = (work / "run.toml").read_text()
    assert text == "seed = 0"


def a_file_cannot_be_written() -> None:
    """The first process alone opens the file, and all must hear that it cannot."""
    model = shard(many.build("mlp"), torch.device("cpu"))
    try:
        distributed.save_weights(model, PLACE / "nowhere" / "model.safetensors")
    except OSError:
        return
    raise AssertionError("it was written, or something else was wrong")


def the_first_fails_in_a_way_that_nobody_thought_of() -> None:
    def fail() -> None:
        raise ValueError("odd")

    try:
        distributed.on_rank_0(fail)
    except ValueError:
        return
    raise AssertionError("the error did not arrive")


HAZARDS: dict[str, Callable[[], None]] = {
    hazard.__name__: hazard
    for hazard in (
        one_begins_a_run_late,
        one_still_reads_what_the_first_moves_away,
        a_file_cannot_be_written,
        the_first_fails_in_a_way_that_nobody_thought_of,
    )
}


def main(folder: Path, name: str) -> None:
    """One hazard; each process writes what went wrong."""
    global PLACE
    PLACE = folder
    torch.set_num_threads(1)
    number, failed = -1, ""
    try:
        with process_group():
            number = rank()
            HAZARDS[name]()
    except Exception:
        failed = traceback.format_exc()
    (folder / f"{name}-{number}.json").write_text(json.dumps(failed))


if __name__ == "__main__":
    for hazard in sys.argv[2:] or HAZARDS:
        main(Path(sys.argv[1]), hazard)
    exit_process(0)
