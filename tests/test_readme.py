"""What the README and docs/evaluation.md print runs as printed, and so do the examples."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import scissorhands as sh
from helpers import newcomer, tinysd
from helpers.commands import cli
from helpers.nursery import Nursery
from scissorhands import runs
from scissorhands.evaluation.evaluate import accuracies

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_python_works_as_printed_and_leaves_the_model_usable() -> None:
    model, (train, test) = newcomer.mlp(), newcomer.digits()
    parts = sh.split(train, sh.Forget("random:10%"), test=test).parts()
    parts = {name: parts[name] for name in ("retain", "test")}
    before, weights = accuracies(model, parts), [p.detach().clone() for p in model.parameters()]
    names: dict[str, Any] = {"train": train, "test": test, "model": model}
    (printed,) = blocks("README.md", "python")
    with warnings.catch_warnings(action="error"):
        exec(printed, names)
    assert isinstance(names["scores"], sh.Scores)
    assert 0 < names["scores"].avg_gap < 10
    assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), weights, strict=True))
    after = accuracies(model, parts)
    assert all(before[name] > 95 and before[name] - after[name] < 5 for name in parts), (before, after)


def test_the_shell_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    for line in "".join([*blocks("README.md", "sh"), *blocks("docs/evaluation.md", "sh")]).splitlines():
        command = line.partition("#")[0].removeprefix("scissorhands ")
        assert command != line, "a line that does not start with 'scissorhands'"
        answer = cli(command)
        assert answer.code == 0, answer.err  # 3 would mean that a model was damaged
    scores = runs.read(tmp_path / "runs" / "scrubbed").result.scores
    assert scores.avg_gap < 5
    assert "probe" in scores.values
    assert scores.verdict
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("forget_a_class", "forget"),
        ("write_a_method", "Noise"),
        ("deletion_request", "holds: the ledger lists this pack for 1 request"),
        ("scrub_a_table", "Verdict("),
        ("scrub_a_regression", "Verdict("),
        ("scrub_a_pytorch_file", "config.json net.pt"),
        ("scrub_a_hugging_face_dataset", "Verdict("),
        ("scrub_a_text_classifier", "model.safetensors tokenizer.json"),
    ],
)
def test_the_examples_run(example: str, says: str, nursery: Nursery) -> None:
    done = nursery.script(ROOT / "examples" / f"{example}.py", PATH="/nowhere")  # of a browser that prints pages
    assert done.code == 0, done.err
    assert says in done.out


def test_the_example_of_a_pipeline_runs(nursery: Nursery, tmp_path: Path) -> None:
    words = (str(tinysd.source(tmp_path)), "three", "a four", "out")
    script = ROOT / "examples" / "erase_a_concept.py"
    done = nursery.script(script, *words, cwd=tmp_path, SCISSORHANDS_CACHE=str(tmp_path / "cache"))
    assert done.code == 0, done.err
    assert "loss on what to forget" in done.out
    for name in ("before", "after"):
        with Image.open(tmp_path / "out" / f"{name}.png") as picture:
            assert picture.width > picture.height > 100  # two rows of four
