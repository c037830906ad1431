"""Settings are searched on other records than those to forget, in a study that can be resumed and shared."""

import json
import sys
import tomllib
from pathlib import Path

import optuna
import pytest
import torch
from optuna.storages.journal import JournalFileBackend
from torch import nn

import scissorhands as sh
from helpers.commands import Answer, cli, done
from scissorhands import runs
from scissorhands.methods.parameters import snapshot
from scissorhands.runs.tune import Search, Study, Tuned

QUICK = "--set batch_size=256"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tune") / "trained"
    done(f"train --model small --model-set width=4 --set epochs=5 --set lr=0.05 --set batch_size=64 -o {place}")
    return place


def tune(trained: Path, output: Path, trials: int, more: str = "") -> Answer:
    return cli(
        f"tune {trained} --forget random:10% --method finetune {QUICK} --trials {trials} -o {output} --json {more}"
    )


@pytest.fixture(scope="module")
def tuned(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "out"
    assert tune(trained, folder, 3).code == 0
    return folder


def trials(folder: Path) -> list[optuna.trial.FrozenTrial]:
    """The trials of the one study in a folder."""
    backend = JournalFileBackend(str(folder / "study.journal"))
    storage = optuna.storages.JournalStorage(backend)
    (name,) = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage).trials


def test_the_defaults_are_tried_first_and_the_best_is_kept(tuned: Path) -> None:
    found = Tuned.read(tuned / "tuned.toml")
    tried = trials(tuned)
    assert tried[0].params == {"lr": sh.FineTune().lr, "epochs": sh.FineTune().epochs}
    assert [trial.value is not None for trial in tried] == [True] * 3
    assert found.estimate == min(trial.value for trial in tried if trial.value is not None)
    assert found.settings["batch_size"] == 256
    assert 5 <= found.settings["epochs"] <= 20
    assert found.trials == 3
    assert found.seconds == pytest.approx(sum(trial.user_attrs["seconds"] for trial in tried))


def test_trials_that_are_there_count(trained: Path, tuned: Path) -> None:
    before = (tuned / "tuned.toml").read_text()
    assert tune(trained, tuned, 3).code == 0
    assert (tuned / "tuned.toml").read_text() == before
    assert json.loads(tune(trained, tuned, 4).out)["trials"] == 4
    assert len(trials(tuned)) == 4


def test_a_study_is_shared_by_its_storage(trained: Path, tuned: Path, tmp_path: Path) -> None:
    there = len(trials(tuned))
    answer = tune(trained, tmp_path / "other", there, f"--storage {tuned / 'study.journal'}")
    assert json.loads(answer.out) == tomllib.loads((tmp_path / "other" / "tuned.toml").read_text())
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["tuned.toml"]
    assert len(trials(tuned)) == there  # the other machine had none left to do


def test_the_printed_commands_use_what_was_found(trained: Path, tuned: Path, tmp_path: Path) -> None:
    asked = f"tune {trained} --forget random:10% --method finetune {QUICK} --trials 3 -o {tuned}"
    lines = cli(asked).out.splitlines()
    by_hand, by_file = (line.split(maxsplit=1)[1].split(" -o …")[0] for line in lines[-2:])
    for number, command in enumerate((by_hand, by_file)):
        answer = cli(command.removeprefix("scissorhands "), "-o", str(tmp_path / str(number)))
        assert answer.code in (0, 3), answer.err
    first, second = (runs.read(tmp_path / name) for name in "01")
    assert first.settings == second.settings
    assert {**first.settings, **Tuned.read(tuned / "tuned.toml").settings} == first.settings
    assert "tuning" not in first.record


