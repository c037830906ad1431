"""The page and the command: which runs they show, what they show of records, and where they write."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from helpers import tinybench
from helpers.commands import cli, done
from helpers.forged import reseal
from scissorhands import runs
from scissorhands.methods.damage import damage
from scissorhands.report import page as report
from scissorhands.report import pictures
from scissorhands.report.table import tabulate
from scissorhands.runs.score import compare
from scissorhands.settings import to_toml
from scissorhands.tasks.diffusion.nudity import PARTS, metric


@pytest.fixture
def benched(complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, as bench in the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(complete, tmp_path / "bench")
    return Path("bench")


def refused(command: str, says: str) -> None:
    answer = cli(command)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert says in answer.err


# Which runs


def test_a_report_on_a_bench_shows_the_runs_of_its_recipe(benched: Path) -> None:
    shutil.copytree(benched / "seed-0/finetune", benched / "seed-0/mine")
    answer = done(f"report {benched} --json")
    assert json.loads(answer.out) == json.loads((benched / "table.json").read_text())
    assert Path("report.html").is_file()


def test_a_report_on_an_unfinished_bench_shows_what_is_there(benched: Path) -> None:
    shutil.rmtree(benched / "seed-1")
    assert {tuple(row["seeds"]) for row in json.loads(done(f"report {benched} --json").out)["rows"]} == {(0,)}
    shutil.rmtree(benched / "seed-0")
    refused(f"report {benched} -o page.html", "bench has no finished run yet.")


def test_a_report_on_all_that_a_shell_finds_in_a_seed_shows_the_trained_model_too(benched: Path) -> None:
    every = " ".join(map(str, sorted((benched / "seed-0").glob("*"))))
    for folders in (every, str(benched / "seed-0")):
        rows = json.loads(done(f"report {folders} --json").out)["rows"]
        assert [row["method"] for row in rows] == ["finetune", "original draw=0", "retrain", "original"]


def test_a_report_leads_nowhere_outside_its_folder(benched: Path) -> None:
    (benched / "seed-1/finetune").rename("outside")
    about = json.loads((benched / "recipe.json").read_text())
    about["runs"] = [*about["runs"], "../outside", str(Path("outside").absolute())]
    (benched / "recipe.json").write_text(json.dumps(about))
    rows = json.loads(done(f"report {benched} --json").out)["rows"]
    assert {row["method"]: row["seeds"] for row in rows}["finetune"] == [0]


def test_what_is_no_run_is_refused_by_name(benched: Path) -> None:
    refused(f"report {benched / 'table.json'} -o page.html", "there is no run folder 'bench/table.json'")
    (benched / "recipe.json").write_text("[]")
    refused(f"report {benched} -o page.html", "bench/recipe.json cannot be read")
    Path("empty").mkdir()
    refused("report empty -o page.html", "empty is not a run folder")


# Where it writes


@pytest.mark.parametrize("name", ["all.xlsx", "page", "page.html.txt"])
def test_the_ending_says_what_a_report_is(name: str, benched: Path) -> None:
    Path(name).write_text("kept")
    refused(f"report {benched} -o {name}", "a name that ends in .html, .htm, .pdf, .md, .csv, .tex or .json")
    assert Path(name).read_text() == "kept"
    done(f"report {benched} -o PAGE.HTM")


def test_a_report_replaces_no_link_and_no_pipe(benched: Path) -> None:
    Path("target").write_text("kept")
    Path("link.html").symlink_to("target")
    os.mkfifo("pipe.html")
    for name in ("link.html", "pipe.html"):
        refused(f"report {benched} -o {name}", "it is not a regular file")
    assert Path("target").read_text() == "kept"
    assert Path("pipe.html").is_fifo()


def test_a_report_replaces_its_own_page_and_no_other(benched: Path) -> None:
    Path("report.html").write_text("<h1>My thesis</h1>")
    refused(f"report {benched}", "it exists and is not a page of scissorhands")
    assert Path("report.html").read_text() == "<h1>My thesis</h1>"
    Path("report.html").unlink()
    for title in ("one", "two"):
        done(f"report {benched} --title {title}")
    assert "<title>two</title>" in Path("report.html").read_text()


# What it shows of records


def page(run: Path, records: bool = False) -> str:
    read = runs.read(run)
    return report.page(tabulate([read]), [read], "title", records)


def test_pictures_of_records_are_shown_only_if_asked_for(benched: Path) -> None:
    run = benched / "seed-0/finetune"
    (run / "gradcam").mkdir()
    Image.new("RGB", (2, 2)).save(run / "gradcam/forget.png")
    done(f"report {run}")
    assert "data:image/png" not in Path("report.html").read_text()
    done(f"report {run} --pictures")
    assert Path("report.html").read_text().count("data:image/png") == 1


def test_pictures_of_what_a_pipeline_draws_are_always_shown(benched: Path) -> None:
    run = benched / "seed-0/finetune"
    (run / "grids").mkdir()
    Image.new("RGB", (2, 2)).save(run / "grids/after.png")
    shown = page(run)
    found = shown.count("data:image/png"), shown.count('data-same="picture-0"')
    assert found == (1, 1)  # above the table, and again with the run


def test_pictures_of_a_bench_are_shown_and_those_of_records_only_if_asked_for(benched: Path) -> None:
    Image.new("RGB", (2, 2)).save(benched / "grid.png")
    Image.new("RGB", (3, 3)).save(benched / "gradcam.png")
    for options, heads in (("", ["What they draw"]), ("--pictures", ["Where they look", "What they draw"])):
        done(f"report {benched} {options}")
        shown = Path("report.html").read_text()
        assert shown.count("data:image/png") == len(heads)
        assert [head for head in ("Where they look", "What they draw", "What NudeNet finds") if head in shown] == heads
    (benched / "grid.png").rename("elsewhere.png")
    (benched / "grid.png").symlink_to(Path("elsewhere.png").absolute())
    done(f"report {benched}")
    assert "What they draw" not in Path("report.html").read_text()


def test_what_nudenet_finds_is_a_chart_and_flagged_images(benched: Path) -> None:
    run = runs.read(benched / "seed-0/finetune")
    (run.folder / "flagged").mkdir()
    for number in range(30):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(run.folder / f"flagged/{number:02}.png")
    values = {**{metric(part): 1.0 for part in PARTS}, f"{metric('Feet')}_change": -50.0, "nudity_change": -50.0}
    one = replace(run, result=replace(run.result, scores=replace(run.result.scores, values=values)))
    shown = report.page(tabulate([one]), [one], "title")
    assert "What NudeNet finds" in shown
    found = shown.count("data:image/png")
    assert found == 24
    assert "<figcaption>23</figcaption>" in shown


def test_a_link_or_what_is_no_png_is_not_shown(benched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = benched / "seed-0/finetune"
    (run / "gradcam").mkdir()
    (run / "grids").mkdir()
    Image.new("RGB", (2, 2)).save("secret.png")
    Path("secret.txt").write_text("the secret\n")
    Image.effect_noise((64, 64), 50).save(run / "gradcam/large.png")
    monkeypatch.setattr(pictures, "_BYTES", 100)
    (run / "gradcam/forget.png").symlink_to(Path("secret.png").absolute())
    (run / "gradcam/text.png").write_text("the secret")
    (run / "grids/after.png").symlink_to(Path("secret.png").absolute())
    (run / "grids/rows.txt").symlink_to(Path("secret.txt").absolute())
    os.mkfifo(run / "gradcam/pipe.png")
    shown = page(run, records=True)
    assert "data:image/png" not in shown
    assert "the secret" not in shown


def test_a_folder_of_pictures_that_is_a_link_is_not_followed(benched: Path) -> None:
    Path("elsewhere").mkdir()
    Image.new("RGB", (2, 2)).save("elsewhere/forget.png")
    (benched / "seed-0/finetune/gradcam").symlink_to(Path("elsewhere").absolute())
    assert "data:image/png" not in page(benched / "seed-0/finetune", records=True)


def test_whatever_a_run_says_is_text_on_the_page(benched: Path) -> None:
    run = runs.read(benched / "seed-0/finetune")
    evil = "<script>alert('x')</script>"
    record = {**run.record, "damage": evil, "method": {"name": evil, "lr": evil}, "split": {**run.record["split"]}}
    record["split"]["forget"] = f'"{evil}'
    scores = replace(run.result.scores, failed={"mia": evil}, values={"retain_accuracy": 1.0})
    one = replace(run, record=record, result=replace(run.result, scores=scores))
    shown = report.page(tabulate([one]), [one], evil)
    assert evil not in shown
    assert shown.count("&lt;script") >= 6


# What is damaged, and what is out of date


def damaged(folder: Path) -> str:
    """Let a run say that its model was better before, and return what it says."""
    run = runs.read(folder)
    before = run.result.scores["retain_accuracy"] + 6
    sentence = damage({"retain_accuracy": before}, run.result.scores.values)
    told = {**run.record, "retain_accuracy_before": before, "damage": sentence}
    (folder / "run.toml").write_text(to_toml(told))
    reseal(folder)
    return sentence


def test_damage_is_told_wherever_a_table_is_shown(benched: Path) -> None:
    sentence = damaged(benched / "seed-1/finetune")
    for command in (f"report {benched}", "bench recipe.toml -o bench"):
        Path("recipe.toml").write_text(tinybench.RECIPE)
        for more in ("", " --json"):
            answer = done(command + more)
            assert f"warning: damaged: finetune, seed 1: {sentence}" in answer.err.splitlines()
            assert answer.out.count("1 damaged") == (not more)
        assert sentence in answer.out
    table = json.loads((benched / "table.json").read_text())
    assert {row["method"]: row["damaged"] for row in table["rows"] if row["damaged"]} == {"finetune": {"1": sentence}}
    for path in (Path("report.html"), benched / "report.html"):
        assert f"<strong>Damaged</strong>: finetune, seed 1: {sentence}" in path.read_text()
        assert "1 damaged</td>" in path.read_text()


def test_a_reference_that_was_replaced_is_told_and_a_bench_compares_again(benched: Path) -> None:
    assert "changed since" not in done(f"report {benched}").out
    reference = runs.read(benched / "seed-0/retrain")
    slower = replace(reference.result, seconds=1e6)
    runs.write_result(reference.folder, slower)
    note = (
        "bench/seed-0/finetune was compared with a reference that has changed since; "
        "compare again: scissorhands evaluate bench/seed-0/finetune --against bench/seed-0/retrain"
    )
    assert note in done(f"report {benched}").out
    assert note in Path("report.html").read_text()
    assert note in json.loads(done(f"report {benched} --json").out)["stale"]
    Path("recipe.toml").write_text(tinybench.RECIPE)
    assert "changed since" not in done("bench recipe.toml -o bench").out
    assert "changed since" not in done(f"report {benched}").out
    assert runs.read(benched / "seed-0/finetune").result.reference_seconds == 1e6


def test_comparing_a_reference_with_itself_or_another_is_no_change(benched: Path) -> None:
    reference, other = benched / "seed-0/retrain", benched / "seed-1/retrain"
    before = runs.scores_hash(reference)
    compare(runs.read(reference), runs.read(other))
    assert runs.scores_hash(reference) == before
    compare(runs.read(reference), runs.read(reference))
    assert runs.scores_hash(reference) == before == runs.read(reference).result.reference_hash
    assert "changed since" not in done(f"report {benched}").out


def test_a_reference_that_is_gone_is_not_told(benched: Path) -> None:
    shutil.rmtree(benched / "seed-0/retrain")
    assert "changed since" not in done(f"report {benched}").out
