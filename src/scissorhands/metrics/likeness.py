"""How alike two models are in what they say about the same records."""

from torch import Tensor


def jensen_shannon(logits: Tensor, others: Tensor) -> float:
    """Return the mean divergence between two models' probabilities, in bits: 0 for equal, 1 for nothing in common.

    >>> import torch
    >>> one, other = torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 100.0]])
    >>> jensen_shannon(one, one), jensen_shannon(one, other)
    (0.0, 1.0)
    """
    p, q = logits.double().softmax(1), others.double().softmax(1)
    middle = (p + q) / 2
    bits = (p * _log2(p, middle) + q * _log2(q, middle)).sum(1) / 2
    return bits.mean().item()


def agreement(logits: Tensor, others: Tensor) -> float:
    """Return the percentage of records to which both models give the same label, right or wrong.

    >>> import torch
    >>> agreement(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[5.0, 4.0], [3.0, 2.0]]))
    50.0
    """
    return 100 * (logits.argmax(1) == others.argmax(1)).double().mean().item()


def _log2(p: Tensor, middle: Tensor) -> Tensor:
    return (p.clamp_min(1e-300) / middle.clamp_min(1e-300)).log2()
