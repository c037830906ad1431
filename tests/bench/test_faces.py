"""The recipe for faces, run on a few small ones: folders of identities, a pretrained ResNet, and Grad-CAM."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import ResNetConfig, ResNetForImageClassification

from scissorhands import runs
from scissorhands.bench.classification import bench
from scissorhands.bench.recipe import PAPER, Recipe
from scissorhands.randomness import seeded
from scissorhands.settings import to_toml

RECIPE = Path(__file__).parents[2] / "recipes" / "celebamask-hq-identities-10.toml"
METHODS = ["retrain", "influence", "scissorhands"]  # the others step as they do on any data


@pytest.fixture
def shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """The recipe with small faces, a small network, few methods and one epoch of each."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for part, images in (("train", 6), ("test", 2)):
        for identity in range(4):
            (tmp_path / "faces" / part / f"id{identity}").mkdir(parents=True)
            for number in range(images):
                pixels = draw.integers(256, size=(20, 18, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "faces" / part / f"id{identity}" / f"{number}.png")
    sizes: dict[str, Any] = {"embedding_size": 4, "hidden_sizes": [4] * 4, "depths": [1] * 4, "layer_type": "basic"}
    with seeded(0, "faces"):
        ResNetForImageClassification(ResNetConfig(**sizes, num_labels=10)).save_pretrained(tmp_path / "resnet")
    recipe: dict[str, Any] = tomllib.loads(RECIPE.read_text())
    recipe = {key: value for key, value in recipe.items() if key not in PAPER or key in METHODS}
    recipe |= {"methods": METHODS, "model": "resnet", "forget": "classes:1", "draws": [1], "gradcam": 1}
    recipe["data"] |= {"name": "faces", "size": 32}
    recipe["retrain"]["start"] = "resnet"
    for table in recipe.values():
        for values in (table, *table.values()) if isinstance(table, dict) else ():
            if isinstance(values, dict):
                values |= {key: 1 for key in ("epochs", "samples") if key in values}
    (tmp_path / "recipe.toml").write_text(to_toml(recipe))
    return Recipe.read(tmp_path / "recipe.toml")


def test_the_recipe_for_faces_runs_to_its_table_and_its_pictures(shrunk: Recipe, tmp_path: Path) -> None:
    table = bench(shrunk, tmp_path / "out", "cpu")
    assert [row.method for row in table.rows] == ["original", *(entry.label for entry in shrunk.entries)]
    assert all("avg_gap" in row.metrics for row in table.rows if row.method not in ("original", "retrain"))
    run = runs.read(tmp_path / "out/seed-2/draw-1/scissorhands-script")
    assert run.settings["parameters"] == "*stages.3*, *classifier*"
    assert (tmp_path / "out" / "gradcam.png").stat().st_size > 0
