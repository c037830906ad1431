"""The guarded gradient against a general solver."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from scissorhands.methods import Scissorhands
from scissorhands.methods.projection import guard, inner, overlap, subtract_


def pieces(vector: Tensor) -> list[Tensor]:
    """The vector as a gradient of two parameters."""
    return [vector[:4].reshape(2, 2).clone(), vector[4:].clone()]


@pytest.mark.parametrize("seed", range(20))
def test_the_guard_equals_the_solution_of_the_quadratic_program(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    repair, forget = torch.randn(2, 7, generator=draw, dtype=torch.float64)
    balance = 0.5 * torch.rand(1, generator=draw).item()
    target = (repair - balance * forget).numpy()
    solved = minimize(
        lambda g: 0.5 * ((g - target) ** 2).sum(),
        np.zeros(7),
        jac=lambda g: g - target,
        constraints={"type": "ineq", "fun": lambda g: -g @ forget.numpy(), "jac": lambda g: -forget.numpy()},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert solved.success
    guarded = pieces(repair)
    subtract_(guarded, guard(guarded, pieces(forget), balance), pieces(forget))
    np.testing.assert_allclose(torch.cat([g.reshape(-1) for g in guarded]).numpy(), solved.x, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("balance", [0.0, 0.05, 1.0])
def test_the_step_never_lowers_the_forget_loss_to_first_order(seed: int, balance: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    repair, forget = torch.randn(2, 50, generator=draw, dtype=torch.float64)
    guarded = pieces(repair)
    subtract_(guarded, guard(guarded, pieces(forget), balance), pieces(forget))
    assert inner(guarded, pieces(forget)).item() <= 1e-10


def test_a_forget_gradient_of_zero_takes_nothing_out() -> None:
    zero = [torch.zeros(2, 2), torch.zeros(3)]
    repair = pieces(torch.arange(7.0))
    assert overlap(repair, zero) == 0.0
    subtract_(repair, guard(repair, zero, 0.0), zero)
    assert torch.equal(torch.cat([g.reshape(-1) for g in repair]), torch.arange(7.0))


def test_momentum_may_lower_the_forget_loss_so_only_the_gradient_is_promised() -> None:
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.9)
    for forget in (torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.0])):  # which turns around between two steps
        guarded = [torch.tensor([0.5, 1.0])]
        subtract_(guarded, guard(guarded, [forget], balance=0.0), [forget])
        assert inner(guarded, [forget]) <= 0
        weight.grad, before = guarded[0], weight.detach().clone()
        optimizer.step()
    assert (weight.detach() - before) @ forget < 0
    (project,) = [field for field in fields(Scissorhands) if field.name == "project"]
    assert project.metadata["meaning"] == "take out of each gradient what would lower the forget loss"
