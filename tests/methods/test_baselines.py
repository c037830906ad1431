"""The formulas of the baselines' published code, derived again with plain PyTorch on random tensors."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.records import Part, Stored
from scissorhands.distributed import Batch
from scissorhands.methods.heads import widened
from scissorhands.randomness import seeded

SGD: dict[str, Any] = {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01}
SETTINGS: dict[str, Any] = {**SGD, "epochs": 3, "batch_size": 1000}  # so that a pass is one step
FORGET, RETAIN = torch.arange(0, 30, 3), torch.tensor([i for i in range(30) if i % 3])
Step = Callable[[nn.Module], Tensor]


@pytest.fixture
def model() -> nn.Sequential:
    """A small smooth network, in float64."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).double()


@pytest.fixture
def problem() -> sh.Problem:
    """Thirty random records in four classes, ten of them to forget."""
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(30, 6, generator=draw, dtype=torch.float64)
    records = Stored(inputs, torch.arange(30) % 4)
    return sh.Problem(Part(records, FORGET), Part(records, RETAIN), warn_on_damage=False)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def descended(model: nn.Module, steps: list[Step], mask: list[Tensor] | None = None) -> Tensor:
    """The weights after a step of SGD for each loss; where the mask is off, they are put back after every step."""
    model = copy.deepcopy(model)
    parameters = list(model.parameters())
    first = [p.detach().clone() for p in parameters]
    masks = mask or [torch.ones_like(p, dtype=torch.bool) for p in parameters]
    optimizer = torch.optim.SGD(parameters, **SGD)
    for loss in steps:
        slopes = torch.autograd.grad(loss(model), parameters)
        for parameter, slope, free in zip(parameters, slopes, masks, strict=True):
            parameter.grad = slope * free
        optimizer.step()
        for parameter, start, free in zip(parameters, first, masks, strict=True):
            parameter.data = torch.where(free, parameter.data, start)
    return flat(model)


def scrubbed(method: sh.Method, model: nn.Module, problem: sh.Problem) -> Tensor:
    model = copy.deepcopy(model)
    method.scrub(model, problem)
    return flat(model)


def on(part: Part, labels: Tensor | None = None) -> Step:
    inputs, own = part.records.fetch(part.ids)
    return lambda model: F.cross_entropy(model(inputs), own if labels is None else labels)


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_retraining_is_training_from_new_weights_without_the_forgotten_data(
    schedule: str, model: nn.Sequential, problem: sh.Problem
) -> None:
    theirs = copy.deepcopy(model)
    with seeded(problem.seed, "reset"):
        for layer in (theirs[0], theirs[2]):
            layer.reset_parameters()  # type: ignore[operator]
    optimizer = torch.optim.SGD(theirs.parameters(), **SGD)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    for _ in range(3):
        optimizer.zero_grad()
        on(problem.retain)(theirs).backward()
        optimizer.step()
        if schedule == "cosine":
            cosine.step()
    torch.testing.assert_close(scrubbed(sh.Retrain(**SETTINGS, schedule=schedule), model, problem), flat(theirs))


def test_fine_tuning_is_sgd_on_the_retained_data(model: nn.Sequential, problem: sh.Problem) -> None:
    expected = descended(model, [on(problem.retain)] * 3)
    torch.testing.assert_close(scrubbed(sh.FineTune(**SETTINGS), model, problem), expected)


def test_gradient_ascent_is_sgd_on_the_negated_loss_and_decays_weights(
    model: nn.Sequential, problem: sh.Problem
) -> None:
    expected = descended(model, [lambda m: -on(problem.forget)(m)] * 3)
    torch.testing.assert_close(scrubbed(sh.GradientAscent(**SETTINGS), model, problem), expected)


def test_l1_sparse_adds_a_fading_norm_of_every_parameter(model: nn.Sequential, problem: sh.Problem) -> None:
    def penalized(epoch: int) -> Step:
        return lambda m: (
            on(problem.retain)(m) + 0.05 * (1 - epoch / 3) * torch.cat([p.view(-1) for p in m.parameters()]).norm(1)
        )

    expected = descended(model, [penalized(epoch) for epoch in range(3)])
    torch.testing.assert_close(scrubbed(sh.L1Sparse(gamma=0.05, **SETTINGS), model, problem), expected)


@pytest.mark.parametrize("nearest", ["wrong", "argmax"])
def test_boundary_shrink_teaches_the_class_of_the_attacked_record(
    nearest: str, model: nn.Sequential, problem: sh.Problem
) -> None:
    inputs, labels = problem.forget.records.fetch(problem.forget.ids)
    attacked = inputs.clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.cross_entropy(model(attacked), labels), attacked)
    scores = model(inputs + 0.3 * slope.sign()).detach()
    plain = scores.argmax(1)
    wrong = (scores - 1e9 * F.one_hot(labels, 4)).argmax(1)
    assert 0 < int((plain == labels).sum()) < len(labels)  # the attack fails on some, and not on all
    assert not (wrong == labels).any()
    expected = descended(model, [on(problem.forget, plain if nearest == "argmax" else wrong)] * 3)
    method = sh.BoundaryShrink(fgsm=0.3, nearest=nearest, **SETTINGS)
    torch.testing.assert_close(scrubbed(method, model, problem), expected)


