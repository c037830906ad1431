"""Recipes for pipelines: what a bench leaves, how it goes on, what it refuses, and the two of the paper."""

import csv
import json
import re
import shutil
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ResNetConfig, ResNetForImageClassification

from helpers import tinysd
from helpers.commands import Answer, cli, done
from scissorhands import runs
from scissorhands.bench.diffusion import PipelineRecipe, bench
from scissorhands.bench.recipe import load
from scissorhands.bench.run import kind_of, read
from scissorhands.errors import ReadError, SettingError
from scissorhands.report.table import Table
from scissorhands.settings import to_toml

pytestmark = pytest.mark.usefixtures("pipelines_loaded_once")
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
LABELS = ("scissorhands-project=True", "scissorhands-project=False", "finetune")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny pipeline, its images, and a tiny ResNet that knows three and four."""
    base = tmp_path_factory.mktemp("experiment")
    tinysd.source(base)
    tinysd.photographs(base)
    torch.manual_seed(1)
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    model = ResNetForImageClassification(ResNetConfig(**sizes, num_labels=2, id2label={0: "three", 1: "four"}))
    model.save_pretrained(base / "resnet")
    return base


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))


def tables(base: Path) -> dict[str, dict[str, Any]]:
    """A small recipe; what stands in no table is under the empty name."""
    return {
        "": {
            "title": "Three in a tiny pipeline",
            "pipeline": str(tinysd.source(base)),
            "forget": "concept:three",
            "prompts": ["a three", "a four"],
            "per_prompt": 2,
            "first_seed": 7,
            "seeds": [0, 1],
            "methods": ["scissorhands", "finetune"],
        },
        "erasure": {"data": str(tinysd.photographs(base))},
        "drawing": {"steps": 2, "guidance": 3.0, "batch_size": 1},
        "scissorhands": {"epochs": 1, "lr": 0.001, "batch_size": 3, "trim": 0.05, "project": [True, False]},
        "finetune": {"epochs": 1, "lr": 0.001, "batch_size": 4},
        "judging": {"classifier": str(base / "resnet")},
    }


def written(folder: Path, values: Mapping[str, Mapping[str, Any]]) -> Path:
    """The recipe in a file."""
    lines = []
    for table, rows in values.items():
        lines += [f"[{table}]"] if table else []
        lines += [f"{key} = {json.dumps(value)}" for key, value in rows.items()]
    path = folder / "recipe.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def changed(base: Path, folder: Path, table: str, **values: Any) -> Path:
    """The small recipe with other values in a table; none takes one away."""
    recipe = tables(base)
    mixed = {**recipe.get(table, {}), **values}
    return written(folder, {**recipe, table: {key: value for key, value in mixed.items() if value is not None}})


def run(recipe: Path, out: Path, log: Any = lambda _: None) -> Table:
    """The experiment of a recipe, run without the command."""
    return bench(PipelineRecipe.read(recipe), out, "cpu", log)


@pytest.fixture(scope="module")
def complete(base: Path) -> Path:
    """The folder of the small recipe, run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(base / "cache"))
        done(f"bench {written(base, tables(base))} -o {base / 'out'}")
    return base / "out"


