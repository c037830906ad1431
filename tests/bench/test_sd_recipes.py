"""The paper's recipes for Stable Diffusion, run on small files of the same formats, and what they leave."""

import csv
import json
import tomllib
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers import tinyjudges, tinysd
from helpers.commands import cli, done
from scissorhands import runs
from scissorhands.bench.diffusion import PipelineRecipe
from scissorhands.bench.recipe import load
from scissorhands.bench.run import kind_of
from scissorhands.runs.diffusion.judging import Judging
from scissorhands.settings import Settings, to_toml
from scissorhands.tasks import method
from scissorhands.tasks.diffusion.erasure import Erasure

pytestmark = pytest.mark.usefixtures("pipelines_loaded_once")
RECIPES = Path(__file__).parents[2] / "recipes"
NAMES = ["sd-coco-30k", "sd-imagenette", "sd-nudity", "sd-nudity-1k"]
WORDS = ("nudity", "naked", "erotic", "sexual")
MADE = ("scissorhands-diffusion-script", "scissorhands-paper", "salun-diffusion-paper", "salun-diffusion-script")
# As little work as there can be, and all else as the recipe says.
FEWER: dict[str, dict[str, Any]] = {
    "scissorhands-diffusion": {"epochs": 1, "batches": 1},
    "scissorhands": {"epochs": 1},
    "salun-diffusion": {"epochs": 1},
    "esd": {"steps": 1, "inference": 2},
}


def shrunk(name: str, folder: Path) -> Path:
    """The recipe of that name with less work, in a file."""
    recipe: dict[str, Any] = tomllib.loads((RECIPES / f"{name}.toml").read_text())
    for name_of in recipe["methods"]:
        table = recipe[name_of]
        for variant, size in (("paper", 4), ("script", 3)):
            if variant in table:
                table[variant] |= FEWER[name_of] | ({"batch_size": size} if name_of != "esd" else {})
    recipe["drawing"] = {"steps": 1}
    if not recipe["methods"]:
        recipe["compare"] = {key: recipe["compare"][key] for key in ("sd-v2.1", "salun-diffusion-paper", "esd")}
    if "per_prompt" in recipe:
        recipe["per_prompt"] = 2
    if "erasure" in recipe:
        recipe["erasure"] |= {"per_prompt": 1, "inference": 1}
    path = folder / f"{name}.toml"
    path.write_text(to_toml(recipe))
    return path


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the recipes need."""
    folder = tmp_path_factory.mktemp("recipes")
    tinysd.pipeline(blocks=3).save_pretrained(folder / "stable-diffusion-v1-4", safe_serialization=True)
    other = tinysd.pipeline(blocks=3, prediction_type="v_prediction")
    other.save_pretrained(folder / "stable-diffusion-2-1", safe_serialization=True)
    (folder / "i2p_benchmark.csv").write_text(
        "prompt,categories,sd_seed,sd_guidance_scale\na portrait,sexual,7,7.5\na street,violence,9,7\n"
    )
    captions = "".join(f"{n},{n},coco,A bus by a tree number {n}.,{40 + n},{1000 + n}\n" for n in range(5))
    (folder / "coco_30k.csv").write_text(",case_number,source,prompt,evaluation_seed,coco_id\n" + captions)
    tinyjudges.clip(folder / "clip-vit-base-patch32")
    tinyjudges.features(folder / "inception.pt")
    prompts = tomllib.loads((RECIPES / "sd-imagenette.toml").read_text())["prompts"]
    names = [prompt.removeprefix("an image of ").partition(" ")[2] for prompt in prompts]
    tinyjudges.classifier(folder / "imagenet-classifier", [f"{name}, a kind of it" for name in names])
    draw = np.random.default_rng(0)
    for place in ("coco-val2014", "imagenette"):
        (folder / place).mkdir()
        for number in range(len(prompts)):
            pixels = draw.integers(256, size=(12 + number, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / place / f"{number}.jpg")
    tinysd.listing(folder / "imagenette", [(f"{number}.jpg", prompt) for number, prompt in enumerate(prompts)])
    return folder


@pytest.fixture(scope="module")
def bench(beside: Path) -> Callable[[str], Path]:
    """A function that runs a recipe, once, and returns its folder."""

    def made(name: str) -> Path:
        out = beside / "runs" / name
        if not out.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SCISSORHANDS_CACHE", str(beside / "cache"))
                patch.chdir(beside)
                done(f"bench {shrunk(name, beside)} -o runs/{name}")
        return out

    return made


def rows(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The rows of a table by name."""
    return {row["method"]: row for row in json.loads((folder / "table.json").read_text())["rows"]}


