"""Every metric against an independent reference: scikit-learn, scipy, a loop, or a case done by hand."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax
from scipy.stats import entropy as scipy_entropy
from scipy.stats import norm
from sklearn.metrics import accuracy_score, roc_auc_score, roc_curve
from sklearn.svm import SVC
from torch import Tensor

import scissorhands as sh
from scissorhands.choices import LEVELS
from scissorhands.evaluation.gatherers import GATHERERS
from scissorhands.metrics import (
    GAP_OVER,
    METRICS,
    Interval,
    Outputs,
    accuracy,
    auc,
    avg_gap,
    called_non_members,
    interval,
    noise_floor,
    scaled_logit,
    tpr_at_fpr,
)
from scissorhands.metrics.accuracy import epochs_until
from scissorhands.metrics.likeness import agreement, jensen_shannon
from scissorhands.metrics.mia import (
    confidence,
    correctness,
    entropy,
    modified_entropy,
    probability,
    published_entropy,
)
from scissorhands.metrics.perrecord import likelihood_ratio, rmia

Feature = Callable[[Tensor, Tensor], Tensor]


def drawn(count: int, classes: int = 4, seed: int = 0, width: float = 2.0) -> tuple[Tensor, Tensor]:
    """Made-up logits, and labels of which the last class has none."""
    draw = torch.Generator().manual_seed(seed)
    return width * torch.randn(count, classes, generator=draw), torch.randint(classes - 1, (count,), generator=draw)


def probabilities(logits: Tensor) -> Any:
    return softmax(logits.double().numpy(), axis=1)


def sklearn_auc(members: Tensor, others: Tensor) -> float:
    member = np.repeat([1, 0], [len(members), len(others)])
    return float(roc_auc_score(member, torch.cat([members, others]).numpy()))


def sklearn_caught(members: Tensor, others: Tensor, false_alarms: float) -> float:
    """The largest true positive rate, in percent, on the part of the curve with few enough false alarms."""
    member = np.repeat([1, 0], [len(members), len(others)])
    wrong, right, _ = roc_curve(member, torch.cat([members, others]).numpy(), drop_intermediate=False)
    return 100 * float(right[wrong <= false_alarms + 1e-9].max())


# --- accuracy


def test_accuracy_is_that_of_sklearn() -> None:
    logits, labels = drawn(57)
    assert accuracy(logits, labels) == pytest.approx(100 * accuracy_score(labels, logits.argmax(1)))


def test_the_first_epoch_at_or_above_the_wanted_accuracy_counts() -> None:
    curve = [40.0, 62.5, 60.0, 75.0, 70.0]
    for wanted in (0.0, 40.0, 41.0, 62.5, 63.0, 75.0):
        by_hand = next(epoch for epoch, value in enumerate(curve) if value >= wanted)
        assert epochs_until(torch.tensor(curve), wanted) == by_hand
    with pytest.raises(ValueError, match="more than 4 epochs"):
        epochs_until(torch.tensor(curve), 75.1)


# --- the paper's membership attacks


def test_correctness_and_confidence_are_those_of_the_true_label() -> None:
    logits, labels = drawn(31)
    p = probabilities(logits)
    for i, label in enumerate(labels.tolist()):
        assert confidence(logits, labels)[i].item() == pytest.approx(p[i, label], rel=1e-5)
        assert correctness(logits, labels)[i].item() == float(p[i].argmax() == label)
    np.testing.assert_allclose(probability(logits, labels), p, rtol=1e-5, atol=1e-7)


def test_entropy_is_that_of_scipy_even_where_the_model_is_certain() -> None:
    logits, labels = drawn(31)
    logits[0] = torch.tensor([500.0, 0.0, -500.0, 0.0])
    np.testing.assert_allclose(entropy(logits, labels), scipy_entropy(probabilities(logits), axis=1), atol=1e-5)


def test_modified_entropy_is_its_definition_on_three_classes() -> None:
    p = (0.7, 0.2, 0.1)
    logits = torch.tensor([p, p, p]).log()
    of_0 = -(1 - 0.7) * math.log(0.7) - 0.2 * math.log(1 - 0.2) - 0.1 * math.log(1 - 0.1)
    of_1 = -(1 - 0.2) * math.log(0.2) - 0.7 * math.log(1 - 0.7) - 0.1 * math.log(1 - 0.1)
    of_2 = -(1 - 0.1) * math.log(0.1) - 0.7 * math.log(1 - 0.7) - 0.2 * math.log(1 - 0.2)
    found = modified_entropy(logits, torch.tensor([0, 1, 2]))
    assert found.tolist() == pytest.approx([of_0, of_1, of_2], rel=1e-5)
    assert found[0] < found[1] < found[2]  # the same probabilities, but the label is ever less expected


def test_modified_entropy_looks_at_the_records_own_label_and_at_no_other_record() -> None:
    logits, labels = drawn(31)
    p = probabilities(logits)
    by_hand = [
        sum(-(1 - q) * math.log(q) if k == label else -q * math.log(1 - q) for k, q in enumerate(row))
        for row, label in zip(p.tolist(), labels.tolist(), strict=True)
    ]
    found = modified_entropy(logits, labels)
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)
    for i in range(3):
        assert modified_entropy(logits[i : i + 1], labels[i : i + 1]).item() == pytest.approx(found[i].item())
    assert not torch.isclose(modified_entropy(logits, (labels + 1) % 4), found).any()


def as_published(p: Tensor, labels: Tensor) -> Tensor:
    """Modified entropy as the published attack code has it, with both of its mistakes."""
    log_prob = torch.where(p > 0, p.log(), torch.tensor(1e-30).log())
    log_reverse_prob = log_prob  # the first: it was meant to be that of 1 − p
    reverse_prob = 1 - p
    modified_probs, modified_log_probs = p.clone(), log_reverse_prob.clone()
    modified_probs[:, labels] = reverse_prob[:, labels]  # the second: these columns are replaced in every row
    modified_log_probs[:, labels] = log_prob[:, labels]
    return -(modified_probs * modified_log_probs).sum(-1)


def test_the_published_entropy_is_what_the_published_code_computes() -> None:
    logits, labels = drawn(31)
    logits[0] = torch.tensor([500.0, 0.0, -500.0, 0.0])
    found = published_entropy(logits, labels)
    torch.testing.assert_close(found, as_published(logits.softmax(1), labels))
    by_hand = [
        sum(-(1 - q if k in labels.tolist() else q) * math.log(q) for k, q in enumerate(row))
        for row in probabilities(logits)[1:].tolist()
    ]
    np.testing.assert_allclose(found[1:], by_hand, rtol=1e-4)


def test_the_published_entropy_does_not_depend_on_a_records_own_label() -> None:
    logits, labels = drawn(31)
    order = torch.randperm(31, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(published_entropy(logits, labels[order]), published_entropy(logits, labels))
    assert not torch.isclose(modified_entropy(logits, labels[order]), modified_entropy(logits, labels)).all()


@pytest.mark.parametrize("feature", [confidence, probability], ids=["one column", "many columns"])
def test_the_attack_is_the_svc_of_sklearn(feature: Feature) -> None:
    members, others, targets = (
        feature(*drawn(40, seed=seed, width=width)) for seed, width in enumerate((4.0, 1.0, 2.0))
    )
    points = torch.cat([members, others]).double().reshape(80, -1)
    attack = SVC(C=3, gamma="auto").fit(points, np.repeat([1, 0], 40))
    expected = 100 * float((attack.predict(targets.double().reshape(40, -1)) == 0).mean())
    assert 0 < expected < 100
    assert called_non_members(members, others, targets) == pytest.approx(expected)


def test_the_attack_learns_from_as_many_members_as_others() -> None:
    members, others = torch.full((900,), 0.9), torch.linspace(0.5, 1.0, 9)
    attack = SVC(C=3, gamma="auto").fit(torch.cat([members[:9], others])[:, None], np.repeat([1, 0], 9))
    targets = torch.linspace(0.4, 1.0, 50)
    expected = 100 * float((attack.predict(targets[:, None]) == 0).mean())
    assert called_non_members(members, others, targets) == pytest.approx(expected)
    assert expected > 50  # whoever learns from 900 members calls nobody an other


# --- separation


def test_the_auc_is_that_of_sklearn_and_a_tie_counts_half() -> None:
    draw = torch.Generator().manual_seed(0)
    for members, others in ((1, 1), (7, 3), (50, 200)):
        scores = torch.randn(members + others, generator=draw)
        for one in (scores, scores.round(), torch.zeros_like(scores)):  # no ties, many ties, nothing but ties
            assert auc(one[:members], one[members:]) == pytest.approx(sklearn_auc(one[:members], one[members:]))
    won = [1.0 if a > b else 0.5 if a == b else 0.0 for a in (1.0, 2.0, 2.0) for b in (2.0, 1.0, 0.0, 3.0)]
    assert auc(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([2.0, 1.0, 0.0, 3.0])) == pytest.approx(sum(won) / 12)


@pytest.mark.parametrize("false_alarms", [0.01, 0.05, 0.1, 0.25])
def test_those_caught_at_a_false_alarm_rate_are_those_of_the_roc_curve(false_alarms: float) -> None:
    for seed in range(20):
        draw = torch.Generator().manual_seed(seed)
        members = 1 + torch.randn(83, generator=draw)
        others = torch.randn(100 + 7 * seed, generator=draw)
        for decimals in (6, 1, 0):  # no ties, some, and so many that the rate cannot be met exactly
            some, rest = members.round(decimals=decimals), others.round(decimals=decimals)
            expected = sklearn_caught(some, rest, false_alarms)
            assert tpr_at_fpr(some, rest, false_alarms) == pytest.approx(expected)


def test_nobody_is_caught_where_nothing_distinguishes_the_records() -> None:
    assert tpr_at_fpr(torch.zeros(9), torch.zeros(200), 0.01) == 0


def test_a_false_alarm_rate_that_the_records_cannot_show_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rate of 1 % needs 100 records never seen; there are 99\."):
        tpr_at_fpr(torch.ones(5), torch.zeros(99), 0.01)
    with pytest.raises(ValueError, match=r"rate of 0\.1 % needs 1000 records never seen; there are 999\."):
        tpr_at_fpr(torch.ones(5), torch.zeros(999), 0.001)
    assert tpr_at_fpr(torch.ones(5), torch.zeros(100), 0.01) == 100


# --- likeness


def test_the_divergence_is_the_square_of_scipys_distance_in_bits() -> None:
    (one, _), (other, _) = drawn(31, seed=0), drawn(31, seed=1, width=5.0)
    distances = [jensenshannon(p, q, base=2) for p, q in zip(probabilities(one), probabilities(other), strict=True)]
    assert jensen_shannon(one, other) == pytest.approx(np.mean(np.square(distances)))
    assert jensen_shannon(one, other) == pytest.approx(jensen_shannon(other, one))
    assert jensen_shannon(one, one + 3.0) == pytest.approx(0.0, abs=1e-12)  # a constant changes no probability
    assert jensen_shannon(torch.tensor([[2e3, 0.0, 0.0]]), torch.tensor([[0.0, 2e3, 0.0]])) == pytest.approx(1.0)


def test_agreement_counts_equal_labels_right_or_wrong() -> None:
    (one, _), (other, _) = drawn(31, seed=0), drawn(31, seed=1)
    equal = sum(int(a.argmax()) == int(b.argmax()) for a, b in zip(one, other, strict=True))
    assert 0 < equal < 31
    assert agreement(one, other) == pytest.approx(100 * equal / 31)


# --- attacks that know each record


def test_scaled_logit_is_the_log_odds_of_the_true_label() -> None:
    logits, labels = drawn(31)
    p = probabilities(logits)[torch.arange(31), labels]
    np.testing.assert_allclose(scaled_logit(logits, labels), np.log(p / (1 - p)), rtol=1e-6)


def test_scaled_logit_tells_records_apart_whose_probability_is_one_in_every_digit() -> None:
    logits, labels = torch.tensor([[60.0, 0.0, 0.0], [90.0, 0.0, 0.0]]), torch.tensor([0, 0])
    assert confidence(logits, labels).tolist() == [1.0, 1.0]
    assert scaled_logit(logits, labels).tolist() == pytest.approx([60 - math.log(2), 90 - math.log(2)])


def test_rmia_orders_records_as_counting_over_a_population_does() -> None:
    draw = torch.Generator().manual_seed(0)
    scores, outside = torch.rand(40, generator=draw), torch.rand(3, 40, generator=draw)
    population, outside_population = torch.rand(500, generator=draw), torch.rand(3, 500, generator=draw)

    def ratio(p: Tensor, others: Tensor) -> list[float]:
        return [float(p[i]) / (0.5 * ((1 + 0.3) * sum(others[:, i].tolist()) / 3 + (1 - 0.3))) for i in range(len(p))]

    of_records, of_population = ratio(scores, outside), ratio(population, outside_population)
    counted = [sum(x / z >= 1 for z in of_population) / 500 for x in of_records]
    found = rmia(scores, outside)
    assert found.tolist() == pytest.approx(of_records, rel=1e-5)
    in_order = [counted[i] for i in found.argsort().tolist()]
    assert all(lower <= higher for lower, higher in pairwise(in_order))
    assert len(set(in_order)) > 30


def test_rmia_sees_through_a_record_that_is_easy_for_everyone() -> None:
    easy, remembered = rmia(torch.tensor([0.99, 0.9]), torch.tensor([[0.99, 0.2]]))
    assert remembered > easy


def shadows(seed: int, gap: float, records: int = 300, count: int = 16) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shadow models that are surer by `gap` of a record that they were trained on, and a model that is one more."""
    draw = torch.Generator().manual_seed(seed)
    hardness = 3 * torch.randn(records, generator=draw, dtype=torch.float64)
    trained = torch.rand(count + 1, records, generator=draw).argsort(0) < (count + 1) // 2  # half of them, each
    noise = torch.randn(count + 1, records, generator=draw, dtype=torch.float64)
    values = hardness + gap * trained + noise
    return values[-1], values[:-1], trained[:-1], trained[-1]


