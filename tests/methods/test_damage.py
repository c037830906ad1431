"""A method that damages a model says so, and the defaults do not."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from helpers import newcomer
from scissorhands.data.problem import cross_entropy
from scissorhands.evaluation.evaluate import accuracies
from scissorhands.methods.damage import damage, guesses, mean_loss
from scissorhands.methods.projection import bounded, guard, inner

Case = tuple[nn.Module, sh.Split]


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    """The newcomer's model, to be copied."""
    return newcomer.mlp()


@pytest.fixture(params=["random:10%", "random:50%", "class:3"])
def case(request: pytest.FixtureRequest, trained: nn.Module) -> Case:
    """The newcomer's model, and what it is to forget."""
    return copy.deepcopy(trained), divided(request.param)


def divided(forget: str) -> sh.Split:
    train, test = newcomer.digits()
    return sh.split(train, sh.Forget(forget), test=test, seed=0)


@pytest.mark.parametrize("settings", [{}, {"trim": 0.03}, {"balance": 0.5}, {"lr": 0.02}], ids=str)
def test_the_defaults_leave_a_newcomers_model_usable(case: Case, settings: dict[str, float]) -> None:
    model, split = case
    parts = {name: part for name, part in split.parts().items() if name in ("retain", "test")}
    before = accuracies(model, parts)
    with warnings.catch_warnings(action="error"):
        sh.Scissorhands.make(settings).scrub(model, split.problem())
    after = accuracies(model, parts)
    assert all(before[name] - after[name] < 5 for name in parts), (before, after)


def test_without_its_bounds_the_same_model_is_wrecked_and_python_says_so(trained: nn.Module) -> None:
    model, split = copy.deepcopy(trained), divided("random:10%")
    with pytest.warns(sh.DamageWarning, match=r"accuracy on the retained data fell from 9\d\.\d to \d\d\.\d %"):
        sh.Scissorhands(reading="paper", batch_size=256).scrub(model, split.problem())


def test_a_method_of_a_users_own_warns_too(split: sh.Split, mlp: nn.Module) -> None:
    class Wreck(sh.Method):
        def scrub(self, model: nn.Module, problem: sh.Problem, log: object = None) -> None:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()

    sh.FineTune(epochs=20, lr=0.05, batch_size=8).scrub(mlp, split.problem())
    with pytest.warns(sh.DamageWarning, match="retained data"):
        Wreck().scrub(mlp, split.problem())


def test_a_model_that_only_guesses_is_told_before_it_is_changed(split: sh.Split, mlp: nn.Module) -> None:
    sh.FineTune(epochs=20, lr=0.05, batch_size=8).scrub(mlp, split.problem())
    turned = nn.Sequential(mlp, _Turned())
    with pytest.warns(sh.GuessWarning, match="no more often than by a guess"):
        sh.FineTune(epochs=0).scrub(turned, split.problem())


class _Turned(nn.Module):
    """Gives every class the number of the next: labels in another order."""

    def forward(self, scores: Tensor) -> Tensor:
        return scores.roll(1, dims=1)


def test_what_is_no_classifier_is_judged_by_its_loss(split: sh.Split, mlp: nn.Module) -> None:
    problem = replace(split.problem(), loss=lambda model, batch: cross_entropy(model, batch) + 1)
    assert not problem.classifies
    assert split.problem().classifies
    expected = problem.loss(mlp, next(problem.retain.batches(1000))).item()
    assert mean_loss(mlp, problem, problem.retain) == pytest.approx(expected)
    with pytest.warns(sh.DamageWarning, match="the loss on the retained data grew"):
        sh.GradientAscent(epochs=30, lr=1.0, batch_size=8).scrub(mlp, problem)


def test_retraining_is_not_judged_by_data_that_it_may_know_less_of() -> None:
    assert sh.Retrain().judged_on == ("retain",)
    before, after = {"retain_accuracy": 99.0, "test_accuracy": 90.0}, {"retain_accuracy": 99.0, "test_accuracy": 80.0}
    assert damage(before, after) == "accuracy on the test data fell from 90.0 to 80.0 %"


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_model_of_unequal_classes_is_no_guess_if_it_finds_the_rare_one(share: float) -> None:
    labels = (torch.arange(1000) < 1000 * share).long()
    assert not guesses(torch.where(torch.arange(1000) % 2 == 0, labels, 0), labels)
    assert guesses(torch.zeros(1000, dtype=torch.int64), labels)


def test_a_bounded_step_works_for_the_retained_data(build: Callable[[], nn.Module]) -> None:
    draw = torch.Generator().manual_seed(0)
    for scale in (1e-3, 1.0, 1e3):
        for balance in (0.0, 0.05, 1.0, 100.0):
            repair = [torch.randn(7, generator=draw, dtype=torch.float64)]
            forget = [scale * torch.randn(7, generator=draw, dtype=torch.float64)]
            amount = bounded(balance, repair, forget)
            assert amount <= balance
            step = [r - amount * f for r, f in zip(repair, forget, strict=True)]
            assert inner(step, repair) >= 0.5 * inner(repair, repair) - 1e-9
            guarded = guard(repair, forget, amount)
            step = [r - guarded * f for r, f in zip(repair, forget, strict=True)]
            assert inner(step, repair) >= -1e-9  # the projection never points against the repair
            assert inner(step, forget) <= 1e-9 * scale**2  # nor along what is to be forgotten


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([0, 1, 2, 3, 4], ""),
        ([0, 1, 2, 4, 3], "the model takes most records of class 3 for class 4, 4 for 3"),
        ([1, 2, 0, 3, 4], "the model takes most records of class 0 for class 1, 1 for 2, 2 for 0"),
        ([0, 1, 2, 3, 3], ""),  # a class that is not known is no swap
        ([1, 0, 2, 3, 0], "the model takes most records of class 0 for class 1, 1 for 0"),
    ],
)
def test_classes_that_are_taken_for_each_other_are_told(said: list[int], told: str) -> None:
    labels = torch.arange(100) % 5
    noisy = torch.tensor(said)[labels]
    noisy[:10] = 0  # a few mistakes do not hide it
    assert guesses(noisy, labels) == told


def test_a_swap_of_many_classes_takes_little_memory() -> None:
    labels = torch.arange(30_000)
    said = labels.clone()
    said[[7, 8]] = said[[8, 7]]
    assert guesses(said, labels) == "the model takes most records of class 7 for class 8, 8 for 7"
