"""Does the work of many cases in every process, and keeps what came out in a folder."""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch.distributed as dist

from helpers import many
from helpers.many import Outcome
from scissorhands.distributed import rank


def unsynchronized() -> Outcome:
    """Fine-tuning with the batch norm of each process by itself."""
    with patch("scissorhands.distributed.sharding.normalize_over_all", lambda model: None):
        return many.carried_out(many.CASES["finetune on convnet"])


def shuffled_apart() -> Outcome:
    """Fine-tuning where each process has an order of its own."""
    case = many.CASES["finetune on mlp"]
    return many.carried_out(case, replace(many.PROBLEMS[case.problem](), seed=3 + rank()))


def wrapped() -> Outcome:
    """Fine-tuning by a method that puts something around the loss of the problem."""
    case = many.CASES["finetune on mlp"]
    proper = many.PROBLEMS[case.problem]()
    return many.carried_out(case, replace(proper, loss=lambda model, batch: proper.loss(model, batch)))


CONTROLS: dict[str, Callable[[], Outcome]] = {
    "unsynchronized": unsynchronized,
    "shuffled apart": shuffled_apart,
    "wrapped": wrapped,
}


def attempt(work: Callable[[], Outcome], folder: Path) -> None:
    """Keeps the outcome, or how it failed in any process."""
    failed, outcome = "", None
    try:
        outcome = work()
    except Exception:  # it is the test's business to tell
        failed = f"process {rank()}: {traceback.format_exc()}"
    found = [""] * dist.get_world_size()
    dist.all_gather_object(found, failed)
    if outcome and not any(found):
        many.keep(outcome, folder)
    elif rank() == 0:
        folder.mkdir(parents=True)
        (folder / "failed.txt").write_text("\n".join(found))


def outcomes(folder: Path, names: Iterable[str], controls: bool) -> None:
    """Does the work of the cases that are named, and keeps what came out."""
    for name in names:
        case = many.EVERY[name]
        attempt(lambda case=case: many.carried_out(case), folder / name)  # type: ignore[misc]
    for name, work in CONTROLS.items() if controls else ():
        attempt(work, folder / name)
