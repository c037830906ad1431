"""Scissorhands without settings on forty small problems, drawn at random: it leaves each model usable."""

import copy
import warnings
from dataclasses import replace
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.records import Part, Stored
from scissorhands.methods import Training, logits_of
from scissorhands.methods.descent import Descent

T = TypeVar("T")
SHARES: dict[str, float] = {"one": 0, "few": 0.05, "tenth": 0.1, "quarter": 0.25, "half": 0.5, "class": 0}
RULES = tuple(SHARES)


def drawn(number: int) -> tuple[nn.Module, sh.Problem, Training]:
    """Draw a data set, some of whose labels may be wrong, a network that learns it, and what is to be forgotten."""
    draw = torch.Generator().manual_seed(number)

    def pick(*choices: T) -> T:
        return choices[int(torch.randint(len(choices), (), generator=draw))]

    classes, count, noise, wrong = pick(2, 3, 5, 8, 10), pick(60, 100, 160, 240), pick(0.4, 0.8, 1.2), pick(0, 0.1, 0.3)
    labels = torch.arange(count) % classes
    centers = torch.randn(classes, 1, 4, 4, generator=draw)
    inputs = centers[labels] + noise * torch.randn(count, 1, 4, 4, generator=draw)
    mistaken = torch.rand(count, generator=draw) < wrong
    records = Stored(inputs, labels.where(~mistaken, torch.randint(classes, (count,), generator=draw)))
    order, never = torch.randperm(count, generator=draw), count // pick(4, 5, 10)
    held, trained, rule = order[:never], order[never:], RULES[number % len(RULES)]
    gone = torch.arange(len(trained)) < max(1, round(SHARES[rule] * len(trained)))
    if rule == "class":
        gone, held = records.labels[trained] == 0, held[records.labels[held] != 0]
    forget, retain, unseen = (Part(records, ids.sort().values) for ids in (trained[gone], trained[~gone], held))
    problem = sh.Problem(forget, retain, unseen, seed=number, warn_on_damage=False)
    optimizer, size, epochs = pick("sgd", "adam", "adamw"), pick(8, 16, 32), pick(15, 30)
    rate = 0.05 if optimizer == "sgd" else 0.005
    torch.manual_seed(number)
    network = pick(*NETWORKS)(classes)
    return network, problem, Training(epochs=epochs, optimizer=optimizer, lr=rate, batch_size=size)


def _mlp(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, classes))


def _dropout(classes: int) -> nn.Module:
    hidden = (nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 64), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(64, classes))


def _layer_norm(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, classes))


def _batch_norm(classes: int) -> nn.Module:
    first = (nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU())
    second = (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *first, *second, nn.Linear(64, classes))


def _convolution(classes: int) -> nn.Module:
    layers = (nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, classes))


NETWORKS = (_mlp, _dropout, _layer_norm, _batch_norm, _convolution)


def accuracy(model: nn.Module, part: Part) -> float:
    right: Tensor = logits_of(model, part).argmax(1) == part.labels
    return 100 * float(right.double().mean())


@pytest.mark.parametrize("number", range(40))
def test_it_keeps_what_retraining_keeps_and_ends_within_its_cap(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, problem, training = drawn(number)
    original, retrained = copy.deepcopy(fresh), copy.deepcopy(fresh)
    everything = torch.cat([problem.retain.ids, problem.forget.ids]).sort().values
    training.fit(original, replace(problem, retain=replace(problem.retain, ids=everything)))
    training.fit(retrained, problem)
    loops: list[Descent] = []
    begin = Descent.__init__

    def watched(self: Descent, *given: object, **named: object) -> None:
        begin(self, *given, **named)  # type: ignore[arg-type]
        loops.append(self)

    monkeypatch.setattr(Descent, "__init__", watched)
    with warnings.catch_warnings(action="error"):
        sh.Scissorhands(optimizer=training.optimizer).scrub(original, problem)
    assert accuracy(original, problem.retain) >= accuracy(retrained, problem.retain) - 3
    assert len(loops) <= 4
    assert all(loop.epoch < 10 for loop in loops)
    assert all(bool(value.isfinite().all()) for value in original.state_dict().values())


def test_the_problems_tell_a_method_that_does_harm() -> None:
    lost = []
    for number in range(6):
        fresh, problem, training = drawn(number)
        model = copy.deepcopy(fresh)
        everything = torch.cat([problem.retain.ids, problem.forget.ids]).sort().values
        training.fit(model, replace(problem, retain=replace(problem.retain, ids=everything)))
        training.fit(fresh, problem)
        sh.Scissorhands(reading="paper", optimizer=training.optimizer, lr=0.05).scrub(model, problem)
        lost.append(accuracy(fresh, problem.retain) - accuracy(model, problem.retain))
    assert max(lost) > 3
