"""What a classifier says about records: its logits, those of the model that it was, and how far they are apart."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.problem import Problem, forward
from ..data.records import Part
from ..distributed import Batch, all_reduce_sum_, gather_rows
from ..errors import DataError
from .modes import evaluating
from .parameters import swapped

_BATCH = 512  # records that a model only predicts


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """Compute the logits of this process's records."""
    found: Tensor = forward(model, batch.inputs)
    return found


@torch.no_grad()
def teacher_logits(model: nn.Module, teacher: dict[str, Tensor], batch: Batch) -> Tensor:
    """Compute the logits of the model with the weights of a snapshot, in evaluation mode."""
    with swapped(model, teacher), evaluating(model):
        return logits(model, batch)


@torch.no_grad()
def logits_of(model: nn.Module, part: Part) -> Tensor:
    """Compute the logits of every record of a part, on the CPU, in evaluation mode; every process gets all of them."""
    with evaluating(model):
        found = [gather_rows(logits(model, batch).cpu(), batch.total) for batch in part.batches(_BATCH)]
    return torch.cat(found)


def error_rate(model: nn.Module, part: Part) -> float:
    """Compute the share of the records that the model is wrong about."""
    return (logits_of(model, part).argmax(1) != part.labels).double().mean().item()


def calibration_error_rate(model: nn.Module, problem: Problem) -> float:
    """Compute the share of unseen records of the forgotten classes that the model is wrong about.

    It is 1 if there are none: a model that was never shown a class does not know it.
    """
    unseen = calibration_of(problem)
    alike = torch.isin(unseen.labels, problem.forget.labels)
    return error_rate(model, Part(unseen.records, unseen.ids[alike])) if alike.any() else 1.0


def calibration_of(problem: Problem) -> Part:
    """Return the unseen records; raise if there are none."""
    if problem.calibration is None:
        raise DataError(
            "this method needs records that the model was never trained on: "
            "train with --holdout, scrub with --unseen, or split with unseen=0.2."
        )
    return problem.calibration


def class_counts(batch: Batch, classes: int) -> Tensor:
    """Count the records of each class in a batch, over all processes.

    >>> class_counts(Batch.of(torch.zeros(3, 1), torch.tensor([2, 0, 2])), classes=4)
    tensor([1, 0, 2, 0])
    """
    return all_reduce_sum_(torch.bincount(batch.labels[: batch.count], minlength=classes))


def kl_divergence(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Compute the mean KL divergence of the student's softened outputs from the teacher's, times temperature squared.

    >>> kl_divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0]]), temperature=4.0)
    tensor(0.)
    """
    said, wanted = ((x / temperature).log_softmax(1) for x in (student, teacher))
    return F.kl_div(said, wanted, reduction="batchmean", log_target=True) * temperature**2


def reweighted(losses: Tensor, batch: Batch, power: float) -> Tensor:
    """Compute the mean of the records' losses, each weighted by itself to the power, with a mean weight of one.

    >>> batch = Batch.of(torch.zeros(2, 1), torch.zeros(2))
    >>> reweighted(torch.tensor([1.0, 4.0]), batch, power=-0.5)  # weights of 4/3 and 2/3
    tensor(2.)
    """
    weights = (losses.detach() + 1e-15) ** power
    total = all_reduce_sum_(weights.sum() if batch.count else torch.zeros_like(weights.sum()))
    return (weights * (batch.total / total) * losses).mean()
