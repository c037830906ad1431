"""A dry run says what would be run, for how long and with which settings, and writes nothing."""

import json
from pathlib import Path

import pytest

from helpers.commands import cli
from scissorhands.bench.plan import plan
from scissorhands.data.sources import Source

RECIPES = Path(__file__).parents[2] / "recipes"
TEXT = """
data = "digits"
model = "small"
forget = "random:10%"
seeds = [2]
draws = [1, 2, 3]
methods = ["retrain", "finetune"]
[training]
epochs = 7
[finetune]
epochs = 2
[finetune.paper]
lr = 0.1
[finetune.script]
lr = 0.01
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(TEXT)
    return path


def test_a_dry_run_says_everything_and_writes_nothing(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    answer = cli(f"bench {recipe} --dry-run")
    assert answer.code == 0
    assert "12 runs. Nothing was run or written." in answer.out
    assert "seed-2/draw-3/finetune-script" in answer.out
    assert "All steps take about 1 min" in answer.out
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]
    assert "Missing option '-o'" in cli(f"bench {recipe}").err


def test_a_dry_run_says_where_each_setting_comes_from(recipe: Path) -> None:
    rows = json.loads(cli(f"bench {recipe} --dry-run --json").out)["settings"]
    found = {(row["method"], row["setting"]): (row["value"], row["source"]) for row in rows}
    assert found["finetune-paper", "lr"] == (0.1, "paper")
    assert found["finetune-script", "lr"] == (0.01, "script")
    assert found["finetune-script", "epochs"] == (2, "paper and script")
    assert found["finetune-paper", "batch_size"] == (256, "default")
    assert found["retrain", "epochs"] == (7, "training")
    assert found["retrain", "start"] == ("", "default")


def test_the_time_is_that_of_all_steps(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100))  # a second for every step
    monkeypatch.setattr("scissorhands.bench.pace.time.perf_counter", lambda: float(next(seconds)))
    records = len(Source().load().train)
    trained = records - round(0.1 * records)
    passes = 7 + 3 * (7 + 2 + 2)
    assert plan(recipe, "cpu").seconds == pytest.approx(trained / 256 * passes)


@pytest.mark.parametrize("name", ["cifar10-random-10", "celebamask-hq-identities-10", "sd-nudity", "sd-imagenette"])
def test_a_dry_run_names_what_is_missing(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SCISSORHANDS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    planned = plan(RECIPES / f"{name}.toml", "cpu")
    assert planned.seconds is None
    assert planned.runs
    expected = {
        "cifar10-random-10": ["the data cifar10"],
        "celebamask-hq-identities-10": ["celebamask-hq is not on the hub", "the model microsoft/resnet-34"],
        "sd-nudity": ["stable-diffusion-v1-4", "stable-diffusion-2-1", "i2p_benchmark.csv"],
        "sd-imagenette": ["stable-diffusion-v1-4", "imagenette", "imagenet-classifier", "inception.pt", "clip-vit"],
    }[name]
    assert [one for start in expected for one in planned.missing if one.startswith(start)] == planned.missing
