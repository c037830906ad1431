"""Known answers of the methods that came after the paper: each against its published formula, written out here."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import fsolve
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.labels import random_labels
from scissorhands.data.records import Part, Stored
from scissorhands.distributed import Batch
from scissorhands.errors import DataError
from scissorhands.methods import METHODS, calibration_error_rate, error_rate, generator
from scissorhands.methods.lotus import gumbel, tempered
from scissorhands.methods.munba import bargain
from scissorhands.methods.regun import matched

ONE_STEP: dict[str, Any] = {"epochs": 1, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "batch_size": 1000}
Loss = Callable[[nn.Module], Tensor]


@pytest.fixture
def model() -> nn.Module:
    """A small network in float64, the same in training and evaluation mode."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.fixture
def exact() -> sh.Problem:
    """A noisy problem in float64 with a batch for each part."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    centers = torch.randn(3, 1, 4, 4, generator=draw, dtype=torch.float64)
    records = Stored(centers[labels] + 2 * torch.randn(90, 1, 4, 4, generator=draw, dtype=torch.float64), labels)
    ids = torch.randperm(90, generator=draw)
    forget, retain, unseen = (Part(records, some.sort().values) for some in (ids[:12], ids[12:60], ids[60:]))
    return sh.Problem(forget, retain, unseen, warn_on_damage=False)


def everything(part: Part | None) -> tuple[Tensor, Tensor]:
    assert part is not None
    return part.records.fetch(part.ids)


def cross_entropy(model: nn.Module, part: Part | None) -> Tensor:
    inputs, labels = everything(part)
    said: Tensor = model(inputs).softmax(1)
    return -said[torch.arange(len(labels)), labels].log().mean()


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def stepped(model: nn.Module, loss: Loss, lr: float = 0.1, largest: float = float("inf")) -> nn.Module:
    """A copy of the model after one step down the loss, by a gradient that is no longer than `largest`."""
    moved = copy.deepcopy(model)
    slopes = torch.autograd.grad(loss(moved), list(moved.parameters()))
    length = torch.cat([slope.flatten() for slope in slopes]).norm().item()
    with torch.no_grad():
        for parameter, slope in zip(moved.parameters(), slopes, strict=True):
            parameter.sub_(lr * min(1.0, largest / length) * slope)
    return moved


def fisher(model: nn.Module, part: Part) -> list[Tensor]:
    """The mean of the squared gradients of single records."""
    sums = [torch.zeros_like(p) for p in model.parameters()]
    for i in part.ids:
        loss = cross_entropy(model, Part(part.records, i[None]))
        for total, slope in zip(sums, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            total += slope**2 / len(part)
    return sums


def kl(target: Tensor, said: Tensor) -> Tensor:
    return (target * (target / said).log()).sum(1).mean()


def same(model: nn.Module, expected: nn.Module) -> None:
    torch.testing.assert_close(weights(model), weights(expected))


def test_neggradplus_steps_down_the_weighted_difference(model: nn.Module, exact: sh.Problem) -> None:
    def loss(net: nn.Module) -> Tensor:
        return 0.7 * cross_entropy(net, exact.retain) - 0.3 * cross_entropy(net, exact.forget)

    expected = stepped(model, loss)
    sh.NegGradPlus(beta=0.7, **ONE_STEP).scrub(model, exact)
    same(model, expected)


def test_scrub_steps_away_from_the_teacher_and_back_in_turns(model: nn.Module, exact: sh.Problem) -> None:
    teacher = copy.deepcopy(model)

    def distance(net: nn.Module, part: Part) -> Tensor:
        inputs, _ = everything(part)
        return 9.0 * kl((teacher(inputs).detach() / 3).softmax(1), (net(inputs) / 3).softmax(1))

    def near(net: nn.Module) -> Tensor:
        return 0.4 * distance(net, exact.retain) + 0.8 * cross_entropy(net, exact.retain)

    expected = copy.deepcopy(model)
    for epoch in range(3):
        if epoch < 2:
            expected = stepped(expected, lambda net: -distance(net, exact.forget))
        expected = stepped(expected, near)
    events: list[Mapping[str, Any]] = []
    settings = {**ONE_STEP, "epochs": 3, "alpha": 0.4, "gamma": 0.8, "temperature": 3.0, "ascents": 2}
    sh.SCRUB(rewind=False, **settings).scrub(model, exact, events.append)
    same(model, expected)
    assert events[-1]["step"] == events[-1]["steps"] == 5


def test_scrub_rewinds_to_the_epoch_that_errs_as_on_unseen_records(model: nn.Module, exact: sh.Problem) -> None:
    sh.FineTune(epochs=200, lr=0.5, batch_size=1000).scrub(model, replace(exact, retain=exact.forget))
    settings: dict[str, Any] = {"lr": 0.1, "batch_size": 6, "ascents": 5}
    after = []
    for epochs in range(1, 6):
        after.append(copy.deepcopy(model))
        sh.SCRUB(rewind=False, epochs=epochs, **settings).scrub(after[-1], exact)
    wanted = calibration_error_rate(after[-1], exact)
    gaps = [abs(error_rate(net, exact.forget) - wanted) for net in after]
    nearest = max(epoch for epoch, gap in enumerate(gaps) if gap == min(gaps))
    assert nearest < 4, f"the test needs an epoch that is nearer than the last: {gaps}"
    sh.SCRUB(epochs=5, **settings).scrub(model, exact)
    same(model, after[nearest])


def test_of_a_class_that_is_forgotten_whole_nothing_would_be_known(model: nn.Module, exact: sh.Problem) -> None:
    inputs, labels = everything(exact.calibration)
    right = (model(inputs).argmax(1) == labels).double()
    assert calibration_error_rate(model, exact) == pytest.approx(1 - right.mean().item())
    only = replace(exact, forget=Part(exact.forget.records, exact.forget.ids[exact.forget.labels == 2]))
    assert calibration_error_rate(model, only) == pytest.approx(1 - right[labels == 2].mean().item())
    assert exact.calibration is not None
    gone = Part(exact.calibration.records, exact.calibration.ids[exact.calibration.labels != 2])
    assert calibration_error_rate(model, replace(only, calibration=gone)) == 1.0


def test_ssd_shrinks_by_the_ratio_of_fisher_informations(model: nn.Module, exact: sh.Problem) -> None:
    """θ becomes min(λ·F_D/F_f, 1)·θ where F_f > α·F_D, with D all training data, of which D_f is a part."""
    everything = Part(exact.forget.records, torch.cat([exact.forget.ids, exact.retain.ids]))
    expected, shrunk = weights(model), 0
    for weight, f, d in zip(expected, fisher(model, exact.forget), fisher(model, everything), strict=True):
        for i in range(weight.numel()):
            if f.view(-1)[i] > 1.2 * d.view(-1)[i]:
                weight.view(-1)[i] *= min(1.5 * float(d.view(-1)[i] / f.view(-1)[i]), 1.0)
                shrunk += 1
    assert 0 < shrunk < sum(weight.numel() for weight in expected)
    sh.SSD(threshold=1.2, dampening=1.5).scrub(model, exact)
    torch.testing.assert_close(weights(model), expected)


@pytest.mark.parametrize("largest", [0.1, 100.0])
def test_sfron_climbs_by_salient_weights_and_known_records(model: nn.Module, exact: sh.Problem, largest: float) -> None:
    inputs, labels = everything(exact.forget)
    informations = zip(fisher(model, exact.forget), fisher(model, exact.retain), strict=True)
    mask = [(f / r >= 1.1).double() for f, r in informations]
    assert 0 < sum(float(m.sum()) for m in mask) < sum(m.numel() for m in mask)
    losses = F.cross_entropy(model(inputs), labels, reduction="none")
    coefficients = losses.detach() ** -0.5 / (losses.detach() ** -0.5).sum()
    slopes = torch.autograd.grad(-3.0 * (coefficients * losses).sum(), list(model.parameters()))
    masked = [slope * m for slope, m in zip(slopes, mask, strict=True)]
    length = sum(float((slope**2).sum()) for slope in masked) ** 0.5
    assert 0.1 < length < 100
    climbed = copy.deepcopy(model)
    with torch.no_grad():
        for parameter, slope in zip(climbed.parameters(), masked, strict=True):
            parameter.sub_(0.1 * min(1.0, largest / length) * slope)
    expected = stepped(climbed, lambda net: cross_entropy(net, exact.retain))
    sh.SFRon(alpha=3.0, power=0.5, threshold=1.1, clip=largest, **ONE_STEP).scrub(model, exact)
    same(model, expected)


def test_sfron_takes_smaller_steps_by_a_cosine(model: nn.Module, exact: sh.Problem) -> None:
    expected = model
    for step in range(3):
        rate = 0.1 * (1 + math.cos(math.pi * step / 3)) / 2
        expected = stepped(expected, lambda net: cross_entropy(net, exact.retain), lr=rate)
    sh.SFRon(alpha=0.0, **{**ONE_STEP, "epochs": 3}).scrub(model, exact)
    same(model, expected)


@pytest.mark.parametrize("seed", range(5))
def test_a_bargain_solves_the_nash_equation(seed: int) -> None:
    torch.manual_seed(seed)
    pair = torch.randn(2, 6, dtype=torch.float64) * torch.tensor([[1.0], [10.0 ** (seed - 2)]])
    gram = (pair @ pair.T).numpy()
    found = bargain([pair[0, :2], pair[0, 2:]], [pair[1, :2], pair[1, 2:]])
    start = 1 / gram.diagonal() ** 0.5
    solved = fsolve(lambda scale: (gram @ (scale * start)) * scale * start - 1, [1.0, 1.0], xtol=1e-12) * start
    assert found == pytest.approx(solved.tolist())


def test_those_who_cannot_bargain_take_the_published_weights() -> None:
    one, none = [torch.tensor([1.0, 2.0])], [torch.zeros(2)]
    assert bargain(one, none) == bargain(none, one) == bargain(one, [-3 * one[0]]) == (1.0, 0.1)


def test_munba_steps_along_both_unit_gradients(model: nn.Module, exact: sh.Problem) -> None:
    wrong = Part(random_labels(exact.forget, exact.seed, 0), exact.forget.ids)
    units = []
    for part in (exact.retain, wrong):
        slopes = torch.autograd.grad(cross_entropy(model, part), list(model.parameters()))
        length = sum(float((slope**2).sum()) for slope in slopes) ** 0.5
        units.append([slope / length for slope in slopes])
    both = [a + b for a, b in zip(*units, strict=True)]  # the Nash solution points along the sum, with a length of √2
    length = sum(float((slope**2).sum()) for slope in both) ** 0.5
    expected = [w - 0.1 * 0.5 * slope / length for w, slope in zip(weights(model), both, strict=True)]
    sh.MUNBa(clip=0.5, **ONE_STEP).scrub(model, exact)
    torch.testing.assert_close(weights(model), expected)


@pytest.mark.parametrize("known", ["forget", "calibration"])
def test_gradtau_climbs_only_up_to_the_unseen_loss(model: nn.Module, exact: sh.Problem, known: str) -> None:
    sh.FineTune(epochs=20, lr=0.5, batch_size=1000).scrub(model, replace(exact, retain=getattr(exact, known)))
    unseen = cross_entropy(model, exact.calibration).detach()
    below = bool(cross_entropy(model, exact.forget) < unseen)
    assert below == (known == "forget")

    def loss(net: nn.Module) -> Tensor:
        gap = unseen - cross_entropy(net, exact.forget)
        return 0.6 * (gap**2 if below else 0 * gap) + 0.4 * cross_entropy(net, exact.retain)

    expected = stepped(model, loss)
    sh.GradTau(alpha=3.0, optimizer="sgd", **ONE_STEP).scrub(model, exact)  # a fifth of the data is forgotten
    same(model, expected)


def test_gradtau_at_its_defaults_takes_the_published_steps(model: nn.Module, exact: sh.Problem) -> None:
    """The published loop, in plain PyTorch: α from 5/3 of the share to 0, the rate from 1e-3 to a tenth of it."""
    sh.FineTune(epochs=50, lr=0.5, batch_size=1000).scrub(model, replace(exact, retain=exact.forget))
    theirs = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=8)
    start = alpha = 5 / 3 * 12 / 60
    for epoch in range(8):
        if epoch % 5 == 0:
            unseen = cross_entropy(theirs, exact.calibration).detach()
        optimizer.zero_grad()
        gap = (unseen - cross_entropy(theirs, exact.forget)).relu()
        (alpha * gap**2 + (1 - alpha) * cross_entropy(theirs, exact.retain)).backward()
        optimizer.step()
        scheduler.step()
        alpha -= start / 8
    before = weights(model)
    sh.GradTau(epochs=8, batch_size=1000).scrub(model, exact)
    same(model, theirs)
    assert not torch.equal(weights(model)[0], before[0])


def test_an_epoch_of_gradtau_is_a_pass_over_the_forget_data(model: nn.Module, exact: sh.Problem) -> None:
    events: list[Mapping[str, Any]] = []
    sh.GradTau(batch_size=12).scrub(model, exact, events.append)
    assert len(events) == 3 * 48 / 12  # as many records to retain as in three passes over them
    assert [event["epoch"] for event in events] == list(range(12))


def test_lotus_learns_softened_outputs_on_the_forget_data_and_hard_ones_on_the_rest(
    model: nn.Module, exact: sh.Problem
) -> None:
    sh.FineTune(epochs=50, lr=0.5, batch_size=1000).scrub(model, replace(exact, retain=exact.forget))
    errors = []
    for part in (exact.forget, exact.calibration):
        inputs, labels = everything(part)
        errors.append((model(inputs).argmax(1) != labels).double().mean())
    assert errors[0] < errors[1]
    temperature = (1.5 * (errors[1] - errors[0])).exp()
    ids = torch.cat([exact.forget.ids, exact.retain.ids]).sort().values
    ids = ids[torch.randperm(len(ids), generator=generator(exact.seed, "shuffle", "lotus", 0, 0))]
    inputs, _ = exact.forget.records.fetch(ids)
    uniform = torch.empty(len(ids), 3, dtype=torch.float64).exponential_(generator=generator(exact.seed, "gumbel", 0))
    noisy = model(inputs).detach() - uniform.log()
    forgotten = torch.isin(ids, exact.forget.ids)
    targets = torch.zeros_like(noisy)
    targets[forgotten] = (noisy[forgotten] / temperature).softmax(1)
    targets[~forgotten, noisy[~forgotten].argmax(1)] = 1.0
    expected = stepped(model, lambda net: -(targets * net(inputs).log_softmax(1)).sum(1).mean())
    sh.LoTUS(alpha=1.5, sample=1.0, optimizer="sgd", **ONE_STEP).scrub(model, exact)
    same(model, expected)


@pytest.mark.parametrize(
    ("learned", "undershoot", "epochs"), [("calibration", 0.01, 0), ("calibration", 1.0, 4), ("forget", 0.01, 4)]
)
def test_lotus_ends_when_it_errs_more_than_on_unseen_records(
    learned: str, undershoot: float, epochs: int, model: nn.Module, exact: sh.Problem
) -> None:
    sh.FineTune(epochs=50, lr=0.5, batch_size=1000).scrub(model, replace(exact, retain=getattr(exact, learned)))
    behind = error_rate(model, exact.forget) - calibration_error_rate(model, exact)
    assert (behind >= 0.01) == (learned == "calibration")
    events: list[Mapping[str, Any]] = []
    sh.LoTUS(epochs=4, batch_size=1000, undershoot=undershoot).scrub(model, exact, events.append)
    assert len(events) == epochs


def test_a_method_may_choose_adamw_by_itself(model: nn.Module, exact: sh.Problem) -> None:
    """The first step of AdamW: as long as the rate along every weight, after the decay."""
    start = weights(model)
    slopes = torch.autograd.grad(cross_entropy(model, exact.retain), list(model.parameters()))
    sh.GradTau(alpha=0.0, epochs=1, lr=0.01, batch_size=1000, weight_decay=0.5).scrub(model, exact)
    expected = [w * (1 - 0.01 * 0.5) - 0.01 * g / (g.abs() + 1e-8) for w, g in zip(start, slopes, strict=True)]
    torch.testing.assert_close(weights(model), expected)


def test_lotus_draws_the_gumbel_softmax_of_pytorch() -> None:
    scores = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = Batch.of(scores, torch.tensor([1, 1, 1, 0, 0]))
    noise = gumbel(batch, scores, torch.Generator().manual_seed(7))
    for hard, rows in ((False, slice(3)), (True, slice(3, 5))):
        with torch.random.fork_rng():
            torch.manual_seed(7)
            drawn = F.gumbel_softmax(scores, tau=2.5, hard=hard)
        torch.testing.assert_close(tempered(scores + noise, batch.labels, 2.5)[rows], drawn[rows])


def test_regun_teaches_a_batch_one_distribution_of_unseen_records_of_its_classes(
    model: nn.Module, exact: sh.Problem
) -> None:
    """q(B_f) is the mean of p(·|x̃) over as many unseen records of each class as the batch has, here of one each."""
    assert exact.calibration is not None
    first = [int((exact.calibration.labels == label).nonzero()[0]) for label in range(3)]
    exact = replace(exact, calibration=Part(exact.calibration.records, exact.calibration.ids[first]))
    unseen, _ = everything(exact.calibration)
    inputs, labels = everything(exact.forget)
    said = model(unseen).softmax(1).detach()
    q = torch.stack([said[label] for label in labels]).mean(0)

    def loss(net: nn.Module) -> Tensor:
        p: Tensor = net(inputs).softmax(1)
        return 0.7 * cross_entropy(net, exact.retain) + 0.3 * (q * (q / p).log()).sum(1).mean()

    assert len(set(labels.tolist())) == 3
    expected = stepped(model, loss)
    sh.ReGUn(forget_weight=0.3, **ONE_STEP).scrub(model, exact)
    same(model, expected)


def test_regun_draws_unseen_records_of_the_same_classes_and_others_where_there_are_none() -> None:
    labels, draw = torch.tensor([0] * 50 + [2] * 50), torch.Generator().manual_seed(0)
    drawn = matched(torch.tensor([30, 20, 40]), labels, draw)
    assert (labels[drawn[:30]] == 0).all()
    assert (labels[drawn[50:]] == 2).all()
    assert set(labels[drawn[30:50]].tolist()) == {0, 2}
    assert len(drawn) == 90
    assert len(set(drawn[:30].tolist())) > 15


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if "unseen" in kind.needs])
def test_a_method_that_needs_unseen_records_says_so(name: str, model: nn.Module, exact: sh.Problem) -> None:
    before = weights(model)
    with pytest.raises(DataError, match="needs records that the model was never trained on"):
        METHODS[name].make({}).scrub(model, replace(exact, calibration=None))
    torch.testing.assert_close(weights(model), before, rtol=0, atol=0)


def test_scrub_needs_no_unseen_records_if_it_does_not_rewind(model: nn.Module, exact: sh.Problem) -> None:
    before = weights(model)
    sh.SCRUB(rewind=False).scrub(model, replace(exact, calibration=None))
    assert not torch.equal(weights(model)[0], before[0])
