"""What is left inside a model that was made to forget: in its features, and in how fast it learns again.

Each looks at a copy, and leaves the model as it was.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..data.problem import Log, Problem, forward, ignore
from ..data.records import Joined, Part
from ..distributed import copy_model, gather_rows
from ..errors import ModelError
from ..methods.modes import evaluating
from ..methods.training import Training
from ..metrics import Outputs, skill
from ..randomness import generator
from .predict import BATCH_SIZE, predict

MOST = 10_000  # retained records that a probe or a short training takes. More are slower, with no benefit.
_DRAWS = 4  # times that a probe is shown other forgotten records
SOON = Training(epochs=3, lr=0.01, schedule="constant")  # a short training on retained data
FEW = Training(epochs=20, lr=0.01, schedule="constant")  # a short training on a few records
_SLOW = Training(lr=1e-3, schedule="constant")  # the paper's relearning


def probe(model: nn.Module, problem: Problem, others: Part, shots: int) -> tuple[Tensor, Tensor]:
    """Return how often a linear classifier on the last features is right about each forgotten and each other record.

    It is fitted to retained records and to a few forgotten ones of each label (`shots`, or half of them where there
    are not twice as many), which are not scored; four times, with other records.
    """
    retain = problem.sample(problem.retain, min(1.0, MOST / len(problem.retain)), "probe")
    known, inside = features(model, retain), features(model, problem.forget)
    outside = features(model, others) if len(others) else inside[:0]
    right, scored = torch.zeros(len(problem.forget)), torch.zeros(len(problem.forget))
    right_others = torch.zeros(len(others))
    for draw in range(_DRAWS):
        shown, rest = _shots(problem, shots, draw)
        labels = torch.cat([retain.labels, problem.forget.labels[shown]])
        said = _fitted(torch.cat([known, inside[shown]]), labels, torch.cat([inside[rest], outside]))
        right[rest] += said[: len(rest)] == problem.forget.labels[rest]
        scored[rest] += 1
        right_others += said[len(rest) :] == others.labels
    seen = scored > 0
    return right[seen] / scored[seen], right_others / _DRAWS


def reawaken(model: nn.Module, problem: Problem, batch_size: int, log: Log = ignore) -> Outputs:
    """Return the outputs on the forgotten records after a short training on retained data alone."""
    copy = copy_model(model)
    some = problem.sample(problem.retain, min(1.0, MOST / len(problem.retain)), "reawaken")
    replace(SOON, batch_size=batch_size).fit(copy, problem, log, part=some, phase="reawaken")
    return predict(copy, problem.forget)


def few_shot(model: nn.Module, problem: Problem, shots: int, batch_size: int, log: Log = ignore) -> Outputs:
    """Return the outputs on the other forgotten records after a short training on a few records of every label."""
    copy = copy_model(model)
    shown, rest = _shots(problem, shots, 0)
    forgotten = replace(problem.forget, ids=problem.forget.ids[shown])
    retained = replace(
        problem.retain, ids=problem.retain.ids[_per_label(problem.retain.labels, shots, problem.seed, 0)]
    )
    shown_records = Joined(forgotten, retained)
    part = Part(shown_records, torch.arange(len(shown_records)))
    replace(FEW, batch_size=batch_size).fit(copy, problem, log, part=part, phase="few-shot")
    return predict(copy, replace(problem.forget, ids=problem.forget.ids[rest]))


def relearn(model: nn.Module, problem: Problem, wanted: float, batch_size: int, most: int, log: Log = ignore) -> Tensor:
    """Train on the forgotten records until the model is as good on them as wanted.

    Return how good it is before and after each epoch, which is its accuracy or minus the mean absolute error. As in the
    paper the learning rate is 0.001; it goes on for as many epochs as `most`.
    """
    copy = copy_model(model)
    found: list[float] = []

    def reached() -> bool:
        found.append(skill(predict(copy, problem.forget)))
        return found[-1] >= wanted

    if not reached():
        slow = replace(_SLOW, epochs=most, batch_size=batch_size)
        slow.fit(copy, problem, log, part=problem.forget, phase="relearn", until=reached)
    return torch.tensor(found, dtype=torch.float64)


def features(model: nn.Module, part: Part) -> Tensor:
    """Return the inputs of the model's last linear layer, one row per record."""
    head = _head(model, part)
    with evaluating(model), torch.no_grad(), _inputs_of([head]) as given:
        for inputs, _ in part.batches(BATCH_SIZE):
            forward(model, inputs)
    sizes = [len(ids) for ids in part.ids.split(BATCH_SIZE)]
    return torch.cat([gather_rows(x.cpu(), size) for (_, x), size in zip(given, sizes, strict=True)]).float()


def _head(model: nn.Module, part: Part) -> nn.Linear:
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    with evaluating(model), torch.no_grad(), _inputs_of(linear) as given:
        inputs, _ = part.records.fetch(part.ids[:2])
        outputs = forward(model, inputs)
    if given:
        head, values = given[-1]
        if values.dim() == 2 and len(values) == len(inputs) and head.out_features == outputs.shape[1]:
            return head
    raise ModelError("a probe of the features needs a model that ends in a linear layer.")


@contextmanager
def _inputs_of(layers: list[nn.Linear]) -> Iterator[list[tuple[nn.Linear, Tensor]]]:
    """Collect the inputs of the layers inside the block."""
    given: list[tuple[nn.Linear, Tensor]] = []
    hooks = [
        layer.register_forward_pre_hook(lambda module, arguments: given.append((module, arguments[0])))
        for layer in layers
    ]
    try:
        yield given
    finally:
        for hook in hooks:
            hook.remove()


def _shots(problem: Problem, shots: int, draw: int) -> tuple[Tensor, Tensor]:
    """Return places in the forgotten part: of a few records of each label, and of the rest."""
    shown = _per_label(problem.forget.labels, shots, problem.seed, draw)
    rest = torch.ones(len(problem.forget), dtype=torch.bool).index_fill(0, shown, False)
    if not rest.any():
        raise ModelError("there are too few forgotten records to show some and score the others.")
    return shown, rest.nonzero()[:, 0]


def _per_label(labels: Tensor, shots: int, seed: int, draw: int) -> Tensor:
    """Draw the places of a few records of each label, never more than half of them."""
    order = torch.randperm(len(labels), generator=generator(seed, "shots", draw))
    places = []
    for label in labels.unique():
        of_label = order[labels[order] == label]
        places.append(of_label[: min(shots, len(of_label) // 2)])
    return torch.cat(places).sort().values


def _fitted(points: Tensor, labels: Tensor, asked: Tensor) -> Tensor:
    """Fit a logistic regression to the points and return its predictions for `asked`."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    mean, deviation = points.mean(0), points.std(0).clamp_min(1e-6)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        probe = LogisticRegression(max_iter=300).fit(((points - mean) / deviation).numpy(), labels.numpy())
    return torch.from_numpy(probe.predict(((asked - mean) / deviation).numpy()))
