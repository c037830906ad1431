"""The support vector classifier of the membership attack."""

import numpy as np
import torch
from torch import Tensor


def called_other(members: Tensor, others: Tensor, targets: Tensor) -> Tensor:
    """Whether the classifier takes each target for one of the others."""
    from sklearn.svm import SVC

    points = torch.cat([members, others]).double().reshape(len(members) + len(others), -1).numpy()
    label = np.repeat([1, 0], [len(members), len(others)])
    attack = SVC(C=3, gamma="auto", kernel="rbf").fit(points, label)
    return torch.from_numpy(attack.predict(targets.double().reshape(len(targets), -1).numpy()) == 0)
