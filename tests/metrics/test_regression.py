"""Metrics of numbers to predict: each against scikit-learn, scipy, or a case done by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score, roc_curve
from torch import Tensor

from scissorhands.metrics import (
    METRICS,
    Outputs,
    auc,
    avg_gap,
    basics,
    gap_over,
    mae,
    noise_floor,
    r2,
    skill,
    sureness,
    verdict,
)
from scissorhands.metrics.perrecord import likelihood_ratio, normal_score
from scissorhands.metrics.regression import called_unseen

PARTS = {"forget": 60, "retain": 300, "calibration": 60, "audit": 60, "test": 200, "others": 260}


def predicted(labels: Tensor, noise: float, seed: int) -> Outputs:
    """What a model says whose errors are normal."""
    draw = torch.Generator().manual_seed(seed)
    return Outputs((labels + noise * torch.randn(len(labels), generator=draw))[:, None], labels)


def made_up(seed: int = 0, scale: float = 50.0) -> dict[str, Any]:
    """What an evaluation at every level gathers of numbers to predict, made up."""
    draw = torch.Generator().manual_seed(seed)
    labels = {name: 150 + scale * torch.randn(size, generator=draw) for name, size in PARTS.items()}

    def model(first: int, **noise: float) -> dict[str, Any]:
        return {
            name: predicted(some, scale * noise.get(name, 0.5), 100 * first + number)
            for number, (name, some) in enumerate(labels.items())
        }

    pool = PARTS["forget"] + PARTS["others"]
    return {
        **model(1, retain=0.1, forget=0.2),
        "retrained": model(2, retain=0.1),
        "references": [model(3), model(4)],
        "shadows": 20 * torch.randn(6, pool, generator=draw, dtype=torch.float64),
        "shadows_trained": torch.rand(6, pool, generator=draw).argsort(0) < 3,
        "reawakened": predicted(labels["forget"], 20.0, 9),
        "relearning": torch.tensor([-9.0, -7.0, -2.0]),
        "original_accuracy": -3.0,
    }


def by_reference(observed: dict[str, Any]) -> dict[str, float]:
    """All metrics that are computed of numbers, each in another way."""

    def arrays(part: str, of: Any = observed) -> tuple[Any, Any]:
        return of[part].labels.double().numpy(), of[part].logits[:, 0].double().numpy()

    def area(members: Any, others: Any) -> float:
        member = np.repeat([1, 0], [len(members), len(others)])
        return float(roc_auc_score(member, np.concatenate([members, others])))

    def caught(members: Any, others: Any, false_alarms: float) -> float:
        member = np.repeat([1, 0], [len(members), len(others)])
        wrong, right, _ = roc_curve(member, np.concatenate([members, others]), drop_intermediate=False)
        return 100 * float(right[wrong <= false_alarms + 1e-9].max())

    def off(part: str, of: Any = observed) -> Any:
        labels, said = arrays(part, of)
        return np.abs(said - labels)

    def threshold() -> float:
        members, others = off("retain"), off("test")
        member = np.repeat([1, 0], [len(members), len(others)])
        wrong, right, levels = roc_curve(member, -np.concatenate([members, others]), drop_intermediate=False)
        return 100 * float((-off("forget") < levels[np.argmax(right - wrong)]).mean())

    easier = {
        part: np.mean([off(part, one) for one in observed["references"]], axis=0) for part in ("forget", "others")
    }
    surer = {part: easier[part] - off(part) for part in easier}
    signed = torch.cat([observed[part].logits[:, 0].double() - observed[part].labels for part in ("forget", "others")])
    ratios = likelihood_ratio(signed, observed["shadows"], observed["shadows_trained"])  # which has a test of its own
    return {
        **{f"{part}_mae": mean_absolute_error(*arrays(part)) for part in ("forget", "retain", "audit", "test")},
        **{f"{part}_r2": r2_score(*arrays(part)) for part in ("forget", "retain", "audit", "test")},
        "mia_threshold": threshold(),
        "auc": area(-off("forget"), -off("others")),
        "tpr_1": caught(-off("forget"), -off("others"), 0.01),
        "tpr_01": caught(-off("forget"), -off("others"), 0.001),
        **{
            f"difference_{part}": mean_absolute_error(arrays(part)[1], arrays(part, observed["retrained"])[1])
            for part in ("forget", "test")
        },
        "reawakened_mae": mean_absolute_error(*arrays("reawakened")),
        "relearn_epochs": 2.0,
        "calibrated_auc": area(surer["forget"], surer["others"]),
        "ulira_auc": area(ratios[:60].numpy(), ratios[60:].numpy()),
        "ulira_tpr_1": caught(ratios[:60].numpy(), ratios[60:].numpy(), 0.01),
    }


def test_every_row_for_numbers_computes_what_its_reference_does() -> None:
    observed = made_up()
    observed["others"] = predicted(torch.randn(1000), 1.0, 77)  # enough for a false alarm rate of 0.1 %
    for seed, one in enumerate(observed["references"]):
        one["others"] = predicted(observed["others"].labels, 1.0, 78 + seed)
    pool = PARTS["forget"] + 1000
    observed["shadows"] = torch.randn(6, pool, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    observed["shadows_trained"] = torch.rand(6, pool, generator=torch.Generator().manual_seed(2)).argsort(0) < 3
    numbers = {
        name: metric for name, metric in METRICS.items() if metric.compute and metric.applies_to(regression=True)
    }
    found = {name: metric.compute(observed) for name, metric in numbers.items() if metric.compute}
    assert found == pytest.approx(by_reference(observed), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_errors_have_the_unit_of_the_labels_and_r2_has_none(scale: float) -> None:
    labels = torch.randn(50, generator=torch.Generator().manual_seed(0))
    said = predicted(labels, 0.3, 1).logits
    assert mae(scale * said, scale * labels) == pytest.approx(scale * mae(said, labels), rel=1e-5)
    assert r2(scale * said, scale * labels) == pytest.approx(r2(said, labels), rel=1e-5)


def test_one_label_has_an_error_but_no_r2() -> None:
    one = Outputs(torch.tensor([[3.0]]), torch.tensor([1.0]))
    assert basics(one) == {"mae": 2.0}
    with pytest.raises(ValueError, match="all labels are the same number, so there is no variance to explain"):
        r2(one.logits, one.labels)


def test_how_good_a_model_is_grows_with_accuracy_and_falls_with_the_error() -> None:
    assert skill(Outputs(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 0]))) == 50.0
    assert skill(Outputs(torch.tensor([[3.0], [5.0]]), torch.tensor([1.0, 5.0]))) == -1.0


def test_a_number_is_known_the_better_the_smaller_its_error() -> None:
    said = Outputs(torch.tensor([[3.0], [0.0], [5.5]]), torch.tensor([1.0, 5.0, 5.0]))
    assert sureness(said).tolist() == [-2.0, -5.0, -0.5]
    assert normal_score(said).tolist() == [2.0, -5.0, 0.5]


def test_the_threshold_attack_calls_unseen_what_is_above() -> None:
    members, others = torch.full((9,), 1.0), torch.full((4,), 8.0)
    assert called_unseen(members, others, torch.tensor([0.5, 1.0, 1.1, 9.0])) == 50.0


def test_the_gap_of_numbers_is_a_mean_of_three_differences_in_their_unit() -> None:
    one = {"forget_mae": 41.0, "retain_mae": 15.0, "test_mae": 55.0, "auc": 0.57, "retain_r2": 0.9}
    other = {"forget_mae": 50.0, "retain_mae": 12.0, "test_mae": 56.5, "auc": 0.5, "retain_r2": 0.1}
    assert avg_gap(one, other) == avg_gap(other, one) == (9 + 3 + 1.5) / 3
    assert noise_floor([one, other]) == [4.5]
    assert set(gap_over(one)) <= METRICS.keys()


@pytest.mark.parametrize(
    ("value", "shown"), [(41.234, "41.23"), (0.0345, "0.035"), (0.00012, "0.00012"), (0.0, "0.00")]
)
def test_a_number_in_the_unit_of_the_labels_shows_at_least_two_digits(value: float, shown: str) -> None:
    assert f"{value:.{METRICS['forget_mae'].decimals(value)}f}" == shown


# the verdict


def judged(seed: int, references: int = 0, kind: str = "drawn", **noise: float) -> Any:
    """The verdict on a model whose errors have these deviations; its original has learned retained records by heart."""
    draw = torch.Generator().manual_seed(seed)
    labels = {name: torch.randn(size, generator=draw) for name, size in PARTS.items() if name != "others"}
    labels["others"] = torch.cat([labels["audit"], labels["test"]])

    def model(first: int, **own: float) -> dict[str, Any]:
        usual = {"retain": 0.1, **own}
        return {
            name: predicted(some, usual.get(name, 0.6), 1000 * seed + 100 * first + number)
            for number, (name, some) in enumerate(labels.items())
        }

    own = model(1, **noise)
    others = [{name: said for name, said in model(3 + i).items() if name != "retain"} for i in range(references)]
    return verdict({**own, "before": model(2, forget=0.1)}, others, kind)


def test_a_model_that_treats_forgotten_numbers_as_unseen_ones_is_cleared() -> None:
    found = [judged(seed) for seed in range(30)]
    assert [one.call for one in found].count("indistinguishable within noise") >= 28
    assert "the original has 0.8" in found[0].reason


def test_a_model_that_knows_forgotten_numbers_is_found() -> None:
    assert {judged(seed, forget=0.15).call for seed in range(10)} == {"under-forgotten"}


def test_a_model_that_avoids_forgotten_numbers_is_found() -> None:
    assert {judged(seed, forget=2.5).call for seed in range(10)} == {"over-forgotten"}


def test_a_model_that_lost_what_it_should_have_kept_is_found_with_its_errors() -> None:
    found = [judged(seed, retain=0.5) for seed in range(10)]
    assert {one.call for one in found} == {"damaged"}
    assert found[0].reason.startswith("it lost what it should have kept. It is off by 0.376 on retained records, ")
    assert "the original by 0.0755" in found[0].reason


def test_chosen_numbers_are_judged_by_references() -> None:
    assert judged(0, kind="chosen").call == "cannot tell"
    assert {judged(seed, 3, "chosen").call for seed in range(10)} <= {"indistinguishable within noise", "cannot tell"}
    assert {judged(seed, 3, "chosen", forget=0.1).call for seed in range(10)} == {"under-forgotten"}


def test_labels_that_are_all_the_same_are_no_damage() -> None:
    said = {name: Outputs(torch.full((40, 1), 3.0), torch.full((40,), 5.0)) for name in ("forget", "others", "retain")}
    found = verdict(
        {**said, "before": {name: Outputs(one.labels[:, None], one.labels) for name, one in said.items()}}, [], "drawn"
    )
    assert found.call == "cannot tell"


def test_the_area_does_not_depend_on_the_unit() -> None:
    observed = made_up()
    members, others = (sureness(observed[part]) for part in ("forget", "others"))
    assert auc(members, others) == auc(1e-6 * members, 1e-6 * others)
