"""Models trained together come out as if each had been trained alone."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.ensemble import fit_together, pays
from scissorhands.errors import FailedError, ModelError, SettingError
from scissorhands.train import Training

TRAINING = Training(epochs=3, lr=0.05, batch_size=16, weight_decay=0.01)


@pytest.fixture
def models(build: Callable[[], nn.Module]) -> list[nn.Module]:
    """Three networks in float64 with weights of their own, without dropout."""
    return list(unlike(build() for _ in range(3)))


@pytest.fixture
def problems(problem: sh.Problem) -> list[sh.Problem]:
    """Three problems that retain 33 records each: two batches of 16, and one left over."""
    return [subset(problem, seed, 33) for seed in range(3)]


def unlike(models: Iterator[nn.Module]) -> Iterator[nn.Module]:
    """The models in float64, each moved a little, each without dropout."""
    for seed, model in enumerate(models):
        draw = torch.Generator().manual_seed(seed)
        for parameter in model.double().parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=draw)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        yield model


def subset(problem: sh.Problem, seed: int, count: int) -> sh.Problem:
    """The problem with another seed and some of its retained records."""
    ids = problem.retain.ids
    chosen = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))[:count]]
    return replace(problem, retain=replace(problem.retain, ids=chosen), seed=seed)


def assert_same_as_alone(models: list[nn.Module], problems: list[sh.Problem], training: Training = TRAINING) -> None:
    """Trains both ways and compares every parameter and buffer; every model must have changed."""
    before = copy.deepcopy(models)
    alone = copy.deepcopy(models)
    for model, problem in zip(alone, problems, strict=True):
        training.fit(model, problem)
    fit_together(models, problems, training)
    for model, other, old in zip(models, alone, before, strict=True):
        torch.testing.assert_close(model.state_dict(), other.state_dict(), rtol=1e-9, atol=1e-12)
        assert any(not torch.equal(x, y) for x, y in zip(model.parameters(), old.parameters(), strict=True))
        assert [m.training for m in model.modules()] == [m.training for m in old.modules()]


def test_models_trained_together_come_out_as_if_trained_one_by_one(
    models: list[nn.Module], problems: list[sh.Problem]
) -> None:
    assert_same_as_alone(models, problems)


def test_models_may_be_in_unlike_modes(models: list[nn.Module], problems: list[sh.Problem]) -> None:
    models[1].train()
    assert_same_as_alone(models, problems)


def test_together_the_constant_schedule_and_no_momentum_are_as_alone(
    models: list[nn.Module], problems: list[sh.Problem]
) -> None:
    assert_same_as_alone(models, problems, Training(epochs=2, schedule="constant", momentum=0.0, batch_size=10))


def test_a_batch_of_one_record_is_trained_on_as_alone(models: list[nn.Module], problem: sh.Problem) -> None:
    problems = [subset(problem, seed, 4) for seed in range(3)]
    assert_same_as_alone(models, problems, Training(epochs=2, lr=0.01, batch_size=1))


def test_augmentation_draws_the_same_together_as_alone(models: list[nn.Module], problems: list[sh.Problem]) -> None:
    def noisy(inputs: Tensor, draw: torch.Generator) -> Tensor:
        return inputs + torch.randn(inputs.shape, generator=draw)

    assert_same_as_alone(models, [replace(problem, augment=noisy) for problem in problems])


def test_a_loss_of_the_users_own_is_used(models: list[nn.Module], problems: list[sh.Problem]) -> None:
    def squares(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        scores: Tensor = model(batch[0].double())
        return (scores - nn.functional.one_hot(batch[1], 3)).square().mean()

    assert_same_as_alone(models, [replace(problem, loss=squares) for problem in problems])


class Replacing(nn.Module):
    """A layer and a weight under two names, another layer with a shared weight, a buffer replaced and not edited."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.same = self.linear
        self.tied = nn.Linear(16, 3)
        self.tied.weight = self.linear.weight
        self.shift = self.same_shift = nn.Parameter(torch.zeros(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.same(inputs.flatten(1)) + self.tied(inputs.flatten(1)).square() + self.same_shift
        self.seen = self.seen + scores.detach().sum(0)
        return scores


def test_shared_weights_and_replaced_buffers_are_as_alone(problems: list[sh.Problem]) -> None:
    assert_same_as_alone(list(unlike(Replacing() for _ in range(3))), problems)


def test_a_frozen_parameter_keeps_every_bit(models: list[nn.Module], problems: list[sh.Problem]) -> None:
    for model in models:
        next(model.parameters()).requires_grad_(False)
    frozen = [next(model.parameters()).clone() for model in models]
    assert_same_as_alone(models, problems)
    assert all(torch.equal(next(model.parameters()), old) for model, old in zip(models, frozen, strict=True))


def test_networks_with_dropout_learn_together_and_repeatably(
    build: Callable[[], nn.Module], problems: list[sh.Problem]
) -> None:
    def trained() -> tuple[list[nn.Module], list[Mapping[str, Any]]]:
        models, events = [build() for _ in problems], list[Mapping[str, Any]]()
        fit_together(models, problems, replace(TRAINING, epochs=10), events.append)
        return models, events

    models, events = trained()
    again, _ = trained()
    assert events[-1]["loss"] < 0.7 * events[0]["loss"]
    assert [event["step"] for event in events] == list(range(1, 21))
    assert all(event["steps"] == 20 for event in events)
    for model, same in zip(models, again, strict=True):
        torch.testing.assert_close(model.state_dict(), same.state_dict(), rtol=0, atol=0)


def test_a_model_that_diverges_is_reported_and_none_has_changed(
    models: list[nn.Module], problems: list[sh.Problem]
) -> None:
    for parameter in list(models[1].parameters())[-2:]:
        parameter.data *= 1e200
    before = copy.deepcopy(models)
    with pytest.raises(FailedError, match="training diverged"):
        fit_together(models, problems, TRAINING)
    for model, old in zip(models, before, strict=True):
        torch.testing.assert_close(model.state_dict(), old.state_dict(), rtol=0, atol=0)


def test_parts_of_unequal_size_are_refused(models: list[nn.Module], problem: sh.Problem) -> None:
    problems = [subset(problem, 0, count) for count in (30, 33, 30)]
    with pytest.raises(SettingError, match="the smallest retained part has 30 records, the largest 33"):
        fit_together(models, problems, TRAINING)


def test_problems_that_do_not_match_the_models_are_refused(models: list[nn.Module], problems: list[sh.Problem]) -> None:
    with pytest.raises(SettingError, match="3 models need as many problems, not 2"):
        fit_together(models, problems[:2], TRAINING)
    other = replace(problems[2], loss=lambda model, batch: model(batch[0]).sum())
    with pytest.raises(SettingError, match="one loss"):
        fit_together(models, [*problems[:2], other], TRAINING)


def test_models_that_differ_are_refused(models: list[nn.Module], problems: list[sh.Problem]) -> None:
    half_frozen = copy.deepcopy(models)
    next(half_frozen[2].parameters()).requires_grad_(False)
    for unlike_models in (half_frozen, [*models[:2], nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()]):
        with pytest.raises(ModelError, match="the same layers, shapes and frozen parameters"):
            fit_together(unlike_models, problems, TRAINING)


def test_no_models_need_no_training() -> None:
    fit_together([], [], TRAINING)


class Branching(nn.Linear):
    """A layer whose path depends on its numbers, which no stacked computation can follow."""

    def forward(self, inputs: Tensor) -> Tensor:
        scores = super().forward(inputs.flatten(1))
        return -scores if scores.sum().item() > 0 else scores


def test_models_that_cannot_be_stacked_are_refused(problems: list[sh.Problem]) -> None:
    with pytest.raises(ModelError, match="train them one by one"):
        fit_together([Branching(16, 3) for _ in problems], problems, TRAINING)


def test_only_small_models_without_convolutions_are_trained_together() -> None:
    assert pays(nn.Linear(64, 10))
    assert not pays(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)))
    assert not pays(nn.Linear(1000, 1000))
    assert not pays(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
