"""`sh.scrub` does what the command does, and returns its run."""

import shlex
from pathlib import Path

import pytest
import torch

import scissorhands as sh
from helpers.commands import done
from scissorhands import python, runs, tasks
from scissorhands.files import read_tensors
from scissorhands.report import pdf

QUICK = "--method finetune --set epochs=1"
TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set batch_size=64"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python") / "trained"
    done(TRAIN, "-o", folder)
    return folder


@pytest.fixture(scope="module")
def run(trained: Path) -> sh.Run:
    method = sh.FineTune(epochs=1)
    return sh.scrub(trained, "where:label == 3", trained.parent / "run", method=method, who=True)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_run_is_that_of_the_command_file_by_file(run: sh.Run, trained: Path) -> None:
    typed = trained.parent / "typed"
    done(f"scrub {trained} {QUICK} --who -o {typed}", "--forget", "where:label == 3")
    assert files(run.folder) == files(typed)
    ours, theirs = (read_tensors(folder / "model/model.safetensors") for folder in (run.folder, typed))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    said, known = run.record, runs.read(typed).record
    assert {name for name in known if said.get(name) != known[name]} <= {"begun", "finished", "command"}
    assert {**said["method"]}.items() >= {"name": "finetune", "epochs": 1}.items()


def test_it_says_the_command_that_repeats_it_but_not_what_was_forgotten(run: sh.Run, trained: Path) -> None:
    words = shlex.split(run.record["command"])
    assert words[:3] == ["scissorhands", "scrub", str(trained)]
    assert words[words.index("--forget") + 1] == run.record["split"]["forget"]
    assert "label" not in run.record["command"]
    repeated = trained.parent / "repeated"
    words[words.index("--forget") + 1], words[-1] = "where:label == 3", str(repeated)
    done(shlex.join(words[1:]))
    assert runs.read(repeated).result.scores.values == run.result.scores.values


def test_it_is_short_in_a_notebook_and_gives_its_scores_and_its_model(run: sh.Run) -> None:
    assert repr(run).startswith(f"<Run '{run.folder}': finetune of where:#")
    assert len(repr(run).splitlines()) == 1
    assert run.scores["forget_accuracy"] == run.result.scores["forget_accuracy"]
    assert (run.model / "model.safetensors").is_file()
    assert repr(sh.Run.read(run.folder)) == repr(run)


def test_it_writes_its_report_and_its_evidence(run: sh.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "browser", lambda: "")
    assert "finetune" in run.report(tmp_path / "page.html").read_text()
    (tmp_path / "policy.toml").write_text("signed = true\n")
    broken = run.evidence(tmp_path / "pack.zip", policy=tmp_path / "policy.toml")
    assert len(broken) == 1
    assert "not signed" in broken[0]
    with pytest.raises(sh.ScissorhandsError, match="exists already"):
        run.evidence(tmp_path / "pack.zip")
    with pytest.raises(sh.ScissorhandsError, match="give it a name that ends in"):
        run.report(tmp_path / "page.docx")


def test_it_may_be_evaluated_deeper(trained: Path) -> None:
    folder = trained.parent / "deeper"
    made = sh.scrub(trained, "class:3", folder, method="finetune", settings={"epochs": 1})
    deeper = made.evaluate("standard")
    assert deeper.result.scores.verdict is not None
    assert {*made.scores} < {*deeper.scores}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"lables": "a=b"}, "scrub has no option 'lables'. Did you mean 'labels'"),
        ({"anchor": "a photo"}, "'anchor' applies only to diffusion pipelines"),
        ({"method": "finetun"}, "there is no method 'finetun'. Did you mean 'finetune'"),
        ({"settings": {"lrr": 1}}, "has no setting 'lrr'"),
        ({"method": sh.FineTune(), "settings": {"lr": 1}}, "leave out 'settings'"),
        ({"seed": -1}, "'seed' must be a whole number, 0 or more"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_mistake_is_one_line_and_writes_nothing(more: dict[str, object], says: str, trained: Path) -> None:
    before = {*trained.parent.iterdir()}
    with pytest.raises(sh.ScissorhandsError, match=says):
        sh.scrub(trained, "class:3", trained.parent / "never", **more)  # type: ignore[arg-type]
    assert {*trained.parent.iterdir()} == before


def test_a_request_may_say_whatever_the_options_of_the_command_say() -> None:
    known = {name for task in tasks.TASKS for name in task.options}
    assert {*python._REQUEST} == known - {"forget", "factory"}