def test_the_likelihood_ratio_is_that_of_normal_densities() -> None:
    scores, values, trained, _ = shadows(0, gap=1.0, records=20, count=8)
    means: dict[bool, list[float]] = {True: [], False: []}
    spread: dict[bool, float] = {}
    for inside in (True, False):
        squares, freedom = 0.0, 0
        for record in range(20):
            chosen = [float(values[i, record]) for i in range(8) if bool(trained[i, record]) == inside]
            mean = sum(chosen) / len(chosen)
            means[inside].append(mean)
            squares += sum((value - mean) ** 2 for value in chosen)
            freedom += len(chosen) - 1
        spread[inside] = math.sqrt(squares / freedom)
    expected = [
        norm.logpdf(float(scores[i]), means[True][i], spread[True])
        - norm.logpdf(float(scores[i]), means[False][i], spread[False])
        for i in range(20)
    ]
    assert likelihood_ratio(scores, values, trained).tolist() == pytest.approx(expected)


def test_the_likelihood_ratio_finds_members_where_the_bare_score_does_not() -> None:
    scores, values, trained, member = shadows(1, gap=3.0)
    found = likelihood_ratio(scores, values, trained)
    assert sklearn_auc(found[member], found[~member]) > 0.9
    assert sklearn_auc(scores[member], scores[~member]) < 0.8  # how hard a record is drowns what was remembered


