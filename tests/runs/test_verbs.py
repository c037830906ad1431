"""The verbs as functions: what they record, what they refuse, and what they leave alone."""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from helpers.forged import reseal
from scissorhands import runs
from scissorhands.data.forget import Forget
from scissorhands.data.problem import Log, Problem, ignore
from scissorhands.data.sources import Source
from scissorhands.data.split import held_out, split
from scissorhands.errors import DataError, FailedError, ModelError, NoReferenceError, RunError, SettingError
from scissorhands.evaluation.evaluate import Scores, evaluate
from scissorhands.methods import METHODS, Method
from scissorhands.methods.training import Training
from scissorhands.metrics import GAP_OVER
from scissorhands.runs import Result, Run
from scissorhands.runs.place import Place
from scissorhands.runs.score import compare, score
from scissorhands.runs.scrub import scrub
from scissorhands.runs.subject import load_classifier
from scissorhands.runs.train import train
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.request import Request
from scissorhands.tasks.classification.task import Classification

TRAINING = Training(epochs=3, lr=0.1, batch_size=64)
QUICK = {"epochs": 1, "batch_size": 512}
THREE = Request(Forget("class:3"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small network trained on the digits, a fifth of them held out."""
    place = Place(tmp_path_factory.mktemp("verbs") / "trained", seed=5)
    return train("small", {"width": 4}, Source(), TRAINING, 0.2, place, split_seed=6)


def load(run: Run) -> Classification:
    """The model of a run, to work on."""
    return load_classifier(str(run.folder))


def finetuned(run: Run, folder: Path, request: Request = THREE) -> Run:
    """A run scrubbed in the quickest way."""
    return scrub(str(run.folder), request, "finetune", QUICK, Place(folder))


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def edited(run: Run, folder: Path, old: str, new: str) -> str:
    """A copy of the run with another run.toml, and a seal that fits it."""
    shutil.copytree(run.folder, folder)
    text = (folder / "run.toml").read_text()
    assert old in text
    (folder / "run.toml").write_text(text.replace(old, new))
    reseal(folder)
    return str(folder)


# Training


def test_training_records_what_it_takes_to_do_it_again(trained: Run, tmp_path: Path) -> None:
    record = trained.record
    again = train(
        record["model"]["source"],
        record["model"]["arguments"] | {},
        Source.make(record["data"]),
        Training.make(trained.settings),
        record["split"]["holdout"],
        Place(tmp_path / "again", seed=record["seed"], device=record["device"]),
        record["split"]["held_seed"],
    )
    assert trained.settings == TRAINING.to_dict()
    assert content(again.folder / "model") == content(trained.folder / "model")
    assert again.result.scores == trained.result.scores


def test_training_records_the_versions_it_ran_on(trained: Run) -> None:
    assert trained.record["versions"]["torch"] == torch.__version__
    assert trained.record["verb"] == "train"


def test_training_never_sees_what_it_holds_out(tmp_path: Path) -> None:
    data = Source().load()
    seen: list[Mapping[str, Any]] = []
    place = Place(tmp_path / "out")
    run = train("small", {"width": 1}, Source(), replace(TRAINING, epochs=1), 0.9, place, log=seen.append)
    held = len(held_out(data.train, 0.9, 0))
    halves = {"calibration": held // 2, "audit": held - held // 2}
    assert run.result.scores.counts == {"retain": len(data.train) - held, **halves, "test": len(data.test)}
    assert len(seen) == -(-(len(data.train) - held) // TRAINING.batch_size)


def test_training_that_holds_out_nothing_has_no_unseen_score(tmp_path: Path) -> None:
    place = Place(tmp_path / "out")
    run = train("small", {"width": 1}, Source(), replace(TRAINING, epochs=1, batch_size=512), 0.0, place)
    assert run.result.scores.values.keys() == {"retain_accuracy", "test_accuracy"}


def test_training_on_nothing_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'holdout' leaves nothing to train on"):
        train("small", {}, Source(), TRAINING, 1.0, Place(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


# Scrubbing


def test_scrubbing_keeps_the_events_that_it_logs(trained: Run, tmp_path: Path) -> None:
    seen: list[Mapping[str, Any]] = []
    run = scrub(str(trained.folder), THREE, "finetune", QUICK, Place(tmp_path / "out"), log=seen.append)
    kept = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert {*seen[0]} == {"counts", "kind"}  # what the verdict will be able to tell follows from that
    assert kept == seen[1:]
    assert [event["step"] for event in seen[1:]] == [1, 2, 3]
    assert {event["phase"] for event in seen[1:]} == {"finetune"}


def test_scrubbing_uses_the_records_that_training_held_out_as_unseen(trained: Run, tmp_path: Path) -> None:
    run = finetuned(trained, tmp_path / "out", Request(Forget("random:100"), unseen=0.5))
    train = Source().load().train
    held = set(held_out(train, 0.2, 6).tolist())
    assert held.isdisjoint(run.ids("forget"))
    assert run.result.scores.counts == {
        "forget": 100,
        "retain": len(train) - len(held) - 100,
        "calibration": 144,
        "audit": 143,
        "test": 360,
        "others": 503,
    }


def test_scrubbing_leaves_the_original_run_alone(trained: Run, tmp_path: Path) -> None:
    before = content(trained.folder)
    run = finetuned(trained, tmp_path / "out")
    assert content(trained.folder) == before
    a, b = (load_file(r.folder / "model" / "model.safetensors") for r in (trained, run))
    assert a.keys() == b.keys()
    assert any(not torch.equal(a[name], b[name]) for name in a)


def test_the_scores_of_a_run_are_those_of_the_model_it_saved(trained: Run, tmp_path: Path) -> None:
    run = finetuned(trained, tmp_path / "out")
    model, _ = models.load(run.folder / "model")
    data = Source().load()
    forget, held = run.ids("forget"), held_out(data.train, 0.2, 6).tolist()
    (tmp_path / "ids.txt").write_text("\n".join(map(str, forget)))
    divided = split(data.train, Forget(f"ids:{tmp_path / 'ids.txt'}"), test=data.test, unseen=held)
    assert divided.manifest == run.record["split"]["manifest"]
    assert evaluate(model, divided).values == run.result.scores.values


def test_only_retraining_takes_over_the_settings_of_training(trained: Run, tmp_path: Path) -> None:
    retrained = scrub(str(trained.folder), THREE, "retrain", {"lr": 0.05}, Place(tmp_path / "retrained"))
    assert retrained.settings == {**METHODS["retrain"].make({}).to_dict(), **TRAINING.to_dict(), "lr": 0.05}
    assert finetuned(trained, tmp_path / "finetuned").settings["batch_size"] == 512


def test_retraining_does_not_depend_on_the_weights_it_replaces(trained: Run, tmp_path: Path) -> None:
    other = train("small", {"width": 4}, Source(), TRAINING, 0.2, Place(tmp_path / "other", seed=99), 6)
    for name, origin in (("a", trained), ("b", other)):
        scrub(str(origin.folder), THREE, "retrain", {"epochs": 1}, Place(tmp_path / name, seed=1))
    a, b = (load_file(tmp_path / name / "model" / "model.safetensors") for name in "ab")
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("x"), MemoryError()], ids=repr)
def test_scrubbing_that_breaks_off_leaves_nothing(error: BaseException, trained: Run, tmp_path: Path) -> None:
    def log(event: Mapping[str, Any]) -> None:
        raise error

    with pytest.raises(type(error)):
        scrub(str(trained.folder), THREE, "finetune", QUICK, Place(tmp_path / "some" / "out"), log=log)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT], ids=["full", "over quota"])
def test_weights_that_cannot_be_written_are_a_failure_in_one_line_that_leaves_nothing(
    reason: int, trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(models, "save_weights", refuse)
    with pytest.raises(FailedError, match=r"the disk under .*some is full; nothing was written\.$") as raised:
        finetuned(trained, tmp_path / "some" / "out")
    assert raised.value.exit_code == 1
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_is_refused_before_any_work(trained: Run, tmp_path: Path) -> None:
    def refuse(event: Mapping[str, Any]) -> None:
        pytest.fail(f"it began to work: {event}")

    (tmp_path / "out").mkdir()
    with pytest.raises(RunError, match="exists already"):
        scrub(str(trained.folder), THREE, "finetune", QUICK, Place(tmp_path / "out"), log=refuse)


def test_data_other_than_what_the_model_was_trained_on_is_refused(trained: Run, tmp_path: Path) -> None:
    fingerprint = trained.record["split"]["fingerprint"]
    source = edited(trained, tmp_path / "other", fingerprint, "0" * len(fingerprint))
    with pytest.raises(DataError, match=r"digits is not the data of .*other: its content differs"):
        scrub(source, THREE, "finetune", QUICK, Place(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_run_needs_its_data_named(trained: Run, tmp_path: Path) -> None:
    source = str(trained.folder / "model")
    assert load_classifier(source).run is None
    with pytest.raises(DataError, match="does not say what it was trained on: name the data with --data"):
        scrub(source, THREE, "finetune", QUICK, Place(tmp_path / "out"))


def test_the_data_that_is_named_goes_before_the_data_of_the_run(trained: Run) -> None:
    subject = load(trained)
    assert subject.named(THREE) == Source(name="digits")
    assert subject.named(replace(THREE, data=Source(name="cifar10"))) == Source(name="cifar10")
    assert subject.named(replace(THREE, key="customer")) == Source(name="digits", key="customer")


@pytest.mark.parametrize("unseen", [-0.1, 1.0, 2.0, float("nan")])
def test_a_share_of_unseen_data_that_is_none_is_refused(unseen: float) -> None:
    shown = "NaN" if unseen != unseen else unseen
    with pytest.raises(SettingError, match=rf"'unseen' must be a share from 0, below 1, not {shown}\.$"):
        Request(Forget("class:3"), unseen=unseen)


def test_a_run_that_did_not_finish_is_not_worked_on(trained: Run, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "run")
    (tmp_path / "run" / "scores.json").unlink()
    with pytest.raises(RunError, match="the run did not finish"):
        load_classifier(str(tmp_path / "run"))


# Scoring


def test_a_scored_model_costs_what_its_training_cost(trained: Run, tmp_path: Path) -> None:
    run = score(load(trained), THREE, Place(tmp_path / "out"))
    assert run.result.seconds == trained.result.seconds
    assert run.result.memory_mib == trained.result.memory_mib
    assert run.method == "original"
    assert run.settings == {}


def test_a_scored_model_of_unknown_origin_has_no_cost(trained: Run, tmp_path: Path) -> None:
    subject = load_classifier(str(trained.folder / "model"))
    run = score(subject, Request(Forget("class:3"), Source()), Place(tmp_path / "out"))
    assert run.result.seconds is None
    assert {"rte", "memory_mib"}.isdisjoint(run.result.values())


def test_a_scored_run_holds_no_model_to_scrub(trained: Run, tmp_path: Path) -> None:
    run = score(load(trained), THREE, Place(tmp_path / "out"))
    with pytest.raises(ModelError, match="is a run without a model; name the run or folder that holds the model"):
        load(run)


# Comparing


def stored(folder: Path, method: str, manifest: str = "m", seconds: float = 1.0, **values: float) -> Run:
    """A run of made-up scores."""
    folder.mkdir()
    record = {
        "verb": "scrub",
        "seed": 0,
        "model": {"source": "x", "origin": "small", "name": "small", "arguments": {}},
        "data": {"name": "digits"},
        "split": {"manifest": manifest, "fingerprint": "0123456789abcdef", "holdout": 0.1},
        "method": {"name": method},
    }
    runs.write_record(folder, record, {"forget": [0]})
    measured = dict.fromkeys(GAP_OVER, 50.0) | values
    runs.write_result(folder, Result(Scores(measured, {}, {}, manifest), seconds, 1.0))
    return runs.read(folder)


def test_comparing_stores_the_gap_the_time_and_the_way_to_the_reference(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", "finetune", seconds=2.0, mia=10.0)
    reference = stored(tmp_path / "reference", "retrain", seconds=8.0, mia=30.0)
    compared = compare(run, reference)
    assert compared == runs.read(tmp_path / "run")
    assert compared.result.values()["avg_gap"] == 5.0
    assert compared.result.values()["rte"] == 0.25
    assert (run.folder / compared.result.reference).resolve() == reference.folder.resolve()


def test_comparing_again_replaces_the_first_comparison(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", "finetune", mia=10.0)
    compare(run, stored(tmp_path / "far", "retrain", mia=90.0))
    compared = compare(runs.read(run.folder), stored(tmp_path / "near", "retrain", mia=14.0))
    assert compared.result.values()["avg_gap"] == 1.0
    assert compared.result.reference == "../near"


def test_a_reference_that_forgot_something_else_is_refused(tmp_path: Path) -> None:
    run, other = stored(tmp_path / "run", "finetune"), stored(tmp_path / "other", "retrain", manifest="n")
    before = content(tmp_path)
    with pytest.raises(NoReferenceError, match="the reference forgot something else: its manifest is n, not m"):
        compare(run, other)
    assert content(tmp_path) == before


def test_the_model_of_a_run_that_forgot_something_is_refused_by_whatever_name(
    trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = finetuned(trained, tmp_path / "run").folder / "model"
    (tmp_path / "link").symlink_to(model)
    monkeypatch.chdir(model)
    for name in (str(model), str(tmp_path / "link"), "."):
        with pytest.raises(ModelError, match="is the model of a run that has forgotten something: name the run, "):
            load_classifier(name)
    assert load_classifier(str(trained.folder / "model")).model


def test_a_model_that_forgot_nothing_is_no_reference(tmp_path: Path) -> None:
    run, original = stored(tmp_path / "run", "finetune"), stored(tmp_path / "original", "original")
    before = content(tmp_path)
    with pytest.raises(NoReferenceError, match="original was not scrubbed or retrained, so it is no reference"):
        compare(run, original)
    assert content(tmp_path) == before


def test_a_reference_without_a_metric_that_the_gap_needs_is_refused(tmp_path: Path) -> None:
    run, reference = stored(tmp_path / "run", "finetune"), stored(tmp_path / "reference", "retrain")
    del reference.result.scores.values["mia"]  # type: ignore[attr-defined]
    before = content(tmp_path)
    with pytest.raises(NoReferenceError, match="needs 'mia', which was not measured on both models"):
        compare(run, reference)
    assert content(tmp_path) == before


# Devices


def test_the_automatic_device_is_one_that_computes() -> None:
    device = Place(Path("out")).torch_device()
    assert torch.ones(2, device=device).sum().item() == 2


def test_a_device_that_is_named_is_used() -> None:
    assert Place(Path("out"), device="cpu").torch_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["abacus", "", "cpu:x", "cuda:99", "meta", "hpu", "mkldnn"])
def test_a_device_that_is_not_here_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingError, match=rf"^there is no device '{name}' here\.$"):
        Place(Path("out"), device=name).torch_device()


def test_a_method_that_leaves_no_numbers_fails_and_writes_nothing(
    trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Diverges(Method):
        def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
            with torch.no_grad():
                next(model.parameters()).fill_(torch.nan)

    monkeypatch.setitem(METHODS, "diverges", Diverges)
    with pytest.raises(FailedError, match="NaN or infinite weights"):
        scrub(str(trained.folder), Request(Forget("class:3")), "diverges", {}, Place(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_retraining_a_scrubbed_run_repeats_the_training_of_the_original(trained: Run, tmp_path: Path) -> None:
    first = scrub(
        str(trained.folder),
        Request(Forget("class:3")),
        "finetune",
        {"epochs": 1},
        Place(tmp_path / "a"),
    )
    again = scrub(str(first.folder), Request(Forget("class:5")), "retrain", {}, Place(tmp_path / "b"))
    assert {k: again.settings[k] for k in trained.settings} == trained.settings


def test_scoring_a_scrubbed_run_keeps_the_name_of_its_method(trained: Run, tmp_path: Path) -> None:
    request = Request(Forget("class:3"))
    scrubbed = scrub(str(trained.folder), request, "finetune", {"epochs": 1}, Place(tmp_path / "a"))
    scored = score(load_classifier(str(scrubbed.folder)), Request(Forget("class:5")), Place(tmp_path / "b"))
    assert (scored.method, scored.settings) == ("finetune", scrubbed.settings)


@pytest.mark.parametrize("change", [{"label": "nosuch"}, {"image": "x"}, {"test": "y"}, {"size": 16}])
def test_digits_has_no_other_columns_splits_or_sizes(change: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="cannot be set for digits"):
        Source(name="digits", **change).load()
