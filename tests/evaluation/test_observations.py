"""What a level looks at: which of it is due, what it will cost, how it is gathered, and how it is stored."""

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands import runs
from scissorhands.data.records import Stored
from scissorhands.errors import SettingError
from scissorhands.evaluation import gatherers, probes
from scissorhands.evaluation.context import Context, Evaluation
from scissorhands.evaluation.evaluate import Scores
from scissorhands.evaluation.observations import (
    computable,
    due,
    from_tensors,
    gather,
    plan,
    still_good,
    to_tensors,
    wanted,
)
from scissorhands.evaluation.reference_models import Trainer
from scissorhands.files import cache as private_cache
from scissorhands.methods.training import Training
from scissorhands.metrics import METRICS, Outputs
from scissorhands.runs import Result

TRAINING = Training(epochs=2, lr=0.05, batch_size=16)
FEW = Evaluation(references=2, shadows=3, shots=2, relearn=3)
EVERYTHING = ["probe", "reawakened", "few_shot", "relearning", "references", "shadows"]


def cache() -> Path:
    return private_cache("models")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))


def stored(split: sh.Split, forget: str = "random:20%") -> sh.Split:
    """The records of a split with a fingerprint, divided in another way."""
    train, test = (Stored(*part.records.fetch(torch.arange(len(part.records)))) for part in (split.forget, split.test))
    return sh.split(train, sh.Forget(forget), test=test, unseen=0.5)


@pytest.fixture
def context(build: Callable[[], nn.Module], split: sh.Split) -> Context:
    """A small model of which all is known that an examiner can ask for."""
    trainer = Trainer(build(), TRAINING, folder=cache())
    method = sh.FineTune(epochs=1, batch_size=16)
    return Context(build(), stored(split), FEW, trainer, method, seconds=0.5, original_accuracy=101.0)


def steps(names: list[str], context: Context) -> dict[str, str]:
    """The plan in words, by name."""
    return {step.name: step.what for step in plan(context, names)}


# Storing


def outputs(count: int, seed: int = 0) -> Outputs:
    """What some model says of some records."""
    draw = torch.Generator().manual_seed(seed)
    return Outputs(torch.randn(count, 3, generator=draw), torch.randint(3, (count,), generator=draw))


def assert_alike(found: Any, expected: Any) -> None:
    """Compare observations to the last bit."""
    assert type(found) is type(expected)
    if isinstance(expected, Outputs):
        assert_alike(found.logits, expected.logits)
        assert_alike(found.labels, expected.labels)
    elif isinstance(expected, Tensor):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_alike(found[name], expected[name])
    else:
        assert found == expected


OUTPUTS: dict[str, dict[str, Any]] = {
    "outputs": {"forget": outputs(5), "others": outputs(7, seed=1)},
    "outputs of one record": {"forget": outputs(1)},
    "references": {"references": [{"forget": outputs(4, i), "probe": torch.rand(4)} for i in range(3)]},
    "many references": {"references": [{"forget": outputs(2, i)} for i in range(12)]},
    "vectors": {"probe": torch.rand(6), "relearning": torch.tensor([50.0, 97.1], dtype=torch.float64)},
    "booleans": {"shadows": torch.rand(3, 4), "shadows_trained": torch.rand(3, 4) > 0.5},
    "a switch": {"seen": True},
    "a count": {"epochs": 12},
    "a number that is short in binary": {"original_accuracy": 97.5},
    "a slice of a larger tensor": {"probe": torch.arange(20.0)[::2]},
}


@pytest.mark.parametrize("known", OUTPUTS.values(), ids=OUTPUTS.keys())
def test_outputs_are_read_as_they_were_stored(known: dict[str, Any], tmp_path: Path) -> None:
    assert_alike(from_tensors(to_tensors(known)), known)
    runs.write_outputs(tmp_path, known)
    runs.write_result(tmp_path, Result(Scores({}, {})))
    assert_alike(runs.read_outputs(tmp_path), known)


def test_a_number_is_stored_with_all_its_digits() -> None:
    assert from_tensors(to_tensors({"original_accuracy": 97.1})) == {"original_accuracy": 97.1}


def test_what_belongs_to_a_retrained_model_is_not_stored_twice() -> None:
    known = {"forget": outputs(3), "retrained": {"forget": outputs(3, seed=1), "probe": torch.rand(3)}}
    assert to_tensors(known).keys() == {"forget.logits", "forget.labels"}


