"""The paper's membership inference attacks: a support vector classifier on what the model says of a record.

Each feature is one column, or one row of columns, per record; the attack is the same for all.
"""

import torch
from torch import Tensor

from ..randomness import generator
from .mia_svc import called_other

_TINY = 1e-30  # as in the published code: a probability of 0 counts as this much


def correctness(logits: Tensor, labels: Tensor) -> Tensor:
    """Return 1 where the model is right, else 0.

    >>> correctness(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1]))
    tensor([0., 1.])
    """
    return (logits.argmax(1) == labels).float()


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the probability that the model gives to the true label.

    >>> confidence(torch.tensor([[0.0, 0.0], [0.0, 100.0]]), torch.tensor([0, 1]))
    tensor([0.5000, 1.0000])
    """
    return logits.softmax(1).gather(1, labels[:, None])[:, 0]


def entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return how undecided the model is, whatever the label: −Σ p log p.

    >>> entropy(torch.tensor([[0.0, 0.0], [0.0, 1e3]]), torch.tensor([0, 0]))
    tensor([0.6931, 0.0000])
    """
    p = logits.softmax(1)
    return (p * -_log(p)).sum(1)


def modified_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return Song and Mittal's modified entropy: −(1 − p_y) log p_y − Σ_{i≠y} p_i log(1 − p_i).

    It is 0 for a confident right answer, large for a confident wrong one, and −log ½ for a tie between two:

    >>> modified_entropy(torch.tensor([[1e3, 0.0], [0.0, 0.0], [0.0, 1e3]]), torch.tensor([0, 0, 0]))
    tensor([  0.0000,   0.6931, 138.1551])
    """
    p = logits.softmax(1)
    truth = torch.zeros_like(p, dtype=torch.bool).scatter(1, labels[:, None], True)
    return (torch.where(truth, 1 - p, p) * -_log(torch.where(truth, p, 1 - p))).sum(1)


def published_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return what the published code computes as modified entropy: −Σ (1 − p_i) log p_i over all labels that occur.

    It does not look at a record's own label. It is here for comparison with published tables, and for nothing else.

    >>> published_entropy(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    tensor([0.6931, 0.6931])
    """
    p = logits.softmax(1)
    occurs = torch.zeros(p.shape[1], dtype=torch.bool).index_fill(0, labels.unique(), True)
    return (torch.where(occurs, 1 - p, p) * -p.where(p > 0, _TINY).log()).sum(1)


def probability(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the probability of every class.

    >>> probability(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([[0.5000, 0.5000]])
    """
    return logits.softmax(1)


def called_non_members(members: Tensor, others: Tensor, targets: Tensor) -> float:
    """Return the percentage of targets that look more like the others than like the members of the training data.

    An SVC (radial kernel, C = 3, as in the published code) learns to tell as many members from as many others.

    >>> round(called_non_members(torch.full((9,), 0.9), torch.full((9,), 0.2), torch.tensor([0.1, 0.3, 0.95])), 1)
    66.7
    """
    count = min(len(members), len(others))
    called = called_other(_some(members, count), _some(others, count), targets)
    return 100 * called.double().mean().item()


def _log(p: Tensor) -> Tensor:
    return p.clamp_min(_TINY).log()


def _some(values: Tensor, count: int) -> Tensor:
    return values[torch.randperm(len(values), generator=generator(0, "attack"))[:count].sort().values]
