"""The learning rate of training goes as its schedule says."""

import pytest
import torch
from torch import nn

from scissorhands.methods import Retrain
from scissorhands.methods.descent import scheduled
from scissorhands.methods.training import Training


@pytest.mark.parametrize("epochs", [182, 30, 7])
def test_multistep_is_pytorchs_with_milestones_at_half_and_three_quarters(epochs: int) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    milestones = [91, 136] if epochs == 182 else [int(epochs / 2), int(epochs * 0.75)]
    reference = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
    for epoch in range(epochs):
        assert scheduled(0.1, "multistep", epoch, epochs) == pytest.approx(reference.get_last_lr()[0])
        optimizer.step()
        reference.step()


def test_retraining_can_repeat_every_training() -> None:
    rules = [{row["name"]: row["rule"] for row in kind.described()} for kind in (Training, Retrain)]
    assert rules[0].items() <= rules[1].items()
