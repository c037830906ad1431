"""The command line: what it prints, what it leaves on disk, and how it answers mistakes."""

import getpass
import json
import os
import platform
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.commands import cli, done
from helpers.nursery import Child, Nursery
from scissorhands import runs, tasks
from scissorhands.cli.main import _stop
from scissorhands.data.sources import Source
from scissorhands.data.split import held_out
from scissorhands.evaluation.evaluate import Scores
from scissorhands.methods import METHODS
from scissorhands.metrics import GAP_OVER, Verdict
from scissorhands.runs import Result
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.models import Blueprint

TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set batch_size=64"
QUICK = "--method finetune --set epochs=1"


def parsed(command: str, *more: str | Path) -> Any:
    """What the command prints with --json."""
    return json.loads(done(command, *more, "--json").out)


def environment() -> dict[str, str]:
    """The environment of a real process: one thread, no network, a terminal that knows colors, nobody forcing them."""
    forced = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return {**forced, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TERM": "xterm-256color"}


def process(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command, run as a process of its own with its output piped."""
    words = [sys.executable, "-m", "scissorhands", *shlex.split(command)]
    return subprocess.run(
        words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below the folder with its content, and every folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `train`."""
    folder = tmp_path_factory.mktemp("cli") / "trained"
    done(TRAIN, "-o", folder)
    return folder


@pytest.fixture(scope="session")
def world(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good runs, bad models and bad lists of ids."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(trained, folder / "run")
    done(f"scrub {folder}/run --forget class:3 {QUICK} -o {folder}/three")
    done(f"scrub {folder}/run --forget class:4 {QUICK} -o {folder}/four")
    held = int(held_out(Source().load().train, share=0.1, seed=0)[0])
    for name, text in {"far": "1 99999", "twice": "1 3 1", "words": "1 two", "none": "", "held": str(held)}.items():
        (folder / f"{name}.txt").write_text(text.replace(" ", "\n"))
    (folder / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    (folder / "file").write_text("not a folder")
    (folder / "broken_code.py").write_text("def make(:\n")
    (folder / "raising_code.py").write_text("def make():\n    raise KeyError('x')\n")
    weights = (trained / "model" / "model.safetensors").read_bytes()
    for name, content in {"garbage": b"garbage " * 9, "cut": weights[: len(weights) // 2]}.items():
        shutil.copytree(trained / "model", folder / name)
        (folder / name / "model.safetensors").write_bytes(content)
    shutil.copytree(trained / "model", folder / "pickled")
    torch.save({"weight": torch.zeros(2)}, folder / "pickled" / "model.safetensors")
    shutil.copytree(trained / "model", folder / "bin")
    (folder / "bin" / "model.safetensors").rename(folder / "bin" / "pytorch_model.bin")
    blueprint = Blueprint("small", {"classes": 5, "channels": 1, "width": 1})
    models.save(blueprint.build(), blueprint, folder / "five")
    return folder


SCRUB = "scrub run -o out --forget"

MISTAKES = {
    "an unknown command": ("scrb run", "no command 'scrb'. Did you mean 'scrub'?"),
    "an unknown option": ("scrub run -o out --forgets class:3", "--forgets"),
    "an unknown method": (f"{SCRUB} class:3 --method nothing", "no method 'nothing'. Known: scissorhands, "),
    "a misspelt method": (f"{SCRUB} class:3 --method retrian", "Did you mean 'retrain'?"),
    "a method of no module": (f"{SCRUB} class:3 --method no_such_module:It", "'no_such_module:It' cannot be imported"),
    "a method that is none": (f"{SCRUB} class:3 --method scissorhands:Forget", "not a class derived from"),
    "a method that is only a base": (f"{SCRUB} class:3 --method scissorhands:Method", "'scissorhands:Method' is not a"),
    "a method of a relative module": (f"{SCRUB} class:3 --method .x:X", "'.x:X' cannot be imported: TypeError: "),
    "a method of code that is broken": (
        f"{SCRUB} class:3 --method broken_code:X",
        "'broken_code:X' cannot be imported: SyntaxError: ",
    ),
    "help for a method that is only a base": ("methods scissorhands:Method", "'scissorhands:Method' is not a class"),
    "help for a misspelt method": ("methods scisorhands", "Did you mean 'scissorhands'?"),
    "an unknown setting": (f"{SCRUB} class:3 --set lrr=1", "no setting 'lrr'. Did you mean 'lr'?"),
    "a setting set twice": (f"{SCRUB} class:3 --set lr=1 --set lr=2", "'lr' is set twice"),
    "a setting without a value": (f"{SCRUB} class:3 --set lr", "not of the form name=value"),
    "a share above 1": (f"{SCRUB} class:3 --set trim=2", "'trim' must be a share from 0 to 1, not 2.0"),
    "a negative rate": (f"{SCRUB} class:3 --set lr=-1", "'lr' must be a number above 0, not -1.0"),
    "a rate that is no number": (f"{SCRUB} class:3 --set lr=nan", "'lr' must be a number above 0"),
    "epochs in words": (f"{SCRUB} class:3 --set epochs=x", """'epochs' must be a whole number, 0 or more, not "x"."""),
    "a switch that is neither": (f"{SCRUB} class:3 --set project=maybe", "must be true or false"),
    "no parameter of that name": (f"{SCRUB} class:3 --set parameters=layer9.*", "One is 'conv1.weight'."),
    "an unknown data set": (f"{SCRUB} class:3 --data imagenet", "no data set or folder 'imagenet'"),
    "a misspelt data set": (f"{SCRUB} class:3 --data digit", "Did you mean 'digits'?"),
    "a way to read no data": (f"{SCRUB} class:3 --data-set size=8", "--data-set needs --data"),
    "an unknown augmentation": (
        f"{TRAIN} --data-set augment=flop -o out",
        "no augmentation 'flop'. Did you mean 'flip'?",
    ),
    "an unknown class": (f"{SCRUB} class:12", "'class:12' names no class of this data, which has 10"),
    "an unknown column": (f"{SCRUB} 'where:age > 3'", "no column 'age'. Known: label"),
    "a misspelt column": (f"{SCRUB} 'where:lable > 3'", "Did you mean 'label'?"),
    "a condition that matches nothing": (f"{SCRUB} 'where:label > 30'", "matches none of the 1293 training records"),
    "a condition that matches everything": (f"{SCRUB} 'where:label >= 0'", "leaves nothing to retain"),
    "a condition that ends early": (f"{SCRUB} 'where:label >'", "a value is missing at the end"),
    "a condition with one equals sign": (f"{SCRUB} 'where:label = 3'", "'= 3' cannot be read"),
    "a condition with an open bracket": (f"{SCRUB} 'where:(label == 3'", "a ')' is missing"),
    "a condition of words on numbers": (f"{SCRUB} 'where:label == three'", "holds numbers, and 'three' is none"),
    "a condition with [markup]": (f"{SCRUB} 'where:label == [bold]x[/]'", "'[bold]x[/]' is none"),
    "a condition with :an_emoji:": (f"{SCRUB} 'where:label == :cat:'", "':cat:' is none"),
    "an id out of range": (f"{SCRUB} ids:far.txt", "'99999' in 'far.txt' is not an id"),
    "an id twice": (f"{SCRUB} ids:twice.txt", "id 1 is listed twice"),
    "an id in words": (f"{SCRUB} ids:words.txt", "'two' in 'words.txt' is not an id"),
    "an id that was held out": (f"{SCRUB} ids:held.txt", "was held out"),
    "an id that was forgotten before": (
        "scrub three --forget ids:three/forget.txt -o out",
        "is not in the model: it was held out, or forgotten before",
    ),
    "ids that are no text": (
        f"{SCRUB} ids:bytes.txt",
        "the list of ids: bytes.txt cannot be read: it is not UTF-8 text.",
    ),
    "ids in a folder": (f"{SCRUB} ids:run", "it is not a regular file."),
    "ids in no file": (f"{SCRUB} ids:absent.txt", "No such file"),
    "no ids": (f"{SCRUB} ids:none.txt", "matches none"),
    "all of it": (f"{SCRUB} random:100%", "matches all 1293 training records"),
    "none of it": (f"{SCRUB} random:0", "asks for 0 of 1293"),
    "more than all of it": (f"{SCRUB} random:5000", "asks for 5000 of 1293"),
    "a random part in words": (f"{SCRUB} random:some", "random:500 or random:10%"),
    "a misspelt way to forget": (f"{SCRUB} clas:3", "Did you mean 'class'?"),
    "no way to forget": (f"{SCRUB} three", "does not say what to forget"),
    "nothing to forget": ("scrub run -o out", "say what to forget: --forget"),
    "no output": ("scrub run --forget class:3", "'-o'"),
    "a share of unseen data above 1": (
        "scrub run/model --data digits --forget class:3 --unseen 1.5 -o out",
        "'unseen' must be a share from 0, below 1, not 1.5",
    ),
    "a share of unseen data above 1 where training held out some": (
        f"{SCRUB} class:3 {QUICK} --unseen 1.5",
        "'unseen' must be a share from 0, below 1, not 1.5",
    ),
    "a holdout of everything": (f"{TRAIN} --holdout 1 -o out", "'holdout' must be a share from 0, below 1"),
    "a holdout of nearly everything": (f"{TRAIN} --holdout 0.9999 -o out", "leaves nothing to train on"),
    "a model of other outputs": (
        "scrub five --data digits --forget class:3 -o out",
        "has 5 outputs, but the data has 10",
    ),
    "a model without its data": ("scrub run/model --forget class:3 -o out", "name the data with --data"),
    "weights that are garbage": ("scrub garbage --data digits --forget class:3 -o out", "not a readable safetensors"),
    "weights cut short": ("scrub cut --data digits --forget class:3 -o out", "not a readable safetensors"),
    "a pickle under another name": ("scrub pickled --data digits --forget class:3 -o out", "is a pickle"),
    "a pickle only": ("scrub bin --data digits --forget class:3 -o out", "pytorch_model.bin is a pickle"),
    "no model": ("scrub absent --data digits --forget class:3 -o out", "no model folder 'absent'"),
    "a model that is a file": ("scrub file --data digits --forget class:3 -o out", "no model folder 'file'"),
    "neither a folder nor a name on the hub": (
        "scrub absent/model --forget class:3 -o out",
        "there is no folder 'absent/model' here, and 'absent/model' cannot be loaded as a Hugging Face",
    ),
    "a model in the home of nobody": ("scrub ~nobody_here/x --forget class:3 -o out", "'~nobody_here/x': "),
    "an unknown network": ("train --model smal -o out", "no model 'smal'. Did you mean 'small'?"),
    "an unknown argument of a network": (f"{TRAIN} --model-set depth=3 -o out", "'depth'"),
    "a network without width": ("train --model small --model-set width=0 -o out", "from 1 to 1048576, not {"),
    "a network without end": (f"train --model small --model-set width={10**9} -o out", "from 1 to 1048576, not {"),
    "a width that is nested": (
        f"train --model small --model-set width={'[' * 5000} -o out",
        "from 1 to 1048576, not {",
    ),
    "a network larger than the memory": (
        "train --model resnet18 --model-set width=900000 -o out",
        "GiB, and this machine has",
    ),
    "a network for other channels": (
        "train --model small --model-set channels=2 -o out",
        "the data has 1 channels, not 2: leave 'channels' out",
    ),
    "epochs beyond bounds": (f"{TRAIN.replace('epochs=2', 'epochs=99999999999')} -o out", "at most 2147483647"),
    "a balance beyond bounds": (f"{SCRUB} class:3 --set balance=1e308", "'balance' must be a number, 0 or more, and"),
    "code that raises an error": (
        "train --model raising_code:make -o out",
        "'raising_code:make' cannot be built with {}: KeyError: 'x'",
    ),
    "an output below a file": (f"{SCRUB.replace('out', 'file/out')} class:3", "/file: it is not a folder."),
    "an output far below a file": (f"{SCRUB.replace('out', 'file/a/out')} class:3", "/file/a: it is not a folder."),
    "an output of too long a name": (
        f"{SCRUB.replace('out', 'x' * 300)} class:3",
        f"the name '{'x' * 20}…' is too long for a folder",
    ),
    "an output in the home of nobody": ("scrub run --forget class:3 -o ~nobody_here/x", "'~nobody_here/x': "),
    "an output that exists": (f"{SCRUB.replace('out', 'three')} class:3", "replace it with --overwrite"),
    "an output that is no run": (
        f"{SCRUB.replace('out', 'five')} class:3 --overwrite",
        "--overwrite does not replace",
    ),
    "an unknown device": (f"{SCRUB} class:3 --device abacus", "no device 'abacus' here"),
    "a device that computes nothing": (f"{SCRUB} class:3 {QUICK} --device meta", "no device 'meta' here"),
    "a device that torch lacks": (f"{SCRUB} class:3 {QUICK} --device hpu", "no device 'hpu' here"),
    "a device that is none any more": (f"{SCRUB} class:3 {QUICK} --device mkldnn", "no device 'mkldnn' here"),
    "a seed in words": (f"{SCRUB} class:3 --seed x", "'x' is not a valid integer"),
    "a reference of another manifest": ("evaluate three --against four", "the reference forgot something else"),
    "a reference of another manifest for a model to score": (
        "evaluate run --forget class:3 --against four -o out",
        "the reference forgot something else",
    ),
    "a reference that was trained only": ("evaluate three --against run", "was not scrubbed or retrained"),
    "a reference that forgot nothing": ("evaluate run --against run", "was not scrubbed or retrained"),
    "a reference that is the run itself": ("evaluate three --against ./three", "cannot be its own reference"),
    "a reference that is not there": ("evaluate three --against absent", "no run folder 'absent'"),
    "a model to score without a place": ("evaluate run --forget class:3", "needs a place for the scores"),
    "a place for scores that are there": ("evaluate run -o out", "--output goes with --forget"),
    "data for scores that are there": ("evaluate run --data digits", "--data goes with --forget"),
    "a model to score on nothing": ("evaluate five", "say what it should forget"),
    "a report on no run": ("report five -o page.html", "five is not a run folder: it has no run.toml"),
    "a report on nothing there": ("report absent -o page.html", "no run folder 'absent'"),
    "a report on one run twice": ("report three three -o page.html", "have the same seed"),
    "a report into a folder": ("report three -o run", "it is a folder"),
    "a report into no folder": ("report three -o absent/page.html", "cannot write"),
}


@pytest.mark.parametrize(("command", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_with_one_line_and_changes_nothing_on_disk(
    command: str, says: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    before = tree(world)
    answer = cli(command)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.endswith("\n")
    assert len(answer.err.splitlines()) == 1
    assert says in answer.err
    assert "Traceback" not in answer.err
    assert tree(world) == before


def test_no_command_at_all_is_answered_with_the_help() -> None:
    answer = cli("")
    assert answer == (2, done("--help").out, "")
    assert answer.out.startswith("Usage: scissorhands ")
    assert "scrub" in answer.out


def test_training_writes_a_whole_run(trained: Path) -> None:
    names = {str(p.relative_to(trained)) for p in trained.rglob("*") if p.is_file()}
    whole = {"run.toml", "log.jsonl", "inventory.json", "scores.json", "model/config.json", "model/model.safetensors"}
    assert names == whole
    run = runs.read(trained)
    assert run.method == "original"
    assert run.settings["epochs"] == 2
    assert run.record["data"]["name"] == "digits"
    assert run.result.scores.counts == {"retain": 1293, "calibration": 72, "audit": 72, "test": 360}
    assert run.result.scores["test_accuracy"] > 50


def test_scrubbing_with_scissorhands_forgets_and_logs_every_step(trained: Path, tmp_path: Path) -> None:
    answer = done(
        f"scrub {trained} --forget class:3 --set epochs=1 --set reading=paper --set batch_size=64 -o {tmp_path}/out"
    )
    assert answer.code == 0
    assert answer.err.startswith("scissorhands, seed 0: repair epoch 1 of 1, loss on retain ")
    assert len(answer.err.splitlines()) == 1
    assert "Acc forget" in answer.out
    assert f"model  {tmp_path}/out/model\nnext   scissorhands evaluate {tmp_path}/out --level standard\n" in answer.out
    run = runs.read(tmp_path / "out")
    original = parsed(f"evaluate {trained} --forget class:3 -o {tmp_path}/original")
    assert run.result.scores["forget_accuracy"] < original["values"]["forget_accuracy"]
    assert len(run.ids("forget")) == run.result.scores.counts["forget"] == run.record["split"]["forget_records"]
    events = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert events[0]["phase"] == "trim"
    assert events[-1]["step"] == events[-1]["steps"] == len(events) - 1


def test_a_run_says_when_and_by_which_command_it_was_made_and_who_made_it_if_asked(trained: Path) -> None:
    out = trained.parent / "signed"
    done(f"scrub {trained} {QUICK} --who -o {out}", "--forget", "where:label == 3")
    record = runs.read(out).record
    assert record["who"] == f"{getpass.getuser()}@{platform.node()}"
    expected = ["scissorhands", *shlex.split(f"scrub {trained} {QUICK} --who -o {out} --forget")]
    assert shlex.split(record["command"]) == [*expected, record["split"]["forget"]]
    begun, finished = (datetime.strptime(record[name], "%Y-%m-%dT%H:%M:%SZ") for name in ("begun", "finished"))
    assert begun <= finished <= datetime.now(UTC).replace(tzinfo=None)
    assert "who" not in runs.read(trained).record


def test_a_run_and_its_page_name_no_record_and_no_file(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("1\n3\n4\n")
    for number, forget in enumerate((f"ids:{tmp_path}/secret.txt", "where:label == 3", "class:3")):
        out = tmp_path / f"out-{number}"
        done(f"scrub {trained} {QUICK} -o {out}", "--forget", forget)
        page = done(f"report {out} -o {tmp_path}/page.html --json").out + (tmp_path / "page.html").read_text()
        for text in ((out / "run.toml").read_text(), (out / "scores.json").read_text(), page):
            assert "secret" not in text
            assert "label == 3" not in text
        shown = runs.read(out).record["split"]["forget"]
        assert re.fullmatch(r"(ids|where):#[0-9a-f]{8}|class:3", shown)
        assert shown in page
        assert stat.S_IMODE((out / "forget.txt").stat().st_mode) == 0o600
        again = parsed(f"evaluate {out}")  # what was asked is known from the numbers
        assert again["counts"]["forget"] == (3 if number == 0 else len(runs.read(out).ids("forget")))


def test_a_model_folder_is_scrubbed_once_its_data_is_named(trained: Path, tmp_path: Path) -> None:
    done(f"scrub {trained}/model --data digits --forget random:5% {QUICK} --unseen 0.5 -o {tmp_path}/out")
    counts = runs.read(tmp_path / "out").result.scores.counts
    assert counts == {"forget": 72, "retain": 1365, "calibration": 90, "audit": 90, "test": 180, "others": 270}


def test_retraining_takes_over_the_settings_of_training(trained: Path, tmp_path: Path) -> None:
    done(f"scrub {trained} --forget class:3 --method retrain --set lr=0.05 -o {tmp_path}/out")
    own = METHODS["retrain"].make({}).to_dict()
    assert runs.read(tmp_path / "out").settings == {**own, **runs.read(trained).settings, "lr": 0.05}


def test_fine_tuning_does_not_take_over_the_settings_of_training(trained: Path, tmp_path: Path) -> None:
    done(f"scrub {trained} --forget class:3 {QUICK} -o {tmp_path}/out")
    settings = runs.read(tmp_path / "out").settings
    assert settings["batch_size"] == METHODS["finetune"].make({}).to_dict()["batch_size"] != 64


def test_evaluating_against_a_reference_adds_the_gap_and_the_time(trained: Path, tmp_path: Path) -> None:
    reference = parsed(f"scrub {trained} --forget class:3 --method retrain -o {tmp_path}/reference")
    before = parsed(f"scrub {trained} --forget class:3 {QUICK} -o {tmp_path}/out")
    after = parsed(f"evaluate {tmp_path}/out --against {tmp_path}/reference")
    gaps = [abs(before["values"][name] - reference["values"][name]) for name in GAP_OVER]
    assert {"avg_gap", "rte"}.isdisjoint(before["values"])
    assert after["values"].pop("avg_gap") == pytest.approx(sum(gaps) / 4)
    assert after["values"].pop("rte") == pytest.approx(before["seconds"] / reference["seconds"])
    beside = {"jsd_forget", "jsd_test", "agreement_forget", "agreement_test"}
    assert after["values"].keys() - before["values"].keys() == beside
    assert before["values"].items() <= after["values"].items()
    assert runs.read(tmp_path / "out").result.values()["avg_gap"] == pytest.approx(sum(gaps) / 4)


def test_evaluating_a_run_alone_shows_what_is_stored(trained: Path) -> None:
    before = tree(trained)
    shown = parsed(f"evaluate {trained}")
    assert shown["values"] == runs.read(trained).result.values()
    assert tree(trained) == before


def test_a_model_is_scored_on_what_someone_wants_forgotten(trained: Path, tmp_path: Path) -> None:
    before = tree(trained)
    shown = parsed(f"evaluate {trained} --forget class:3 -o {tmp_path}/out")
    run = runs.read(tmp_path / "out")
    assert run.method == "original"
    assert run.record["verb"] == "evaluate"
    assert shown["values"]["forget_accuracy"] == run.result.scores["forget_accuracy"]
    assert not (tmp_path / "out" / "model").exists()
    assert tree(trained) == before


def test_a_run_without_a_model_is_not_scrubbed(trained: Path, tmp_path: Path) -> None:
    done(f"evaluate {trained} --forget class:3 -o {tmp_path}/scored")
    answer = cli(f"scrub {tmp_path}/scored --forget class:4 -o {tmp_path}/out")
    assert answer.code == 2
    assert "is a run without a model" in answer.err
    assert not (tmp_path / "out").exists()


def test_a_run_is_shown_with_its_scores_before_where_it_has_them(world: Path) -> None:
    run = runs.read(world / "three")
    header, *lines = done(f"evaluate {run.folder}").out.splitlines()
    assert header.split() == [run.method, "before", "after", "retrained"]
    (line,) = (line for line in lines if line.startswith("Acc forget"))
    values = run.record["forget_accuracy_before"], run.result.scores["forget_accuracy"]
    assert line.split()[2:4] == [f"{value:.2f}" for value in values]
    assert "before" not in done(f"evaluate {world}/run").out


def test_a_report_is_one_page_that_needs_no_other_file(world: Path, tmp_path: Path) -> None:
    answer = done(f"report {world}/three {world}/four -o {tmp_path}/page.html --title 'Three & <four>'")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Three &amp; &lt;four&gt;</title>" in page
    assert page.count("finetune") >= 2
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!#)', markup) == []
    assert "page.html" in answer.err
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_report_prints_the_table_as_json(world: Path, tmp_path: Path) -> None:
    table = parsed(f"report {world}/three {world}/four -o {tmp_path}/page.html")
    manifests = [runs.read(world / name).record["split"]["manifest"] for name in ("three", "four")]
    assert [row["manifest"] for row in table["rows"]] == manifests
    assert [row["method"] for row in table["rows"]] == [f"finetune split.manifest={manifest}" for manifest in manifests]


def test_a_report_on_one_run_prints_the_table_as_json_too(world: Path, tmp_path: Path) -> None:
    table = parsed(f"report {world}/three -o {tmp_path}/page.html")
    assert [row["method"] for row in table["rows"]] == ["finetune"]


def test_a_report_does_not_average_networks_of_different_widths(trained: Path, tmp_path: Path) -> None:
    done(f"{TRAIN.replace('width=4', 'width=2')} --seed 1 -o {tmp_path}/narrow")
    table = parsed(f"report {trained} {tmp_path}/narrow -o {tmp_path}/page.html")
    assert [row["method"] for row in table["rows"]] == ["original model.width=4", "original model.width=2"]
    assert [row["seeds"] for row in table["rows"]] == [[0], [1]]


def test_every_method_is_listed_with_its_paper() -> None:
    shown = done("methods").out
    listed = parsed("methods")
    assert [row["name"] for row in listed] == [*tasks.methods()]
    for row in listed:
        assert row["name"] in shown
        assert row["what"]
        assert row["paper"]


@pytest.mark.parametrize("name", [*tasks.methods()])
def test_every_method_shows_its_settings(name: str) -> None:
    shown = done(f"methods {name}").out
    listed = parsed(f"methods {name}")
    kind = tasks.methods()[name]
    assert listed["settings"] == json.loads(json.dumps(list(kind.described())))
    for row in listed["settings"]:
        assert row["name"] in shown


def test_a_metric_that_failed_is_shown_with_its_reason(tmp_path: Path) -> None:
    record = {
        "verb": "scrub",
        "seed": 0,
        "model": {"source": "x", "origin": "small", "name": "small", "arguments": {}},
        "data": {"name": "digits"},
        "split": {"manifest": "m", "fingerprint": "0123456789abcdef", "holdout": 0.1},
        "method": {"name": "finetune"},
    }
    runs.write_record(tmp_path, record, {"forget": [0]})
    scores = Scores({"test_accuracy": 50.0}, {"test": 2}, {"mia": "too few [members]"}, "m")
    runs.write_result(tmp_path, Result(scores, 1.0, 1.0))
    answer = done(f"evaluate {tmp_path}")
    assert re.search(r"^MIA +failed +too few \[members\] *$", answer.out, re.MULTILINE)
    assert re.search(r"^Acc test +50.00 ", answer.out, re.MULTILINE)
    table = done(f"report {tmp_path} -o {tmp_path}/page.html")
    assert "finetune: MIA failed: too few [members]" in table.err


def test_what_a_run_says_is_printed_as_it_is_and_on_one_line(tmp_path: Path) -> None:
    record = {
        "verb": "scrub",
        "seed": 0,
        "damage": "a\x1b[31mred\nsecond [/line]",
        "model": {"source": "x", "origin": "small", "name": "small", "arguments": {}},
        "data": {"name": "digits"},
        "split": {"manifest": "m", "fingerprint": "0123456789abcdef", "holdout": 0.1},
        "method": {"name": "[/x]"},
    }
    runs.write_record(tmp_path, record, {"forget": [0]})
    verdict = Verdict("[/x] \\[", "so [/y]\\")
    scores = Scores({"test_accuracy": 50.0}, {"test": 2}, {"[/z]": "[/w]"}, "m", verdict=verdict)
    runs.write_result(tmp_path, Result(scores, 1.0, 1.0))
    answer = done(f"evaluate {tmp_path}")
    assert answer.err.splitlines()[0].startswith("warning: a\ufffd[31mred second [/line]: the model is damaged.")
    assert answer.err.splitlines()[1] == "[/z] failed: [/w]"
    assert answer.out.startswith("[/x] ")
    assert answer.out.splitlines()[-1] == "[/x] \\[: so [/y]\\"
    assert "[/x]" in done(f"report {tmp_path} -o {tmp_path}/page.html").out


@pytest.mark.parametrize("place", ["x\\[b", "[/x]", "x\\\\[red]"])
def test_a_path_is_told_as_it_was_given(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = cli("report", place)
    assert (answer.code, place in answer.err) == (2, True)


def test_a_folder_whose_name_is_not_utf8_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"nd\xff")
    folder.mkdir()
    monkeypatch.chdir(folder)
    for output in ("a", str(tmp_path / "b")):
        answer = cli(f"train --model small --model-set width=4 --set epochs=1 -o {output}")
        assert (answer.code, len(answer.err.splitlines())) == (2, 1)
        assert "is not UTF-8 text" in answer.err
    assert [*folder.iterdir(), *(path for path in tmp_path.iterdir() if path != folder)] == []


def test_what_was_forgotten_earlier_is_neither_retained_nor_forgotten_again(trained: Path, tmp_path: Path) -> None:
    done(f"scrub {trained} --forget class:3 {QUICK} -o {tmp_path}/first")
    done(f"scrub {tmp_path}/first --forget random:10% {QUICK} -o {tmp_path}/second")
    done(f"scrub {tmp_path}/second --forget random:10% {QUICK} -o {tmp_path}/third")
    first, second, third = (runs.read(tmp_path / name) for name in ("first", "second", "third"))
    assert first.ids("before") == []
    assert second.ids("before") == first.ids("forget")
    assert third.ids("before") == sorted(first.ids("forget") + second.ids("forget"))
    gone = [*first.ids("forget"), *second.ids("forget"), *third.ids("forget")]
    assert len(gone) == len(set(gone))
    for run, others in ((first, 0), (second, len(first.ids("forget"))), (third, len(third.ids("before")))):
        counts = run.result.scores.counts
        assert counts["forget"] + counts["retain"] == 1293 - others


def test_a_class_that_is_gone_cannot_be_forgotten_again(world: Path, tmp_path: Path) -> None:
    answer = cli(f"scrub {world}/three --forget class:3 -o {tmp_path}/out")
    assert answer.code == 2
    assert "'class:3' matches none" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(trained: Path, tmp_path: Path) -> None:
    scrub = f"scrub {trained} --forget random:10% --set epochs=1"
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        done(f"{TRAIN} --seed {seed} -o {tmp_path}/trained/{name}")
        done(f"{scrub} --seed {seed} -o {tmp_path}/scrubbed/{name}")
    for kind in ("trained", "scrubbed"):
        a, b, c = ((tmp_path / kind / name / "model" / "model.safetensors").read_bytes() for name in "abc")
        assert a == b
        assert a != c


def test_the_seed_does_not_change_what_is_forgotten_and_the_split_seed_does(trained: Path, tmp_path: Path) -> None:
    scrub = f"scrub {trained} --forget random:10% {QUICK}"
    for name, seeds in {"a": "--seed 1", "b": "--seed 2", "c": "--split-seed 1"}.items():
        done(f"{scrub} {seeds} -o {tmp_path}/{name}")
    a, b, c = (runs.read(tmp_path / name).ids("forget") for name in "abc")
    assert a == b
    assert a != c


def test_overwrite_replaces_a_run_and_leaves_nothing_beside_it(trained: Path, tmp_path: Path) -> None:
    scrub = f"scrub {trained} {QUICK} -o {tmp_path}/out"
    done(f"{scrub} --forget class:3")
    (tmp_path / "out" / "before.txt").write_text("old")
    done(f"{scrub} --forget class:4 --overwrite")
    assert runs.read(tmp_path / "out").record["split"]["forget"] == "class:4"
    assert not (tmp_path / "out" / "before.txt").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("overwrite", ["", "--overwrite"])
def test_a_run_that_fails_has_exit_code_1_and_changes_nothing_on_disk(
    overwrite: str, world: Path, tmp_path: Path
) -> None:
    if overwrite:
        shutil.copytree(world / "three", tmp_path / "out")
    before = tree(tmp_path)
    answer = cli(f"scrub {world}/run --forget class:3 {QUICK} --set lr=1e30 {overwrite} -o {tmp_path}/out")
    assert answer.code == 1
    last = answer.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert last.endswith("Lower the learning rate.")
    assert tree(tmp_path) == before


def test_an_output_gets_the_folders_above_it(trained: Path, tmp_path: Path) -> None:
    done(f"scrub {trained} --forget class:3 {QUICK} -o {tmp_path}/some/where/out")
    assert runs.is_run(tmp_path / "some" / "where" / "out")


def test_a_tilde_is_the_home_of_the_user(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    shutil.copytree(world / "run", tmp_path / "home" / "run")
    done(f"scrub ~/run --forget class:3 {QUICK} -o ~/out")
    done("evaluate ~/run --forget class:3 --against ~/out -o ~/scored")
    done("report ~/out ~/scored -o ~/page.html")
    assert sorted(p.name for p in (tmp_path / "home").iterdir()) == ["out", "page.html", "run", "scored"]
    assert [p.name for p in tmp_path.iterdir()] == ["home"]


def test_a_method_and_a_model_of_the_users_own_need_no_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_parts.py").write_text(
        "from dataclasses import dataclass\n"
        "import torch\n"
        "from scissorhands import Method\n"
        "from scissorhands.settings import setting, share\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, images):\n"
        "        return super().forward(images.flatten(1).float())\n"
        "def net(inputs):\n"
        "    return Net(inputs, 10)\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Shrink(Method):\n"
        '    """Shrinks every weight."""\n'
        "    by: float = setting(0.5, share, 'what is left of a weight')\n"
        "    def scrub(self, model, problem, log=None):\n"
        "        with torch.no_grad():\n"
        "            for parameter in model.parameters():\n"
        "                parameter.mul_(self.by)\n"
    )
    done("train --model own_parts:net --model-set inputs=64 --set epochs=1 --set lr=0.001 -o a")
    refused = cli("scrub a --method own_parts:Shrink --forget class:3 -o b")
    done("scrub a --method own_parts:Shrink --set by=0.25 --factory own_parts:net --forget class:3 -o b")
    assert refused.code == 2
    assert "If you trust it, name it: --factory own_parts:net" in refused.err
    a, b = (models.load(tmp_path / name / "model", "own_parts:net")[0].state_dict() for name in "ab")
    assert torch.equal(b["weight"], a["weight"] * 0.25)
    assert runs.read(tmp_path / "b").record["method"] == {"name": "own_parts:Shrink", "by": 0.25}


def test_output_to_a_file_has_a_line_per_epoch_and_no_escape_codes(nursery: Nursery, tmp_path: Path) -> None:
    finished = nursery.run(f"{TRAIN} -o out", tmp_path)
    assert finished.code == 0
    epochs = [line.partition(", loss on retain ")[0] for line in finished.err.splitlines()]
    assert {*epochs} <= {"small, seed 0: train epoch 1 of 2", "small, seed 0: train epoch 2 of 2"}
    assert epochs[-1] == "small, seed 0: train epoch 2 of 2"  # quick ones share a line
    header, *rows = finished.out.splitlines()
    assert header.split() == ["original", "retrained"]
    assert rows[0].startswith("Acc retain")
    assert "\x1b" not in finished.out + finished.err
    assert "\r" not in finished.out + finished.err


def test_a_mistake_gives_the_shell_exit_code_2_and_one_line(tmp_path: Path) -> None:
    finished = process("scrub absent --forget class:3 -o out", tmp_path)
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert finished.stderr == "error: there is no model folder 'absent'.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_run_leaves_a_checkpoint_and_says_how_to_go_on(
    sent: signal.Signals, code: int, nursery: Nursery, tmp_path: Path
) -> None:
    command = TRAIN.replace("epochs=2", "epochs=1000000")
    child = nursery.start(f"{command} -o some/where/out", tmp_path)
    try:
        _wait_for_training(child, tmp_path)
        child.send(sent)
        ended = child.wait()
    finally:
        if child.poll() is None:
            child.send(signal.SIGKILL)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.endswith("error: interrupted; go on with 'scissorhands train --resume some/where/out'.\n")
    assert [path.name for path in (tmp_path / "some/where").iterdir()] == [".out.unfinished"]


def _wait_for_training(child: Child, folder: Path) -> None:
    """Waits until a step of training has been written to a log."""
    end = time.monotonic() + 60
    while not any(log.stat().st_size for log in folder.rglob("log.jsonl")):
        assert child.poll() is None, "it ended before it was interrupted"
        assert time.monotonic() < end, "it did not start to train"
        time.sleep(0.05)


def test_a_signal_ends_a_command_unless_torchrun_sends_it_while_an_error_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped_in_an_error() -> None:
        try:
            raise OSError
        except OSError:
            _stop()

    with pytest.raises(SystemExit, match="143"):
        stopped_in_an_error()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    stopped_in_an_error()
    with pytest.raises(SystemExit, match="143"):
        _stop()
