"""Training: its learning rate goes as its schedule says, and methods follow its optimizer."""

import pytest
import torch
from torch import nn

import scissorhands as sh
from scissorhands.methods import LoTUS, Retrain
from scissorhands.methods.descent import scheduled
from scissorhands.methods.training import Training
from scissorhands.tasks.classification.task import defaults


@pytest.mark.parametrize("epochs", [182, 30, 7])
def test_multistep_is_pytorchs_with_milestones_at_half_and_three_quarters(epochs: int) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    milestones = [91, 136] if epochs == 182 else [int(epochs / 2), int(epochs * 0.75)]
    reference = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
    for epoch in range(epochs):
        assert scheduled(0.1, "multistep", epoch, epochs) == pytest.approx(reference.get_last_lr()[0])
        optimizer.step()
        reference.step()


@pytest.mark.parametrize(
    ("method", "optimizer", "lr"),
    [
        (sh.Scissorhands, "adamw", 1e-3),
        (sh.FineTune, "adamw", 2e-4),
        (sh.Retrain, "adamw", 0.02),
        (LoTUS, "adamw", 1e-4),
    ],
)
def test_a_model_is_scrubbed_with_the_optimizer_that_trained_it(
    method: type[sh.Method], optimizer: str, lr: float
) -> None:
    made = method.make(defaults(method, Training(optimizer="adamw", lr=0.02).to_dict())).to_dict()
    assert (made["optimizer"], made["lr"]) == (optimizer, lr)


def test_a_method_with_an_optimizer_of_its_own_keeps_it() -> None:
    assert defaults(LoTUS, Training(optimizer="sgd").to_dict()) == {}
    assert sh.Scissorhands(reading="paper", optimizer="adam").lr == 1e-4
    assert sh.Scissorhands(optimizer="adam", lr=0.3).lr == 0.3


def test_retraining_can_repeat_every_training() -> None:
    rules = [{row["name"]: row["rule"] for row in kind.described()} for kind in (Training, Retrain)]
    assert rules[0].items() <= rules[1].items()