def test_the_likelihood_ratio_is_at_chance_where_nothing_distinguishes() -> None:
    areas = []
    for seed in range(20):
        scores, values, trained, member = shadows(seed, gap=0.0)
        found = likelihood_ratio(scores, values, trained)
        areas.append(sklearn_auc(found[member], found[~member]))
    assert np.mean(areas) == pytest.approx(0.5, abs=0.03)
    assert max(abs(area - 0.5) for area in areas) < 0.12


@pytest.mark.parametrize("everywhere", [True, False], ids=["in all", "in none"])
def test_a_record_that_all_shadows_saw_or_none_is_refused(everywhere: bool) -> None:
    scores, values, trained, _ = shadows(0, gap=1.0)
    trained[:, 7] = everywhere
    with pytest.raises(ValueError, match="in all shadow models or in none: train more of them"):
        likelihood_ratio(scores, values, trained)


# --- gap, noise floor and intervals


def test_the_gap_is_a_mean_of_four_absolute_differences_and_of_nothing_else() -> None:
    one = {"forget_accuracy": 90.0, "retain_accuracy": 99.0, "test_accuracy": 92.0, "mia": 10.0, "auc": 0.9}
    other = {"forget_accuracy": 95.0, "retain_accuracy": 98.0, "test_accuracy": 94.0, "mia": 30.0, "auc": 0.1}
    assert avg_gap(one, other) == avg_gap(other, one) == (5 + 1 + 2 + 20) / 4
    assert set(GAP_OVER) <= set(METRICS)


