"""The support vector classifier of the membership attack: scikit-learn's for few records, a faster one for many.

The radial kernel is so smooth on what a model says that a few hundred numbers per record have its values as their
inner products. In these numbers the classifier is linear, and Newton's method finds it in a few dozen steps. Where the
kernel is not so smooth, the classifier is scikit-learn's again.

The decisions are those of scikit-learn but for targets on the very boundary: it stops at margins exact to 1e-3, and
knows the kernel in single precision, which tells where the outputs of a model are all the same to four digits.
"""

from collections.abc import Callable

import torch
from torch import Tensor

C = 3.0  # what a record on the wrong side of its margin costs, as in the published code
FEW = 2000  # records, members and others together, for which scikit-learn is fast enough
NEAR = 1e-5  # the grid on which records are merged, as a share of their range or of 1, whichever is less
MISSED = 1e-7  # what the numbers may miss of the kernel's 1, in the mean of the records, per column of a record
BENDS = 1e-2, 1e-3, 1e-4  # the widths over which the hinge loss is rounded, each fit starting from the one before


@torch.no_grad()
def called_other(members: Tensor, others: Tensor, targets: Tensor) -> Tensor:
    """Return whether the classifier takes each target for one of the others. A record is a number, or a row of them.

    >>> called_other(torch.tensor([0.8, 0.9, 0.9]), torch.tensor([0.1, 0.2, 0.2]), torch.tensor([0.0, 0.3, 1.0]))
    tensor([ True,  True, False])
    """
    members, others, targets = (_rows(part).double() for part in (members, others, targets))
    known = torch.cat([members, others])
    valid = len(members) and len(others) and known.isfinite().all() and targets.isfinite().all()
    if len(known) <= FEW or not valid:  # scikit-learn says what is wrong
        return _scikit_learn(members, others, targets)
    grid = NEAR * (known.amax(0) - known.amin(0)).max().clamp(1e-9, 1)
    (points, weight), (more, weight_of_more) = _merged(members, grid), _merged(others, grid)
    features = _features(torch.cat([points, more, targets]))
    if features is None:
        return _scikit_learn(members, others, targets)
    side = torch.cat([torch.ones_like(weight), -torch.ones_like(weight_of_more)])
    weight = torch.cat([weight, weight_of_more])
    scores = features @ _direction(features[: len(side)], side, weight)
    return scores[len(side) :] + _bias(scores[: len(side)], side, weight) < 0


def _rows(records: Tensor) -> Tensor:
    return records if records.dim() == 2 else records[:, None]


def _scikit_learn(members: Tensor, others: Tensor, targets: Tensor) -> Tensor:
    from sklearn.svm import SVC

    attack = SVC(C=C, gamma="auto", kernel="rbf")
    attack.fit(torch.cat([members, others]).numpy(), [1] * len(members) + [0] * len(others))
    return torch.from_numpy(attack.predict(targets.numpy()) == 0)


def _merged(points: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
    """Move the points to the grid; return each once, and how many are there.

    >>> _merged(torch.tensor([[2.1], [5.0], [1.9]]), torch.tensor(1.0))
    (tensor([[2.],
            [5.]]), tensor([2., 1.], dtype=torch.float64))
    """
    cells, counts = (points / grid).round().unique(dim=0, return_counts=True)
    return cells * grid, counts.double()


def _features(points: Tensor) -> Tensor | None:
    """Return rows whose inner products are the kernel's values, if a few hundred columns suffice (pivoted Cholesky).

    >>> rows = _features(torch.tensor([[0.0], [1.0], [3.0]]).double())
    >>> (rows @ rows.T).round(decimals=4)  # e to minus the squared distances 0, 1, 4 and 9
    tensor([[1.0000e+00, 3.6790e-01, 1.0000e-04],
            [3.6790e-01, 1.0000e+00, 1.8300e-02],
            [1.0000e-04, 1.8300e-02, 1.0000e+00]], dtype=torch.float64)
    """
    count, width = points.shape
    squares, missed = points.square().sum(1), points.new_ones(count)
    columns = points.new_empty(300 + width, count)
    goal = MISSED * width
    for done in range(len(columns)):
        worst = int(missed.argmax())
        distances = (squares + squares[worst] - 2 * points @ points[worst]).clamp_min(0)
        column = (-distances / width).exp() - columns[:done, worst] @ columns[:done]
        column[column.abs() < 1e-18] = 0  # arithmetic with numbers near 1e-300 is slow
        columns[done] = column / missed[worst].sqrt()
        missed -= columns[done].square()
        missed[worst] = 0
        if done == 0:  # what all records share decides nothing: be exact about what is left
            goal = min(goal, max(1e-15, 1e-4 * float(missed.mean())))
        if missed.mean() <= goal:
            break
    return columns[: done + 1].T.contiguous() if missed.mean() <= MISSED * width else None


def _direction(features: Tensor, side: Tensor, weight: Tensor) -> Tensor:
    """Return the weights of the linear classifier: the least ½ |w|² + C Σ max(0, 1 − side · score)."""
    rows = torch.cat([features, torch.full_like(side, 30.0)[:, None]], 1)  # the bias, at 1/900 of a weight's price
    found, scores = torch.zeros_like(rows[0]), torch.zeros_like(side)
    for bend in BENDS:
        for _ in range(200):
            step, change = _step(rows, side, C * weight, found, scores, bend)
            found, scores = found + step, scores + change
            if change.abs().max() < 1e-2 * bend:
                break
    return found[:-1]


def _step(
    rows: Tensor, side: Tensor, price: Tensor, found: Tensor, scores: Tensor, bend: float
) -> tuple[Tensor, Tensor]:
    """Return a step of Newton's method, cut short where the loss stops falling, and its change of the scores."""

    def pull(scores: Tensor) -> Tensor:
        return price * side * ((1 - side * scores) / bend + 0.5).clamp(0, 1)

    bent = (1 - side * scores).abs() < bend / 2
    curved = rows[bent] * (price[bent] / bend).sqrt()[:, None]
    step = torch.linalg.solve(curved.T @ curved + torch.eye(len(found)).double(), pull(scores) @ rows - found)
    change = rows @ step
    part = _part(lambda part: float((found + part * step) @ step - pull(scores + part * change) @ change))
    return part * step, part * change


def _part(slope: Callable[[float], float]) -> float:
    """Return how much of a step to take, given the slope of the loss along it.

    >>> _part(lambda part: 8 * part - 1), _part(lambda part: part - 9)
    (0.125, 1.0)
    """
    low, high = 0.0, 1.0
    if slope(high) <= 0:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
    return low


def _bias(scores: Tensor, side: Tensor, weight: Tensor) -> Tensor:
    """Return the bias at which as much weight pulls up as down or, where a whole range does, the middle of the range.

    >>> _bias(torch.tensor([0.0, 0.0]), torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]))
    tensor(0.)
    """
    edges, order = (side - scores).sort()
    below, members = weight[order].cumsum(0), weight[side > 0].sum()
    first, last = (int(torch.searchsorted(below, members, right=right)) for right in (False, True))
    return (edges[first] + edges[min(last, len(edges) - 1)]) / 2
