"""The paper's membership inference attack: a support vector classifier on how sure the model is of the true label."""

import torch
from torch import Tensor

from ..randomness import generator


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """The probability that the model gives to the true label.

    >>> confidence(torch.tensor([[0.0, 0.0], [0.0, 100.0]]), torch.tensor([0, 1]))
    tensor([0.5000, 1.0000])
    """
    return logits.softmax(1).gather(1, labels[:, None])[:, 0]


def called_non_members(members: Tensor, others: Tensor, targets: Tensor) -> float:
    """The percentage of targets that look more like the others than like the members of the training data.

    An SVC (radial kernel, C = 3, as in the published code) learns to tell as many members from as many others.

    >>> round(called_non_members(torch.full((9,), 0.9), torch.full((9,), 0.2), torch.tensor([0.1, 0.3, 0.95])), 1)
    66.7
    """
    from sklearn.svm import SVC

    count = min(len(members), len(others))
    known = torch.cat([_some(members, count), _some(others, count)])
    attack = SVC(C=3, gamma="auto", kernel="rbf")
    attack.fit(known[:, None].double().numpy(), [1] * count + [0] * count)
    called = attack.predict(targets[:, None].double().numpy())
    return float(100 * (called == 0).mean())


def _some(values: Tensor, count: int) -> Tensor:
    return values[torch.randperm(len(values), generator=generator(0, "attack"))[:count].sort().values]