@pytest.fixture
def out(complete: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return shutil.copytree(complete, tmp_path / "out")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def undated(name: str, content: bytes) -> bytes:
    """What a file says but for times, and the hashes of files that hold times."""
    if not name.endswith(("run.toml", "scores.json", "report.html")):
        return content
    return re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b[0-9a-f]{64}\b", b"", content)


def stamps(folder: Path) -> dict[str, int]:
    """When each file was written, but for those that are made of all others."""
    found = {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    return {name: stamp for name, stamp in found.items() if name not in ("table.json", "report.html", "grid.png")}


def stored(folder: Path) -> dict[str, Any]:
    """The table that a bench left."""
    found: dict[str, Any] = json.loads((folder / "table.json").read_text())
    return found


# What a bench leaves


def test_a_bench_leaves_a_row_for_each_method_and_value(complete: Path) -> None:
    found = stored(complete)["rows"]
    assert [(row["method"], row["seeds"]) for row in found] == [
        ("original", [0]),
        ("scissorhands project=True", [0, 1]),
        ("scissorhands project=False", [0, 1]),
        ("finetune", [0, 1]),
    ]
    assert [row["settings"].get("project") for row in found] == [None, True, False, None]
    assert {row["forget"] for row in found} == {"concept:three"}
    for row, label in zip(found[1:], LABELS, strict=True):
        for name in ("ua", "kept_accuracy"):
            values = [
                json.loads((complete / f"seed-{seed}" / label / "judged" / "scores.json").read_text())["values"][name]
                for seed in (0, 1)
            ]
            assert row["metrics"][name] == {"mean": statistics.mean(values), "std": statistics.stdev(values)}


def test_the_scores_are_those_of_the_images_that_each_pipeline_drew(complete: Path, base: Path) -> None:
    model = ResNetForImageClassification.from_pretrained(base / "resnet").eval()
    for folder in (complete / "original", *(complete / "seed-1" / label for label in LABELS)):
        right = []
        for file in sorted((folder / "drawn").glob("*.png")):
            with torch.no_grad(), Image.open(file) as picture:
                pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None] / 255
                right.append(int(model(pixels).logits.argmax()) == int(file.name[:3]))
        assert len(right) == 4
        values = runs.read(folder / "judged").result.scores.values
        assert values["ua"] == pytest.approx(100 - 50 * sum(right[:2]))
        assert values["kept_accuracy"] == pytest.approx(50 * sum(right[2:]))


def test_each_pipeline_draws_the_same_prompts_with_the_same_seeds(complete: Path) -> None:
    for folder in (complete / "original", *(complete / f"seed-{seed}" / label for seed in (0, 1) for label in LABELS)):
        with (folder / "drawn" / "metadata.csv").open(newline="") as file:
            listed = [(row["prompt"], row["seed"], row["guidance"]) for row in csv.DictReader(file)]
        assert listed == [(prompt, seed, "3.0") for prompt in ("a three", "a four") for seed in ("7", "8")]
    images = {
        (folder / "drawn" / "000-00000.png").read_bytes()
        for folder in (complete / "original", *(complete / "seed-0" / label for label in LABELS))
    }
    assert len(images) == 4  # each method makes another pipeline of it


def test_what_is_judged_says_by_which_method_and_seed_and_against_what(complete: Path) -> None:
    for seed in (0, 1):
        for label in LABELS:
            run = runs.read(complete / f"seed-{seed}" / label / "judged")
            assert (run.method, run.record["seed"]) == (label.split("-")[0], seed)
            assert (run.folder / run.record["before"]).resolve() == (complete / "original" / "drawn").resolve()
            assert run.result.seconds == runs.read(run.folder.with_name("pipeline")).result.seconds
    assert runs.read(complete / "original" / "judged").method == "original"


def test_the_page_holds_the_title_the_rows_and_all_grids(complete: Path) -> None:
    page = (complete / "report.html").read_text()
    assert "Three in a tiny pipeline" in page
    assert "scissorhands project=False" in page
    assert page.count('src="data:image/') == 1 + 1 + 6  # side by side; the original; each run
    assert page.count("data-same=") == 6  # the original again, beside each run


def test_a_page_without_a_title_is_called_after_its_file(base: Path, tmp_path: Path) -> None:
    assert read(changed(base, tmp_path, "", title=None)).title == "recipe"


def test_without_them_seeds_and_methods_are_the_usual_ones(base: Path, tmp_path: Path) -> None:
    recipe = read(changed(base, tmp_path, "", seeds=None, methods=None))
    assert recipe.seeds == [0, 1, 2]
    assert {entry.name for entry in recipe.entries} == {
        *("scissorhands", "finetune", "ascent", "salun", "randomlabel", "retrain")
    }


def test_prompts_may_stand_in_a_file_each_with_its_seed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "prompts.csv").write_text("prompt,seed,guidance\na four,5,2\na three,,\n")
    recipe = changed(
        base, tmp_path, "", prompts=str(tmp_path / "prompts.csv"), per_prompt=None, seeds=[3], methods=["finetune"]
    )
    recipe.write_text(re.sub(r"\[scissorhands\]\n(?:.+\n)*?\[", "[", recipe.read_text()) + "[tried]\nfinetune = 5\n")
    answer = done(f"bench {recipe} --json -o {tmp_path / 'out'}")
    assert [row["method"] for row in json.loads(answer.out)["rows"]] == ["original", "finetune"]
    assert json.loads(answer.out) == stored(tmp_path / "out")
    with (tmp_path / "out/seed-3/finetune/drawn/metadata.csv").open(newline="") as file:
        found = [tuple(row.values()) for row in csv.DictReader(file)]
    assert found == [("000000.png", "a four", "5", "2.0"), ("000001.png", "a three", "7", "3.0")]
    judged = runs.read(tmp_path / "out/seed-3/finetune/judged").result
    assert dict(judged.scores.counts) == {"forget": 1, "retain": 1}
    assert judged.tried == 5


