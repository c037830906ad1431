"""Scores: raw, counted, compared only with the right reference."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import accuracy_score
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.errors import ModelError, NoReferenceError
from scissorhands.evaluation.evaluate import judge, outputs
from scissorhands.evaluation.predict import predict
from scissorhands.metrics import METRICS, Observations, Outputs, called_non_members


def test_scores_are_those_of_sklearn_and_counted(build: Callable[[], nn.Module], split: sh.Split) -> None:
    model = build()
    scores = sh.evaluate(model, split)
    for name, part in split.parts().items():
        assert scores.counts[name] == len(part)
        if name in ("calibration", "others"):
            continue
        inputs, labels = part.records.fetch(part.ids)
        expected = 100 * accuracy_score(labels, model(inputs).argmax(1))
        assert scores[f"{name}_accuracy"] == pytest.approx(expected)


def test_evaluation_changes_nothing_in_the_model(build: Callable[[], nn.Module], split: sh.Split) -> None:
    model = build().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    sh.evaluate(model, split)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_the_gap_is_the_mean_of_four_differences(build: Callable[[], nn.Module], split: sh.Split) -> None:
    model, other = build(), build()
    sh.FineTune(epochs=20, lr=0.1, batch_size=16).scrub(other, split.problem())
    scores, reference = sh.evaluate(model, split, against=other), sh.evaluate(other, split)
    names = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia")
    expected = sum(abs(scores[name] - reference[name]) for name in names) / 4
    assert scores.avg_gap == pytest.approx(expected)
    assert scores.avg_gap > 0
    assert reference.against(reference).avg_gap == 0
    assert sh.Scores.from_dict(scores.to_dict()) == scores


def test_a_gap_without_a_reference_is_refused(build: Callable[[], nn.Module], split: sh.Split) -> None:
    scores = sh.evaluate(build(), split)
    with pytest.raises(NoReferenceError, match="needs a reference"):
        _ = scores.avg_gap
    assert "avg_gap" not in scores.to_dict()["values"]


def test_a_reference_that_forgot_something_else_is_refused(build: Callable[[], nn.Module], split: sh.Split) -> None:
    data = split.forget.records
    elsewhere = sh.split(data, sh.Forget("random:10%"), test=split.test.records, seed=1)
    with pytest.raises(NoReferenceError, match="forgot something else"):
        sh.evaluate(build(), split, against=sh.evaluate(build(), elsewhere))


def test_a_metric_that_fails_is_reported_and_its_gap_refused(
    build: Callable[[], nn.Module], split: sh.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(observed: Observations) -> float:
        raise ValueError("the attack had nothing to learn")

    monkeypatch.setitem(METRICS, "mia", replace(METRICS["mia"], compute=broken))
    scores = sh.evaluate(build(), split)
    assert scores.failed["mia"] == "the attack had nothing to learn"
    assert "mia" not in scores.values
    with pytest.raises(NoReferenceError, match="'mia'"):
        _ = scores.against(scores).avg_gap


def test_a_model_that_does_not_fit_the_labels_is_refused(split: sh.Split) -> None:
    with pytest.raises(ModelError, match="has 2 outputs, but the data has labels up to 2"):
        sh.evaluate(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), split)
    with pytest.raises(ModelError, match="cannot take inputs of shape 1×4×4"):
        sh.evaluate(nn.Sequential(nn.Flatten(), nn.Linear(9, 3)), split)


def test_predictions_do_not_depend_on_the_batch_size(
    build: Callable[[], nn.Module], split: sh.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build()
    usual = predict(model, split.retain).logits
    monkeypatch.setattr("scissorhands.evaluation.predict.BATCH_SIZE", 7)
    torch.testing.assert_close(predict(model, split.retain).logits, usual)


def test_the_attack_tells_members_from_others() -> None:
    draw = torch.Generator().manual_seed(0)
    members = 1 - 0.1 * torch.rand(300, generator=draw)
    others = torch.rand(200, generator=draw) * 0.6
    assert called_non_members(members, others, others) > 95
    assert called_non_members(members, others, members) < 5


def test_a_retrained_model_takes_forgotten_records_for_unseen_and_the_original_does_not() -> None:
    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(300, 20, generator=draw), torch.randint(2, (300,), generator=draw)
    train, test = TensorDataset(inputs[:150], labels[:150]), TensorDataset(inputs[150:], labels[150:])
    split = sh.split(train, sh.Forget("random:40%"), test=test)
    torch.manual_seed(0)
    original = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 2))
    sh.FineTune(epochs=200, lr=0.1, batch_size=64, weight_decay=0.0).scrub(
        original, sh.Problem(split.forget, sh.split(train, sh.Forget("random:1"), test=test).retain)
    )
    scores = sh.evaluate(original, split)
    retrained = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 2))
    sh.Retrain(epochs=200, batch_size=64, weight_decay=0.0).scrub(retrained, split.problem())
    reference = sh.evaluate(retrained, split)
    assert scores["forget_accuracy"] > 98  # labels are noise: what is right was learned by heart
    assert reference["forget_accuracy"] < 70
    assert reference["mia"] - scores["mia"] > 40


def test_a_part_that_is_there_under_two_names_passes_through_the_model_once(
    build: Callable[[], nn.Module], split: sh.Split
) -> None:
    model, passed, train = build(), [], split.forget.records
    split = sh.split(train, "random:10%", test=split.test.records, unseen=range(12))  # from the training data
    model.register_forward_pre_hook(lambda _, inputs: passed.append(len(inputs[0])))
    found = outputs(model, split.parts())
    assert found["others"] is found["audit"]
    assert sum(passed) == sum(len(split.parts()[name]) for name in ("forget", "retain", "calibration", "audit", "test"))


def test_a_retrained_model_that_was_not_probed_leaves_that_to_the_references() -> None:
    def said(count: int, label: int) -> Outputs:
        draw = torch.Generator().manual_seed(count)
        logits = torch.randn(count, 2, generator=draw) + torch.tensor([0.0, 9.0])
        return Outputs(logits, torch.full((count,), label))

    parts = {"forget": said(100, 0), "others": said(150, 0), "audit": said(300, 1)}
    observed = {
        **parts,
        "probe": torch.ones(100),
        "probe_shots": 5,
        "references": [{**parts, "probe": torch.zeros(100), "probe_shots": 5}],
        "retrained": parts,
    }
    found = judge(sh.Scores({}, {}), observed, "classes").verdict
    assert found
    assert found.call == "under-forgotten"
    assert "linear probe" in found.reason
