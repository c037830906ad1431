"""Known answers: each method on a problem small enough to solve by hand or by another route."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.data.labels import random_labels
from scissorhands.data.problem import cross_entropy
from scissorhands.data.records import Fetched, Part, Stored
from scissorhands.distributed import Batch
from scissorhands.errors import ModelError
from scissorhands.methods.descent import linear_decay
from scissorhands.methods.heads import head_of, widened
from scissorhands.methods.saliency import mean_gradient

PLAIN: dict[str, Any] = {"momentum": 0.0, "weight_decay": 0.0, "batch_size": 1000}


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.fixture
def linear() -> nn.Module:
    """A linear classifier in float64: training and evaluation mode are the same."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()


@pytest.fixture
def exact(problem: sh.Problem) -> sh.Problem:
    """The problem in float64."""
    records = problem.retain.records
    inputs, labels = records.fetch(torch.arange(len(records)))
    stored = Stored(inputs.double(), labels)
    forget, retain = (replace(part, records=stored) for part in (problem.forget, problem.retain))
    return replace(problem, forget=forget, retain=retain)


def step(model: nn.Module, problem: sh.Problem, part: Part, amount: float) -> dict[str, Tensor]:
    """The weights moved by `amount` along the mean gradient over the part."""
    slope = mean_gradient(model, problem, dict(model.named_parameters()), part, 1000)
    return {name: p + amount * slope[name] for name, p in weights(model).items()}


def test_fine_tuning_steps_down_on_the_retained_data(linear: nn.Module, exact: sh.Problem) -> None:
    expected = step(linear, exact, exact.retain, -0.1)
    sh.FineTune(epochs=1, lr=0.1, **PLAIN).scrub(linear, exact)
    torch.testing.assert_close(weights(linear), expected)


def test_gradient_ascent_steps_up_on_the_forgotten_data(linear: nn.Module, exact: sh.Problem) -> None:
    expected = step(linear, exact, exact.forget, 0.1)
    sh.GradientAscent(epochs=1, lr=0.1, **PLAIN).scrub(linear, exact)
    torch.testing.assert_close(weights(linear), expected)


def test_l1_sparse_adds_the_sign_of_the_weight_and_fades(linear: nn.Module, exact: sh.Problem) -> None:
    penalty = {name: 0.01 * p.sign() for name, p in weights(linear).items()}
    first = {name: p - 0.1 * penalty[name] for name, p in step(linear, exact, exact.retain, -0.1).items()}
    sh.L1Sparse(gamma=0.01, epochs=1, lr=0.1, **PLAIN).scrub(linear, exact)
    torch.testing.assert_close(weights(linear), first)
    assert [linear_decay(1.0, epoch, 2) for epoch in (0, 1)] == [1.0, 0.5]


def test_retraining_does_not_depend_on_what_the_model_was(exact: sh.Problem) -> None:
    one, other = (nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double() for _ in range(2))
    assert not torch.equal(one.get_parameter("1.weight"), other.get_parameter("1.weight"))
    for model in (one, other):
        sh.Retrain(epochs=2, batch_size=16).scrub(model, exact)
    torch.testing.assert_close(weights(one), weights(other), rtol=0, atol=0)


def test_influence_is_the_exact_newton_step_of_a_linear_model() -> None:
    """Least squares with residuals of one: there the empirical Fisher is the Hessian, and one step is the answer."""
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(30, 4, generator=draw, dtype=torch.float64).repeat(2, 1)
    true = torch.randn(4, generator=draw, dtype=torch.float64)
    residuals = torch.cat([torch.ones(30), -torch.ones(30)]).double()  # each input twice, so `true` is the optimum
    targets = inputs @ true + residuals

    class Regression(Stored):
        def fetch(self, ids: Tensor) -> Fetched:
            return self.inputs[ids], ids

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        prediction: Tensor = model(batch.inputs)[:, 0]
        return 0.5 * ((prediction - targets[batch.labels]) ** 2).mean()

    records = Regression(inputs, torch.zeros(60, dtype=torch.int64))
    forget = torch.tensor([0, 1, 2, 7])
    retain = torch.tensor([i for i in range(60) if i not in forget.tolist()])
    problem = sh.Problem(Part(records, forget), Part(records, retain), loss=loss)
    model = nn.Linear(4, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(true[None])
    sh.InfluenceUnlearning(alpha=1.0, damping=1e-10, samples=1000, iterations=50).scrub(model, problem)
    expected = torch.linalg.lstsq(inputs[retain], targets[retain][:, None]).solution[:, 0]
    torch.testing.assert_close(model.weight[0].detach(), expected, rtol=1e-6, atol=1e-8)
    assert not torch.allclose(expected, true, atol=1e-3)


def test_influence_solves_what_woodbury_gives_in_closed_form(linear: nn.Module, exact: sh.Problem) -> None:
    parameters = dict(linear.named_parameters())

    def flat(found: dict[str, Tensor]) -> Tensor:
        return torch.cat([g.reshape(-1) for g in found.values()])

    rows = [mean_gradient(linear, exact, parameters, replace(exact.retain, ids=i[None]), 1) for i in exact.retain.ids]
    jacobian, count, damping = torch.stack([flat(row) for row in rows]), len(exact.retain), 0.05
    forget, retain = (flat(mean_gradient(linear, exact, parameters, p, 100)) for p in (exact.forget, exact.retain))
    wanted = len(exact.forget) / (len(exact.forget) + count) * (forget - retain)
    inside = damping * count * torch.eye(count, dtype=torch.float64) + jacobian @ jacobian.T
    woodbury = (wanted - jacobian.T @ torch.linalg.solve(inside, jacobian @ wanted)) / damping
    before = flat(weights(linear))
    sh.InfluenceUnlearning(alpha=3.0, damping=damping, samples=1000, iterations=100).scrub(linear, exact)
    torch.testing.assert_close(flat(weights(linear)) - before, 3 * woodbury)


def test_the_nearest_wrong_class_is_the_one_behind_the_nearest_boundary() -> None:
    """Three classes along a line: a point of the middle class has its nearest boundary on the side where it lies."""
    model = nn.Linear(1, 3)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0], [0.0], [1.0]]))
        model.bias.copy_(torch.tensor([-1.0, 0.0, -1.0]))
    inputs, labels = torch.tensor([[-0.5], [0.5], [-3.0], [3.0]]), torch.tensor([1, 1, 0, 2])
    part = Part(Stored(inputs, labels), torch.arange(4))
    problem, batch = sh.Problem(part, part), Batch.of(inputs, labels)
    assert sh.BoundaryShrink(fgsm=0.1).nearest_class(model, problem, batch).tolist() == [0, 2, 1, 1]
    plain = sh.BoundaryShrink(fgsm=0.6, nearest="argmax").nearest_class(model, problem, batch)
    assert plain.tolist() == [0, 2, 0, 2]  # the last two are too far from the boundary


