"""Accuracy."""

from torch import Tensor


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """The percentage of records whose highest score is that of their label.

    >>> import torch
    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 1, 1, 1]))
    75.0
    """
    return 100 * (logits.argmax(1) == labels).double().mean().item()