def test_the_noise_floor_has_every_pair_of_retrained_models_once() -> None:
    draw = np.random.default_rng(0)
    models = [{name: float(draw.uniform(0, 100)) for name in GAP_OVER} for _ in range(4)]
    by_hand = [avg_gap(models[i], models[j]) for i in range(4) for j in range(i + 1, 4)]
    assert noise_floor(models) == by_hand
    assert len(by_hand) == 6
    assert noise_floor(models[:1]) == []


# The 97.5 % quantiles of Student's distribution by degrees of freedom, from a printed table.
QUANTILES = {1: 12.7062, 2: 4.30265, 3: 3.18245, 59: 2.00100}


def students(values: Sequence[float]) -> tuple[float, float]:
    half = QUANTILES[len(values) - 1] * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values) - half), float(np.mean(values) + half)


def bootstraps(values: Sequence[float]) -> tuple[float, float]:
    means = np.random.default_rng(1).choice(values, (9999, len(values))).mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def test_for_few_pairs_the_interval_is_students() -> None:
    for values in ([1.0, 2.0, 3.0], [-4.0, 0.5], [0.1, 0.1, 0.1, 5.0]):
        found = interval(values)
        assert (found.low, found.high) == pytest.approx(students(values), rel=1e-4)
        assert found.mean == pytest.approx(np.mean(values))


