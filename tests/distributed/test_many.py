"""Many processes do what one does. They are real ones, which torchrun starts; each start does as much as it can."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModelForImageClassification

from helpers import hazards, many, pieces, tinyhf
from helpers.commands import done
from helpers.many import CASES, TRIMS, Outcome
from helpers.nursery import Child, Nursery, cores_of_a_job
from scissorhands import distributed, runs
from scissorhands.methods import METHODS
from scissorhands.methods.reinit import INITS
from scissorhands.methods.saliency import SALIENCY, top_share
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.models import Blueprint

# With three processes, where some have no record of a batch or no row of a weight, a few cases are enough.
OF_THREE = [
    *(f"{name} with one to forget" for name in ("scissorhands", "shrink", "expand", "salun", "influence")),
    "scissorhands with one to retain",
    "scissorhands on mixed",
    "retrain on mixed",
    "trim narrow",
    "trim convnet",
]
FILES = ("mlp", "convnet", "tied", "frozen", "narrow")


def prepared(folder: Path) -> Path:
    """A folder with what one process writes, and room for what many do."""
    (folder / "one").mkdir(parents=True)
    (folder / "many").mkdir()
    for name in FILES:
        distributed.save_weights(many.build(name), folder / "one" / f"{name}.safetensors")
    blueprint = Blueprint("resnet18", {"classes": 3, "channels": 1, "width": 3})
    torch.manual_seed(0)
    models.save(blueprint.build(), blueprint, folder / "one" / "resnet18")
    return folder


def worked(nursery: Nursery, folder: Path, processes: int, *names: str) -> Path:
    """The folder, after so many processes did their work."""
    ended = nursery.torchrun(processes, many.HERE / "worker.py", prepared(folder), *names)
    assert ended.code == 0, ended.err[-3000:]
    return folder


@pytest.fixture(scope="module")
def two(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made of all cases and checks."""
    return worked(nursery, tmp_path_factory.mktemp("two"), 2)


