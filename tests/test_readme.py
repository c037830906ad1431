"""The README tells the truth: its Python and its shell lines run as printed, and its file map is complete."""

import copy
import json
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import scissorhands as sh
from helpers import newcomer, tinysd
from helpers.nursery import Nursery
from scissorhands.evaluation.evaluate import accuracies

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_works_as_printed_and_leaves_the_model_usable() -> None:
    model, (train, test) = newcomer.mlp(), newcomer.digits()
    parts = sh.split(train, sh.Forget("random:10%"), test=test).parts()
    parts = {name: parts[name] for name in ("retain", "test")}
    before, weights = accuracies(model, parts), [p.detach().clone() for p in model.parameters()]
    names: dict[str, Any] = {"train": train, "test": test, "model": model, "retrained": copy.deepcopy(model)}
    with warnings.catch_warnings(action="error"):
        exec(blocks("python")[0], names)
    assert isinstance(names["scores"], sh.Scores)
    assert names["scores"].avg_gap > 0
    assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), weights, strict=True))
    after = accuracies(model, parts)
    assert all(before[name] > 95 and before[name] - after[name] < 5 for name in parts), (before, after)


def test_the_shell_works_as_printed(nursery: Nursery, tmp_path: Path) -> None:
    for line in "".join(blocks("sh")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "scissorhands"
        done = nursery.run(shlex.join(arguments), tmp_path, SCISSORHANDS_CACHE=str(tmp_path / "cache"))
        assert done.code == 0, done.err  # 3 would mean that a model was damaged
    scores = sh.Scores.from_dict(json.loads((tmp_path / "runs/scrubbed/scores.json").read_text()))
    assert scores.avg_gap < 5
    assert (tmp_path / "report.html").is_file()


def test_the_file_map_is_complete() -> None:
    modules = {path.name for path in (ROOT / "src/scissorhands").glob("*.py") if not path.name.startswith("__")}
    assert modules == set(re.findall(r"\w+\.py", README.split("## Where things are")[1].split("## ")[0]))


@pytest.mark.parametrize("example", ["forget_a_class", "write_a_method"])
def test_the_examples_run(example: str, nursery: Nursery) -> None:
    done = nursery.script(ROOT / "examples" / f"{example}.py")
    assert done.code == 0, done.err
    assert "forget" in done.out


def test_the_example_of_a_pipeline_runs(nursery: Nursery, tmp_path: Path) -> None:
    words = (str(tinysd.source(tmp_path)), "three", "a four", "out")
    script = ROOT / "examples" / "erase_a_concept.py"
    done = nursery.script(script, *words, cwd=tmp_path, SCISSORHANDS_CACHE=str(tmp_path / "cache"))
    assert done.code == 0, done.err
    assert "loss on what to forget" in done.out
    for name in ("before", "after"):
        with Image.open(tmp_path / "out" / f"{name}.png") as picture:
            assert picture.width > picture.height > 100  # two rows of four


def test_every_link_leads_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "results").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
