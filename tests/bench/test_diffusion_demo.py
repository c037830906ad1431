"""The demonstration with a pipeline that is hardly trained: it shows that all parts fit, not that they do well."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from helpers import judges
from helpers.commands import cli, done
from scissorhands import runs
from scissorhands.bench import diffusion_demo as demo
from scissorhands.data.records import Stored
from scissorhands.tasks.diffusion import small
from scissorhands.tasks.diffusion.drawing import Drawing
from scissorhands.tasks.diffusion.small_parts import PROMPTS, Plan

QUICK = {"scissorhands": {"epochs": 1, "batch_size": 512, "trim": 0.01, "project": [True, False]}}


def few(records: Stored, folder: Path, exported: Callable[[Stored, Path], Path] = demo.exported) -> Path:
    """The first of the pictures as a folder."""
    return exported(Stored(*records.fetch(torch.arange(200)), classes=records.classes), folder)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command leaves."""
    place = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        tiny = partial(Plan, vae=(4, 4, 4), unet=(4, 4), text=8, vae_epochs=1, unet_epochs=1, batch_size=256)
        patch.setattr(small, "Plan", tiny)
        patch.setattr(demo, "METHODS", QUICK)
        patch.setattr(demo, "exported", few)
        patch.setattr(demo, "SEEDS", (0, 1))
        patch.setattr(demo, "PER_PROMPT", 15)
        patch.setattr(demo, "DRAWING", Drawing(steps=1, batch_size=150))
        patch.setenv("SCISSORHANDS_CACHE", str(place / "cache"))
        judges.copied(tmp_path_factory, place / "cache", patch)
        patch.chdir(place)
        done("demo --diffusion")
    return place / "runs" / "demo-diffusion"


def test_it_leaves_a_table_of_all_rows_with_spread(shown: Path) -> None:
    table = json.loads((shown / "table.json").read_text())
    rows = {row["method"]: row for row in table["rows"]}
    assert list(rows) == ["original", "scissorhands project=True", "scissorhands project=False"]
    for name, row in rows.items():
        assert {"ua", "kept_accuracy", "fid", "rte"} <= row["metrics"].keys()
        assert row["seeds"] == ([0] if name == "original" else [0, 1])
        assert (row["metrics"]["fid"]["std"] is None) == (name == "original")
        assert row["failed"] == {}
    assert rows["original"]["metrics"]["rte"]["mean"] == 1
    assert len({row["metrics"]["fid"]["mean"] for row in rows.values()}) == 3


def test_it_leaves_a_page_with_grids_and_no_path_of_the_machine(shown: Path) -> None:
    page = (shown / "report.html").read_text()
    assert page.count('src="data:image/') == 1 + 1 + 4  # all side by side; the original; each run
    assert page.count("data-same=") == 4  # the original again, beside each run
    assert "concept:three" in page
    assert "; ".join(PROMPTS) in page  # what the rows of the grids are
    assert str(shown.parents[1]) not in page


def test_what_it_leaves_are_runs_and_pipelines(shown: Path) -> None:
    place = shown / "seed-1" / "scissorhands-project=False"
    judged = runs.read(place / "judged")
    assert (judged.method, judged.record["seed"], judged.record["verb"]) == ("scissorhands", 1, "judge")
    assert judged.settings["project"] is False
    assert judged.record["data"]["features"] == "its hidden layer"
    assert float(judged.record["data"]["classifier"].split()[-6]) >= 97
    assert dict(judged.result.scores.counts) == {"forget": 15, "retain": 135}
    done(f"sample {place / 'pipeline'} --prompts zero --per-prompt 1 --set steps=1 -o {shown / 'x'}")


def test_levels_are_about_classifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = cli("demo --diffusion --level deep")
    assert answer.code == 2
    assert "--level" in answer.err
    assert list(tmp_path.iterdir()) == []
