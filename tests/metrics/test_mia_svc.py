"""The classifier of the membership attack against scikit-learn's."""

import pytest
import torch
from sklearn.svm import SVC
from torch import Tensor

from scissorhands.metrics import METRICS, Outputs, mia, mia_svc
from scissorhands.metrics.mia_svc import called_other


def plain(members: Tensor, others: Tensor, targets: Tensor, tolerance: float) -> Tensor:
    members, others, targets = (part.double().reshape(len(part), -1) for part in (members, others, targets))
    attack = SVC(C=3, gamma="auto", kernel="rbf", tol=tolerance)
    attack.fit(torch.cat([members, others]).numpy(), [1] * len(members) + [0] * len(others))
    return torch.from_numpy(attack.predict(targets.numpy()) == 0)


def equal(members: Tensor, others: Tensor, targets: Tensor, tolerance: float = 1e-3) -> float:
    """The share of targets on which we and scikit-learn decide alike."""
    called = called_other(members, others, targets)
    assert called.dtype == torch.bool
    assert called.shape == (len(targets),)
    return (called == plain(members, others, targets, tolerance)).double().mean().item()


def noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def confidences(count: int, lead: float, seed: int) -> Tensor:
    return (noise(count, seed=seed) * 2 + lead).sigmoid()


def probabilities(count: int, lead: float, seed: int, classes: int = 10) -> Tensor:
    return (noise(count, classes, seed=seed) * 2 + lead * torch.eye(classes)[torch.arange(count) % classes]).softmax(1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_few_numbers_are_judged_by_scikit_learn_itself(dtype: torch.dtype) -> None:
    members, others, targets = confidences(200, 1.5, 0), confidences(190, 0, 1), confidences(99, 1, 2)
    assert equal(members.to(dtype), others.to(dtype), targets.to(dtype)) == 1


def test_few_rows_are_judged_by_scikit_learn_itself() -> None:
    assert equal(probabilities(200, 3, 0), probabilities(200, 2, 1), probabilities(99, 2.5, 2)) == 1


def test_a_number_and_a_row_of_one_number_are_the_same() -> None:
    parts = [confidences(3000, lead, seed) for seed, lead in enumerate((1.5, 1.0, 1.2))]
    assert called_other(*parts).equal(called_other(*(part[:, None] for part in parts)))


@pytest.mark.parametrize(("member", "other"), [(1.0, 0.9), (8.0, 1.0)], ids=["hardly overfitted", "overfitted"])
def test_many_numbers_are_judged_as_by_scikit_learn(member: float, other: float) -> None:
    parts = confidences(3000, member, 0), confidences(3000, other, 1), confidences(2000, 1, 2)
    assert equal(*parts, tolerance=1e-5) >= 0.999
    assert equal(*parts) >= 0.997  # with its own tolerance of 1e-3, scikit-learn is no nearer to itself than this


def test_many_numbers_of_a_wide_range_are_judged_as_by_scikit_learn() -> None:
    members, others, targets = (noise(count, seed=seed).exp() ** 2 for seed, count in enumerate((2000, 2000, 1000)))
    assert equal(members, 1.5 * others, targets) >= 0.999


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_many_rows_are_judged_as_by_scikit_learn(classes: int) -> None:
    members, others = probabilities(2000, 4, 0, classes), probabilities(2000, 3, 1, classes)
    assert equal(members, others, probabilities(2000, 3.5, 2, classes)) >= 0.999


def test_repeated_values_count_as_often_as_they_are_there() -> None:
    members = torch.tensor([0.0, 1.0, 1.0, 2.0]).repeat(700)
    others = torch.tensor([0.0, 0.0, 1.0, 2.0, 2.0]).repeat(500)
    targets = torch.linspace(-1, 3, 400)
    assert equal(members, others, targets) == 1
    thinned = torch.tensor([0.0, 1.0, 2.0]).repeat(700), torch.tensor([0.0, 1.0, 2.0]).repeat(500)
    assert not called_other(*thinned, targets).equal(called_other(members, others, targets))


@pytest.mark.parametrize(("members", "others"), [(300, 4000), (4000, 300), (2000, 2001)])
def test_the_sides_may_differ_in_size(members: int, others: int) -> None:
    assert equal(confidences(members, 2, 0), confidences(others, 0, 1), confidences(1000, 1, 2)) >= 0.999


@pytest.mark.parametrize(("members", "others"), [(2000, 2000), (2000, 1500), (1500, 2000)])
def test_the_larger_side_has_it_where_all_records_are_alike(members: int, others: int) -> None:
    alike = torch.full((members,), 0.1), torch.full((others,), 0.1), torch.tensor([0.1, 0.7])
    assert equal(*alike) == 1
    assert called_other(*alike).tolist() == [others > members] * 2


def test_one_value_on_each_side_is_enough() -> None:
    called = called_other(torch.full((2000,), 0.9), torch.full((2000,), 0.1), torch.tensor([0.0, 0.4, 0.6, 1.0]))
    assert called.tolist() == [True, True, False, False]


def test_nearly_constant_outputs_are_judged_as_by_scikit_learn() -> None:
    members, others, targets = (0.1 + 0.01 * noise(2000, seed=seed) for seed in range(3))
    assert equal(members, others, targets) >= 0.999


def test_a_kernel_that_is_not_smooth_is_left_to_scikit_learn() -> None:
    members, others, targets = (1000 * noise(1200, seed=seed) for seed in range(3))
    assert mia_svc._features(torch.cat([members, others])[:, None].double()) is None
    assert equal(members, others, targets) == 1


def test_what_is_no_number_is_refused() -> None:
    values = confidences(3000, 1, 0)
    with pytest.raises(ValueError, match="NaN"):
        called_other(values, values.clone().fill_(float("nan")), values)
    with pytest.raises(ValueError, match="NaN"):
        called_other(values, values, torch.tensor([0.5, float("nan")]))


def test_an_empty_side_is_refused() -> None:
    values = confidences(3000, 1, 0)
    with pytest.raises(ValueError, match="class"):
        called_other(values, values[:0], values)


def test_the_papers_attack_learns_from_as_many_records_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-10 at 10 %: 10,000 of the 40,500 retained records, and all 10,000 test records."""
    seen: list[int] = []

    def look(*parts: Tensor) -> Tensor:
        seen.extend(map(len, parts))
        return torch.ones(len(parts[-1]))

    monkeypatch.setattr(mia, "called_other", look)
    sizes = {"retain": 40_500, "test": 10_000, "forget": 4_500}
    outputs = {name: Outputs(torch.zeros(n, 10), torch.zeros(n, dtype=torch.int64)) for name, n in sizes.items()}
    compute = METRICS["mia"].compute
    assert compute
    assert compute(outputs) == 100.0
    assert seen == [10_000, 10_000, 4_500]
