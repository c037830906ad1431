"""Readings of Scissorhands: the published one against the published steps, and what each difference does."""

import copy
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.methods import Descent
from scissorhands.methods.projection import inner
from scissorhands.methods.reinit import INITS
from scissorhands.methods.scissorhands import READINGS, Reading
from scissorhands.testing import convnet, mlp, same, scrubbed, small_problem

OURS = ("bounded", "calibrated", "trim", "lr")  # the others are differences of the published code
SCOPE = ("4", "5", "7")  # the linear layers, and the normalization between them
SETTINGS = {"parameters": "4.*, 5.*, 7.*", "trim": 0.3, "balance": 0.3, "lr": 0.05, "batch_size": 4, "epochs": 2}


def published() -> sh.Scissorhands:
    return sh.Scissorhands.make({"reading": "published", "every": 2, **SETTINGS})


def batches(problem: sh.Problem, part: str, *purpose: str | int) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in problem.batches(getattr(problem, part), 4, *purpose):
        yield batch.inputs, batch.labels


def trimmed(model: nn.Module, problem: sh.Problem) -> None:
    """Score in training mode, rank all weights together, re-initialize those of the top share in the scope."""
    model.train()
    sums = [torch.zeros_like(p) for p in model.parameters()]
    for x, y in batches(problem, "forget", "saliency"):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for total, p in zip(sums, model.parameters(), strict=True):
            assert p.grad is not None
            total += p.grad.abs()
    scores = [(s * p).abs() for s, p in zip(sums, model.parameters(), strict=True)]
    flat = torch.cat([s.reshape(-1) for s in scores])
    cut = flat.sort(descending=True).values[round(0.3 * len(flat)) - 1]
    with torch.no_grad():
        for (name, p), score in zip(model.named_parameters(), scores, strict=True):
            layer, kind = name.split(".")
            if layer in ("4", "7"):  # layer 5 is a normalization
                owner = model.get_submodule(layer)
                fresh = INITS["uniform"](owner, name, p, problem.seed) if kind == "weight" else torch.zeros_like(p)
                p.copy_(torch.where(score >= cut, fresh.to(p), p))


def published_steps(model: nn.Module, problem: sh.Problem) -> None:
    """What the published code does, with plain PyTorch: descend on retain − λ·forget, projected with a margin."""
    trimmed(model, problem)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scoped = [p for name, p in model.named_parameters() if name.split(".")[0] in SCOPE]
    for epoch in range(2):
        twin = copy.deepcopy(model).eval()
        x, y = next(batches(problem, "forget", "guard", epoch))
        F.cross_entropy(twin(x), y).backward()
        memory = torch.cat([p.grad.reshape(-1) for n, p in twin.named_parameters() if n.split(".")[0] in SCOPE])  # type: ignore[union-attr]
        model.train()
        forgotten = batches(problem, "forget", "forget", epoch, 0)
        for i, (x, y) in enumerate(batches(problem, "retain", "retain", epoch), start=1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            drop = next(forgotten, None)
            if drop is not None:
                loss = loss - 0.3 * F.cross_entropy(model(drop[0]), drop[1])
            loss.backward()
            gradient = torch.cat([p.grad.reshape(-1) for p in scoped])  # type: ignore[union-attr]
            if drop is not None and i % 2 == 0 and gradient @ memory > 0:
                gradient = gradient - max(0.5, float(gradient @ memory / (memory @ memory + 1e-3))) * memory
                for p, piece in zip(scoped, gradient.split([p.numel() for p in scoped]), strict=True):
                    p.grad = piece.view_as(p)
            optimizer.step()


@pytest.mark.parametrize("seed", range(3))
def test_the_published_reading_takes_the_published_steps(seed: int) -> None:
    problem = replace(small_problem(torch.float64), seed=seed)
    ours, theirs = convnet().double(), convnet().double()
    published().scrub(ours, problem)
    published_steps(theirs, problem)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-9, atol=1e-12)