# How it goes on


def test_run_again_it_does_nothing_new(out: Path, base: Path) -> None:
    before, when = files(out), stamps(out)
    answer = done(f"bench {written(out.parent, tables(base))} -o {out}")
    assert files(out) == before
    assert stamps(out) == when
    assert "finetune" in answer.out
    assert f"wrote {out / 'report.html'} and {out / 'table.json'}" in answer.err


def test_a_judgment_that_is_missing_is_made_again_from_the_images_there(out: Path, base: Path) -> None:
    before, when = files(out), stamps(out)
    shutil.rmtree(out / "seed-1" / "finetune" / "judged")
    (out / "table.json").unlink()
    done(f"bench {written(out.parent, tables(base))} -o {out}")
    again = {name for name, stamp in stamps(out).items() if stamp != when[name]}
    assert {name for name in again if name.endswith((".png", ".safetensors"))} == {
        f"seed-1/finetune/judged/grids/{name}.png" for name in ("before", "after")
    }
    assert {name for name in again if not name.startswith("seed-1/finetune/")} == set()
    after = files(out)
    assert sorted(after) == sorted(before)
    assert {name for name in after if undated(name, after[name]) != undated(name, before[name])} == set()
    found, known = (json.loads(some["seed-1/finetune/judged/scores.json"]) for some in (after, before))
    assert {name for name in found if found[name] != known[name]} <= {"seal", "files"}


def test_an_image_that_is_missing_is_drawn_again_and_it_alone(out: Path, base: Path) -> None:
    before, when = files(out), stamps(out)
    drawn = out / "seed-0" / LABELS[0] / "drawn"
    (drawn / "001-00001.png").unlink()
    shutil.rmtree(drawn.with_name("judged"))
    done(f"bench {written(out.parent, tables(base))} -o {out}")
    after, then = files(out), stamps(out)
    images = [name for name in after if name.endswith(".png") and "/drawn/" in name]
    assert {name: after[name] for name in images} == {name: before[name] for name in images}
    assert [name for name in images if then[name] != when[name]] == [f"seed-0/{LABELS[0]}/drawn/001-00001.png"]
    assert after["table.json"] == before["table.json"]


def test_a_seed_that_is_added_is_run_and_the_others_stay(out: Path, base: Path) -> None:
    when = stamps(out)
    recipe = changed(base, out.parent, "", seeds=[0, 1, 4])
    done(f"bench {recipe} -o {out}")
    now = stamps(out)
    assert {name for name in when if now[name] != when[name]} == {"recipe.json"}
    assert [row["seeds"] for row in stored(out)["rows"]] == [[0], [0, 1, 4], [0, 1, 4], [0, 1, 4]]


def outcome(folder: Path) -> dict[str, Any]:
    """All that the original and the first seed came to, but for what it cost."""
    found: dict[str, Any] = {}
    for name, content in files(folder).items():
        if name.startswith(("original/", "seed-0/")) and not name.endswith(("run.toml", "pipeline.json")):
            found[name] = content
        if found.get(name) and name.endswith("scores.json"):
            found[name] = {**json.loads(content), "seconds": None}
            found[name]["values"].pop("memory_mib", None)
            del found[name]["seal"], found[name]["files"]
    return found


class Stop:
    """A log that interrupts the bench at an event: the n-th of a phase."""

    def __init__(self, phase: str, number: int) -> None:
        self.phase, self.left = phase, number

    def __call__(self, event: Mapping[str, Any]) -> None:
        self.left -= event.get("phase") == self.phase
        if not self.left:
            raise KeyboardInterrupt


