"""The attacks catch what they should: a model that remembers, one that only hides, and one that is broken."""

import copy
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

import scissorhands as sh
from scissorhands.data.records import Part, Stored
from scissorhands.evaluation.context import Evaluation
from scissorhands.methods.training import Training
from scissorhands.metrics import CALLS
from scissorhands.tasks.classification.networks import Normalize, small

UNDER, OVER, DAMAGED, SAME, UNKNOWN = CALLS


class Examined(NamedTuple):
    """What was forgotten, by which training models are compared, the models, and the scores of each."""

    split: sh.Split
    training: Training
    models: dict[str, nn.Module]
    scores: dict[str, sh.Scores]

    def call(self, name: str) -> str:
        """The verdict on one model."""
        verdict = self.scores[name].verdict
        assert verdict
        return verdict.call

    def reason(self, name: str) -> str:
        """Why that is the verdict."""
        verdict = self.scores[name].verdict
        assert verdict
        return verdict.reason


def examined(split: sh.Split, named: dict[str, nn.Module], training: Training, folder: Path) -> Examined:
    """The models at the level standard, all by the same reference models."""
    few = Evaluation(references=2, relearn=30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(folder))
        scores = {
            name: sh.evaluate(
                model, split, level="standard", settings=few, training=training, original=named["original"]
            )
            for name, model in named.items()
        }
    assert len(list((folder / "models").iterdir())) == few.references
    return Examined(split, training, named, scores)


def trained(model: nn.Module, split: sh.Split, training: Training) -> nn.Module:
    """The model after training on what is retained and what is to be forgotten, in place."""
    ids = torch.cat([split.retain.ids, split.forget.ids]).sort().values
    training.fit(model, sh.Problem(split.forget, Part(split.retain.records, ids)))
    return model


def retrained(model: nn.Module, split: sh.Split, training: Training, seed: int = 1) -> nn.Module:
    """A model of the same kind that never saw what is to be forgotten."""
    other = copy.deepcopy(model)
    sh.Retrain(**training.to_dict()).scrub(other, split.problem(seed=seed))
    return other


def collapsed(model: nn.Module) -> nn.Module:
    """A model of the same kind that says the same of everything."""
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data.zero_()
    return other


# Records learned by heart


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory: pytest.TempPathFactory) -> Examined:
    """Noise with random labels, of which a network can know only what it has seen: a third is to be forgotten."""
    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(1000, 20, generator=draw), torch.randint(2, (1000,), generator=draw)
    train, test = Stored(inputs[:900], labels[:900]), Stored(inputs[900:], labels[900:])
    split = sh.split(train, sh.Forget("random:200"), test=test, unseen=range(600, 900))
    training = Training(epochs=60, batch_size=64, weight_decay=0.0)
    torch.manual_seed(0)
    original = trained(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2)), split, training)
    named = {"original": original, "retrained": retrained(original, split, training)}
    return examined(split, named, training, tmp_path_factory.mktemp("by_heart") / "cache")


def test_the_original_is_caught_as_one_that_saw_the_records(by_heart: Examined) -> None:
    original = by_heart.scores["original"]
    assert original["forget_accuracy"] == 100
    assert original["auc"] > 0.7
    assert original["rmia_auc"] > 0.75
    assert original["rmia_auc"] > original["auc"]  # to know how hard each record is makes the attack stronger
    assert original["probe"] > 95
    assert original["relearn_epochs"] == 0
    assert by_heart.call("original") == UNDER


def test_a_retrained_model_is_not_taken_for_one_that_saw_the_records(by_heart: Examined) -> None:
    scores = by_heart.scores["retrained"]
    assert scores["retain_accuracy"] > 99
    assert scores["forget_accuracy"] < 65
    assert abs(scores["auc"] - 0.5) < 0.08
    assert abs(scores["rmia_auc"] - 0.5) < 0.08
    assert scores["rmia_tpr_1"] < 5
    assert scores["probe"] < 65
    assert scores["few_shot"] < 65
    assert by_heart.call("retrained") == SAME