def paper_steps(model: nn.Module, problem: sh.Problem) -> None:
    """Algorithm 1, with plain PyTorch: trim the top share by |∇L_f · θ|, repair by the nearest gradient that fits."""
    model.eval()
    x, y = problem.forget.records.fetch(problem.forget.ids)
    F.cross_entropy(model(x), y).backward()
    weights = {name: p for name, p in model.named_parameters() if name.split(".")[0] not in ("1", "5")}  # no norms
    scores = {name: (p.grad * p).abs() for name, p in weights.items()}  # type: ignore[operator]
    flat = torch.cat([s.reshape(-1) for s in scores.values()])
    cut = flat.sort(descending=True).values[round(0.3 * len(flat)) - 1]
    with torch.no_grad():
        for name, p in weights.items():
            fresh = INITS["uniform"](model.get_submodule(name.split(".")[0]), name, p, problem.seed)
            p.copy_(torch.where(scores[name] >= cut, fresh.to(p), p))
    model.train()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=5e-4)
    for epoch in range(2):
        passes = (batch for i in range(99) for batch in batches(problem, "forget", "forget", epoch, i))
        for (x, y), (drop, labels) in zip(batches(problem, "retain", "retain", epoch), passes, strict=False):
            twin = copy.deepcopy(model)  # so that the batch to forget leaves no trace in running statistics
            slopes = torch.autograd.grad(F.cross_entropy(twin(drop), labels), list(twin.parameters()))
            forget = torch.cat([slope.reshape(-1) for slope in slopes])
            slopes = torch.autograd.grad(F.cross_entropy(model(x), y), parameters)
            repair = torch.cat([slope.reshape(-1) for slope in slopes]) - 0.3 * forget
            if repair @ forget > 0:  # it would lower the forget loss: the nearest that does not is at a right angle
                repair -= (repair @ forget) / (forget @ forget) * forget
            for p, piece in zip(parameters, repair.split([p.numel() for p in parameters]), strict=True):
                p.grad = piece.view_as(p)
            optimizer.step()


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_reading_is_algorithm_1(seed: int) -> None:
    problem = replace(small_problem(torch.float64), seed=seed)
    ours, theirs = convnet().double(), convnet().double()
    sh.Scissorhands.make({"reading": "paper", **SETTINGS, "parameters": "*"}).scrub(ours, problem)
    paper_steps(theirs, problem)
    for name, value in theirs.state_dict().items():  # the projection magnifies what rounding leaves
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("field", [f.name for f in fields(Reading) if f.name not in OURS])
def test_every_difference_of_the_published_reading_matters(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, model = small_problem(), convnet()
    sh.FineTune(epochs=5, lr=0.1, batch_size=16).scrub(model, problem)  # so that the forget gradient is the larger one
    before = scrubbed(published(), copy.deepcopy(model), problem)
    monkeypatch.setitem(READINGS, "published", replace(READINGS["published"], **{field: getattr(Reading(), field)}))
    assert not same(before, scrubbed(published(), model, problem))


def test_algorithm_1_has_no_difference_from_itself() -> None:
    assert READINGS["paper"] == Reading()


def violating_steps(monkeypatch: pytest.MonkeyPatch, **settings: float) -> tuple[int, int]:
    """How many guarded steps lower the forget loss to first order, and how many there were."""
    problem, found = small_problem(torch.float64), []
    original = sh.Scissorhands._guard

    def watched(self: sh.Scissorhands, descent: Descent, repair: list[Tensor], *others: object) -> None:
        state = [p.detach().clone() for p in descent.parameters.values()]
        _, forget = descent.loss_and_gradient(others[0], frozen_norm_statistics=True)  # type: ignore[arg-type]
        original(self, descent, repair, *others)  # type: ignore[arg-type]
        step = descent.step

        def taken(gradient: list[Tensor]) -> None:
            step(gradient)
            moved = [a - b.detach() for a, b in zip(state, descent.parameters.values(), strict=True)]
            along = inner(moved, forget) / (inner(moved, moved) * inner(forget, forget)).sqrt()
            found.append(float(along))  # above 0: the step goes down the forget loss
            descent.step = step  # type: ignore[method-assign]

        descent.step = taken  # type: ignore[method-assign,assignment]

    monkeypatch.setattr(sh.Scissorhands, "_guard", watched)
    method = sh.Scissorhands.make({"reading": "paper", "epochs": 4, "batch_size": 8, "balance": 0.0, **settings})
    method.scrub(mlp().double(), problem)
    return sum(along > 1e-9 for along in found), len(found)


def test_no_guarded_step_lowers_the_forget_loss_without_momentum_and_decay(monkeypatch: pytest.MonkeyPatch) -> None:
    violating, steps = violating_steps(monkeypatch, momentum=0.0, weight_decay=0.0)
    assert (violating, steps) == (0, 28)


def test_momentum_and_decay_undo_the_guard_in_some_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the paper and its code, the gradient is guarded and not the step; the docs say so."""
    violating, steps = violating_steps(monkeypatch, momentum=0.9, weight_decay=5e-4)
    assert 0 < violating < steps