def test_all_that_is_gathered_can_be_stored(context: Context, tmp_path: Path) -> None:
    found, failed = gather(context, EVERYTHING)
    assert failed == {}
    runs.write_outputs(tmp_path, found)
    runs.write_result(tmp_path, Result(Scores({}, {})))
    assert_alike(runs.read_outputs(tmp_path), dict(found))


# What is due


def test_each_level_adds_to_the_ones_below() -> None:
    quick, standard, deep = (due(level, ()) for level in ("quick", "standard", "deep"))
    assert {*quick} < {*standard} < {*deep}
    of_classes = {name: metric for name, metric in METRICS.items() if metric.applies_to(regression=False)}
    assert {*standard} - {*quick} == {name for name, metric in of_classes.items() if metric.level == "standard"}
    assert {*deep} == {name for name, metric in of_classes.items() if metric.compute}
    assert "forget_accuracy" in quick
    assert "rte" not in deep  # it comes from elsewhere


def test_numbers_to_predict_have_metrics_of_their_own() -> None:
    classes, numbers = (due("deep", (), regression) for regression in (False, True))
    assert {*classes} | {*numbers} == {name for name, metric in METRICS.items() if metric.compute}
    assert {*classes} & {*numbers} == {*("auc", "tpr_1", "tpr_01", "relearn_epochs", "ulira_auc", "ulira_tpr_1")}
    assert {"forget_mae", "retain_r2", "mia_threshold", "calibrated_auc"} <= {*numbers} - {*classes}
    assert wanted("deep", (), ["forget", "others"], True) == ["reawakened", "relearning", "references", "shadows"]


def test_what_is_known_is_not_due_again() -> None:
    assert due("deep", due("deep", ())) == []
    standard = [name for name, metric in METRICS.items() if metric.level == "standard"]
    assert due("standard", due("quick", ())) == [name for name in standard if METRICS[name].applies_to(False)]
    assert "probe" not in due("standard", ["probe"])


def test_a_level_wants_what_its_metrics_need_and_is_not_there() -> None:
    there = ["forget", "others"]
    assert wanted("quick", (), there) == []
    assert wanted("standard", (), there) == EVERYTHING[:-1]
    assert wanted("deep", (), there) == EVERYTHING
    assert wanted("standard", (), [*there, "probe", "references"]) == ["reawakened", "few_shot", "relearning"]
    assert wanted("standard", ["probe", "few_shot", "relearn_epochs", "reawakened"], there) == ["references"]
    assert wanted("deep", due("standard", ()), there) == ["shadows"]


def test_nothing_is_gathered_for_a_metric_that_lacks_something_else() -> None:
    assert "references" not in wanted("deep", (), ["forget"])


@pytest.mark.parametrize("asked", [lambda level: due(level, ()), lambda level: wanted(level, (), ())])
def test_an_unknown_level_is_refused_with_the_nearest(asked: Callable[[str], Any]) -> None:
    with pytest.raises(SettingError, match=r"^there is no level 'standart'\. Did you mean 'standard'\? Known: quick, "):
        asked("standart")


def test_an_unknown_level_is_refused_by_evaluate(build: Callable[[], nn.Module], split: sh.Split) -> None:
    with pytest.raises(SettingError, match="Did you mean 'deep'"):
        sh.evaluate(build(), split, level="deeep")


def test_everything_that_a_metric_needs_comes_from_somewhere(context: Context) -> None:
    found, _ = gather(context, EVERYTHING)
    there = {*context.split.parts(), *found, "retrained"}
    assert all({*metric.needs} <= there for metric in METRICS.values())


def test_a_metric_can_be_computed_where_all_that_it_needs_is_at_hand() -> None:
    assert computable("standard", (), ["probe"]) == ["probe"]
    assert computable("standard", ["probe"], ["probe"]) == []
    assert computable("quick", (), ["forget", "probe"]) == ["forget_accuracy"]
    assert computable("standard", (), ["relearning"]) == ["relearn_epochs"]


STALE = {
    "references": {"references", "rmia_auc", "rmia_tpr_1"},
    "shadows": {"shadows", "ulira_auc", "ulira_tpr_1"},
    "shots": {"probe", "few_shot", "references", "rmia_auc", "rmia_tpr_1"},
    "relearn": {"relearning", "relearn_epochs"},
    "training": {*EVERYTHING, *due("deep", ())} - {*due("quick", ()), "probe"},
}