@pytest.fixture(scope="module")
def three(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three processes made of some cases and of all checks."""
    return worked(nursery, tmp_path_factory.mktemp("three"), 3, *OF_THREE)


@cache
def alone(name: str) -> Outcome:
    """What one process makes of a case."""
    return many.carried_out(many.EVERY[name])


# Methods


@pytest.mark.parametrize("name", CASES)
def test_two_processes_scrub_as_one_does(name: str, two: Path) -> None:
    many.same(alone(name), many.kept(two / name))


@pytest.mark.parametrize("name", TRIMS)
def test_two_processes_draw_the_same_weights_anew_to_the_bit(name: str, two: Path) -> None:
    drawn_by_the_same_masks(name, many.kept(two / name))


@pytest.mark.parametrize("name", OF_THREE)
def test_three_processes_do_as_one_does(name: str, three: Path) -> None:
    found = many.kept(three / name)
    if name in TRIMS:
        drawn_by_the_same_masks(name, found)
    many.same(alone(name), found)


def drawn_by_the_same_masks(name: str, found: Outcome) -> None:
    """Raises unless the same weights were drawn, to the same values."""
    before = many.build(TRIMS[name].model).state_dict()
    one = alone(name)
    assert one.events == found.events
    assert [event["phase"] for event in found.events] == ["trim"]
    for key, value in one.state.items():
        assert torch.equal(value != before[key], found.state[key] != before[key]), f"{key}: other weights were drawn"
        assert torch.equal(value, found.state[key]), f"{key}: they were drawn otherwise"


def test_every_method_way_to_score_and_way_to_draw_is_compared() -> None:
    text = " ".join(f"{case.method!r}" for case in many.EVERY.values())
    assert {type(case.method) for case in CASES.values()} == set(METHODS.values())
    assert all(f"saliency='{name}'" in text for name in SALIENCY)
    assert all(f"init='{name}'" in text for name in INITS)


@pytest.mark.parametrize(
    ("control", "name"), [("unsynchronized", "finetune on convnet"), ("shuffled apart", "finetune on mlp")]
)
def test_the_comparison_notices_batch_norm_by_process_and_shuffles_by_process(
    control: str, name: str, two: Path
) -> None:
    with pytest.raises(AssertionError):
        many.same(alone(name), many.kept(two / control))


def test_a_loss_that_a_method_puts_around_the_problems_own_counts_once(two: Path) -> None:
    many.same(alone("finetune on mlp"), many.kept(two / "wrapped"))


# Functions


@pytest.mark.parametrize("processes", ["two", "three"])
@pytest.mark.parametrize("check", pieces.CHECKS)
def test_among_many(check: str, processes: str, request: pytest.FixtureRequest) -> None:
    found = json.loads((request.getfixturevalue(processes) / "checks.json").read_text())[check]
    assert not any(found), "\n".join(f"process {number}: {reason}" for number, reason in enumerate(found))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_slow_way_to_the_top_share_is_that_of_one_process(dtype: torch.dtype) -> None:
    scores = many.tied_scores(dtype)
    for share in (0.0, 0.1, 0.33, 0.5, 0.77, 1.0):
        right = many.marked(scores, share)
        assert all(torch.equal(mask, right[name]) for name, mask in top_share(scores, share))


@pytest.mark.parametrize("processes", ["two", "three"])
@pytest.mark.parametrize("name", [*(f"{name}.safetensors" for name in FILES), "resnet18/model.safetensors"])
def test_many_processes_write_the_file_that_one_writes(
    name: str, processes: str, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(processes)
    assert (folder / "many" / name).read_bytes() == (folder / "one" / name).read_bytes()


def test_a_model_that_two_processes_wrote_is_loaded_by_one(two: Path) -> None:
    right, blueprint = models.load(two / "one" / "resnet18")
    found, same = models.load(two / "many" / "resnet18")
    assert same == blueprint
    assert all(torch.equal(found.state_dict()[name], value) for name, value in right.state_dict().items())
    assert load_file(two / "many" / "scalar.safetensors")["scale"] == 2


# Commands


TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set lr=0.05 --set batch_size=64"
SCRUB = "--forget class:3 --set epochs=1 --set batch_size=128 --set lr=0.02 --set balance=0 --set trim=0.005"
BRIEF = SCRUB.replace("batch_size=128", "batch_size=512") + " --set reading=paper"
NOISE = "--forget class:3 --method write_a_method:Noise --set epochs=1"
EXAMPLES = Path(__file__).parents[2] / "examples"
LEVEL = "--level standard --set references=1 --set relearn=3"
RECIPE = """
data = "digits"
model = "small"
forget = "class:3"
seeds = [0]
methods = ["retrain", "finetune"]
[model_set]
width = 2
[training]
epochs = 1
batch_size = 128
[finetune]
epochs = 1
batch_size = 128
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the runs of one process, and reference models kept beside them."""
    folder = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(folder / "cache"))
        tinyhf.pretrained(folder)
        (folder / "recipe.toml").write_text(RECIPE)
        done(TRAIN, "-o", folder / "one-trained")
        done(f"scrub {folder / 'one-trained'} {SCRUB}", "-o", folder / "one-scrubbed")
        done(f"bench {folder / 'recipe.toml'}", "-o", folder / "one-bench")
        patch.syspath_prepend(EXAMPLES)
        done(f"scrub {folder / 'one-trained'} {NOISE}", "-o", folder / "one-noisy")
        shutil.copytree(folder / "one-scrubbed", folder / "one-evaluated")
        done(f"evaluate {folder / 'one-evaluated'} {LEVEL}")
        shutil.rmtree(folder / "cache")
        yield folder


Answers = dict[str, list[list[Any]]]


@pytest.fixture(scope="module")
def answers(nursery: Nursery, original: Path) -> Answers:
    """What two processes answered to commands: for each and each process the exit code, the output and the errors."""
    there = original
    commands = {
        "train": f"{TRAIN} -o {there / 'many-trained'}",
        "scrub": f"scrub {there / 'one-trained'} {SCRUB} -o {there / 'many-scrubbed'}",
        "evaluate": f"evaluate {there / 'many-scrubbed'} {LEVEL}",
        "bench": f"bench {there / 'recipe.toml'} -o {there / 'many-bench'}",
        "score": f"evaluate {there / 'one-trained'} --forget class:3 --against {there / 'one-scrubbed'} "
        f"-o {there / 'many-scored'}",
        "vit": f"scrub {there / 'vit'} --data digits {BRIEF} --untrained -o {there / 'many-vit'}",
        "resnet": f"scrub {there / 'resnet'} --data digits {BRIEF} --untrained -o {there / 'many-resnet'}",
        "retrained vit": f"scrub {there / 'vit'} --data digits --forget class:3 --method retrain --set epochs=1 "
        f"--untrained -o {there / 'many-retrained'}",
        "example": f"scrub {there / 'one-trained'} {NOISE} -o {there / 'many-noisy'}",
        "methods": "methods",
        "mistake": f"scrub {there / 'one-trained'} --forget class:3 --method magic -o {there / 'never'}",
        "no model": f"scrub {there / 'nowhere'} --forget class:3 -o {there / 'never'}",
        "exists": f"scrub {there / 'one-trained'} {SCRUB} -o {there / 'one-scrubbed'}",
    }
    file = there / "commands.json"
    file.write_text(json.dumps(list(commands.values())))
    own = {"PYTHONPATH": str(EXAMPLES), "SCISSORHANDS_CACHE": str(there / "cache")}
    nursery.imports("helpers.tinyhf")
    ended = nursery.torchrun(2, many.HERE / "commands_worker.py", file, **own)
    assert ended.code == 0, ended.err[-3000:]
    found = json.loads((there / "commands.answers.json").read_text())
    return dict(zip(commands, found, strict=True))


def files(folder: Path) -> list[str]:
    """All files under a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def losses(folder: Path) -> list[float]:
    """The losses in the log of a run."""
    events = map(json.loads, (folder / runs.LOG).read_text().splitlines())
    return [event["loss"] for event in events if "loss" in event]


@pytest.mark.parametrize("name", ["trained", "scrubbed", "bench"])
def test_two_processes_leave_the_files_that_one_leaves(name: str, original: Path, answers: Answers) -> None:
    wanted = "evaluated" if name == "scrubbed" else name  # it is looked at again by another command
    assert files(original / f"many-{name}") == files(original / f"one-{wanted}")
    assert not list(original.glob(".*.unfinished"))


@pytest.mark.parametrize("name", ["trained", "scrubbed", "noisy", "bench/seed-0/trained", "bench/seed-0/finetune"])
def test_a_run_of_two_processes_is_like_that_of_one(name: str, original: Path, answers: Answers) -> None:
    folders = [original / f"{who}-{name}" for who in ("one", "many")]
    one, both = map(runs.read, folders)
    assert (one.record["world_size"], both.record["world_size"]) == (1, 2)
    own = ("world_size", "model", "source_files", "begun", "finished", "command")
    assert {k: v for k, v in one.record.items() if k not in own} == {
        k: v for k, v in both.record.items() if k not in own
    }
    assert losses(folders[1]) == pytest.approx(losses(folders[0]), rel=1e-3)
    values = {k: v for k, v in one.result.scores.values.items() if k.endswith("accuracy")}
    assert {k: both.result.scores.values[k] for k in values} == pytest.approx(values, abs=1.0)


@pytest.mark.parametrize("name", ["train", "scrub", "evaluate", "bench", "score", "vit", "resnet", "retrained vit"])
def test_a_command_of_two_processes_succeeds_and_answers_once(name: str, answers: Answers) -> None:
    first, second = answers[name]
    assert first[0] == second[0] == 0, first[2]
    assert first[1].count("Acc retain") == 1
    assert second[1:] == ["", ""]


def test_an_evaluation_by_two_processes_finds_all_that_one_finds(original: Path, answers: Answers) -> None:
    one, both = runs.read(original / "one-evaluated"), runs.read(original / "many-scrubbed")
    assert both.result.scores.failed == one.result.scores.failed
    assert both.result.values().keys() == one.result.values().keys()
    assert files(original / "many-scrubbed" / "gradcam") == files(original / "one-evaluated" / "gradcam")


def test_other_answers_come_once(answers: Answers) -> None:
    assert answers["methods"][0][1].count("randomlabel") == 1
    assert answers["methods"][1] == [0, "", ""]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mistake", "there is no method 'magic'"),
        ("no model", "there is no model folder"),
        ("exists", "exists already"),
    ],
)
def test_a_mistake_of_the_user_is_told_in_one_line_and_once(
    name: str, message: str, original: Path, answers: Answers
) -> None:
    first, second = answers[name]
    assert first[0] == second[0] == 2
    assert first[2].startswith("error:")
    assert first[2].count("\n") == 1
    assert message in first[2]
    assert first[1] == ""
    assert second[2] in ("", first[2])  # torchrun ends it before it can say the same
    assert not (original / "never").exists()


