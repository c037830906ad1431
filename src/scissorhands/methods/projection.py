"""The guarded gradient: a step that repairs what is kept without relearning what was forgotten (equations 3 to 5).

With r the gradient of the loss on a batch to retain, f on a batch to forget, and balance λ, the paper asks for the
vector nearest to r − λf that does not point along f. Its quadratic program has one multiplier, so the answer is a
formula: r − max(λ, ⟨r, f⟩ / ‖f‖²)·f. (The paper prints the dual with the opposite sign; its primal is right.)
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..distributed import all_reduce_sum_

Gradients = Sequence[Tensor]


def inner(a: Gradients, b: Gradients) -> Tensor:
    """Compute the inner product of two gradients, over the shards of all processes.

    >>> inner([torch.tensor([1.0, 2.0])], [torch.tensor([3.0, 4.0])])
    tensor(11.)
    """
    products = [torch.dot(x.reshape(-1), y.reshape(-1)) for x, y in zip(a, b, strict=True)]
    return all_reduce_sum_(torch.stack(products).sum())


def overlap(gradient: Gradients, forget: Gradients, ridge: float = 0.0) -> float:
    """Compute how much of `forget` lies in `gradient`: ⟨gradient, forget⟩ / ‖forget‖², or 0 if `forget` is zero.

    `ridge` is added to the squared norm.

    >>> overlap([torch.tensor([3.0, 1.0])], [torch.tensor([2.0, 0.0])])
    1.5
    """
    square = inner(forget, forget).item() + ridge
    return inner(gradient, forget).item() / square if square > 0 else 0.0


def guard(repair: Gradients, forget: Gradients, balance: float) -> float:
    """Return how much of `forget` to take out of `repair`, so that the step does not help forgotten data nor ignore λ.

    >>> guard([torch.tensor([3.0, 1.0])], [torch.tensor([2.0, 0.0])], balance=0.5)  # they agree: remove all of it
    1.5
    >>> guard([torch.tensor([-3.0, 1.0])], [torch.tensor([2.0, 0.0])], balance=0.5)  # they conflict already: only λ
    0.5
    """
    return max(balance, overlap(repair, forget))


def bounded(balance: float, repair: Gradients, forget: Gradients) -> float:
    """Return λ, capped so that forgetting pushes at most half as hard as the repair pulls: the step still repairs.

    With c‖f‖ ≤ ‖r‖ / 2, the step r − c·f has ⟨r − c·f, r⟩ ≥ ‖r‖² / 2. The published λ has no such bound: the gradient
    of a loss that is pushed up grows with it, and in the end destroys the network.

    >>> bounded(0.5, [torch.tensor([3.0, 4.0])], [torch.tensor([2.0, 0.0])])  # a push of 1, half of 5 is more
    0.5
    >>> bounded(0.5, [torch.tensor([3.0, 4.0])], [torch.tensor([10.0, 0.0])])
    0.25
    """
    square = inner(forget, forget).item()
    return min(balance, (inner(repair, repair).item() / square) ** 0.5 / 2) if square > 0 else balance


def subtract_(gradient: list[Tensor], amount: float, other: Gradients) -> None:
    """Subtract `amount` times `other` from `gradient`, in place."""
    torch._foreach_add_(gradient, list(other), alpha=-amount)
