"""What is left inside a model: read from its features, woken by a little training, and the model stays as it was."""

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.data.records import Part, Stored
from scissorhands.errors import ModelError
from scissorhands.evaluation import probes
from scissorhands.evaluation.predict import predict
from scissorhands.metrics import accuracy

Look = Callable[[nn.Module, sh.Problem, Part], Any]

LOOKS: dict[str, Look] = {
    "probe": lambda model, problem, others: probes.probe(model, problem, others, shots=2),
    "reawaken": lambda model, problem, others: probes.reawaken(model, problem, batch_size=16),
    "few shot": lambda model, problem, others: probes.few_shot(model, problem, shots=2, batch_size=16),
    "relearn": lambda model, problem, others: probes.relearn(model, problem, wanted=101.0, batch_size=4, most=3),
}


def part(points: Tensor, labels: Tensor) -> Part:
    """All of these points, as a part of some data."""
    return Part(Stored(points, labels), torch.arange(len(labels)))


def around(*center: float, count: int, seed: int = 0) -> Tensor:
    """Points in a small cloud."""
    return torch.tensor(center) + 0.1 * torch.randn(count, len(center), generator=torch.Generator().manual_seed(seed))


def shows_its_inputs() -> nn.Module:
    """A model whose features are its inputs: two numbers, three classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(2, 3))


@pytest.fixture
def plane() -> sh.Problem:
    """Two clouds that are retained, and a third of another label, of which nothing is."""
    retain = part(
        torch.cat([around(0, 0, count=20), around(4, 0, count=20)]), torch.tensor([0, 1]).repeat_interleave(20)
    )
    return sh.Problem(part(around(2, 4, count=12), torch.full((12,), 2)), retain)


def flat(found: Any) -> list[Tensor]:
    """The tensors of whatever a look found."""
    if isinstance(found, Tensor):
        return [found]
    return list(found) if isinstance(found, tuple) else [found.logits, found.labels]


# Features


def test_features_are_what_the_last_linear_layer_is_given(build: Callable[[], nn.Module], split: sh.Split) -> None:
    model = build()
    assert isinstance(model, nn.Sequential)
    inputs, _ = split.retain.records.fetch(split.retain.ids)
    torch.testing.assert_close(probes.features(model, split.retain), model[:-1](inputs))


class HeadFirst(nn.Module):
    """The layer that is called last is registered first, and one that is never called is registered last."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, 3)
        self.body = nn.Linear(16, 5)
        self.unused = nn.Linear(7, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(inputs.flatten(1)).relu())
        return scores


def test_the_last_layer_is_the_one_that_is_called_last_wherever_it_is_registered(split: sh.Split) -> None:
    model = HeadFirst()
    inputs, _ = split.retain.records.fetch(split.retain.ids)
    torch.testing.assert_close(probes.features(model, split.retain), model.body(inputs.flatten(1)).relu())