def test_every_recipe_for_a_pipeline_is_run_here() -> None:
    found = sorted(path.stem for path in RECIPES.glob("*.toml") if kind_of(load(path)) is PipelineRecipe)
    assert found == NAMES


def test_nudity_is_erased_by_every_method_and_judged_beside_another_pipeline(bench: Callable[[str], Path]) -> None:
    pytest.importorskip("nudenet")
    out = bench("sd-nudity")
    found = rows(out)
    assert list(found)[:2] == ["original", "sd-v2.1"]
    assert {name.split()[0] for name in list(found)[2:]} == {
        *("scissorhands-diffusion-script", "scissorhands-paper", "esd-script"),
        *("salun-diffusion-script", "salun-diffusion-paper"),
    }
    assert len(found) == 7
    assert all("nudity" in row["metrics"] for row in found.values())
    compared = runs.read(out / "compared" / "sd-v2.1" / "judged")
    assert (compared.method, compared.record["model"]["origin"]) == ("sd-v2.1", "stable-diffusion-2-1")
    for label in (*MADE, "esd-script"):
        erased = runs.read(out / "seed-0" / label / "pipeline")
        photo = "a photo of " if label == "scissorhands-diffusion-script" else ""
        assert erased.record["data"]["anchor"] == f"{photo}a person wearing clothes"
        assert tinysd.changed(tinysd.unet(out.parents[1] / "stable-diffusion-v1-4"), tinysd.unet(erased.folder))


def test_the_words_of_the_concept_and_coco_are_drawn_by_the_pipelines_that_forgot(bench: Callable[[str], Path]) -> None:
    pytest.importorskip("nudenet")
    made = bench("sd-nudity")
    for name, images, metrics in (("sd-nudity-1k", 8, {"nudity"}), ("sd-coco-30k", 5, {"fid", "clip"})):
        found = rows(bench(name))
        assert list(found) == ["original", "sd-v2.1", "salun-diffusion", "esd"]
        for row in found.values():
            assert metrics <= row["metrics"].keys(), row["failed"]
        for folder in (bench(name) / "compared").iterdir():
            with (folder / "drawn" / "metadata.csv").open(newline="") as file:
                assert len(list(csv.DictReader(file))) == images
        judged = runs.read(bench(name) / "compared" / "esd" / "judged")
        assert (judged.method, judged.settings) == ("esd", runs.read(made / "seed-0/esd-script/pipeline").settings)


def test_a_class_is_erased_by_every_method_and_salun_takes_it_for_the_next_one(bench: Callable[[str], Path]) -> None:
    out = bench("sd-imagenette")
    for name, row in rows(out).items():
        assert {"ua", "kept_accuracy", "fid", "clip"} <= row["metrics"].keys(), (name, row["failed"])
    for label in (*MADE, "esd-script"):
        anchor = runs.read(out / "seed-0" / label / "pipeline").record["data"]["anchor"]
        assert anchor == ("an image of an English springer" if label.startswith("salun") else "")


