"""Methods where labels are numbers to predict: which of them work, and what Scissorhands without settings leaves."""

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.labels import random_labels
from scissorhands.data.problem import SquaredError, predicted
from scissorhands.data.records import Part, Stored
from scissorhands.errors import DataError, ModelError, SettingError
from scissorhands.methods import METHODS, Batch, damage, logits_of, points_lost, scissorhands, utility
from scissorhands.methods.calibration import stand_ins
from scissorhands.methods.damage import DamageWarning, GuessWarning, knows_little
from scissorhands.tasks.classification.networks import Regressor

ONE_STEP = {"epochs": 1, "project": False, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "batch_size": 1000}


def records(count: int, noise: float = 2.0, unit: float = 30.0) -> Stored:
    """Numbers of which noise makes a part that can only be learned by heart."""
    draw = torch.Generator().manual_seed(0)
    points = torch.randn(count, 10, generator=draw)
    return Stored(points, unit * (5 + points[:, 0] + points[:, 1] + noise * torch.randn(count, generator=draw)))


class Net(nn.Module):
    """A network that predicts numbers around 150, one per record."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = 150 + 70 * self.body(rows).squeeze(1)
        return found


def network(hidden: int = 128) -> nn.Module:
    torch.manual_seed(1)
    return Net(hidden)


def problem_of(data: Stored, forget: int, held: int) -> sh.Problem:
    """Forget the first records; the last are never trained on."""
    ids = torch.arange(len(data)).split([forget, len(data) - forget - held, held])
    gone, kept, unseen = (Part(data, some) for some in ids)
    return sh.Problem(gone, kept, unseen, seed=3, warn_on_damage=False)


@pytest.fixture(scope="module")
def case() -> tuple[nn.Module, sh.Problem]:
    """A network that knows 300 numbers by heart, 30 of them to be forgotten."""
    problem, model = problem_of(records(600), 30, 300), network()
    everything = Part(problem.retain.records, torch.arange(300))
    sh.Training(epochs=120, lr=0.05, batch_size=32).fit(model, replace(problem, retain=everything))
    return model.eval(), problem


def off(model: nn.Module, part: Part) -> Tensor:
    return (predicted(logits_of(model, part)) - part.labels).abs()


# the loss


def test_the_loss_is_the_squared_error_as_a_share_of_the_variance() -> None:
    problem, model = problem_of(records(40), 5, 10), network()
    (batch,) = problem.retain.batches(1000)
    trained = torch.cat([problem.forget.labels, problem.retain.labels])
    expected = nn.functional.mse_loss(model(batch.inputs), batch.labels) / trained.var(correction=0)
    assert isinstance(problem.loss, SquaredError)
    torch.testing.assert_close(problem.loss(model, batch), expected)
    assert not problem.classifies


@pytest.mark.parametrize("unit", [1e-3, 1e6])
def test_the_unit_of_the_labels_does_not_matter(unit: float) -> None:
    class InUnit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, rows: Tensor) -> Tensor:
            found: Tensor = unit * self.net(rows)
            return found

    plain = records(40)
    model, other = network(), InUnit()
    for one, labels in ((model, plain.labels), (other, unit * plain.labels)):
        sh.FineTune(epochs=3).scrub(one, problem_of(Stored(plain.inputs, labels), 5, 10))
    found = [p.detach() for p in model.parameters()]
    torch.testing.assert_close([p.detach() for p in other.parameters()], found, rtol=1e-4, atol=1e-5)


def test_a_column_of_outputs_is_as_good_as_a_row() -> None:
    problem, batch = problem_of(records(20), 3, 5), next(problem_of(records(20), 3, 5).retain.batches(7))
    model = network()
    column = nn.Sequential(model, nn.Unflatten(0, (-1, 1)))
    assert torch.equal(problem.loss(column, batch), problem.loss(model, batch))


def test_scores_of_classes_are_refused() -> None:
    problem = problem_of(records(20), 3, 5)
    with pytest.raises(ModelError, match="the model must return one per record, and not 3"):
        sh.FineTune().scrub(nn.Linear(10, 3), problem)


def test_labels_that_do_not_vary_are_refused() -> None:
    with pytest.raises(DataError, match="all 15 labels are the same number, so there is nothing to predict"):
        problem_of(Stored(torch.randn(20, 10), torch.full((20,), 7.5)), 3, 5)


def test_a_loss_of_ones_own_is_kept() -> None:
    def huber(model: nn.Module, batch: Batch) -> Tensor:
        inputs, labels = batch
        return nn.functional.huber_loss(model(inputs), labels, delta=10.0)

    data = records(60)
    split = sh.split(data, range(6), test=records(30, noise=1.0), unseen=range(40, 60))
    problem, model = split.problem(loss=huber), network()
    (batch,) = problem.retain.batches(1000)
    assert problem.loss(model, batch) == huber(model, batch)
    sh.Scissorhands(epochs=2).scrub(model, problem)  # its forget loss is about errors, whatever the loss


# the methods


@pytest.mark.parametrize("name", METHODS)
def test_every_method_works_or_says_in_a_line_that_it_needs_classes(name: str) -> None:
    model, problem = network(16), problem_of(records(60), 10, 20)
    before = [p.detach().clone() for p in model.parameters()]
    quick = {"epochs": 1, "samples": 4, "batch_size": 16, "threshold": 0.5}
    kind = METHODS[name]
    method = kind.make({key: value for key, value in quick.items() if hasattr(kind(), key)})
    if kind.needs_classes:
        with pytest.raises(
            SettingError, match=f"^{kind.__name__} needs classes, and the labels are numbers to predict: "
        ):
            method.scrub(model, problem)
        assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    else:
        method.scrub(model, problem)
        assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
        assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_a_random_label_is_that_of_a_random_record() -> None:
    part = problem_of(records(60), 10, 20).forget
    found = random_labels(part, 0)
    assert torch.isin(found.labels, part.records.labels).all()
    assert not torch.equal(found.labels[:10], part.labels)
    assert torch.equal(found.labels[10:], part.records.labels[10:])


# calibration


def test_a_step_is_that_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scissorhands, "_SMALL_BATCH", 1000)  # all records in one batch
    monkeypatch.setattr(scissorhands, "_ATTEMPTS", 1)
    data = records(60)
    problem, model = problem_of(Stored(data.inputs.double(), data.labels), 12, 20), network(5).double()
    assert problem.calibration is not None
    error = (model(data.inputs[:12].double()) - data.labels[:12]).detach()
    unseen = (model(data.inputs[-20:].double()) - data.labels[-20:]).detach().abs()
    targets = torch.empty_like(error)
    wanted = unseen[stand_ins(problem)].sort().values
    for rank, place in enumerate(error.abs().argsort().tolist()):
        targets[place] = error[place].sign() * wanted[rank]  # the quantile of the error's size, with its sign
    unit = unseen.mean() / 2
    missing = ((targets - error).abs() / unit).clamp(max=1) * (targets.abs() - error.abs()).sign()
    loss = problem.loss(model, next(problem.retain.batches(1000)))
    sizes = (model(data.inputs[:12].double()) - data.labels[:12]).abs() / unit
    slopes = torch.autograd.grad(loss - 0.3 * (missing * sizes).mean(), list(model.parameters()))
    expected = [p.detach() - 0.25 * 0.1 * slope for p, slope in zip(model.parameters(), slopes, strict=True)]
    sh.Scissorhands(balance=0.3, **ONE_STEP).scrub(model, problem)  # type: ignore[arg-type]
    torch.testing.assert_close([p.detach() for p in model.parameters()], expected)


def test_forgotten_numbers_can_no_longer_be_told_from_unseen_ones_and_the_rest_is_kept(
    case: tuple[nn.Module, sh.Problem],
) -> None:
    original, problem = case
    assert problem.calibration is not None
    halves = [replace(problem.calibration, ids=ids) for ids in problem.calibration.ids.split(150)]
    problem, audit = replace(problem, calibration=halves[0]), halves[1]

    def likeness(model: nn.Module) -> float:
        return float(ks_2samp(off(model, problem.forget).numpy(), off(model, audit).numpy()).pvalue)

    assert likeness(original) < 1e-6
    finetuned, calibrated = copy.deepcopy(original), copy.deepcopy(original)
    sh.FineTune().scrub(finetuned, problem)
    assert likeness(finetuned) < 1e-6
    sh.Scissorhands(epochs=20).scrub(calibrated, problem)
    assert likeness(calibrated) > 0.01
    assert points_lost(utility(original, problem), utility(calibrated, problem)) < 5
    assert off(calibrated, audit).mean() < 1.05 * off(original, audit).mean()


def test_numbers_that_went_too_far_off_are_pulled_back(case: tuple[nn.Module, sh.Problem]) -> None:
    model, problem = copy.deepcopy(case[0]), case[1]
    forget = problem.forget
    far = Part(Stored(forget.records.fetch(torch.arange(600))[0], forget.records.labels + 300), forget.ids)
    sh.Training(epochs=5, lr=0.01, batch_size=32, schedule="constant").fit(model, problem, part=far)
    high = off(model, problem.forget).mean()
    sh.Scissorhands().scrub(model, problem)
    assert off(model, problem.forget).mean() < high / 2


def test_a_model_that_is_exact_on_unseen_numbers_stays_finite() -> None:
    data = records(60, noise=0.0)
    exact = nn.Linear(10, 1)
    with torch.no_grad():
        exact.weight.zero_()[0, :2] = 30
        exact.bias.fill_(150)
    sh.Scissorhands(epochs=2).scrub(exact, problem_of(data, 10, 20))
    assert all(bool(p.isfinite().all()) for p in exact.parameters())
    assert off(exact, Part(data, torch.arange(60))).max() < 3  # a tenth of the unit


@pytest.mark.parametrize("number", range(12))
def test_without_settings_it_leaves_models_of_numbers_usable(number: int) -> None:
    draw = torch.Generator().manual_seed(number)
    count, noise = (120, 240)[number % 2], (0.3, 1.0, 2.0)[number % 3]
    data = records(count, noise, unit=(1e-3, 1.0, 1e4)[number % 3])
    order = torch.randperm(count, generator=draw)
    forget, held = (1, count // 10, count // 4)[number // 4], count // 5
    parts = (order[:forget], order[forget:-held], order[-held:])
    gone, kept, unseen = (Part(data, some.sort().values) for some in parts)
    problem = sh.Problem(gone, kept, unseen, seed=number, warn_on_damage=False)
    torch.manual_seed(number)
    hidden = (nn.Identity(), nn.Dropout(0.2), nn.LayerNorm(64))[number % 3]
    model = Regressor(nn.Sequential(nn.Linear(10, 64), hidden, nn.ReLU(), nn.Linear(64, 1)))
    model.measure(data.labels)
    everything, unseen = replace(problem.retain, ids=order[:-held]), Part(data, order[-held:])
    sh.Training(epochs=60, lr=0.02, batch_size=16).fit(model, replace(problem, retain=everything))
    before, was = utility(model, problem), off(model, unseen).mean()
    sh.Scissorhands().scrub(model, problem)
    assert not damage(before, utility(model, problem))
    assert off(model, unseen).mean() < 1.2 * was


# damage


def test_lost_variance_is_damage_and_python_warns_of_it() -> None:
    assert damage({"retain_r2": 0.9}, {"retain_r2": 0.86}) == ""
    assert damage({"retain_r2": 0.9}, {"retain_r2": 0.84}) == "R² on the retained data fell from 0.90 to 0.84"
    assert damage({"test_r2": 0.5}, {"test_r2": 0.47}, strictness=2) == "R² on the test data fell from 0.50 to 0.47"
    assert points_lost({"retain_r2": 0.9, "guess": ""}, {"retain_r2": 0.84, "guess": ""}) == pytest.approx(6)  # type: ignore[dict-item]


def test_a_method_that_wrecks_a_model_of_numbers_warns(case: tuple[nn.Module, sh.Problem]) -> None:
    model, problem = copy.deepcopy(case[0]), replace(case[1], warn_on_damage=True)
    with pytest.warns(DamageWarning, match=r"R² on the retained data fell from 0\.9\d to .*: the model is damaged"):
        sh.GradientAscent(epochs=20, lr=0.01).scrub(model, problem)


def test_a_model_that_is_no_better_than_the_mean_is_told_before_it_is_changed() -> None:
    assert knows_little(0.06) == ""
    problem = replace(problem_of(records(60), 10, 20), warn_on_damage=True)
    with pytest.warns(
        GuessWarning, match=r"R² of -?\d+\.\d\d on its training data, no better than always saying the mean"
    ):
        sh.FineTune(epochs=0).scrub(nn.Linear(10, 1), problem)


def test_few_records_are_not_judged() -> None:
    problem = problem_of(records(60), 10, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert utility(network(), problem, ("retain", "calibration")).keys() == {"retain_r2", "guess"}