def test_boundary_expand_removes_its_class_again(build: Callable[[], nn.Module], problem: sh.Problem) -> None:
    model = build()
    shapes = {name: p.shape for name, p in model.named_parameters()}
    *_, head = head_of(model, torch.zeros(1, 1, 4, 4))
    seen: list[int] = []
    problem = replace(problem, warn_on_damage=False)
    watched = replace(problem, loss=lambda m, b: seen.append(int(b.labels.unique())) or cross_entropy(m, b))  # type: ignore[func-returns-value]
    sh.BoundaryExpand(epochs=2, lr=0.05, batch_size=4).scrub(model, watched)
    assert set(seen) == {3}  # the class that does not exist
    assert {name: p.shape for name, p in model.named_parameters()} == shapes
    assert head_of(model, torch.zeros(1, 1, 4, 4))[-1] is head
    assert model(torch.zeros(2, 1, 4, 4)).shape == (2, 3)


def test_boundary_expand_equals_a_step_of_the_wider_model(linear: nn.Module, exact: sh.Problem) -> None:
    """For a linear model the gradient of the kept rows is the probability that the wider model gives them."""
    inputs, _ = exact.forget.records.fetch(exact.forget.ids)
    flat = inputs.flatten(1)
    probabilities = widened(linear[1], exact.seed)(flat).softmax(1)[:, :3].detach()  # type: ignore[index]
    expected = linear[1].weight.detach() - 0.1 * probabilities.T @ flat / len(flat)  # type: ignore[index]
    sh.BoundaryExpand(epochs=1, lr=0.1, **PLAIN).scrub(linear, exact)
    torch.testing.assert_close(linear[1].weight.detach(), expected)  # type: ignore[index]


def test_the_mask_of_salun_equals_a_direct_computation(linear: nn.Module, exact: sh.Problem) -> None:
    inputs, labels = exact.forget.records.fetch(exact.forget.ids)
    cross_entropy(linear, Batch.of(inputs, labels)).backward()
    scores = torch.cat([p.grad.abs().reshape(-1) for p in linear.parameters() if p.grad is not None])
    top = set(scores.topk(round(0.3 * len(scores))).indices.tolist())
    linear.zero_grad()
    before = torch.cat([p.reshape(-1) for p in weights(linear).values()])
    sh.SalUn(salient=0.3, epochs=3, lr=0.1, batch_size=16).scrub(linear, exact)
    after = torch.cat([p.reshape(-1) for p in weights(linear).values()])
    assert set((after != before).nonzero()[:, 0].tolist()) == top


def test_salun_with_every_weight_salient_is_random_labels(linear: nn.Module, exact: sh.Problem) -> None:
    twin = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    twin.load_state_dict(linear.state_dict())
    sh.SalUn(salient=1.0, order="sequential", epochs=2, batch_size=16).scrub(linear, exact)
    sh.RandomLabel(order="sequential", epochs=2, batch_size=16).scrub(twin, exact)
    torch.testing.assert_close(weights(linear), weights(twin))


def test_random_labels_reach_the_forgotten_records_alone() -> None:
    labels = torch.arange(400) % 4
    data = TensorDataset(torch.zeros(400, 1), labels)
    split = sh.split(data, sh.Forget("random:50%"), test=data, unseen=0.0)
    wrong = random_labels(split.forget, seed=0)
    assert torch.equal(wrong.labels[split.retain.ids], labels[split.retain.ids])
    assert set(wrong.labels[split.forget.ids].tolist()) == {0, 1, 2, 3}
    kept = (wrong.labels[split.forget.ids] == labels[split.forget.ids]).float().mean().item()
    assert 0.15 < kept < 0.35  # drawn from all classes, the true one among them
    assert torch.equal(random_labels(split.forget, 0).labels, wrong.labels)
    assert not torch.equal(random_labels(split.forget, 1).labels, wrong.labels)
    assert not torch.equal(random_labels(split.forget, 0, 1).labels, wrong.labels)  # another epoch


def test_the_head_is_the_layer_that_makes_the_output_wherever_it_stands() -> None:
    class HeadFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(32, 3)
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.body(x))
            return out

    model = HeadFirst()
    assert head_of(model, torch.zeros(1, 1, 4, 4)) == (model, "head", model.head)
    with pytest.raises(ModelError, match="ends in a linear layer"):
        head_of(nn.Sequential(model, nn.Softmax(1)), torch.zeros(1, 1, 4, 4))