def test_a_file_that_is_missing_is_named(beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, missing in {"sd-nudity": "i2p_benchmark.csv", "sd-coco-30k": "coco_30k.csv"}.items():
        answer = cli(f"bench {RECIPES / name}.toml -o out")
        assert (answer.code, len(answer.err.splitlines())) == (2, 1)
        assert missing in answer.err
    answer = cli(f"bench {RECIPES / 'sd-imagenette'}.toml -o out")
    assert "imagenet-classifier" in answer.err
    assert not (tmp_path / "out").exists()


# The published values


def settings(name: str, beside: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    monkeypatch.chdir(beside)
    recipe = PipelineRecipe.read(RECIPES / f"{name}.toml")
    return {entry.label: entry.method.to_dict() for entry in recipe.entries}


def test_nudity_carries_the_published_values(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings("sd-nudity", beside, monkeypatch)
    script = {"trim": 0.005, "balance": 0.1, "lr": 1e-5, "epochs": 5, "batch_size": 16, "weight_decay": 0.0}
    plain = {"batches": 10, "saliency_guidance": 0.0, "init": "kaiming"}
    assert found["scissorhands-diffusion-script"].items() >= (script | plain).items()
    assert found["scissorhands-paper"].items() >= (script | {"reading": "paper", "project": True}).items()
    salun = {"alpha": 0.1, "lr": 1e-5, "salient": 0.5, "saliency_guidance": 7.5}
    assert found["salun-diffusion-script"].items() >= (salun | {"epochs": 1, "batch_size": 8}).items()
    assert found["salun-diffusion-paper"].items() >= (salun | {"epochs": 5, "batch_size": 16}).items()
    assert found["esd-script"].items() >= {"steps": 1000, "lr": 1e-5, "guidance": 3.0, "strength": 1.0}.items()


def test_a_class_carries_the_published_values(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings("sd-imagenette", beside, monkeypatch)
    script = {"trim": 0.001, "balance": 0.1, "lr": 2e-5, "epochs": 3, "batch_size": 8, "batches": 10}
    guided = {"saliency_guidance": 7.5, "init": "truncated"}
    assert found["scissorhands-diffusion-script"].items() >= (script | guided).items()
    salun = {"alpha": 0.5, "lr": 1e-5, "epochs": 5, "batch_size": 8}
    assert found["salun-diffusion-script"].items() >= salun.items()


def test_a_recipe_that_compares_names_the_pipelines_that_sd_nudity_makes(
    beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {f"runs/sd-nudity/seed-0/{label}/pipeline" for label in settings("sd-nudity", beside, monkeypatch)}
    for name in ("sd-nudity-1k", "sd-coco-30k"):
        assert {*PipelineRecipe.read(RECIPES / f"{name}.toml").compare.values()} == made | {"stable-diffusion-2-1"}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_holds_only_differences_from_the_defaults(name: str) -> None:
    recipe = tomllib.loads((RECIPES / f"{name}.toml").read_text())
    usual = {"seeds": [0, 1, 2], "per_prompt": 100, "first_seed": 0, "title": name}
    assert {key: value for key, value in recipe.items() if usual.get(key) == value} == {}
    kinds: dict[str, type[Settings]] = {"erasure": Erasure, "judging": Judging}
    tables = [(kinds[key], recipe[key]) for key in kinds if key in recipe]
    for one in recipe["methods"]:
        tables += [(Erasure if key == "erasure" else method(one), own) for key, own in recipe[one].items()]
    for kind, values in tables:
        defaults = {row["name"]: row["default"] for row in kind.described()}
        assert {key: value for key, value in values.items() if value == defaults[key]} == {}


def test_images_are_as_many_as_the_paper_draws(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(beside)
    wanted = {
        name: PipelineRecipe.read(RECIPES / f"{name}.toml").wanted.values()
        for name in ("sd-nudity-1k", "sd-imagenette")
    }
    assert len(wanted["sd-nudity-1k"]) == 1000
    assert len(wanted["sd-imagenette"]) == 10 * 500
    assert {prompt.text for prompt in wanted["sd-nudity-1k"]} == {*WORDS}


# What a bench leaves beside its table


def test_a_grid_shows_every_pipeline_side_by_side(bench: Callable[[str], Path]) -> None:
    out = bench("sd-imagenette")
    with Image.open(out / "grid.png") as picture:
        pixels = np.asarray(picture)
    assert picture.size[0] == 190 + 6 * 150
    labels = ("original/drawn", *(f"seed-0/{label}/drawn" for label in (*MADE, "esd-script")))
    above = pixels.shape[0] - 12 * 150
    for column, folder in enumerate(labels):
        for row, name in ((0, "000-00000"), (11, "009-00000")):  # two of two prompts, one of the other eight
            with Image.open(out / folder / f"{name}.png") as picture:
                expected = np.asarray(picture.resize((144, 144), Image.Resampling.NEAREST))
            left, top = 190 + 150 * column, above + 150 * row
            assert np.array_equal(pixels[top : top + 144, left : left + 144], expected), (folder, name)
    assert b64encode((out / "grid.png").read_bytes()).decode() in (out / "report.html").read_text()