def test_boundary_expand_trains_one_more_class_and_cuts_it(model: nn.Sequential, problem: sh.Problem) -> None:
    wide = copy.deepcopy(model)
    wide[2] = widened(wide[2], problem.seed)  # type: ignore[arg-type]
    inside, rows = model[0].weight.numel() + 5, 5 * 5  # type: ignore[operator]
    trained = descended(wide, [on(problem.forget, torch.full((len(FORGET),), 4))] * 3)
    expected = torch.cat([trained[: inside + rows - 5], trained[inside + rows : -1]])
    torch.testing.assert_close(scrubbed(sh.BoundaryExpand(**SETTINGS), model, problem), expected)


def taught(method: sh.Method, model: nn.Module, problem: sh.Problem) -> tuple[Tensor, list[Batch]]:
    """The weights after the method, and the batches that it trained on."""
    seen: list[Batch] = []

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        if model.training:
            seen.append(batch)
        return F.cross_entropy(model(batch.inputs), batch.labels)

    return scrubbed(method, model, replace(problem, loss=loss)), seen


def labels_in(batch: Batch, part: Part) -> Tensor | None:
    """What the batch says of the records of the part, in their order; None where it has none of them."""
    found = (part.records.fetch(part.ids)[0][:, None] == batch.inputs).all(2)
    return batch.labels[found.int().argmax(1)] if found.any() else None


@pytest.mark.parametrize("order", ["mixed", "sequential"])
@pytest.mark.parametrize("labels", ["redrawn", "fixed"])
@pytest.mark.parametrize("salient", [0.3, None], ids=["salun", "randomlabel"])
def test_salun_and_random_labels_train_on_labels_of_every_epoch(
    salient: float | None, labels: str, order: str, model: nn.Sequential, problem: sh.Problem
) -> None:
    names: dict[str, Any] = {"labels": labels, "order": order, **SETTINGS}
    method = sh.SalUn(salient=salient, **names) if salient else sh.RandomLabel(**names)
    found, batches = taught(method, model, problem)

    slopes = torch.autograd.grad(on(problem.forget)(model), list(model.parameters()))
    every = torch.cat([s.abs().reshape(-1) for s in slopes])
    cut = every.sort().values[-round(0.3 * len(every))]
    mask = [s.abs() >= cut for s in slopes] if salient else None
    steps: list[Step] = [lambda m, b=b: F.cross_entropy(m(b.inputs), b.labels) for b in batches]  # type: ignore[misc]
    torch.testing.assert_close(found, descended(model, steps, mask))

    drawn = [wrong for b in batches if (wrong := labels_in(b, problem.forget)) is not None]
    kept = [right for b in batches if (right := labels_in(b, problem.retain)) is not None]
    assert len(drawn) == len(kept) == 3
    assert len(batches) == (3 if order == "mixed" else 6)
    assert all(torch.equal(right, problem.retain.labels) for right in kept)
    assert not any(torch.equal(wrong, problem.forget.labels) for wrong in drawn)
    assert len({tuple(wrong.tolist()) for wrong in drawn}) == (3 if labels == "redrawn" else 1)
    if order == "sequential":
        assert [len(b.labels) for b in batches] == [len(FORGET), len(RETAIN)] * 3


def test_woodfisher_is_the_published_recursion(model: nn.Sequential, problem: sh.Problem) -> None:
    def slope(ids: Tensor) -> Tensor:
        loss = on(replace(problem.retain, ids=ids))(model)
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(model.parameters()))])

    share, count = len(FORGET) / 30, len(RETAIN)
    vector = share * (slope(FORGET) - slope(RETAIN))
    found, first = vector.clone(), slope(RETAIN[:1])
    for record in RETAIN[1:]:
        g = slope(record[None])
        overlap = first @ g
        found -= found @ g / (count + overlap) * first
        first = first - overlap / (count + overlap) * first
    method = sh.InfluenceUnlearning(curvature="woodfisher", alpha=10.0, samples=1000)
    torch.testing.assert_close(scrubbed(method, model, problem) - flat(model), 10 * found)
    assert not torch.allclose(found, vector, rtol=1e-3)


def test_influence_spares_a_converged_network_and_is_felt() -> None:
    images, labels = load_digits(return_X_y=True)
    records = Stored(torch.tensor(images[:900] / 16, dtype=torch.float32), torch.tensor(labels[:900]))
    forget = (records.labels == 3).nonzero()[:, 0]
    retain = (records.labels != 3).nonzero()[:, 0]
    problem = sh.Problem(Part(records, forget), Part(records, retain), warn_on_damage=False)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    sh.Training(epochs=30, batch_size=64).fit(model, problem, part=Part(records, torch.arange(900)))

    def accuracy(part: Part) -> float:
        inputs, own = part.records.fetch(part.ids)
        return 100 * float((model(inputs).argmax(1) == own).float().mean())

    assert accuracy(problem.retain) > 98
    assert accuracy(problem.forget) > 98
    sh.InfluenceUnlearning(samples=64, iterations=10).scrub(model, problem)
    assert accuracy(problem.retain) > 95
    assert accuracy(problem.forget) < 90