def test_a_run_with_tuned_settings_says_what_the_choice_cost(trained: Path, tuned: Path, tmp_path: Path) -> None:
    done(f"scrub {trained} --forget random:10% --method retrain --set epochs=2 -o {tmp_path}/retrained")
    done(f"scrub {trained} --forget random:10% --tuned {tuned}/tuned.toml -o {tmp_path}/out")
    done(f"evaluate {tmp_path}/out --against {tmp_path}/retrained")
    run, found = runs.read(tmp_path / "out"), Tuned.read(tuned / "tuned.toml")
    assert run.record["tuning"] == found.cost()
    values, retrained = run.result.values(), runs.read(tmp_path / "retrained").result.seconds
    assert run.result.tried == found.trials
    assert values["tuning"] == pytest.approx(found.seconds / (retrained or 0))
    assert values["rte_tuned"] == pytest.approx(values["rte"] + values["tuning"])
    assert "RTE with tuning" in cli(f"report {tmp_path}/out -o {tmp_path}/report.html").out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--set lr=0.1", "leave out --set"),
        ("--method ascent", "is of --method finetune"),
    ],
)
def test_tuned_settings_are_taken_as_they_are(more: str, says: str, trained: Path, tuned: Path, tmp_path: Path) -> None:
    answer = cli(f"scrub {trained} --forget random:10% --tuned {tuned}/tuned.toml {more} -o {tmp_path}/out")
    assert (answer.code, says in answer.err, list(tmp_path.iterdir())) == (2, True, [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("method = 3", "needs 'settings'"),
        ("method = 'finetune'\nsettings = {}\ntrials = 0\nseconds = 1.0\nestimate = 1.0", "'trials' must be"),
        ("method = 'finetune'\nsettings = {lrr = 1}\ntrials = 1\nseconds = 1.0\nestimate = 1.0", "no setting 'lrr'"),
        ("method = 'a:B'\nsettings = {}\ntrials = 1\nseconds = 1.0\nestimate = 1.0", "is of --method a:B"),
        ("method = ", "cannot be read as TOML"),
    ],
)
def test_a_file_that_holds_no_tuned_settings_is_refused(text: str, says: str, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "tuned.toml").write_text(text)
    answer = cli(f"scrub {trained} --forget random:10% --tuned {tmp_path}/tuned.toml -o {tmp_path}/out")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert says in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--storage nosuchdb://x", "the trials cannot be kept in nosuchdb://x"),
        ("--set lr=0.1 --set epochs=2", "has no setting left to search"),
        ("--set lrr=0.1", "has no setting 'lrr'"),
    ],
)
def test_a_search_that_cannot_begin_is_refused(more: str, says: str, trained: Path, tmp_path: Path) -> None:
    answer = tune(trained, tmp_path / "out", 1, more)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert says in answer.err
    assert not list(tmp_path.rglob("*.toml"))


def test_without_optuna_it_says_how_to_get_it(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    answer = tune(trained, tmp_path / "out", 1)
    assert answer.code == 2
    assert "Get it with: pip install 'scissorhands[tune]'" in answer.err
    assert not (tmp_path / "out").exists()


def test_a_method_that_always_diverges_is_told(trained: Path, tmp_path: Path) -> None:
    answer = tune(trained, tmp_path / "out", 1, "--set lr=1e20")
    assert (answer.code, "diverged in every trial" in answer.err) == (1, True)


def test_hopeless_trials_are_given_up_and_the_model_stays_as_it_was(
    mlp: nn.Module, problem: sh.Problem, tmp_path: Path
) -> None:
    before = snapshot(mlp)
    search = Search(mlp, problem, "ascent", sh.GradientAscent(lr=0.01, epochs=8, batch_size=4), {"epochs": 8}, "")
    found = search.carry_out(Study(folder=tmp_path, trials=14), optuna)
    values = [trial.value for trial in trials(tmp_path) if trial.state == optuna.trial.TrialState.COMPLETE]
    assert 5 <= len(values) < found.trials == 14
    assert found.estimate == min(value for value in values if value is not None)
    assert all(torch.equal(before[name], value) for name, value in snapshot(mlp).items())
