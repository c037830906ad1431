"""Scissorhands without settings on forty small problems, drawn at random: it leaves each model usable."""

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.records import Part, Stored
from scissorhands.methods import Training, logits_of
from scissorhands.methods.descent import Descent

RULES = ("ids", "random", "half", "class")


def drawn(number: int) -> tuple[nn.Module, sh.Problem, Training]:
    """Draw a data set, a network that learns it, and what is to be forgotten."""
    draw = torch.Generator().manual_seed(number)

    def pick(*choices: int) -> int:
        return choices[int(torch.randint(len(choices), (), generator=draw))]

    classes, count, noise = pick(2, 3, 5, 8), pick(60, 90, 120), pick(4, 8, 12) / 10
    labels = torch.arange(count) % classes
    centers = torch.randn(classes, 1, 4, 4, generator=draw)
    inputs = centers[labels] + noise * torch.randn(count, 1, 4, 4, generator=draw)
    order = torch.randperm(count, generator=draw)
    held, trained = order[: count // 4], order[count // 4 :]
    records, rule = Stored(inputs, labels), RULES[number % len(RULES)]
    whole = {"ids": 1, "random": len(trained) // 10, "half": len(trained) // 2}
    gone = labels[trained] == 0 if rule == "class" else torch.arange(len(trained)) < whole[rule]
    if rule == "class":
        held = held[labels[held] != 0]
    optimizer = ("sgd", "adamw")[number // 4 % 2]
    forget, retain, unseen = (Part(records, ids.sort().values) for ids in (trained[gone], trained[~gone], held))
    problem = sh.Problem(forget, retain, unseen, seed=number, warn_on_damage=False)
    training = Training(epochs=15, optimizer=optimizer, lr=0.05 if optimizer == "sgd" else 0.005, batch_size=32)
    torch.manual_seed(number)
    return network(classes, normalized=bool(number // 8 % 2)), problem, training


def network(classes: int, normalized: bool) -> nn.Module:
    if not normalized:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, classes))
    layers = (nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, classes))


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
    for number in (2, 6, 18):
        fresh, problem, training = drawn(number)
        model = copy.deepcopy(fresh)
        everything = torch.cat([problem.retain.ids, problem.forget.ids]).sort().values
        training.fit(model, replace(problem, retain=replace(problem.retain, ids=everything)))
        training.fit(fresh, problem)
        sh.Scissorhands(reading="paper", optimizer=training.optimizer, lr=0.05).scrub(model, problem)
        lost.append(accuracy(fresh, problem.retain) - accuracy(model, problem.retain))
    assert max(lost) > 3
