"""The recipes of the paper carry its values and those of its published scripts, each by its name.

The paper gives most learning rates as ranges. There the scripts' value is used, if it lies in the range.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from scissorhands.bench.diffusion import PipelineRecipe
from scissorhands.bench.recipe import PAPER, Recipe
from scissorhands.bench.run import read as read_any

RECIPES = Path(__file__).parents[2] / "recipes"
ALL, LAST, FACES = "*layer3*, *layer4*, *fc*", "*layer4*, *fc*", "*stages.3*, *classifier*"

# By the scripts: epochs of GA, alpha of IU, rate of BS and BE, gamma of l1-sparse, rate and share of SalUn; of
# Scissorhands rate, trim (one minus sparsity), balance, scope, how often it projects, and records in D_f.
SCRIPTS: dict[str, tuple[Any, ...]] = {
    "cifar10-random-10": (5, 10, 1e-6, 1e-4, (5e-3, 0.5), (5e-3, 0.03, 0.05, ALL, 1), 4500),
    "cifar10-random-20": (5, 10, 1e-6, 1e-4, (5e-3, 0.4), (4e-3, 0.01, 0.01, ALL, 1), 9000),
    "cifar10-random-50": (5, 10, 5e-6, 1e-4, (5e-2, 0.2), (1e-3, 0.03, 0.01, ALL, 10), 22500),
    "cifar100-random-10": (5, 20, 1e-6, 1e-4, (5e-3, 0.5), (5e-3, 0.01, 1.0, LAST, 1), 4500),
    "cifar100-random-20": (5, 5, 1e-6, 1e-4, (5e-3, 0.5), (5e-3, 0.01, 1.0, LAST, 1), 9000),
    "cifar100-random-50": (10, 2, 1e-5, 2e-4, (1e-2, 0.5), (1e-3, 0.1, 0.01, LAST, 1), 22500),
    "svhn-random-10": (5, 15, 1e-6, 1e-4, (5e-3, 0.5), (1e-3, 0.1, 0.01, ALL, 1), 6593),
    "svhn-random-20": (5, 5, 1e-6, 1e-4, (5e-3, 0.5), (1e-3, 0.1, 0.01, ALL, 1), 13186),
    "svhn-random-50": (5, 5, 1e-6, 1e-4, (5e-3, 0.5), (1e-3, 0.1, 0.01, ALL, 1), 32966),
    "svhn-class": (5, 2, 1e-6, 1e-4, (5e-2, 0.5), (1e-3, 0.1, 0.1, LAST, 1), 4454),
    "celebamask-hq-identities-10": (3, 5, 1e-5, 1e-3, (3e-3, 0.5), (2e-4, 0.05, 0.5, FACES, 10), 400),
    "celebamask-hq-identities-50": (3, 5, 1e-5, 1e-3, (3e-3, 0.5), (2e-4, 0.05, 0.5, FACES, 10), 2000),
}
TRAINED = {"cifar10": (182, 0.1, 256), "cifar100": (160, 0.1, 256), "svhn": (50, 0.1, 256), "celebamask": (10, 1e-3, 8)}


def read(name: str) -> tuple[Recipe, dict[str, dict[str, Any]]]:
    """Read a recipe, and the settings of its methods by their labels."""
    recipe = Recipe.read(RECIPES / f"{name}.toml")
    return recipe, {entry.label: entry.method.to_dict() for entry in recipe.entries}


def of(settings: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(settings[name] for name in names)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_recipe_of_the_paper_has_every_value_of_the_text_and_of_the_script(name: str) -> None:
    recipe, found = read(name)
    ascent, alpha, boundary, gamma, salun, (lr, trim, balance, scope, every), records = SCRIPTS[name]
    faces = name.startswith("celeba")
    epochs, rate, batch = TRAINED[name.split("-")[0]]
    assert of(recipe.training.to_dict(), "epochs", "lr", "batch_size", "schedule") == (epochs, rate, batch, "cosine")
    assert {name: found["retrain"][name] for name in recipe.training.to_dict()} == recipe.training.to_dict()
    assert {settings["batch_size"] for settings in found.values()} == {batch}
    stepping = [settings for settings in found.values() if "momentum" in settings]
    assert {of(settings, "momentum", "weight_decay") for settings in stepping} == {(0.9, 5e-4)}
    assert {entry.name for entry in recipe.entries if "momentum" not in entry.method.to_dict()} == {"influence"}
    assert list(dict.fromkeys(entry.name for entry in recipe.entries)) == list(PAPER)

    passes = 5 if faces else 10
    assert of(found["finetune-paper"], "epochs", "lr") == (passes, 1e-4 if faces else 0.1)
    if not faces:  # there, the scripts say what the paper says
        assert of(found["finetune-script"], "epochs", "lr") == (10, 0.01)
    assert of(found["ascent-script"], "epochs", "lr") == (ascent, 1e-4)
    if ascent == 10:
        assert of(found["ascent-paper"], "epochs", "lr") == (5, 1e-4)
    assert of(found["influence-paper"], "alpha", "curvature") == (1.0, "fisher")
    assert of(found["influence-script"], "alpha", "curvature", "samples") == (alpha, "woodfisher", 1000)
    assert of(found["shrink-paper"], "epochs", "lr", "fgsm", "nearest") == (passes, boundary, 0.1, "wrong")
    assert of(found["shrink-script"], "epochs", "lr", "fgsm", "nearest") == (passes, boundary, 0.1, "argmax")
    assert of(found["expand-paper"], "epochs", "lr") == (passes, boundary)
    assert of(found["l1sparse-paper"], "epochs", "gamma", "lr") == (passes, 1e-4, 0.1)
    shorter = (3, gamma, 1e-3) if faces else (10, gamma, 0.01)
    assert of(found["l1sparse-script"], "epochs", "gamma", "lr") == shorter
    assert of(found["salun-script"], "lr", "salient", "epochs") == (*salun, passes)
    assert of(found["salun-script"], "labels", "order") == (
        "redrawn",
        "sequential" if name.startswith("svhn") else "mixed",
    )
    if faces:  # the script leaves the paper's range
        assert of(found["salun-paper"], "lr", "salient") == (5e-3, 0.2)

    for variant, reading in (("paper", "paper"), ("script", "published")):
        ours = found[f"scissorhands-{variant}"]
        assert of(ours, "lr", "trim", "balance", "epochs", "reading") == (lr, trim, balance, passes, reading)
        assert of(ours, "init", "saliency", "project") == ("uniform", "connection", True)
    assert of(found["scissorhands-paper"], "parameters", "every", "sample") == ("*", 1, 1.0)
    script = found["scissorhands-script"]
    assert of(script, "parameters", "every") == (scope, every)
    assert round(script["sample"] * records) == batch  # one batch is scored


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_recipe_of_the_paper_has_one_original_and_four_draws(name: str) -> None:
    recipe, _ = read(name)
    assert (recipe.seeds, recipe.split_seed, recipe.holdout) == ([2], 0, 0.1)
    assert (recipe.method_seeds if name == "svhn-class" else recipe.draws) == [1, 2, 3, 4]
    shares = {"10": "random:10%", "20": "random:20%", "50": "random:50%", "class": "class:0"}
    faces = {"celebamask-hq-identities-10": "classes:30", "celebamask-hq-identities-50": "classes:153"}
    assert recipe.forget == faces.get(name, shares[name.split("-")[-1]])


def test_the_published_training_is_a_recipe_too() -> None:
    recipe, found = read("cifar10-random-10-multistep")
    assert of(recipe.training.to_dict(), "epochs", "lr", "schedule") == (182, 0.1, "multistep")
    assert found["retrain"]["schedule"] == "multistep"
    _, usual = read("cifar10-random-10")
    assert {label: usual[label] for label in found if label != "retrain"} == {
        label: settings for label, settings in found.items() if label != "retrain"
    }


@pytest.mark.parametrize(
    ("name", "setting", "values"),
    [
        ("sweep-trim", "trim", [0.01, 0.02, 0.03, 0.05, 0.1, 0.2]),
        ("sweep-balance", "balance", [0.01, 0.03, 0.05, 0.1, 0.5, 1.0]),
        ("sweep-sample", "sample", [0.05, 0.1, 0.25, 0.5, 1.0]),
    ],
)
def test_a_sweep_changes_one_setting_of_table_1(name: str, setting: str, values: list[float]) -> None:
    _, usual = read("cifar10-random-10")
    recipe, _ = read(name)
    for variant in ("paper", "script"):
        swept = [entry.method.to_dict() for entry in recipe.entries if entry.variant == variant]
        assert [one[setting] for one in swept] == values
        rest = {key: value for key, value in usual[f"scissorhands-{variant}"].items() if key != setting}
        assert all({**one, **rest} == one for one in swept)


def test_the_ablation_is_every_combination_of_projection_and_initialization() -> None:
    recipe, _ = read("ablation-projection-and-init")
    for variant in ("paper", "script"):
        found = {of(e.method.to_dict(), "project", "init") for e in recipe.entries if e.variant == variant}
        assert found == {(project, init) for project in (True, False) for init in ("uniform", "normal", "zero", "one")}


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_overhead_is_measured_at_a_level_that_relearns(name: str) -> None:
    recipe, found = read(f"overhead-{name}")
    _, usual = read(f"{name}-random-10")
    assert recipe.level == "standard"
    assert {label: usual[label] for label in found} == found


def test_the_page_about_the_paper_names_every_recipe_and_no_other() -> None:
    named = set(re.findall(r"recipes/([\w-]+)\.toml", (RECIPES.parent / "docs" / "paper.md").read_text()))
    assert named == {path.stem for path in RECIPES.glob("*.toml")}


def test_the_page_about_the_paper_has_a_recipe_for_each_of_its_tables_and_figures() -> None:
    named: dict[str, list[str]] = {}
    for line in re.split(r"\n(?=[|-])", (RECIPES.parent / "docs" / "paper.md").read_text()):
        if found := re.match(r"(?:\| |- \*\*)(Table|Figure)s? ([\d and]+),", line):
            for number in found[2].split(" and "):
                named.setdefault(f"{found[1]} {number}", []).extend(re.findall(r"recipes/([\w-]+)\.toml", line))
    assert named.keys() == {f"Table {n}" for n in range(1, 10)} | {f"Figure {n}" for n in range(1, 9)}
    assert all(named.values())
    faces = [Recipe.read(RECIPES / f"{name}.toml") for n in (1, 5) for name in named[f"Figure {n}"]]
    assert all(recipe.gradcam for recipe in faces)
    for name in named["Figure 8"]:
        assert PipelineRecipe.read(RECIPES / f"{name}.toml").judging.flagged


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_builds(path: Path) -> None:
    recipe = read_any(path)
    assert recipe.entries or (isinstance(recipe, PipelineRecipe) and recipe.compare)


def test_the_numbers_on_the_page_about_the_paper_are_those_measured() -> None:
    page, results = ((RECIPES.parent / name).read_text() for name in ("docs/paper.md", "results/README.md"))
    rows = [[cell.strip(" *") for cell in line.split("|")] for line in results.split("\n## ")[1].splitlines()]
    gaps = {row[1]: row[6] for row in rows if len(row) == 10}
    assert f"Scissorhands {gaps['scissorhands']}, SalUn {gaps['salun']})" in " ".join(page.split())