@pytest.mark.parametrize("side", [1, -1], ids=["long to the right", "long to the left"])
def test_the_interval_is_the_wider_of_students_and_the_bootstraps(side: int) -> None:
    values = (side * np.random.default_rng(0).lognormal(0, 2, 60)).tolist()  # each of the two has one bound
    found, student_bounds, bootstrap_bounds = interval(values), students(values), bootstraps(values)
    low, high = min(student_bounds[0], bootstrap_bounds[0]), max(student_bounds[1], bootstrap_bounds[1])
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.01)
    outer = int(side > 0)
    assert abs(student_bounds[outer]) < 0.985 * abs(bootstrap_bounds[outer])
    assert student_bounds[1 - outer] != pytest.approx(bootstrap_bounds[1 - outer], rel=0.1)


@pytest.mark.parametrize("pairs", [3, 20])
def test_the_interval_holds_the_true_mean_as_often_as_it_says(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scissorhands.metrics.intervals._RESAMPLES", 200)
    draw = np.random.default_rng(pairs)
    held = [interval(draw.normal(5.0, 3.0, pairs).tolist()).holds(5.0) for _ in range(1000)]
    assert 0.93 <= np.mean(held) <= 0.98


def test_one_pair_bounds_nothing_and_equal_pairs_leave_no_doubt() -> None:
    assert interval([3.0]) == Interval(3.0, -math.inf, math.inf)
    assert interval([3.0, 3.0, 3.0]) == Interval(3.0, 3.0, 3.0)
    assert interval([3.0]).holds(1e9)
    assert not interval([3.0, 3.0]).holds(3.1)


# --- the table


def test_every_row_of_the_table_says_what_a_reader_needs() -> None:
    for name, metric in METRICS.items():
        for text in (metric.title, metric.best, metric.meaning, metric.retrained, metric.misleads):
            assert text.strip(), name
        assert metric.level in (*LEVELS, "drawn"), name
        assert metric.digits >= 0, name
        assert bool(metric.needs) == bool(metric.compute), name
    titles = [metric.title for metric in METRICS.values()]
    assert len(titles) == len(set(titles))


def test_every_row_needs_only_what_can_be_had(split: sh.Split) -> None:
    beside = {"retrained", "original_accuracy"}  # what the caller brings
    known = {*split.parts(), *GATHERERS, *beside}
    for name, metric in METRICS.items():
        assert set(metric.needs) <= known, name


def test_the_levels_above_quick_are_those_that_train() -> None:
    for name, metric in METRICS.items():
        assert (metric.level in ("standard", "deep")) == bool({*metric.needs} & {*GATHERERS}), name


def made_up_observations() -> dict[str, Any]:
    """What an evaluation at every level gathers, made up."""
    sizes = {"forget": 60, "retain": 50, "audit": 40, "test": 50, "others": 1000}
    model = {name: Outputs(*drawn(size, seed=i)) for i, (name, size) in enumerate(sizes.items())}

    def another(seed: int) -> dict[str, Any]:
        return {
            name: Outputs(drawn(len(said), seed=seed + i)[0], said.labels)
            for i, (name, said) in enumerate(model.items())
        }

    draw = torch.Generator().manual_seed(7)
    pool = sizes["forget"] + sizes["others"]
    return {
        **model,
        "retrained": another(100),
        "references": [another(200), another(300)],
        "shadows": torch.randn(6, pool, generator=draw, dtype=torch.float64),
        "shadows_trained": torch.rand(6, pool, generator=draw).argsort(0) < 3,
        "probe": torch.rand(60, generator=draw).round(),
        "reawakened": Outputs(*drawn(60, seed=8)),
        "few_shot": Outputs(*drawn(60, seed=9)),
        "relearning": torch.tensor([50.0, 70.0, 90.0]),
        "original_accuracy": 85.0,
    }


def by_reference(observed: dict[str, Any]) -> dict[str, float]:
    """All metrics that are computed, each in another way."""

    def share_right(said: Outputs) -> float:
        return 100 * float(accuracy_score(said.labels, said.logits.argmax(1)))

    def log_odds(said: Outputs) -> Tensor:
        p = probabilities(said.logits)[torch.arange(len(said)), said.labels]
        return torch.from_numpy(np.log(p / (1 - p)))

    def attack(feature: Callable[[Any, Any], Any]) -> float:
        retain, test, forget = (
            np.reshape(feature(probabilities(observed[part].logits), observed[part].labels.numpy()), (size, -1))
            for part, size in (("retain", 50), ("test", 50), ("forget", 60))
        )
        fitted = SVC(C=3, gamma="auto").fit(np.concatenate([retain, test]), np.repeat([1, 0], 50))
        return 100 * float((fitted.predict(forget) == 0).mean())

    def own(p: Any, labels: Any) -> Any:
        return p[np.arange(len(p)), labels]

    def modified(p: Any, labels: Any) -> Any:
        rest = (p * np.log(1 - p)).sum(1) - own(p * np.log(1 - p), labels)
        return -(1 - own(p, labels)) * np.log(own(p, labels)) - rest

    def divergence(part: str) -> float:
        both = (probabilities(observed[part].logits), probabilities(observed["retrained"][part].logits))
        return float(np.mean([jensenshannon(p, q, base=2) ** 2 for p, q in zip(*both, strict=True)]))

    def same(part: str) -> float:
        return 100 * float(
            accuracy_score(observed[part].logits.argmax(1), observed["retrained"][part].logits.argmax(1))
        )

    def ratio(part: str) -> Tensor:
        p = log_odds(observed[part]).sigmoid()
        outside = sum(log_odds(one[part]).sigmoid() for one in observed["references"]) / 2
        return torch.as_tensor(p / (0.65 * outside + 0.35))

    scores = {part: log_odds(observed[part]) for part in ("forget", "others")}
    ratios = {part: ratio(part) for part in ("forget", "others")}
    likelihoods = likelihood_ratio(
        torch.cat([*scores.values()]), observed["shadows"], observed["shadows_trained"]
    )  # which has a test of its own
    ulira = (likelihoods[:60], likelihoods[60:])
    return {
        **{f"{part}_accuracy": share_right(observed[part]) for part in ("forget", "retain", "test")},
        "audit_accuracy": share_right(observed["audit"]),
        "mia": attack(own),
        "mia_correctness": attack(lambda p, labels: p.argmax(1) == labels),
        "mia_entropy": attack(lambda p, labels: scipy_entropy(p, axis=1)),
        "mia_modified_entropy": attack(modified),
        "mia_published_entropy": attack(lambda p, labels: as_published(torch.tensor(p), torch.tensor(labels)).numpy()),
        "mia_probability": attack(lambda p, labels: p),
        "auc": sklearn_auc(scores["forget"], scores["others"]),
        "tpr_1": sklearn_caught(scores["forget"], scores["others"], 0.01),
        "tpr_01": sklearn_caught(scores["forget"], scores["others"], 0.001),
        "jsd_forget": divergence("forget"),
        "jsd_test": divergence("test"),
        "agreement_forget": same("forget"),
        "agreement_test": same("test"),
        "probe": 100 * float(observed["probe"].mean()),
        "reawakened": share_right(observed["reawakened"]),
        "few_shot": share_right(observed["few_shot"]),
        "relearn_epochs": 2.0,
        "rmia_auc": sklearn_auc(ratios["forget"], ratios["others"]),
        "rmia_tpr_1": sklearn_caught(ratios["forget"], ratios["others"], 0.01),
        "ulira_auc": sklearn_auc(*ulira),
        "ulira_tpr_1": sklearn_caught(*ulira, 0.01),
    }


def test_every_row_of_the_table_computes_what_its_reference_does() -> None:
    observed = made_up_observations()
    classes = {name: metric for name, metric in METRICS.items() if metric.applies_to(regression=False)}
    found = {name: metric.compute(observed) for name, metric in classes.items() if metric.compute}
    assert found == pytest.approx(by_reference(observed), rel=1e-6)
