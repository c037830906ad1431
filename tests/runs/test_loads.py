"""How often a command loads data and models: each once."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers import tinyjudges, tinysd
from helpers.commands import done
from scissorhands.data import sources
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.task import Classification
from scissorhands.tasks.diffusion import pictures
from scissorhands.tasks.diffusion import task as diffusion

TRAIN = "train --model small --model-set width=2 --data digits --set epochs=1 --set batch_size=512"
STANDARD = "--level standard --set references=1 --set relearn=1"
RECIPE = """
data = "digits"
model = "small"
forget = "random:10%"
methods = ["finetune", "ascent"]
seeds = [0, 1]
model_set.width = 2
training = {epochs = 1, batch_size = 512}
finetune = {epochs = 1, batch_size = 512}
ascent = {epochs = 1, batch_size = 512}
"""
PIPELINE = """
pipeline = "{source}"
forget = "concept:three"
prompts = ["a three", "a four"]
per_prompt = 1
methods = ["ascent"]
seeds = [0, 1]
erasure.data = "{data}"
drawing.steps = 1
ascent = {{epochs = 1, lr = 1e-3, batch_size = 16}}
judging.classifier = "{classifier}"
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run, and one of it that forgot a class."""
    folder = tmp_path_factory.mktemp("loads")
    done(f"{TRAIN} -o {folder}/trained")
    done(f"scrub {folder}/trained --forget class:3 --method finetune --set epochs=1 --untrained -o {folder}/three")
    return folder


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter[str]:
    """How often data and models were loaded, and models measured."""
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[what] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, name, counting)

    count(sources, "_digits", "data")
    count(pictures, "read", "images read")
    count(diffusion, "encoded", "images encoded")
    count(models, "load", "model")
    count(Classification, "measure", "measured")
    return counted


def test_scrub_loads_data_and_model_once(world: Path, loads: Counter[str], tmp_path: Path) -> None:
    done(f"scrub {world}/three --forget class:4 --method finetune --set epochs=1 --untrained -o {tmp_path}/out")
    assert loads == {"data": 1, "model": 1, "measured": 1}


def test_an_evaluation_loads_data_and_model_once(world: Path, loads: Counter[str], tmp_path: Path) -> None:
    done(f"evaluate {world}/trained --forget random:10% {STANDARD} --pictures -o {tmp_path}/out")
    assert loads == {"data": 1, "model": 1, "measured": 1}


def test_a_deeper_look_at_a_run_loads_data_and_model_once(world: Path, loads: Counter[str]) -> None:
    done(f"evaluate {world}/three {STANDARD}")
    assert loads == {"data": 1, "model": 1}


def test_pictures_need_the_model_as_it_was_before_too(world: Path, loads: Counter[str]) -> None:
    done(f"evaluate {world}/three {STANDARD} --pictures")
    assert loads == {"data": 1, "model": 2}


def test_a_dry_run_loads_once_and_measures_nothing(world: Path, loads: Counter[str]) -> None:
    done(f"evaluate {world}/trained --forget random:10% {STANDARD} --dry-run")
    assert loads == {"data": 1, "model": 1}


def test_a_bench_loads_and_hashes_its_data_once(loads: Counter[str], tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    done(f"bench {tmp_path}/recipe.toml --level quick -o {tmp_path}/out")
    assert loads["data"] == 1
    assert loads["model"] == 6  # for each seed the original and two that a method changes


@pytest.mark.usefixtures("pipelines_loaded_once")
def test_a_bench_reads_and_encodes_the_images_of_a_pipeline_once(loads: Counter[str], tmp_path: Path) -> None:
    """What comes of it is what each run makes that reads them itself."""
    source, data = tinysd.source(tmp_path), tinysd.photographs(tmp_path)
    tinyjudges.classifier(tmp_path / "resnet", ["three", "four"])
    (tmp_path / "recipe.toml").write_text(
        PIPELINE.format(source=source, data=data, classifier=tmp_path / "resnet"), encoding="utf-8"
    )
    done(f"bench {tmp_path}/recipe.toml -o {tmp_path}/out")
    assert {name: loads[name] for name in ("images read", "images encoded")} == {"images read": 1, "images encoded": 1}
    more = "--set epochs=1 --set lr=1e-3 --set batch_size=16 --seed 1"
    done(f"scrub {source} --forget concept:three --data {data} --method ascent {more} -o {tmp_path}/alone")
    assert loads["images read"] == 2
    together = tinysd.unet(tmp_path / "out" / "seed-1" / "ascent" / "pipeline")
    assert tinysd.changed(together, tinysd.unet(tmp_path / "alone")) == set()