def test_a_bench_that_was_interrupted_goes_on_and_ends_the_same(base: Path, complete: Path, tmp_path: Path) -> None:
    """It is interrupted while it draws by the original, trims, draws again, repairs, and runs another method."""
    recipe, out = changed(base, tmp_path, "", seeds=[0]), tmp_path / "out"
    there: dict[str, int] = {}
    for phase, number in (("draw", 2), ("trim", 1), ("draw", 3), ("repair", 1), ("finetune", 2)):
        with pytest.raises(KeyboardInterrupt):
            run(recipe, out, Stop(phase, number))
        assert not (out / "table.json").exists()
        now = {name: stamp for name, stamp in stamps(out).items() if name.endswith(".png")}
        assert there.items() <= now.items()
        there = now
        assert there
    table = run(recipe, out)
    assert there.items() <= stamps(out).items()
    assert [row.method for row in table.rows] == [row["method"] for row in stored(complete)["rows"]]
    ours, theirs = outcome(out), outcome(complete)
    assert sorted(ours) == sorted(theirs)
    assert {name for name in ours if ours[name] != theirs[name]} == set()
    assert stored(out) == json.loads(json.dumps(table.to_dict()))


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ("finetune", {"lr": 0.002}),
        ("scissorhands", {"trim": 0.1}),
        ("", {"forget": "concept:four"}),
        ("finetune", {"optimizer": "sgd"}),
        ("erasure", {"anchor": "a five"}),
        ("drawing", {"steps": 3}),
        ("", {"prompts": ["a four", "a three"]}),
        ("", {"first_seed": 8}),
        ("judging", {"classifier": "another"}),
    ],
)
def test_a_folder_of_another_recipe_is_refused(table: str, values: dict[str, Any], out: Path, base: Path) -> None:
    before = files(out)
    if "classifier" in values:
        values = {"classifier": str(shutil.copytree(base / "resnet", out.parent / "another"))}
    recipe = changed(base, out.parent, table, **values)
    assert_refused(cli(f"bench {recipe} -o {out}"), "choose another folder")
    assert files(out) == before


# What is refused