@pytest.mark.parametrize("name", ["vit", "resnet", "retrained"])
def test_a_hugging_face_model_that_two_processes_scrubbed_is_one_still(
    name: str, original: Path, answers: Answers
) -> None:
    before = AutoModelForImageClassification.from_pretrained(original / (name if name != "retrained" else "vit"))
    after, info = AutoModelForImageClassification.from_pretrained(
        original / f"many-{name}" / "model", output_loading_info=True
    )
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert after.state_dict().keys() == before.state_dict().keys()
    assert all(torch.isfinite(value).all() for value in after.state_dict().values())
    changed = [k for k, value in before.named_parameters() if not torch.equal(value, after.get_parameter(k))]
    assert len(changed) > len(list(before.parameters())) / 2
    loaded = models.load(original / f"many-{name}" / "model")[0]
    assert isinstance(loaded, nn.Module)


def test_the_command_that_torchrun_starts_is_the_users_own(nursery: Nursery, original: Path) -> None:
    words = f"--standalone --nproc-per-node 2 -m scissorhands {TRAIN} -o {original / 'real'}".split()
    ended = nursery.script(many.HERE / "agent.py", *words, cwd=many.HERE, SCISSORHANDS_TIMEOUT="60")
    assert ended.code == 0, ended.err
    assert ended.out.count("Acc retain") == 1
    assert "Warning" not in ended.err
    assert files(original / "real") == files(original / "one-trained")
    assert runs.read(original / "real").record["world_size"] == 2
    assert losses(original / "real") == pytest.approx(losses(original / "one-trained"), rel=1e-3)


