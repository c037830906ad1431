"""Calibrated Scissorhands against its formula, and on a network that has learned its data by heart."""

import copy
from dataclasses import replace

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.labels import Relabeled
from scissorhands.data.records import Part, Stored
from scissorhands.methods import Log, logits_of, points_lost, scissorhands, utility
from scissorhands.methods.calibration import Targets, margins, same_rank, stand_ins

ONE_STEP = {"epochs": 1, "project": False, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "batch_size": 1000}
EPOCHS = 60


def records(count: int, noise: float) -> Stored:
    """Draw points around three centers, with one label in ten at random: these can only be learned by heart."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 3
    points = torch.eye(3, 30)[labels] * 4 + noise * torch.randn(count, 30, generator=draw)
    wrong = torch.rand(count, generator=draw) < 0.1
    return Stored(points, torch.where(wrong, torch.randint(3, (count,), generator=draw), labels))


def network(hidden: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(30, hidden), nn.Tanh(), nn.Linear(hidden, 3))


def problem_of(data: Stored, forget: Tensor, held: int) -> sh.Problem:
    """Forget these records; the last of the others are never trained on."""
    rest = torch.arange(len(data))[~torch.isin(torch.arange(len(data)), forget)]
    return sh.Problem(
        Part(data, forget), Part(data, rest[:-held]), Part(data, rest[-held:]), seed=3, warn_on_damage=False
    )


@pytest.fixture(scope="module")
def case() -> tuple[nn.Module, sh.Problem]:
    """A network that knows the labels of 450 records by heart, 150 of them to be forgotten."""
    problem = problem_of(records(750, 2.0), torch.arange(0, 450, 3) + torch.arange(150) % 3, 300)
    model = network(256)
    everything = torch.cat([problem.retain.ids, problem.forget.ids])
    training = sh.Training(epochs=EPOCHS, lr=0.1, batch_size=32)
    training.fit(model, replace(problem, retain=replace(problem.retain, ids=everything)))
    return model.eval(), problem


def margins_of(model: nn.Module, part: Part) -> Tensor:
    return margins(logits_of(model, part), part.labels)


def accuracy(model: nn.Module, part: Part) -> float:
    return float((margins_of(model, part) > 0).double().mean())


def test_a_margin_is_the_log_odds_of_the_label() -> None:
    scores, labels = torch.randn(7, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0, 1, 2])
    likely = scores.softmax(1)[torch.arange(7), labels]
    torch.testing.assert_close(margins(scores, labels), (likely / (1 - likely)).log())


@pytest.mark.parametrize("whole", [False, True], ids=["some records", "a whole class"])
def test_a_step_is_that_of_the_formula(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scissorhands, "_SMALL_BATCH", 1000)  # all records in one batch
    monkeypatch.setattr(scissorhands, "_ATTEMPTS", 1)
    data = records(60, 1.0)
    data = Stored(data.inputs.double(), data.labels)
    ids = (data.labels == 1).nonzero().flatten() if whole else torch.arange(0, 30, 2)
    problem, model = problem_of(data, ids, 15), network(5).double()
    assert problem.calibration is not None
    held, held_labels = data.fetch(problem.calibration.ids)
    inputs, labels = data.fetch(ids)

    def log_odds(net: nn.Module, points: Tensor, of: Tensor) -> Tensor:
        likely: Tensor = net(points).softmax(1)[torch.arange(len(of)), of]
        return (likely / (1 - likely)).log()

    found = log_odds(model, inputs, labels).detach()
    if whole:
        targets = log_odds(model, held, torch.ones_like(held_labels)).detach().median().minimum(found)
    else:
        targets = torch.empty_like(found)
        unseen = log_odds(model, held, held_labels).detach()[stand_ins(problem)].sort().values
        for rank, place in enumerate(found.argsort().tolist()):
            targets[place] = unseen[rank]
    excess = (found - targets).clamp(-1, 1)
    retained, retained_labels = data.fetch(problem.retain.ids)
    loss = nn.functional.cross_entropy(model(retained), retained_labels)
    loss = loss + 0.3 * (excess * log_odds(model, inputs, labels)).mean()
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    expected = [p.detach() - 0.1 * slope for p, slope in zip(model.parameters(), slopes, strict=True)]
    sh.Scissorhands(balance=0.3, **ONE_STEP).scrub(model, problem)  # type: ignore[arg-type]
    torch.testing.assert_close([p.detach() for p in model.parameters()], expected)


def test_a_stand_in_is_of_the_same_class_where_there_is_one_and_none_is_taken_twice_before_all_were_once() -> None:
    labels = torch.tensor([0, 0, 0, 0, 1, 2, 0, 0, 2, 0, 0, 1])
    problem = problem_of(Stored(torch.zeros(12, 1), labels), torch.tensor([0, 1, 2, 4, 5]), 4)
    assert problem.calibration is not None
    rows = stand_ins(problem)
    assert problem.calibration.labels.tolist() == [2, 0, 0, 1]
    assert problem.calibration.labels[rows].tolist() == [0, 0, 0, 1, 2]
    assert set(rows[:2].tolist()) == {1, 2}
    without = replace(problem, calibration=replace(problem.calibration, ids=problem.calibration.ids[1:3]))
    assert stand_ins(without)[4] in (0, 1)  # there is no unseen record of class 2


def test_equal_ranks_leave_the_values_in_their_order() -> None:
    values = torch.randn(20)
    assert torch.equal(same_rank(values, values.flip(0)), values)


def test_forgotten_records_can_no_longer_be_told_from_unseen_ones_and_the_rest_is_kept(
    case: tuple[nn.Module, sh.Problem],
) -> None:
    original, problem = case
    assert problem.calibration is not None
    audit = replace(problem.calibration, ids=problem.calibration.ids[150:])
    problem = replace(problem, calibration=replace(problem.calibration, ids=problem.calibration.ids[:150]))

    def likeness(model: nn.Module) -> float:
        return float(ks_2samp(margins_of(model, problem.forget).numpy(), margins_of(model, audit).numpy()).pvalue)

    assert accuracy(original, problem.forget) > 0.98
    assert likeness(original) < 1e-6
    finetuned, calibrated = copy.deepcopy(original), copy.deepcopy(original)
    sh.FineTune(lr=0.05, batch_size=64).scrub(finetuned, problem)
    assert likeness(finetuned) < 1e-6
    sh.Scissorhands().scrub(calibrated, problem)
    assert likeness(calibrated) > 0.01
    assert accuracy(calibrated, problem.retain) > 0.97
    assert accuracy(calibrated, audit) > accuracy(original, audit) - 0.05


def test_records_that_went_too_far_are_pulled_back(case: tuple[nn.Module, sh.Problem]) -> None:
    model, problem = copy.deepcopy(case[0]), case[1]
    wrong = Relabeled(problem.forget.records, (problem.forget.records.labels + 1) % 3)
    sh.Training(epochs=20, lr=0.1, batch_size=32).fit(model, problem, part=Part(wrong, problem.forget.ids))
    low = accuracy(model, problem.forget)
    sh.Scissorhands().scrub(model, problem)
    assert low < 0.5 < accuracy(model, problem.forget)


def test_of_attempts_that_all_damage_the_model_the_least_is_kept(
    case: tuple[nn.Module, sh.Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, problem = copy.deepcopy(case[0]), case[1]
    before, losses, repair = utility(model, problem), [], sh.Scissorhands._repair_to

    def watched(method: sh.Scissorhands, targets: Targets, model: nn.Module, problem: sh.Problem, log: Log) -> None:
        repair(method, targets, model, problem, log)
        losses.append(points_lost(before, utility(model, problem)))

    monkeypatch.setattr(sh.Scissorhands, "_repair_to", watched)
    sh.Scissorhands(trim=0.9, epochs=1).scrub(model, problem)
    assert len(losses) == 4
    assert min(losses) < losses[-1] - 5
    assert points_lost(before, utility(model, problem)) == min(losses)
