"""A dry run says what would be run, for how long and with which settings, and writes nothing."""

import json
import re
from pathlib import Path

import pytest

from helpers.commands import cli
from scissorhands.bench.plan import plan
from scissorhands.bench.recipe import Recipe
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
    assert "1 training + 9 runs. Nothing was run or written." in answer.out
    assert "seed-2/draw-3/finetune-script" in answer.out
    assert re.search(r"All steps take about \d+ (s|min) on this machine", answer.out)
    assert "unknown" not in answer.out
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]
    assert "Missing option '-o'" in cli(f"bench {recipe}").err


def test_a_dry_run_says_where_each_setting_comes_from(recipe: Path) -> None:
    rows = json.loads(cli(f"bench {recipe} --dry-run --json").out)["settings"]
    found = {(row["method"], row["setting"]): (row["value"], row["source"]) for row in rows}
    assert found["finetune-paper", "lr"] == (0.1, "paper")
    assert found["finetune-script", "lr"] == (0.01, "script")
    assert found["finetune-paper", "epochs"] == (2, "script")  # which the text does not state
    assert found["finetune-paper", "batch_size"] == (256, "paper")
    assert found["finetune-paper", "momentum"] == (0.9, "script")
    assert found["retrain", "epochs"] == (7, "ours")
    assert found["retrain", "schedule"] == ("cosine", "paper")


def sources(name: str) -> dict[tuple[str, str], str]:
    return {(row["method"], row["setting"]): row["source"] for row in plan(RECIPES / f"{name}.toml", "cpu").settings}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_setting_has_a_source(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "seconds", lambda *_: None)
    assert set(sources(path.stem).values()) <= {"paper", "script", "ours"}


def test_the_sources_of_the_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "seconds", lambda *_: None)
    found = sources("cifar10-random-10")
    stated = {"batch_size", "epochs"}
    by_paper = {
        "retrain": {*stated, "lr", "schedule", "start"},
        "finetune-paper": {*stated, "lr"},
        "ascent-paper": stated,
        "influence-paper": {"batch_size"},
        "shrink-paper": {*stated, "fgsm", "nearest"},
        "expand-paper": stated,
        "l1sparse-paper": {"batch_size", "lr"},
        "salun-paper": stated,
        "scissorhands-paper": {*stated, "reading", "parameters", "sample", "saliency", "init", "project", "every"},
    }
    for method in {method for method, _ in found}:
        assert {name for (m, name), said in found.items() if (m, said) == (method, "paper")} == by_paper.get(
            method, set()
        )
    ours = {key for key, said in found.items() if said == "ours"}
    assert ours == {
        ("influence-paper", "alpha"),
        ("influence-paper", "curvature"),
        ("influence-paper", "damping"),
        ("influence-paper", "iterations"),
        ("influence-paper", "samples"),
        ("influence-script", "damping"),
        ("influence-script", "iterations"),
    }


def test_the_sources_of_the_experiment_with_nudity() -> None:
    found = sources("sd-nudity")
    assert {said for (method, _), said in found.items() if method.endswith("-script")} == {"script"}
    assert (found["scissorhands-paper", "lr"], found["scissorhands-paper", "trim"]) == ("paper", "script")
    assert found["salun-diffusion-paper", "batch_size"] == "paper"


def test_settings_of_a_recipe_without_variants_are_ours() -> None:
    assert set(sources("digits-random-10").values()) == {"ours"}


def test_the_time_is_that_of_all_steps(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is on 16 records; what a method passes over the data to forget counts as that."""
    seconds = iter(range(100))  # a second for every step
    monkeypatch.setattr("scissorhands.bench.pace.time.perf_counter", lambda: float(next(seconds)))
    recipe.write_text(TEXT.replace('"finetune"]', '"finetune", "ascent"]') + "[ascent]\nepochs = 5")
    records = len(Source().load().train)
    trained = records - round(0.1 * records)
    forgotten = trained * round(0.1 * records) / records
    passed = 7 * trained + 3 * ((7 + 2 + 2) * (trained - forgotten) + 5 * forgotten)
    assert plan(recipe, "cpu").seconds == pytest.approx(passed / 16)


def test_how_long_pipelines_take_is_unknown(tmp_path: Path) -> None:
    assert "How long it takes is unknown." in cli(f"bench {RECIPES / 'sd-nudity.toml'} --dry-run").out


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