def test_features_do_not_depend_on_the_batch_size(
    build: Callable[[], nn.Module], split: sh.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build().train()
    usual = probes.features(model, split.retain)
    monkeypatch.setattr(probes, "BATCH_SIZE", 7)
    torch.testing.assert_close(probes.features(model, split.retain), usual)


class Tokens(nn.Linear):
    """A linear layer on each row of the image, of which the mean is returned."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.flatten(1, 2)).mean(1)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(1, 3, 4), nn.Flatten()),
        nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Unflatten(1, (8, 1)), nn.Conv1d(8, 3, 1)).append(
            nn.Flatten()
        ),
        Tokens(4, 3),
    ],
    ids=["no linear layer", "a convolution after it", "one that is given more than a row per record"],
)
def test_a_model_that_does_not_end_in_a_linear_layer_is_refused(model: nn.Module, split: sh.Split) -> None:
    with pytest.raises(ModelError, match=r"^a probe of the features needs a model that ends in a linear layer\.$"):
        probes.features(model, split.retain)
    with pytest.raises(ModelError, match="ends in a linear layer"):
        probes.probe(model, split.problem(), split.others, 2)


# The probe


def test_the_probe_is_sklearns_logistic_regression_on_scaled_features(
    build: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_DRAWS", 1)
    draw = torch.Generator().manual_seed(0)
    data = Stored(torch.randn(120, 1, 4, 4, generator=draw), torch.randint(3, (120,), generator=draw))
    data.inputs[:, 0, 0, 0] += data.labels
    model = build()
    forget, retain, others = (Part(data, ids) for ids in torch.arange(120).split([30, 60, 30]))
    problem = sh.Problem(forget, retain)
    inside, outside = probes.probe(model, problem, others, shots=3)

    known, asked, strange = (probes.features(model, part).numpy() for part in (retain, forget, others))
    shown, rest = (places.numpy() for places in probes._shots(problem, 3, 0))
    points = np.concatenate([known, asked[shown]])
    labels = np.concatenate([retain.labels.numpy(), forget.labels.numpy()[shown]])
    mean, deviation = points.mean(0), points.std(0, ddof=1).clip(1e-6)
    fitted = LogisticRegression(max_iter=300).fit((points - mean) / deviation, labels)
    right = fitted.predict((asked[rest] - mean) / deviation) == forget.labels.numpy()[rest]
    right_others = fitted.predict((strange - mean) / deviation) == others.labels.numpy()
    assert inside.tolist() == right.tolist()
    assert outside.tolist() == right_others.tolist()
    assert 0 < inside.mean() < 1
    assert 0 < outside.mean() < 1


def test_the_probe_finds_a_class_whose_features_lie_apart(plane: sh.Problem) -> None:
    others = part(torch.cat([around(2, 4, count=3, seed=1), around(0, 0, count=2, seed=1)]), torch.full((5,), 2))
    inside, outside = probes.probe(shows_its_inputs(), plane, others, shots=3)
    assert inside.tolist() == [1.0] * 12
    assert outside.tolist() == [1.0] * 3 + [0.0] * 2


def test_the_probe_does_not_find_a_class_whose_features_are_those_of_another(plane: sh.Problem) -> None:
    hidden = replace(plane, forget=part(around(0, 0, count=12, seed=2), torch.full((12,), 2)))
    inside, _ = probes.probe(shows_its_inputs(), hidden, hidden.forget, shots=2)
    assert inside.tolist() == [0.0] * 12


def test_records_that_the_probe_is_shown_are_not_scored(plane: sh.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, draws = probes._fitted, []

    def noted(points: Tensor, labels: Tensor, asked: Tensor) -> Tensor:
        shown = {tuple(point) for point in points[labels == 2].tolist()}
        scored = {tuple(point) for point in asked[: len(plane.forget) - len(shown)].tolist()}
        draws.append((shown, scored))
        return fitted(points, labels, asked)

    monkeypatch.setattr(probes, "_fitted", noted)
    probes.probe(shows_its_inputs(), plane, plane.forget, shots=5)
    everything = {tuple(point) for point in probes.features(shows_its_inputs(), plane.forget).tolist()}
    assert len(draws) == 4
    assert len({tuple(sorted(shown)) for shown, _ in draws}) > 1
    for shown, scored in draws:
        assert len(shown) == 5
        assert shown | scored == everything
        assert shown.isdisjoint(scored)


def test_a_record_that_every_draw_shows_is_left_out(plane: sh.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_DRAWS", 1)
    inside, _ = probes.probe(shows_its_inputs(), plane, plane.forget, shots=5)
    assert len(inside) == 7


def test_never_more_than_half_of_a_label_is_shown(plane: sh.Problem) -> None:
    three = replace(plane, forget=replace(plane.forget, ids=torch.arange(3)))
    shown, rest = probes._shots(three, 5, 0)
    assert (len(shown), len(rest)) == (1, 2)
    assert sorted([*shown.tolist(), *rest.tolist()]) == [0, 1, 2]


def test_a_label_of_one_record_is_scored_without_being_shown(plane: sh.Problem) -> None:
    one = replace(plane, forget=replace(plane.forget, ids=torch.arange(1)))
    inside, _ = probes.probe(shows_its_inputs(), one, plane.forget, shots=5)
    assert inside.tolist() == [0.0]  # a class that the probe was never shown
    retained = replace(one, forget=part(around(4, 0, count=1), torch.tensor([1])))
    inside, _ = probes.probe(shows_its_inputs(), retained, plane.forget, shots=5)
    assert inside.tolist() == [1.0]


def test_a_large_part_is_probed_by_a_sample_of_it(plane: sh.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, sizes = probes._fitted, []

    def noted(points: Tensor, labels: Tensor, asked: Tensor) -> Tensor:
        sizes.append(len(points))
        return fitted(points, labels, asked)

    monkeypatch.setattr(probes, "_fitted", noted)
    monkeypatch.setattr(probes, "MOST", 10)
    probes.probe(shows_its_inputs(), plane, plane.forget, shots=5)
    assert sizes == [15] * 4


# Short trainings


def test_reawakening_trains_on_retained_records_alone(build: Callable[[], nn.Module], problem: sh.Problem) -> None:
    events: list[Mapping[str, Any]] = []
    found = probes.reawaken(build(), problem, batch_size=16, log=events.append)
    assert {event["phase"] for event in events} == {"reawaken"}
    assert len(events) == probes.SOON.epochs * problem.steps(problem.retain, 16)
    inputs, labels = problem.forget.records.fetch(problem.forget.ids)
    relabeled = replace(problem, forget=part(inputs, (labels + 1) % 3))
    assert torch.equal(probes.reawaken(build(), relabeled, batch_size=16).logits, found.logits)
    assert not torch.equal(predict(build(), problem.forget).logits, found.logits)


def test_reawakening_brings_back_what_the_retained_data_tells() -> None:
    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(300, 2, generator=draw), torch.arange(300) % 2
    inputs[:, 0] += 6 * (labels - 0.5)
    problem = sh.Problem(part(inputs[:100], labels[:100]), part(inputs[100:], labels[100:]))
    model = nn.Linear(2, 2)
    nn.init.zeros_(model.weight)
    found = probes.reawaken(model, problem, batch_size=16)
    assert accuracy(found.logits, found.labels) > 95


def test_a_few_shots_are_scored_on_the_records_that_were_not_shown(
    build: Callable[[], nn.Module], problem: sh.Problem
) -> None:
    twelve = replace(problem, forget=replace(problem.forget, ids=torch.arange(12)))
    found = probes.few_shot(build(), twelve, shots=1, batch_size=16)
    _, rest = probes._shots(twelve, 1, 0)
    assert len(found) == len(rest) == 9
    assert torch.equal(found.labels, twelve.forget.labels[rest])


def test_a_few_shots_of_labels_of_one_record_show_only_retained_ones(
    build: Callable[[], nn.Module], problem: sh.Problem
) -> None:
    three = replace(problem, forget=replace(problem.forget, ids=torch.arange(3)))
    assert three.forget.labels.tolist() == [0, 1, 2]
    found = probes.few_shot(build(), three, shots=5, batch_size=16)
    assert found.labels.tolist() == [0, 1, 2]


def test_a_few_shots_teach_a_class_that_is_easy_to_tell(plane: sh.Problem) -> None:
    torch.manual_seed(0)
    model = shows_its_inputs()
    before = predict(model, plane.forget)
    found = probes.few_shot(model, plane, shots=5, batch_size=2)
    assert accuracy(before.logits, before.labels) < 50
    assert accuracy(found.logits, found.labels) == 100


# Relearning


def test_relearning_is_plain_descent_on_the_forgotten_records(mlp: nn.Module, problem: sh.Problem) -> None:
    for module in mlp.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    inputs, labels = problem.forget.records.fetch(problem.forget.ids)
    found = probes.relearn(mlp, problem, wanted=101.0, batch_size=64, most=5)
    by_hand, expected = copy.deepcopy(mlp), []
    step = torch.optim.SGD(by_hand.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-4)
    for _ in range(6):
        scores = by_hand(inputs.double())
        expected.append(accuracy(scores, labels))
        step.zero_grad()
        nn.functional.cross_entropy(scores, labels).backward()
        step.step()
    assert found.tolist() == expected


def test_relearning_begins_with_the_accuracy_before_any_epoch(
    build: Callable[[], nn.Module], problem: sh.Problem
) -> None:
    model = build()
    before = predict(model, problem.forget)
    found = probes.relearn(model, problem, wanted=101.0, batch_size=4, most=3)
    assert found[0] == accuracy(before.logits, before.labels)
    assert found.dtype == torch.float64


def test_relearning_stops_as_soon_as_the_accuracy_is_reached(
    build: Callable[[], nn.Module], problem: sh.Problem
) -> None:
    everything = probes.relearn(build(), problem, wanted=101.0, batch_size=1, most=40)
    wanted = everything.max().item()
    first = int((everything >= wanted).nonzero()[0])
    assert 0 < first < 40
    events: list[Mapping[str, Any]] = []
    found = probes.relearn(build(), problem, wanted=wanted, batch_size=1, most=40, log=events.append)
    assert found.tolist() == everything[: first + 1].tolist()
    assert len(events) == first * problem.steps(problem.forget, 1)


def test_relearning_what_is_known_trains_nothing(build: Callable[[], nn.Module], problem: sh.Problem) -> None:
    events: list[Mapping[str, Any]] = []
    found = probes.relearn(build(), problem, wanted=0.0, batch_size=4, most=3, log=events.append)
    assert len(found) == 1
    assert events == []


@pytest.mark.parametrize("most", [1, 4])
def test_relearning_goes_on_for_as_many_epochs_as_allowed(
    most: int, build: Callable[[], nn.Module], problem: sh.Problem
) -> None:
    events: list[Mapping[str, Any]] = []
    found = probes.relearn(build(), problem, wanted=101.0, batch_size=3, most=most, log=events.append)
    assert len(found) == most + 1
    assert len(events) == most * problem.steps(problem.forget, 3)


# All of them


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_looking_leaves_the_model_and_all_random_numbers_as_they_were(
    look: Look, build: Callable[[], nn.Module], split: sh.Split
) -> None:
    model = build().train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    state = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    frozen = [parameter.requires_grad for parameter in model.parameters()]
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(legacy=False), random.getstate()

    look(model, split.problem(), split.others)

    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == frozen
    assert [len(module._forward_pre_hooks) for module in model.modules()] == hooks
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in model.parameters() if p.grad is not None)
    assert all(p.grad is not None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert str(np.random.get_state(legacy=False)) == str(numpy_state)
    assert random.getstate() == python_state


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_the_same_seed_finds_the_same_bits(look: Look, build: Callable[[], nn.Module], split: sh.Split) -> None:
    once = look(build(), split.problem(seed=3), split.others)
    torch.manual_seed(123)
    again = look(build(), split.problem(seed=3), split.others)
    assert all(torch.equal(a, b) for a, b in zip(flat(once), flat(again), strict=True))


@pytest.mark.parametrize("look", [LOOKS["reawaken"], LOOKS["few shot"]], ids=["reawaken", "few shot"])
def test_another_seed_draws_others(look: Look, build: Callable[[], nn.Module], split: sh.Split) -> None:
    once, other = (look(build(), split.problem(seed=seed), split.others) for seed in (3, 4))
    assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(flat(once), flat(other), strict=True))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_a_users_own_dataset_is_looked_at_as_stored_records_are(
    look: Look, build: Callable[[], nn.Module], split: sh.Split
) -> None:
    own = TensorDataset(*split.forget.records.fetch(torch.arange(60)))
    test = TensorDataset(*split.test.records.fetch(torch.arange(30)))
    foreign = sh.split(own, sh.Forget("random:10%"), test=test, seed=0)
    stored = sh.split(Stored(*own.tensors), sh.Forget("random:10%"), test=Stored(*test.tensors), seed=0)
    found = [flat(look(build(), one.problem(), one.others)) for one in (foreign, stored)]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
