"""--log: the real libraries, without a network."""

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers.commands import cli, done
from scissorhands import choices, runs
from scissorhands.cli.tracking import TRACKERS, TensorBoard

QUICK = "--data digits --model small --model-set width=4 --set epochs=1 --set batch_size=128"
RECIPE = """
data = "digits"
model = "small"
model_set = {width = 4}
forget = "class:3"
methods = ["finetune"]
seeds = [0]
training = {epochs = 1, batch_size = 256}
finetune = {epochs = 1, batch_size = 256}
"""


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not importlib.util.find_spec(name), reason=f"{name} is not installed")


def scalars(folder: Path) -> Mapping[str, list[tuple[int, float]]]:
    """What TensorBoard reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}


def test_the_help_names_every_tracker() -> None:
    assert [*TRACKERS] == [*choices.TRACKERS]


def test_tensorboard_has_the_losses_of_every_step_and_the_scores(tmp_path: Path) -> None:
    done(f"train {QUICK} --log tensorboard -o {tmp_path}/run")
    found, run = scalars(tmp_path / "tensorboard/run"), runs.read(tmp_path / "run")
    events = (tmp_path / "run/log.jsonl").read_text().splitlines()
    assert [step for step, _ in found["train/retain"]] == [*range(1, len(events) + 1)]
    assert found["scores/test_accuracy"][0][1] == pytest.approx(run.result.scores["test_accuracy"])


def test_every_run_of_a_bench_is_a_run_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    done(f"bench {tmp_path}/recipe.toml --log tensorboard -o {tmp_path}/bench")
    folder = tmp_path / "tensorboard/bench/seed-0"
    assert {path.name for path in folder.iterdir()} == {"trained", "finetune"}
    assert "finetune/retain" in scalars(folder / "finetune")
    assert "scores/forget_accuracy" in scalars(folder / "finetune")


def test_a_mistake_leaves_nothing(tmp_path: Path) -> None:
    assert cli(f"train {QUICK} --set lrr=1 --log tensorboard -o {tmp_path}/run").code == 2
    assert cli(f"scrub {tmp_path}/absent --forget class:3 --log tensorboard -o {tmp_path}/run").code == 2
    assert not [*tmp_path.iterdir()]


def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scissorhands.cli.tracking.import_module", _missing)
    answer = cli(f"train {QUICK} --log wandb -o {tmp_path}/run")
    assert (answer.code, answer.err) == (2, "error: --log wandb needs a package: pip install 'scissorhands[wandb]'.\n")
    assert not [*tmp_path.iterdir()]


def test_a_tracker_that_goes_away_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(TensorBoard, "write", gone)
    answer = done(f"train {QUICK} --log tensorboard -o {tmp_path}/run")
    assert answer.err.count("warning: --log tensorboard has stopped: the server is gone") == 1
    assert runs.is_run(tmp_path / "run")


def _missing(name: str) -> None:
    raise ImportError(name)


@needs("mlflow")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlruns")
    refused = cli(f"train {QUICK} --log mlflow -o {tmp_path}/run")  # as a server would that is not there
    assert refused.code == 1
    assert "--log: MLflow does not work: The filesystem" in refused.err
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    done(f"train {QUICK} --log mlflow -o {tmp_path}/run")
    (found,) = mlflow.search_runs(experiment_names=["scissorhands"], output_format="list")
    assert found.info.status == "FINISHED"
    expected = runs.read(tmp_path / "run").result.scores["test_accuracy"]
    assert found.data.metrics["scores/test_accuracy"] == pytest.approx(expected)
    assert len(mlflow.MlflowClient().get_metric_history(found.info.run_id, "train/retain")) > 1


@needs("wandb")
@pytest.mark.filterwarnings("ignore")
def test_wandb_has_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    done(f"train {QUICK} --log wandb -o {tmp_path}/run")
    (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + 30  # another process writes it, and may do so after the run is finished
    while b"scores/test_accuracy" not in kept.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert b"scores/test_accuracy" in kept.read_bytes()
