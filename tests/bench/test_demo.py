"""The demo: its table has the promised form, and Scissorhands the lower gap."""

import json
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.commands import cli
from scissorhands.bench import classification
from scissorhands.bench.classification import DEMO, demo
from scissorhands.bench.recipe import PAPER, Recipe
from scissorhands.errors import RunError
from scissorhands.runs.claims import require_earlier
from scissorhands.settings import to_toml

METRICS = {"forget_accuracy", "retain_accuracy", "test_accuracy", "mia", "avg_gap", "rte", "memory_mib"}
FEW = ["retrain", "finetune", "scissorhands"]  # `make demo` runs all methods with all seeds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished demo of a few methods with one seed, and all else as its recipe says."""
    place = tmp_path_factory.mktemp("demo")
    whole = tomllib.loads(DEMO.read_text())
    few = {key: value for key, value in whole.items() if key in FEW or key not in whole["methods"]}
    few["tried"] = {name: count for name, count in whole["tried"].items() if name in FEW}
    (place / "demo.toml").write_text(to_toml({**few, "methods": FEW, "seeds": [0]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classification, "DEMO", place / "demo.toml")
        demo(place / "demo", overwrite=False, device="cpu")
    return place / "demo"


def test_the_demo_is_of_every_method_of_the_paper_and_three_seeds() -> None:
    recipe = Recipe.read(DEMO)
    assert [entry.label for entry in recipe.entries] == [*PAPER[:-1], "randomlabel", "scissorhands"]
    assert recipe.seeds == [0, 1, 2]
    assert recipe.forget == "class:3"
    assert len(recipe.runs()) == 3 * 11


def test_the_table_has_the_promised_form(folder: Path) -> None:
    table = json.loads((folder / "table.json").read_text())
    assert table["reference"] == "retrain"
    assert [row["method"] for row in table["rows"]] == ["original", *FEW]
    for row in table["rows"]:
        assert row["seeds"] == [0]
        assert set(row["metrics"]) >= METRICS
        assert all({"mean", "std"} == set(value) for value in row["metrics"].values())


def test_the_printed_table_hides_nothing(folder: Path, tmp_path: Path) -> None:
    shown = cli(f"report {folder} -o {tmp_path}/page.html").out
    assert "Avg. Gap" in shown
    assert "scissorhands" in shown
    assert "…" not in shown


def test_scissorhands_is_nearer_to_the_retrained_model_than_fine_tuning(folder: Path) -> None:
    rows = json.loads((folder / "table.json").read_text())["rows"]
    gap = {row["method"]: row["metrics"]["avg_gap"]["mean"] for row in rows}
    assert gap["retrain"] == 0
    assert gap["scissorhands"] < gap["finetune"] < gap["original"]


def test_the_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    found: list[str] = []
    places: set[str] = set()

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(value or "" for name, value in attrs if name in ("src", "href"))
            places.update(f"#{value}" for name, value in attrs if name == "id")

    Links().feed((folder / "report.html").read_text())
    within = [value for value in found if value.startswith("#")]
    assert within
    assert set(within) <= places
    others = [value.partition("/")[0] for value in found if value not in within]
    assert others == ["data:image"]  # where the models look


def test_no_path_of_the_machine_is_kept(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".toml", ".json", ".html", ".txt"):
            assert str(folder.parent) not in path.read_text(), path


def test_a_second_demo_needs_to_be_told_to_overwrite(folder: Path) -> None:
    with pytest.raises(RunError, match="exists already"):
        demo(folder, overwrite=False, device="cpu")


def test_a_demo_says_what_it_was_made_by_and_may_be_replaced(folder: Path) -> None:
    known = json.loads((folder / "recipe.json").read_text())
    assert known["made"]["forget"] == "class:3"
    assert len(known["runs"]) == 1 + len(FEW)
    require_earlier(folder, known["title"])


def test_what_somebody_put_among_the_runs_of_a_demo_is_not_removed(folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("seed-0/thesis.txt", "seed-0/finetune/thesis.txt", "seed-0/mine/thesis.txt")):
        own = shutil.copytree(folder, tmp_path / str(number))
        (own / name).parent.mkdir(exist_ok=True)
        (own / name).write_text("years of work")
        answer = cli(f"demo -o {own} --overwrite")
        assert answer.code == 2
        assert f"it holds '{name}', which is not ours" in answer.err
        assert (own / name).read_text() == "years of work"


def test_one_demo_is_run_at_a_time(tmp_path: Path) -> None:
    answer = cli(f"demo --random --diffusion -o {tmp_path}/out")
    assert (answer.code, list(tmp_path.iterdir())) == (2, [])
    assert "--random applies only to classifiers: leave it out with --diffusion" in answer.err


def test_the_demo_at_random_is_of_the_same_methods_and_none_is_tuned() -> None:
    recipe = Recipe.read(classification.DEMO_RANDOM)
    assert [entry.label for entry in recipe.entries] == [entry.label for entry in Recipe.read(DEMO).entries]
    assert {entry.tried for entry in recipe.entries if entry.name != "retrain"} == {0}
    assert recipe.forget == "random:10%"
