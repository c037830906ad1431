"""How well a score separates forgotten records from records never trained on. An AUC of one half: not at all."""

import torch
from torch import Tensor


def auc(members: Tensor, others: Tensor) -> float:
    """Return the chance that a member has a higher score than another record; a tie counts half.

    >>> auc(torch.tensor([3.0, 1.0]), torch.tensor([0.0, 2.0]))
    0.75
    """
    if members.isnan().any() or others.isnan().any():
        raise ValueError("some outputs are NaN.")
    ordered, members = others.sort().values, members.contiguous()
    below = torch.searchsorted(ordered, members, right=False)
    up_to = torch.searchsorted(ordered, members, right=True)
    return ((below + up_to).double().mean() / (2 * len(others))).item()


def tpr_at_fpr(members: Tensor, others: Tensor, fpr: float) -> float:
    """Return the percentage of members whose score is above all but this share of the others (TPR at a fixed FPR).

    >>> tpr_at_fpr(torch.tensor([9.0, 8.0, 1.0, 0.5]), torch.arange(10.0), 0.2)
    50.0
    """
    needed = round(1 / fpr)
    if len(others) < needed:
        share = f"{100 * fpr:g} %"
        raise ValueError(f"a false alarm rate of {share} needs {needed} records never seen; there are {len(others)}.")
    threshold = others.sort(descending=True).values[int(fpr * len(others) + 1e-9)]
    return 100 * (members > threshold).double().mean().item()