@pytest.mark.parametrize(("name", "stale"), STALE.items(), ids=STALE.keys())
def test_another_setting_makes_stale_what_depends_on_it_and_nothing_else(name: str, stale: set[str]) -> None:
    known = [*due("deep", ()), *EVERYTHING, "forget", "retrained"]
    before = {**Evaluation().to_dict(), "training": {"epochs": 1}}
    other = {"training": {"epochs": 2}}.get(name, 7)
    assert {*known} - {*still_good(known, before, {**before, name: other})} == stale
    assert still_good(known, before, before) == known
    assert still_good(known, {}, before) == known  # what was never examined depends on nothing


# The plan


@pytest.mark.parametrize("level", ["standard", "deep"])
def test_a_plan_names_everything_and_what_it_takes(level: str, context: Context) -> None:
    names = wanted(level, (), ())
    found = plan(context, names)
    assert [step.name for step in found] == names
    assert all(step.seconds > 0 for step in found)
    assert all(step.what and "not possible" not in step.what for step in found)


def test_a_plan_says_what_the_settings_say(context: Context) -> None:
    words = steps(EVERYTHING, context)
    assert words["few_shot"] == "relearning from 2 records of each class"
    assert words["relearning"] == "relearning the forgotten records, at most 3 epochs"
    assert words["references"] == "2 reference models on half of the retained data"
    assert words["shadows"] == "3 shadow models, each made to forget"


def test_a_plan_for_nothing_is_empty(context: Context) -> None:
    assert plan(context, []) == []


def test_a_plan_says_how_many_models_are_kept_from_before(context: Context) -> None:
    before = {step.name: step.seconds for step in plan(context, ["references", "shadows"])}
    gather(context, ["references", "shadows"])
    assert steps(["references", "shadows"], context) == {
        "references": "2 reference models on half of the retained data, 2 of them kept from before",
        "shadows": "3 shadow models, each made to forget, 3 of them kept from before",
    }
    after = {step.name: step.seconds for step in plan(context, ["references", "shadows"])}
    assert after["references"] < before["references"]
    assert after["shadows"] == 3 * 0.5  # what the method takes, three times
    more = replace(context, settings=replace(FEW, references=5))
    assert steps(["references"], more)["references"].startswith("5 reference models")
    assert steps(["references"], more)["references"].endswith("2 of them kept from before")


def test_a_plan_leaves_the_model_as_it_was_and_keeps_nothing(context: Context) -> None:
    context.model.train()
    state = copy.deepcopy(context.model.state_dict())
    plan(context, EVERYTHING)
    torch.testing.assert_close(context.model.state_dict(), state, rtol=0, atol=0)
    assert all(module.training for module in context.model.modules())
    assert all(parameter.grad is None for parameter in context.model.parameters())
    assert not cache().exists()


def test_a_plan_draws_no_random_numbers_of_the_users(mlp: nn.Module, split: sh.Split) -> None:
    before = torch.get_rng_state()
    plan(Context(mlp, split, FEW), ["reawakened"])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_plan_says_what_is_not_possible_and_why(context: Context) -> None:
    unknown = replace(context, trainer=None)
    found = {step.name: step for step in plan(unknown, EVERYTHING)}
    assert [*found] == EVERYTHING
    for name in ("references", "shadows"):
        assert found[name].what.startswith(f"{name} is not possible: it is not known how the model was trained")
        assert found[name].seconds == 0
    assert found["probe"].seconds > 0


NO_HEAD = nn.Sequential(nn.Conv2d(1, 3, 4), nn.Flatten())


@pytest.mark.parametrize("forget", ["random:20%", "class:2"])
def test_a_model_without_features_can_be_planned_for(forget: str, split: sh.Split) -> None:
    context = Context(NO_HEAD, stored(split, forget), FEW, Trainer(NO_HEAD, TRAINING, folder=cache()))
    assert [step.name for step in plan(context, EVERYTHING)] == EVERYTHING


def test_one_record_of_data_that_is_sorted_by_class_can_be_planned_for(mlp: nn.Module, split: sh.Split) -> None:
    labels = torch.arange(3).repeat_interleave(120)
    sorted_by_class = Stored(torch.randn(360, 1, 4, 4, generator=torch.Generator().manual_seed(0)), labels)
    context = Context(mlp, sh.split(sorted_by_class, sh.Forget("random:1"), test=sorted_by_class), FEW)
    assert [step.name for step in plan(context, ["probe"])] == ["probe"]
    assert gather(context, ["probe"])[1] == {}


# Gathering


