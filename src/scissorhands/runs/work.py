"""Do the work of a run on its model: with a log, checkpoints, and what it cost."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from torch import nn

from .. import runs
from ..cost import Cost, measured
from ..data.problem import Log, Problem
from ..distributed.checkpoint import Progress
from ..distributed.checkpoint_files import CHECKPOINTS
from ..errors import FailedError
from ..methods.modes import evaluating
from ..methods.parameters import trainable
from ..methods.precision import computing_in
from ..methods.saliency import gradients
from . import Journal
from .place import Place


def run_with_checkpoints(
    work: Callable[[Problem, Log], None],
    model: nn.Module,
    problem: Problem,
    folder: Path,
    place: Place,
    log: Log,
) -> Cost:
    """Do the work on the model and say what it cost; its log and its checkpoints go to the folder."""
    with computing_in(place.precision, model):
        _warm_up(model, problem)
    progress = Progress(folder / CHECKPOINTS, place.checkpoint, resume_command=runs.again(place.folder))
    with closing(Journal(folder / runs.LOG, log, progress.written)) as journal:
        progress.journal = journal
        with (
            progress.listening(),
            computing_in(place.precision, model),
            measured(place.torch_device()) as cost,
        ):
            try:
                work(replace(problem, progress=progress), journal)
            except FailedError as error:  # a bench has many runs
                raise FailedError(f"{place.folder}: {error}") from None
    cost.seconds += progress.seconds_before
    return cost


def _warm_up(model: nn.Module, problem: Problem) -> None:
    """Compute one gradient that changes nothing: what a process does only once is not the method's time."""
    with evaluating(model):
        for batch in replace(problem.retain, ids=problem.retain.ids[:64]).batches(64):
            gradients(problem.loss(model, batch), trainable(model))