# Processes that are lost


def lost(method: str, original: Path) -> str:
    """The command whose second process dies or hangs."""
    begin = f"scrub {original / 'one-trained'} --forget class:3 --method lost:{method} --set batch_size=64"
    return f"{begin} -o {original / method}"


def told_in_one_line(err: str) -> None:
    """Raise unless the first process said in one line that it lost the other."""
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert "process 0 lost another one" in line


@pytest.fixture(scope="module")
def hanging(nursery: Nursery, original: Path) -> Iterator[list[Child]]:
    """Two processes, the second of which hangs; other tests run until the first one has waited long enough."""
    children = nursery.launch(2, lost("Hangs", original), many.HERE, SCISSORHANDS_TIMEOUT="5")
    yield children
    for child in children:
        if child.poll() is None:
            child.send(signal.SIGKILL)


@pytest.mark.usefixtures("hanging")
def test_a_process_that_dies_ends_the_whole_job_at_once(nursery: Nursery, original: Path) -> None:
    first, second = nursery.launch(2, lost("Dies", original), many.HERE, SCISSORHANDS_TIMEOUT="60")
    assert second.wait().code != 0
    time.sleep(0.1)  # as long as torchrun takes to notice
    if first.poll() is None:
        first.send(signal.SIGTERM)
    ended = first.wait(30)
    assert ended.code != 0
    told_in_one_line(ended.err)
    assert not (original / "Dies").exists()


@contextmanager
def busy() -> Iterator[None]:
    """Cores that have something else to do, where the processes of a job run."""
    others = {core: subprocess.Popen([sys.executable, "-c", "while True: pass"]) for core in cores_of_a_job()}
    for core, other in others.items():
        os.sched_setaffinity(other.pid, {core})
    try:
        yield
    finally:
        for other in others.values():
            other.kill()
            other.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are slowed down by Linux's own means")
def test_a_job_ends_well_though_threads_of_its_process_group_linger(nursery: Nursery) -> None:
    with busy():
        children = nursery.start_torchrun(2, many.HERE / "lingers.py")
        end = time.monotonic() + 60
        while any(child.state != "Z" for child in children) and time.monotonic() < end:
            time.sleep(0.01)
    for ended in [child.wait() for child in children]:
        assert ended.code == 0, ended.err
        assert "terminate" not in ended.err


def test_a_command_ends_without_taking_python_apart(nursery: Nursery, tmp_path: Path) -> None:
    code = "import atexit, runpy; atexit.register(print, 'taken apart'); runpy.run_module('scissorhands')"
    (tmp_path / "command.py").write_text(code)
    ended = nursery.torchrun(2, tmp_path / "command.py", "methods")
    assert ended.code == 0, ended.err
    assert "scissorhands" in ended.out
    assert "taken apart" not in ended.out


@pytest.fixture(scope="module")
def after(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """How two processes went through what may set them against each other, each time in a group of its own."""
    folder = tmp_path_factory.mktemp("hazards")
    started = (
        nursery.start_torchrun(2, hazards.__file__, folder, name, SCISSORHANDS_TIMEOUT="20") for name in hazards.HAZARDS
    )
    for child in [child for children in started for child in children]:
        child.wait(60)
    return folder


@pytest.mark.parametrize("name", hazards.HAZARDS)
def test_two_processes_stay_together_when(name: str, after: Path) -> None:
    for number in range(2):
        assert not json.loads((after / f"{name}-{number}.json").read_text())


def test_a_process_that_hangs_ends_the_other_in_time(hanging: list[Child], original: Path) -> None:
    first, second = hanging
    ended = first.wait(60)
    assert ended.code == 1
    told_in_one_line(ended.err)
    assert second.poll() is None
    second.send(signal.SIGTERM)  # as torchrun does when one has failed
    assert second.wait().err == ""
    assert not (original / "Hangs").exists()