def test_what_was_never_learned_is_not_relearned_at_once(by_heart: Examined) -> None:
    scores = by_heart.scores["retrained"]
    assert scores.failed["relearn_epochs"] == "more than 30 epochs"


def test_the_verdict_names_the_attack_that_found_something(by_heart: Examined) -> None:
    assert "linear probe of its features is right in 100.0 % of forgotten records" in by_heart.reason("original")
    assert by_heart.reason("retrained").startswith("forgotten against unseen records: AUC 0.5")


def test_a_retrained_model_in_place_of_references_gives_the_same_verdicts(by_heart: Examined) -> None:
    original, reference = by_heart.models["original"], by_heart.models["retrained"]
    another = retrained(original, by_heart.split, by_heart.training, seed=2)
    found = [sh.evaluate(model, by_heart.split, against=reference).verdict for model in (original, another)]
    assert [verdict.call for verdict in found if verdict] == [UNDER, SAME]


# A class that is hidden and not forgotten


def hidden(model: nn.Module, split: sh.Split, training: Training) -> nn.Module:
    """The model with a new last layer, trained on what is retained; all below it stays as it was."""
    other = copy.deepcopy(model)
    *below, head = (module for module in other.modules() if isinstance(module, nn.Linear))
    assert below
    torch.manual_seed(5)
    head.reset_parameters()
    other.requires_grad_(False)
    head.requires_grad_(True)
    training.fit(other, split.problem(seed=2))
    return other.requires_grad_(True)


@pytest.fixture(scope="module")
def by_class(tmp_path_factory: pytest.TempPathFactory) -> Examined:
    """Digits, of which the eights are to be forgotten."""
    data = sh.Source.make({"name": "digits"}).load()
    split = sh.split(data.train, sh.Forget("class:8"), test=data.test, unseen=0.5)
    training = Training(epochs=12, batch_size=128)
    torch.manual_seed(0)
    network = small(classes=10, channels=1, width=4)
    images, _ = data.train.fetch(torch.arange(len(data.train)))
    for module in network.modules():
        if isinstance(module, Normalize):
            module.measure(images)
    original = trained(network, split, training)
    named = {
        "original": original,
        "retrained": retrained(original, split, training),
        "hidden": hidden(original, split, training),
        "collapsed": collapsed(original),
    }
    return examined(split, named, training, tmp_path_factory.mktemp("by_class") / "cache")


def test_a_model_that_only_hides_a_class_passes_every_test_of_its_answers(by_class: Examined) -> None:
    hiding, expected = by_class.scores["hidden"], by_class.scores["retrained"]
    assert hiding["forget_accuracy"] == expected["forget_accuracy"] == 0
    for name in ("retain_accuracy", "audit_accuracy", "test_accuracy"):
        assert abs(hiding[name] - expected[name]) < 5
    assert by_class.scores["original"]["forget_accuracy"] > 85


def test_a_model_that_only_hides_a_class_is_caught_by_a_probe_of_its_features(by_class: Examined) -> None:
    original, hiding, expected = (by_class.scores[name]["probe"] for name in ("original", "hidden", "retrained"))
    assert hiding == original  # the features are the same
    assert hiding > expected + 25
    assert by_class.call("hidden") == UNDER
    assert "by a linear probe of its features" in by_class.reason("hidden")


def test_a_model_that_knows_the_class_is_caught_by_its_answers(by_class: Examined) -> None:
    assert by_class.call("original") == UNDER
    assert "of forgotten records, the reference in 0.0 %" in by_class.reason("original")


def test_a_retrained_model_is_not_accused_of_knowing_the_class(by_class: Examined) -> None:
    assert by_class.call("retrained") in (SAME, UNKNOWN)  # there are few eights among the unseen records


def test_a_collapsed_model_is_called_damaged(by_class: Examined) -> None:
    scores = by_class.scores["collapsed"]
    assert scores["forget_accuracy"] == 0
    assert scores["auc"] == 0.5  # by which alone it would look perfect
    assert scores["audit_accuracy"] < 20
    assert by_class.call("collapsed") == DAMAGED
    assert by_class.reason("collapsed").startswith("it lost what it should have kept.")