def assert_refused(answer: Answer, says: str) -> None:
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
    assert says in answer.err


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown key": ("", {"promts": ["a three"]}, "a recipe for a pipeline has no 'promts'. Did you mean 'prompts'?"),
    "an unknown table": ("judgin", {"nudity": True}, "has no 'judgin'. Did you mean 'judging'?"),
    "settings of a method that is not run": ("salun", {"lr": 0.1}, "a recipe for a pipeline has no 'salun'."),
    "no concept": ("", {"forget": None}, "a recipe for a pipeline needs 'forget'."),
    "no prompts": ("", {"prompts": None}, "a recipe for a pipeline needs 'prompts'."),
    "a concept that is a number": (
        "",
        {"forget": 3},
        "'forget' must be a concept, such as concept:",
    ),
    "a concept of an unknown kind": ("", {"forget": "conzept:three"}, "Did you mean 'concept'?"),
    "a pipeline that is a number": ("", {"pipeline": 3}, "'pipeline' must be text, not 3."),
    "a pipeline that is not there": ("", {"pipeline": "nowhere"}, "there is no pipeline folder 'nowhere'."),
    "a title that is a number": ("", {"title": 3}, "'title' must be text, not 3."),
    "a number in words": ("", {"per_prompt": "two"}, "'per_prompt' must be a whole number from 1 to 1000000"),
    "a number that is no number": (
        "",
        {"per_prompt": True},
        "'per_prompt' must be a whole number from",
    ),
    "a first seed with a point": ("", {"first_seed": 1.5}, "'first_seed' must be a whole number, 0 or more, not 1.5."),
    "one seed": ("", {"seeds": 3}, "'seeds' must be a list"),
    "seeds in words": ("", {"seeds": ["a"]}, "'seeds' must be a list"),
    "a method that needs a classifier": (
        "",
        {"methods": ["scissorhands", "finetune", "influence"]},
        "'influence' applies only to classifiers; ",
    ),
    "a method that is misspelt": (
        "",
        {"methods": ["scissorhands", "finetune", "salunn"]},
        "there is no method 'salunn'. Did you mean 'salun'?",
    ),
    "a setting that is misspelt": ("scissorhands", {"trimm": 0.1}, "has no setting 'trimm'. Did you mean 'trim'?"),
    "a value that breaks its rule": ("scissorhands", {"trim": [0.1, 3.0]}, "'trim' must be a share from 0 to 1"),
    "a way to draw that is misspelt": ("drawing", {"step": 3}, "Drawing has no setting 'step'. Did you mean 'steps'?"),
    "no step of drawing": ("drawing", {"steps": 0}, "'steps' must be a whole number, 1 or more, not 0."),
    "an erasure that is misspelt": (
        "erasure",
        {"anchr": "a"},
        "Erasure has no setting 'anchr'. Did you mean 'anchor'?",
    ),
    "a judge that is misspelt": ("judging", {"clips": "x"}, "Judging has no setting 'clips'. Did you mean 'clip'?"),
    "nobody who judges": ("judging", {"classifier": None}, "choose a measure"),
    "a classifier that is not there": ("judging", {"classifier": "./no"}, "there is no model folder 'no'."),
    "features without real images": ("judging", {"features": "a.pt"}, "FID needs both, features and real images."),
    "a file of prompts that is not there": ("", {"prompts": "no.csv"}, "the prompts 'no.csv' cannot be read"),
    "prompts that are a number": ("", {"prompts": 3}, "'prompts' must be a CSV file, or a list of texts"),
    "prompts that are numbers": ("", {"prompts": [1, 2]}, "'prompts' must be a CSV file, or a list of texts"),
    "prompts that are none": ("", {"prompts": []}, "recipe.toml"),
    "one method": ("", {"methods": "finetune"}, "'methods' must be a list of names"),
    "methods that are numbers": ("", {"methods": [1]}, "'methods' must be a list of names"),
    "methods that are a number": ("", {"methods": 3}, "'methods' must be a list of names"),
    "no image of each": ("", {"per_prompt": 0}, "recipe.toml"),
    "a seed twice": ("", {"seeds": [0, 0]}, "recipe.toml"),
    "a class": ("", {"forget": "class:3"}, "a concept"),
    "no seed": ("", {"seeds": []}, "'seeds' must be a list"),
    "more images than can be": ("", {"per_prompt": 2**40}, "'per_prompt' must be a whole number from 1 to 1000000"),
    "a seed beyond bounds": (
        "",
        {"seeds": [2**40]},
        "each of them once, and at most 2147483647",
    ),
    "code that the user does not name": (
        "",
        {"methods": ["scissorhands", "finetune", "no_such_module:It"]},
        "If you trust it, name it: --trust no_such_module:It",
    ),
    "a method twice": ("", {"methods": ["finetune", "finetune"]}, "each of them once"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_a_recipe_is_one_line_and_nothing_is_written(what: str, base: Path, tmp_path: Path) -> None:
    table, values, says = MISTAKES[what]
    recipe = changed(base, tmp_path, table, **values)
    assert_refused(cli(f"bench {recipe} -o {tmp_path / 'out'}"), says)
    assert not (tmp_path / "out").exists()


def test_a_method_may_have_an_erasure_of_its_own(base: Path, tmp_path: Path) -> None:
    attempts = PipelineRecipe.read(changed(base, tmp_path, "finetune.erasure", parameters="*attn2*")).attempts
    found = {attempt.entry.name: attempt.erasure for attempt in attempts}
    assert found["finetune"] == replace(found["scissorhands"], parameters="*attn2*")
    recipe = changed(base, tmp_path, "finetune.erasure", parameter="*")
    assert_refused(cli(f"bench {recipe} -o {tmp_path / 'out'}"), "Did you mean 'parameters'")


def test_settings_of_a_method_stand_in_a_table(base: Path, tmp_path: Path) -> None:
    recipe = {name: table for name, table in tables(base).items() if name not in ("finetune", "drawing", "erasure")}
    says = {
        "finetune": "the settings of 'finetune' stand in a table: [finetune].",
        "drawing": "the settings of Drawing are names with values, not 3.",
        "erasure": "'erasure' must be a table of names with values, not 3.",
    }
    for name, message in says.items():
        path = written(tmp_path, {**recipe, "": {**recipe[""], name: 3}})
        assert_refused(cli(f"bench {path} -o {tmp_path / 'out'}"), message)


def test_a_mistake_is_named_with_its_file(base: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=rf"^{tmp_path / 'recipe.toml'}: .*needs 'pipeline'"):
        read(changed(base, tmp_path, "", pipeline=None))
    (tmp_path / "recipe.toml").write_text("pipeline = ")
    with pytest.raises(ReadError, match=r"recipe\.toml cannot be read as TOML: "):
        read(tmp_path / "recipe.toml")


def test_a_recipe_without_its_pipeline_is_refused_as_such(base: Path, tmp_path: Path) -> None:
    recipe = changed(base, tmp_path, "", pipeline=None)
    assert kind_of(load(recipe)) is PipelineRecipe
    assert_refused(cli(f"bench {recipe} -o {tmp_path / 'out'}"), "a recipe for a pipeline needs 'pipeline'.")


@pytest.mark.parametrize("text", [None, "pipeline = ", "\0", "pipeline = " + "[" * 5000])
def test_a_file_that_cannot_be_read_is_refused(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "recipe.toml").write_text(text)
    answer = cli(f"bench {tmp_path / 'recipe.toml'} -o {tmp_path / 'out'}")
    assert_refused(answer, "recipe.toml cannot be read")


def test_a_level_is_about_classifiers(base: Path, tmp_path: Path) -> None:
    recipe = written(tmp_path, tables(base))
    answer = cli(f"bench {recipe} --level standard -o {tmp_path / 'out'}")
    assert_refused(answer, f"--level applies only to classifiers; {recipe} is a recipe for a pipeline.")
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there_is_refused(base: Path, tmp_path: Path) -> None:
    answer = cli(f"bench {written(tmp_path, tables(base))} --device tpu9 -o {tmp_path / 'out'}")
    assert_refused(answer, "there is no device 'tpu9' here.")
    assert not (tmp_path / "out").exists()


# Pipelines that are only compared


def test_a_pipeline_to_compare_is_sampled_and_judged_and_has_a_row_of_its_own(out: Path, base: Path) -> None:
    """It may be added later; one that a method made is called after the method."""
    made = out.parent / "made"
    done(tinysd.command(tinysd.source(base), made, "ascent", f"--data {tinysd.photographs(base)} --seed 4"))
    folders = {"other": str(tinysd.source(base)), "made": str(made)}
    recipe = written(out.parent, {**tables(base), "compare": folders})
    when = stamps(out)
    done(f"bench {recipe} -o {out}")
    now = stamps(out)
    assert {name for name in when if now[name] != when[name]} == {"recipe.json"}
    other, again = (runs.read(out / "compared" / name / "judged") for name in folders)
    assert [row["method"] for row in stored(out)["rows"]][:3] == ["original", "other", "ascent"]
    assert other.result.scores.values == runs.read(out / "original" / "judged").result.scores.values
    assert (again.method, again.record["seed"]) == ("ascent", 4)
    assert (out / "compared/made/drawn/000-00000.png").read_bytes() != (
        out / "original/drawn/000-00000.png"
    ).read_bytes()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"other": "nowhere"}, "there is no pipeline folder 'nowhere'."),
        ({"original": "x"}, "'compare' must be a table of folders by name, none of them original"),
        ({"../x": "x"}, "'compare' must be a table of folders by name"),
        ({"other": 3}, "'compare' must be a table of folders by name"),
    ],
)
def test_a_pipeline_that_cannot_be_compared_is_refused(
    values: dict[str, Any], says: str, base: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(written(tmp_path, tables(base)).read_text() + to_toml({"compare": values}))
    assert_refused(cli(f"bench {recipe} -o {tmp_path / 'out'}"), says)
    assert not (tmp_path / "out").exists()


def test_without_methods_there_are_no_tables_of_methods(base: Path, tmp_path: Path) -> None:
    recipe = changed(base, tmp_path, "", methods=[])
    assert_refused(cli(f"bench {recipe} -o {tmp_path / 'out'}"), "without methods has no 'scissorhands'.")
