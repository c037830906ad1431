"""Negative controls: methods that are wrong on purpose, each caught by the check that is meant for it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from contract import checks
from scissorhands import testing
from scissorhands.data.problem import Log, ignore
from scissorhands.methods import Descent
from scissorhands.methods.modes import training
from scissorhands.methods.parameters import trainable
from scissorhands.methods.saliency import gradient_saliency, gradients, top_share
from scissorhands.randomness import seeded
from scissorhands.settings import at_least_one, below_one, count, non_negative, positive, setting
from scissorhands.testing import Build


@dataclass(frozen=True, kw_only=True)
class Sound(sh.Method):
    """Fine-tunes: the one that every check must pass, so that the others fail for their own fault."""

    epochs: int = setting(2, count, "passes")
    lr: float = setting(0.05, positive, "learning rate")
    batch_size: int = setting(16, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum")
    weight_decay: float = setting(5e-4, non_negative, "decay")

    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        descent = Descent(model, problem, self, "sound", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.retain):
                descent.step(descent.gradient(batch))


@dataclass(frozen=True, kw_only=True)
class DoesNothing(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class TrainsACopy(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(copy.deepcopy(model), problem, log)


@dataclass(frozen=True, kw_only=True)
class ReplacesParameters(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(parameter.detach().clone()))


@dataclass(frozen=True, kw_only=True)
class DrawsUnseeded(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))


@dataclass(frozen=True, kw_only=True)
class IgnoresTheSeed(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, sh.Problem(problem.forget, problem.retain, seed=0), log)


@dataclass(frozen=True, kw_only=True)
class SeedsTheWorld(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        torch.manual_seed(problem.seed)
        super().scrub(model, problem, log)


@dataclass(frozen=True, kw_only=True)
class ForgetsTheMode(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        model.train()


@dataclass(frozen=True, kw_only=True)
class LeavesGradients(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        for batch in problem.forget.batches(100):
            problem.loss(model, batch).backward()


@dataclass(frozen=True, kw_only=True)
class TouchesFrozenWeights(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.99)


@dataclass(frozen=True, kw_only=True)
class TakesTheFirstBatchAgainAndAgain(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        step = torch.optim.SGD(
            trainable(model).values(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )
        for epoch in range(self.epochs):
            for _ in range(problem.steps(problem.retain, self.batch_size)):
                with training(model), seeded(problem.seed, epoch):
                    problem.loss(model, next(iter(problem.batches(problem.retain, self.batch_size, epoch)))).backward()
                step.step()
                step.zero_grad()


@dataclass(frozen=True, kw_only=True)
class IgnoresASetting(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        Sound.make({**self.to_dict(), "momentum": 0.9}).scrub(model, problem, log)


@dataclass(frozen=True, kw_only=True)
class DriftsStatistics(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        with training(model), torch.no_grad():
            for inputs, _ in problem.forget.batches(100):
                model(inputs)


@dataclass(frozen=True, kw_only=True)
class CountsStepsWrong(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, lambda event: log({**event, "steps": event["steps"] + 1}))


@dataclass(frozen=True, kw_only=True)
class NeedsTwoRecords(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        super().scrub(model, problem, log)
        spread = problem.forget.labels.double().var(correction=len(problem.forget) - 1)  # 0 / 0 for a single record
        with torch.no_grad():
            next(model.parameters()).add_(0 * spread / (len(problem.forget) - 1))


@dataclass(frozen=True, kw_only=True)
class ChangesASetting(Sound):
    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "epochs": self.epochs + 1}


@dataclass(frozen=True, kw_only=True)
class CountsForItself(Sound):
    """Keeps a count of its own, which a run that goes on does not have."""

    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        descent, steps = Descent(model, problem, self, "counting", log), 0
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.retain):
                steps += 1
                descent.step([g / steps for g in descent.gradient(batch)])


CAUGHT: list[tuple[type[sh.Method], Callable[..., None]]] = [
    (DoesNothing, testing.changes_the_model_and_keeps_its_form),
    (TrainsACopy, testing.changes_the_model_and_keeps_its_form),
    (ReplacesParameters, testing.changes_the_model_and_keeps_its_form),
    (DrawsUnseeded, testing.is_decided_by_the_seed),
    (IgnoresTheSeed, testing.is_decided_by_the_seed),
    (SeedsTheWorld, testing.leaves_the_global_generator),
    (ForgetsTheMode, testing.leaves_mode_gradients_and_switches),
    (LeavesGradients, testing.leaves_mode_gradients_and_switches),
    (TouchesFrozenWeights, testing.leaves_frozen_weights),
    (IgnoresASetting, checks.heeds_every_setting),
    (CountsStepsWrong, testing.tells_its_steps),
    (NeedsTwoRecords, testing.takes_a_single_record),
    (ChangesASetting, testing.keeps_its_settings_in_toml),
    (CountsForItself, testing.resumes_to_the_same_bits),
]


@pytest.mark.parametrize(("broken", "check"), CAUGHT, ids=lambda x: x.__name__)
def test_the_check_catches_it(
    broken: type[sh.Method], check: Callable[..., None], build: Build, problem: sh.Problem
) -> None:
    check(Sound, build, problem)
    with pytest.raises(AssertionError):
        check(broken, build, problem)


def test_the_walk_of_one_batch_again_and_again_is_caught(build: Build, problem: sh.Problem) -> None:
    walk = ((0, 0), (0, 1))
    checks.walks_the_data_as_it_says(Sound, build, problem, walk)
    with pytest.raises(AssertionError):
        checks.walks_the_data_as_it_says(TakesTheFirstBatchAgainAndAgain, build, problem, walk)


def test_forget_data_in_the_running_statistics_is_caught(build: Build, problem: sh.Problem) -> None:
    checks.keeps_forget_data_out_of_running_statistics(Sound, build, problem)
    if any(build().named_buffers()):
        with pytest.raises(AssertionError):
            checks.keeps_forget_data_out_of_running_statistics(DriftsStatistics, build, problem)


@dataclass(frozen=True, kw_only=True)
class MasksTheGradientOnly(sh.SalUn):
    """Masks the gradient and lets the optimizer decay every weight: the trap of the published code."""

    paper: ClassVar[str] = ""

    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        parameters = trainable(model)
        mask = dict(
            top_share(gradient_saliency(model, problem, parameters, problem.forget, self.batch_size), self.salient)
        )
        step = torch.optim.SGD(parameters.values(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        for batch in problem.batches(problem.retain, self.batch_size):
            for name, g in zip(parameters, gradients(problem.loss(model, batch), parameters), strict=True):
                parameters[name].grad = g * mask[name]
            step.step()
        step.zero_grad()


@dataclass(frozen=True, kw_only=True)
class NeverUsesItsMask(sh.SalUn):
    paper: ClassVar[str] = ""

    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        Sound(epochs=self.epochs, lr=self.lr, batch_size=self.batch_size).scrub(model, problem, log)


@pytest.mark.parametrize("broken", [MasksTheGradientOnly, NeverUsesItsMask])
def test_a_mask_that_does_not_hold_is_caught(broken: type[sh.Method], build: Build, problem: sh.Problem) -> None:
    model = build()
    scores = gradient_saliency(model, problem, trainable(model), problem.forget, 16)
    with pytest.raises(AssertionError, match="outside the mask"):
        checks.keeps_what_its_mask_leaves_out(broken, build, problem, dict(top_share(scores, 0.5)))


@dataclass(frozen=True, kw_only=True)
class HoardsGradients(Sound):
    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        hoard: list[list[Tensor]] = []
        for batch in problem.forget.batches(1):
            hoard.append(gradients(problem.loss(model, batch), trainable(model)))
        super().scrub(model, problem, log)


def test_a_hoard_of_gradients_is_caught() -> None:
    checks.stays_within_its_memory(Sound, sh.FineTune.copies)
    with pytest.raises(AssertionError, match="copies of the model"):
        checks.stays_within_its_memory(HoardsGradients, sh.FineTune.copies)


def test_no_check_is_without_a_control() -> None:
    controlled = {check.__name__ for _, check in CAUGHT}
    alone: set[Any] = {"walks_the_data_as_it_says", "keeps_forget_data_out_of_running_statistics"}
    alone |= {"keeps_what_its_mask_leaves_out", "stays_within_its_memory"}
    everything = {n for n, f in vars(checks).items() if callable(f) and getattr(f, "__module__", "") == checks.__name__}
    own = {n for n in everything if not isinstance(getattr(checks, n), type)}
    assert own | {check.__name__ for check in testing.CHECKS.values()} == controlled | alone | {"has", "_trained"}
