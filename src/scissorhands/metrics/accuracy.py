"""Accuracy, and how soon it comes back."""

from torch import Tensor


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Return the percentage of records whose highest score is that of their label.

    >>> import torch
    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 1, 1, 1]))
    75.0
    """
    return 100 * (logits.argmax(1) == labels).double().mean().item()


def epochs_until(accuracies: Tensor, wanted: float) -> float:
    """Count the epochs until the wanted accuracy was reached; the first value is from before any.

    >>> import torch
    >>> epochs_until(torch.tensor([50.0, 70.0, 90.0]), 70.0)
    1.0
    >>> epochs_until(torch.tensor([50.0, 70.0, 90.0]), 95.0)
    Traceback (most recent call last):
    ValueError: more than 2 epochs
    """
    reached = (accuracies >= wanted).nonzero()
    if not len(reached):
        raise ValueError(f"more than {len(accuracies) - 1} epochs")
    return float(reached[0])