def test_what_is_gathered_is_that_of_the_model(context: Context) -> None:
    found, failed = gather(context, ["probe", "few_shot", "relearning"])
    inside, outside = probes.probe(context.model, context.problem, context.split.others, FEW.shots)
    assert failed == {}
    assert torch.equal(found["probe"], inside)
    assert torch.equal(found["probe_others"], outside)
    assert_alike(found["few_shot"], probes.few_shot(context.model, context.problem, FEW.shots, TRAINING.batch_size))
    assert len(found["relearning"]) == FEW.relearn + 1
    assert found["original_accuracy"] == 101.0


def test_gathering_leaves_the_model_and_all_random_numbers_as_they_were(context: Context) -> None:
    context.model.train()
    state = copy.deepcopy(context.model.state_dict())
    before = torch.get_rng_state(), str(np.random.get_state(legacy=False)), random.getstate()
    _, failed = gather(context, EVERYTHING)
    assert failed == {}
    torch.testing.assert_close(context.model.state_dict(), state, rtol=0, atol=0)
    assert all(module.training for module in context.model.modules())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (str(np.random.get_state(legacy=False)), random.getstate()) == before[1:]


def test_gathering_again_finds_the_same_bits_and_trains_no_reference(context: Context) -> None:
    events: list[Mapping[str, Any]] = []
    first, _ = gather(context, EVERYTHING)
    again, _ = gather(context, EVERYTHING, events.append)
    assert_alike(dict(again), dict(first))
    assert "train" not in {event["phase"] for event in events}


def test_references_saw_half_of_what_is_retained_and_nothing_else(context: Context) -> None:
    halves = gatherers._halves(context)
    retained = {*context.split.retain.ids.tolist()}
    assert len({tuple(half.ids.tolist()) for half in halves}) == 2
    for half in halves:
        assert {*half.ids.tolist()} < retained
        assert len(half) == round(len(retained) / 2)
    found, _ = gather(context, ["references"])
    parts = context.split.parts()
    for one in found["references"]:
        assert one.keys() == {
            "forget",
            "others",
            "calibration",
            "audit",
            "test",
        }  # not retain
        assert all(torch.equal(one[name].labels, parts[name].labels) for name in one)


def test_references_for_a_class_are_probed_too(context: Context, split: sh.Split) -> None:
    three = replace(context, split=stored(split, "class:2"))
    found, failed = gather(three, ["probe", "references"])
    assert failed == {}
    assert all(len(one["probe"]) == len(found["probe"]) for one in found["references"])
    assert all(len(one["probe_others"]) == len(three.split.others) for one in found["references"])


def test_a_shadow_model_learns_and_forgets_half_of_the_pool(context: Context) -> None:
    problems: list[sh.Problem] = []

    class Noting(sh.FineTune):
        def scrub(self, model: nn.Module, problem: sh.Problem, log: Any = None) -> None:
            problems.append(problem)

    found, _ = gather(replace(context, method=Noting()), ["shadows"])
    forget, others, retain = context.split.forget, context.split.others, context.split.retain
    pool = torch.cat([part.records.fetch(part.ids)[0] for part in (forget, others)])
    assert found["shadows"].shape == found["shadows_trained"].shape == (3, len(pool))
    assert all(abs(2 * count - len(pool)) <= 1 for count in found["shadows_trained"].sum(1).tolist())
    for problem, drawn in zip(problems, found["shadows_trained"], strict=True):
        assert torch.equal(problem.forget.records.fetch(problem.forget.ids)[0], pool[drawn])
        assert torch.equal(problem.retain.records.fetch(problem.retain.ids)[0], retain.records.fetch(retain.ids)[0])
        assert problem.calibration is context.split.calibration
    assert len({problem.seed for problem in problems}) == 3


def test_shadow_models_are_made_to_forget_by_the_method(context: Context) -> None:
    (scrubbed, _), (only_trained, _) = (
        gather(replace(context, method=method), ["shadows"]) for method in (context.method, None)
    )
    assert torch.equal(scrubbed["shadows_trained"], only_trained["shadows_trained"])
    assert not torch.equal(scrubbed["shadows"], only_trained["shadows"])


@pytest.mark.parametrize(
    "shadows",
    [2, 4, 5, 16],
)
def test_each_record_is_in_some_shadow_models_and_not_in_others(shadows: int, context: Context) -> None:
    draws = gatherers._shadow_draws(replace(context, settings=replace(FEW, shadows=shadows)))
    assert (draws.any(0) & (~draws).any(0)).all()


