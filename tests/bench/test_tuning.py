"""A recipe may tune its methods: on an original and a draw that no row is about, each by as many trials."""

import json
from pathlib import Path

import pytest

from helpers.commands import cli
from scissorhands import runs
from scissorhands.bench.classification import bench
from scissorhands.bench.recipe import TUNING, Recipe
from scissorhands.runs.tune import Tuned

TEXT = """
data = "digits"
model = "small"
model_set = {width = 4}
forget = "random:10%"
seeds = [0, 1]
methods = ["retrain", "finetune", "l1sparse"]
tune = 2
untuned = ["l1sparse"]
[training]
epochs = 3
[finetune]
batch_size = 512
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished bench of the recipe, beside it."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "recipe.toml").write_text(TEXT)
    bench(Recipe.read(folder / "recipe.toml"), folder / "out", "cpu")
    return folder / "out"


def test_every_method_is_tuned_once_for_all_seeds(made: Path) -> None:
    found = Tuned.read(made / "tuning" / "finetune" / "tuned.toml")
    assert found.trials == 2
    assert not (made / "tuning" / "l1sparse").exists()
    for seed in (0, 1):
        tuned = runs.read(made / f"seed-{seed}" / "finetune")
        assert {**tuned.settings, **found.settings} == tuned.settings
        assert tuned.record["tuning"] == found.cost()
        assert (tuned.result.tried, tuned.result.tuning_seconds) == (2, found.seconds)
        assert tuned.settings["batch_size"] == 512
        for name in ("l1sparse", "retrain"):
            assert "tuning" not in runs.read(made / f"seed-{seed}" / name).record


def test_the_table_shows_the_cost_with_and_without_tuning(made: Path) -> None:
    rows = {row["method"]: row["metrics"] for row in json.loads((made / "table.json").read_text())["rows"]}
    assert rows["finetune"]["rte_tuned"]["mean"] > rows["finetune"]["rte"]["mean"]
    assert "rte_tuned" not in rows["l1sparse"]
    assert "RTE with tuning" in (made / "report.html").read_text()


def test_nothing_that_is_reported_is_tuned_on(made: Path) -> None:
    assert runs.read(made / "tuning" / "trained").record["seed"] == TUNING
    assert {path.parent.name for path in made.glob("*/trained")} == {"seed-0", "seed-1", "tuning"}


def test_a_tuned_bench_goes_on_where_it_stopped(made: Path) -> None:
    recipe, first = Recipe.read(made.parent / "recipe.toml"), (made / "table.json").read_text()
    tuned = made / "tuning" / "finetune" / "tuned.toml"
    found = tuned.read_text()
    (made / "table.json").unlink()
    tuned.unlink()
    bench(recipe, made, "cpu")
    assert (made / "table.json").read_text() == first
    assert tuned.read_text() == found  # from the trials that are there


def test_a_dry_run_counts_trials(made: Path) -> None:
    recipe = made.parent / "recipe.toml"
    planned = json.loads(cli(f"bench {recipe} --dry-run --json").out)
    assert planned["count"] == "3 trainings + 6 runs + 2 trials that choose settings"
    rows = {(row["method"], row["setting"]): row for row in planned["settings"]}
    assert rows["finetune", "epochs"]["value"] == "5 to 20"
    assert rows["finetune", "epochs"]["source"] == "searched"
    assert rows["finetune", "batch_size"]["value"] == 512
    assert rows["l1sparse", "epochs"]["source"] == "ours"


def test_what_is_not_drawn_is_tuned_on_other_classes(tmp_path: Path) -> None:
    text = TEXT.replace("random:10%", "class:3").replace("[0, 1]", "[0]").replace("tune = 2", "tune = 1")
    (tmp_path / "recipe.toml").write_text(text)
    bench(Recipe.read(tmp_path / "recipe.toml"), tmp_path / "out", "cpu")
    assert Tuned.read(tmp_path / "out" / "tuning" / "finetune" / "tuned.toml").trials == 1
    assert runs.read(tmp_path / "out" / "seed-0" / "finetune").result.tried == 1