def test_what_could_not_be_had_is_reported_with_its_reason(context: Context) -> None:
    found, failed = gather(replace(context, trainer=None, original_accuracy=None), EVERYTHING)
    assert found.keys() == {"probe", "probe_others", "probe_shots", "reawakened", "few_shot"}
    assert failed["relearning"] == "the original's accuracy on the forgotten records is not recorded."
    assert failed["references"] == failed["shadows"]
    assert "--train" in failed["references"]


def test_a_model_without_features_is_looked_at_in_all_other_ways(split: sh.Split) -> None:
    context = Context(NO_HEAD, stored(split), FEW, Trainer(NO_HEAD, TRAINING, folder=cache()), original_accuracy=50.0)
    found, failed = gather(context, EVERYTHING)
    assert failed == {"probe": "a probe of the features needs a model that ends in a linear layer."}
    assert {"reawakened", "few_shot", "relearning", "references", "shadows"} <= found.keys()


def test_a_class_of_a_model_without_features_has_references(split: sh.Split) -> None:
    context = Context(NO_HEAD, stored(split, "class:2"), FEW, Trainer(NO_HEAD, TRAINING, folder=cache()))
    assert gather(context, ["references"])[1] == {}


def test_a_training_that_diverges_is_reported_and_the_rest_is_there(context: Context) -> None:
    assert context.trainer
    wild = replace(context, trainer=replace(context.trainer, training=replace(TRAINING, lr=1e30, epochs=9)))
    found, failed = gather(wild, EVERYTHING)
    assert "training diverged" in failed["references"]
    assert "training diverged" in failed["shadows"]
    assert {"probe", "reawakened", "few_shot", "relearning"} <= found.keys()


def test_failures_stand_in_the_scores_under_every_metric_that_they_concern(
    build: Callable[[], nn.Module], split: sh.Split
) -> None:
    scores = sh.evaluate(build(), split, level="standard", settings=FEW)
    for name in ("rmia_auc", "rmia_tpr_1"):
        assert "it is not known how the model was trained" in scores.failed[name]
    assert scores.failed["relearn_epochs"] == "the original's accuracy on the forgotten records is not recorded."
    assert {"probe", "reawakened", "few_shot"} <= scores.values.keys()
    assert not {*scores.failed} & {*scores.values}


@pytest.mark.parametrize("kind", [Stored, TensorDataset])
def test_a_class_of_which_there_are_no_others_is_evaluated_all_the_same(kind: Any, mlp: nn.Module) -> None:
    draw = torch.Generator().manual_seed(0)
    train = kind(torch.randn(60, 1, 4, 4, generator=draw), torch.arange(60) % 3)
    test = kind(torch.randn(20, 1, 4, 4, generator=draw), torch.arange(20) % 2)
    split = sh.split(train, sh.Forget("class:2"), test=test)
    assert len(split.others) == 0
    scores = sh.evaluate(mlp, split, level="standard", settings=FEW, training=TRAINING, original=mlp)
    assert {"probe", "reawakened", "few_shot", "relearn_epochs"} <= scores.values.keys()
    assert scores.verdict
    assert scores.verdict.call == "cannot tell"


# Settings


@pytest.mark.parametrize("name", Evaluation().to_dict())
def test_every_setting_of_evaluation_changes_something(name: str, context: Context) -> None:
    base, _ = gather(context, EVERYTHING)
    changed, _ = gather(replace(context, settings=replace(FEW, **{name: getattr(FEW, name) + 1})), EVERYTHING)
    assert to_tensors(base).keys() == to_tensors(changed).keys() or name == "references"
    shared = to_tensors(base).keys() & to_tensors(changed).keys()
    differs = {
        key.partition(".")[0]
        for key in to_tensors(base).keys() ^ to_tensors(changed).keys()
        | {key for key in shared if not torch.equal(to_tensors(base)[key], to_tensors(changed)[key])}
    }
    expected = {
        "references": {"references"},
        "shadows": {"shadows", "shadows_trained"},
        "shots": {"few_shot", "probe", "probe_others", "probe_shots"},
        "relearn": {"relearning"},
    }
    assert differs
    assert differs <= expected[name]


@pytest.mark.parametrize("name", Evaluation().to_dict())
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_a_setting_of_evaluation_that_is_no_whole_number_above_zero_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=rf"Evaluation: '{name}' must be a whole number, \d or more, not {value}"):
        Evaluation.make({name: value})


def test_everything_that_can_be_gathered_is_tested_here() -> None:
    assert [*gatherers.GATHERERS] == EVERYTHING
