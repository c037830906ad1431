"""Real processes, really killed: what is left of them, and how they go on to the end that they would have had."""

import json
import re
import shutil
import signal
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.commands import cli
from helpers.forged import reseal
from helpers.nursery import Child, Fault, Finished, Nursery, moments
from scissorhands import runs
from scissorhands.distributed import checkpoint_files
from scissorhands.distributed.checkpoint_files import ABOUT

TRAIN = "train --data digits --set epochs=2 --set batch_size=64"
SMALL = "--model small --model-set width=4"
OWN = "--model own_net:net --data-set augment=crop,flip"
QUICK = "--set epochs=2 --set batch_size=256 --set reading=paper --set trim=0.005"
# Some work, long enough to be killed in: of a small network, and of one with dropout, batch norm and augmented data.
SCRUB = f"scrub trained --forget class:3 {QUICK}"
LONG = {
    "scissorhands": "scrub own --factory own_net:net --forget class:3 --set epochs=3 --set batch_size=128",
    "finetune": "scrub own --factory own_net:net --forget random:10% --method finetune --set epochs=3 --set lr=0.01",
}
NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(),
            nn.Linear(384, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 10),
        )

    def forward(self, images):
        return self.layers(images.float() / 255)

def net():
    return Net()
"""


@pytest.fixture(scope="module")
def base(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two trained models, a run of each command that nothing stopped, and one that is not finished."""
    folder = tmp_path_factory.mktemp("resume")
    (folder / "own_net.py").write_text(NET)
    for command in (
        f"{TRAIN} {SMALL} -o trained",
        f"{TRAIN} {OWN} -o own",
        f"{SCRUB} --checkpoint 1e9 -o whole",
        *(f"{command} --checkpoint 1e9 -o whole-{name}" for name, command in LONG.items()),
    ):
        finished = nursery.run(command, folder)
        assert finished.code in (0, 3), finished.err  # a short repair may leave a damaged model
    assert nursery.run(f"{SCRUB} --checkpoint 0 -o begun", folder, Fault("save", 6, "kill")).code == -signal.SIGKILL
    return folder


def content(folder: Path) -> dict[str, Any]:
    """All that a run came to, but for what it cost, when it ran, and by which command."""
    found: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    scores = json.loads(found["scores.json"])
    del scores["seconds"], scores["values"]["memory_mib"], scores["seal"], scores["files"]["run.toml"]
    record = tomllib.loads(found["run.toml"].decode())
    del record["begun"], record["finished"], record["command"]
    return found | {"scores.json": scores, "run.toml": record}


def same(folder: Path, other: Path) -> bool:
    """Whether two runs came to the same; says what differs."""
    one, two = content(folder), content(other)
    assert sorted(one) == sorted(two)
    assert [name for name in one if one[name] != two[name]] == []
    return True


def begun(base: Path, name: str) -> Path:
    """A run of this name that was begun and killed."""
    shutil.copytree(base / ".begun.unfinished", base / f".{name}.unfinished")
    return base / name


def left(base: Path, name: str) -> list[str]:
    """What is left of a run that is not finished."""
    return sorted(path.name for path in base.iterdir() if path.name.startswith(f".{name}."))


def checkpoints(base: Path, name: str) -> list[str]:
    """The names of the checkpoints of a run that is not finished, but for one that was not written to its end."""
    found = (base / f".{name}.unfinished" / "checkpoints").glob("*")
    return sorted(path.name for path in found if path.suffix != ".part")


PROGRESS = re.compile(r"(?!error|warning).*\w (epoch )?\d+ of \d+\b.*")


def in_one_line(err: str) -> str:
    """The one line that a command complained with, after lines of progress alone."""
    *before, last = err.strip().splitlines()
    assert last.startswith("error: "), err
    assert [line for line in before if not PROGRESS.fullmatch(line)] == []
    return last


def resumed(nursery: Nursery, base: Path, name: str, *more: str) -> Finished:
    """The run, gone on with."""
    return nursery.run(" ".join([f"scrub --resume {name}", *more]), base)


# Killed.


def test_a_run_killed_at_twenty_moments_ends_as_if_it_never_was(nursery: Nursery, base: Path) -> None:
    """A run is killed and goes on, again and again, until it ends; then the next one, until all moments were used."""
    ahead = moments(seed=0, count=20)
    for number in range(40):
        name, place = list(LONG)[number % len(LONG)], f"killed-{number}"
        while not runs.is_run(base / place):
            if ahead and _killed(nursery, base, f"{LONG[name]} --checkpoint 0", place, ahead[0]):
                ahead.pop(0)
            elif ahead and isinstance(ahead[0], float):
                ahead[0] /= 2  # it had ended by then: a fast machine
            elif not ahead:
                assert not _killed(nursery, base, f"{LONG[name]} --checkpoint 0", place, None)
        assert same(base / place, base / f"whole-{name}")
        assert left(base, place) == []
        if not ahead:
            return
    pytest.fail(f"it ended too often before it was killed: {ahead}")


def _killed(nursery: Nursery, base: Path, begin: str, place: str, moment: Fault | float | None) -> bool:
    """Whether the run, begun or gone on with, was killed at the moment, and not done before."""
    again = f"scrub --resume {place} --factory own_net:net"
    command = again if runs.resumable(base / place) else f"{begin} -o {place}"
    child = nursery.start(command, base, moment if isinstance(moment, Fault) else None)
    if isinstance(moment, float):
        time.sleep(moment)
        if child.poll() is None:
            child.send(signal.SIGKILL)
    finished = child.wait()
    assert finished.code in (0, 3, -signal.SIGKILL), finished.err
    return finished.code == -signal.SIGKILL


ENDINGS = {
    "before it is examined": Fault("examine", 1, "kill"),
    "before its weights are written": Fault("weights", 1, "kill"),
    "after its weights were written": Fault("weights", 1, "kill after"),
    "before it is put in its place": Fault("rename", 1, "kill"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_killed_at_its_end_ends_as_if_it_never_was(ending: str, nursery: Nursery, base: Path) -> None:
    name = f"end-{list(ENDINGS).index(ending)}"
    begun(base, name)
    assert nursery.run(f"scrub --resume {name}", base, ENDINGS[ending]).code == -signal.SIGKILL
    assert resumed(nursery, base, name).code == 0
    assert same(base / name, base / "whole")


def test_a_run_killed_after_it_was_put_in_its_place_is_finished(nursery: Nursery, base: Path) -> None:
    begun(base, "placed")
    killed = nursery.run("scrub --resume placed", base, Fault("rename", 1, "kill after"))
    assert killed.code == -signal.SIGKILL
    again = resumed(nursery, base, "placed")
    assert "is finished, so there is nothing to resume" in in_one_line(again.err)
    assert same(base / "placed", base / "whole"), "the checkpoints are left in a finished run"


def test_a_run_that_replaces_another_and_is_killed_goes_on_to_replace_it(nursery: Nursery, base: Path) -> None:
    shutil.copytree(base / "whole-finetune", base / "replaced")
    killed = nursery.run(f"{SCRUB} --overwrite --checkpoint 0 -o replaced", base, Fault("step", 4, "kill"))
    assert killed.code == -signal.SIGKILL
    assert same(base / "replaced", base / "whole-finetune")
    swapping = nursery.run("scrub --resume replaced", base, Fault("rename", 1, "kill after"))
    assert swapping.code == -signal.SIGKILL
    finished = resumed(nursery, base, "replaced")
    assert finished.code == 0, finished.err
    assert same(base / "replaced", base / "whole")
    assert left(base, "replaced") == []


def test_training_that_is_killed_goes_on_too(nursery: Nursery, base: Path) -> None:
    killed = nursery.run(f"{TRAIN} {OWN} --checkpoint 0 -o taught", base, Fault("save", 9, "kill half way"))
    assert killed.code == -signal.SIGKILL
    refused = nursery.run("train --resume taught", base)
    assert refused.code == 2
    assert "If you trust it, name it: --factory" in refused.err
    finished = nursery.run(f"train --resume taught --factory {OWN.split()[1]}", base)
    assert finished.code == 0, finished.err
    assert same(base / "taught", base / "own")


def test_a_finished_run_holds_no_trace_of_its_checkpoints(nursery: Nursery, base: Path) -> None:
    begun(base, "clean")
    assert resumed(nursery, base, "clean").code == 0
    assert sorted(path.name for path in (base / "clean").iterdir()) == [
        "forget.txt",
        "inventory.json",
        "log.jsonl",
        "model",
        "outputs.safetensors",
        "run.toml",
        "scores.json",
    ]
    assert left(base, "clean") == []


# Stopped.


def stopping(nursery: Nursery, base: Path, command: str, step: int) -> Child:
    """The command, which has stopped at that step and waits to be told to go on."""
    child = nursery.start(command, base, Fault("step", step, "stop"))
    end = time.monotonic() + 30
    while child.state != "T":
        assert child.poll() is None, "it ended before it got there"
        assert time.monotonic() < end
        time.sleep(0.01)
    return child


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(
    sent: signal.Signals, code: int, nursery: Nursery, base: Path
) -> None:
    name = f"signalled-{code}"
    child = stopping(nursery, base, f"{SCRUB} -o {name}", step=5)
    child.send(sent)
    child.send(signal.SIGCONT)
    finished = child.wait()
    assert finished.code == code
    assert finished.out == ""
    assert f"go on with 'scissorhands scrub --resume {name}'" in in_one_line(finished.err)
    assert len(checkpoints(base, name)) == 1
    assert resumed(nursery, base, name).code == 0
    assert same(base / name, base / "whole")


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_before_the_first_loop_leaves_nothing(sent: str, code: int, nursery: Nursery, base: Path) -> None:
    finished = nursery.run(f"{SCRUB} --checkpoint 0 -o some/where/early-{code}", base, Fault("loop", 1, sent))
    assert finished.code == code
    assert not (base / "some").exists()


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("place", ["loop", "examine"])
def test_a_signal_outside_a_loop_keeps_the_checkpoints_and_says_how_to_go_on(
    place: str, sent: str, code: int, nursery: Nursery, base: Path
) -> None:
    name = f"outside-{place}-{code}"
    begun(base, name)
    finished = nursery.run(f"scrub --resume {name}", base, Fault(place, 1, sent))
    assert finished.code == code
    assert len(checkpoints(base, name)) == 1
    assert resumed(nursery, base, name).code == 0
    assert same(base / name, base / "whole")
    assert f"scissorhands scrub --resume {name}" in in_one_line(finished.err)


def test_a_second_ctrl_c_stops_at_once_and_keeps_what_there_is(nursery: Nursery, base: Path) -> None:
    finished = nursery.run(f"{SCRUB} --checkpoint 0 -o hasty", base, Fault("step", 5, "two Ctrl-C"))
    assert finished.code == 130
    assert checkpoints(base, "hasty") == ["000-000000004-000000"]
    assert resumed(nursery, base, "hasty").code == 0
    assert same(base / "hasty", base / "whole")
    assert "no unfinished run was kept" not in in_one_line(finished.err)


def test_a_second_ctrl_c_before_any_checkpoint_leaves_nothing(nursery: Nursery, base: Path) -> None:
    finished = nursery.run(f"{SCRUB} -o hastier", base, Fault("step", 5, "two Ctrl-C"))
    assert finished.code == 130
    assert "no unfinished run was kept" in in_one_line(finished.err)
    assert left(base, "hastier") == []


# A full disk.


FULL = {
    "in the midst of a checkpoint": Fault("save", 7, "ENOSPC"),
    "in the midst of a checkpoint, as safetensors says it": Fault("save", 7, "os error 28"),
    "when the log is written": Fault("fsync", 7, "ENOSPC"),
    "when the model is written": Fault("weights", 1, "ENOSPC"),
}


@pytest.mark.parametrize("when", FULL)
def test_a_full_disk_leaves_the_last_checkpoint(when: str, nursery: Nursery, base: Path) -> None:
    name = f"full-{list(FULL).index(when)}"
    finished = nursery.run(f"{SCRUB} --checkpoint 0 -o {name}", base, FULL[when])
    assert finished.code == 1
    line = in_one_line(finished.err)
    assert "full" in line or "No space left on device" in line
    assert "--resume" in line
    assert len(checkpoints(base, name)) == 1
    assert resumed(nursery, base, name).code == 0
    assert same(base / name, base / "whole")


# What the commands say.


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("--set epochs=9", "--set"),
        ("trained", "MODEL"),
        ("-o elsewhere", "-"),
        ("--seed 0", "--seed"),
        ("--checkpoint 5", "--checkpoint"),
        ("--forget class:4", "--forget"),
        ("--overwrite", "--overwrite"),
        ("--method finetune", "--method"),
    ],
)
def test_what_was_asked_cannot_be_changed_when_it_goes_on(more: str, named: str, base: Path) -> None:
    before = content_of_unfinished(base, "begun")
    answer = cli(f"scrub --resume {base / 'begun'} {more}")
    assert answer.code == 2
    line = in_one_line(answer.err)
    assert "goes on with what was asked" in line
    assert named in line
    assert content_of_unfinished(base, "begun") == before


def content_of_unfinished(base: Path, name: str) -> dict[str, bytes]:
    """All that there is of a run that is not finished."""
    folder = base / f".{name}.unfinished"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_finished_run_has_nothing_to_resume(base: Path) -> None:
    answer = cli(f"scrub --resume {base / 'whole'}")
    assert answer.code == 2
    assert "whole is finished, so there is nothing to resume." in in_one_line(answer.err)


def test_what_was_not_begun_has_nothing_to_resume(base: Path) -> None:
    answer = cli(f"scrub --resume {base / 'nothing'}")
    assert answer.code == 2
    assert "nothing was not begun, so there is nothing to resume." in in_one_line(answer.err)


def test_a_run_of_another_verb_says_which(base: Path) -> None:
    before = content_of_unfinished(base, "begun")
    answer = cli(f"train --resume {base / 'begun'}")
    assert answer.code == 2
    assert f"was begun by 'scrub': go on with 'scissorhands scrub --resume {base / 'begun'}'" in in_one_line(answer.err)
    assert content_of_unfinished(base, "begun") == before


def test_a_new_run_where_one_was_begun_is_refused(base: Path) -> None:
    before = content_of_unfinished(base, "begun")
    answer = cli(f"scrub {base / 'trained'} --forget class:3 {QUICK} -o {base / 'begun'}")
    assert answer.code == 2
    line = in_one_line(answer.err)
    assert "--resume" in line
    assert "--overwrite" in line
    assert content_of_unfinished(base, "begun") == before


def test_a_new_run_may_discard_what_was_begun(base: Path) -> None:
    begun(base, "anew")
    answer = cli(f"scrub {base / 'trained'} --forget class:3 {QUICK} --overwrite -o {base / 'anew'}")
    assert answer.code == 0, answer.err
    assert same(base / "anew", base / "whole")
    assert left(base, "anew") == []


@pytest.mark.parametrize(
    "command", ["report {}", "evaluate {}", "evaluate {} --level standard", "evaluate whole --against {}"]
)
def test_reading_an_unfinished_run_says_how_to_go_on(command: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)
    answer = cli(command.format("begun"))
    assert answer.code == 2
    assert "begun is not finished. Go on with 'scissorhands scrub --resume begun'." in in_one_line(answer.err)


def test_scrubbing_an_unfinished_run_says_how_to_go_on(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)
    answer = cli("scrub begun --forget class:4 -o further")
    assert answer.code == 2
    assert "scissorhands scrub --resume begun" in in_one_line(answer.err)


def test_two_processes_do_not_write_to_one_place(nursery: Nursery, base: Path) -> None:
    child = stopping(nursery, base, f"{SCRUB} --checkpoint 0 -o shared", step=4)
    place = base / "shared"
    for command in (
        f"scrub --resume {place}",
        f"scrub {base / 'trained'} --forget class:3 -o {place}",
        f"scrub {base / 'trained'} --forget class:3 --overwrite -o {place}",
    ):
        answer = cli(command)
        assert answer.code == 2
        assert "is being written by another process" in in_one_line(answer.err)
    child.send(signal.SIGCONT)
    assert child.wait().code == 0
    assert same(place, base / "whole")


def _set(path: Path, name: str, value: str) -> None:
    """Another value of a name in a TOML file."""
    lines = path.read_text().splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith(f"{name} = ")]
    lines[at] = f"{name} = {value}"
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("changed", ["weights", "data", "manifest"])
def test_a_run_whose_model_or_data_has_changed_is_refused_and_kept(changed: str, base: Path, tmp_path: Path) -> None:
    place = begun(base, f"changed-{changed}")
    if changed == "manifest":
        _set(runs.unfinished(place) / "begun.toml", "manifest", '"0123"')
    else:
        shutil.copytree(base / "trained", tmp_path / "trained")
        _set(runs.unfinished(place) / "begun.toml", "model", json.dumps(str(tmp_path / "trained")))
    if changed == "weights":
        weights = load_file(tmp_path / "trained/model/model.safetensors")
        save_file({name: value + 1 for name, value in weights.items()}, tmp_path / "trained/model/model.safetensors")
    if changed == "data":
        _set(tmp_path / "trained/run.toml", "fingerprint", '"0123"')
    if changed != "manifest":
        reseal(tmp_path / "trained")
    before = checkpoints(base, place.name)
    answer = cli(f"scrub --resume {place}")
    assert answer.code == 2
    line = in_one_line(answer.err)
    assert ("its content differs" if changed == "data" else f"'{changed}' was ") in line
    assert checkpoints(base, place.name) == before, "a run that was refused is lost"


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "garbage for what was begun": lambda work: (work / "begun.toml").write_bytes(b"\xff\xfe = ="),
    "nothing for what was begun": lambda work: (work / "begun.toml").unlink(),
    "half of what was begun": lambda work: _set(work / "begun.toml", "verb", '"scrub"\n[x]'),
    "a verb that is none": lambda work: _set(work / "begun.toml", "verb", '"jump"'),
    "a device that is not here": lambda work: _set(work / "begun.toml", "device", '"cuda:7"'),
    "a model that is none": lambda work: _set(work / "begun.toml", "model", '"/absent"'),
    "a method that is none": lambda work: _set(work / "begun.toml", "method", '"jump"'),
    "a log cut short": lambda work: _cut(work / "log.jsonl"),
    "tensors cut short": lambda work: _cut(next(work.glob("checkpoints/*/0.safetensors"))),
    "no tensors": lambda work: next(work.glob("checkpoints/*/0.safetensors")).unlink(),
    "a place that is a list": lambda work: next(work.glob(f"checkpoints/*/{ABOUT}")).write_text("[]"),
    "a place without a phase": lambda work: next(work.glob(f"checkpoints/*/{ABOUT}")).write_text('{"log": 1}'),
}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line_that_names_where(damage: str, nursery: Nursery, base: Path) -> None:
    place = begun(base, f"damaged-{list(DAMAGE).index(damage)}")
    DAMAGE[damage](runs.unfinished(place))
    finished = resumed(nursery, base, place.name)
    assert finished.code == 2, finished.err
    assert "another version" not in in_one_line(finished.err) or "begun" in damage
    assert left(base, place.name), "what could be mended is lost"


@pytest.mark.parametrize("name", ["log.jsonl", "begun.toml", "run.toml", "checkpoints", "model"])
def test_a_run_is_not_resumed_through_a_link(name: str, base: Path, tmp_path: Path) -> None:
    place = begun(base, f"linked-{name}")
    inside, outside = runs.unfinished(place) / name, tmp_path / name
    if inside.exists():
        inside.rename(outside)
    else:
        outside.write_text("precious")
    inside.symlink_to(outside)
    before = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
    answer = cli(f"scrub --resume {place}")
    assert answer.code == 2
    assert f"{name} is a link" in in_one_line(answer.err)
    assert before == {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
    assert inside.is_symlink()


def test_a_run_that_only_was_to_be_renamed_is_not_if_it_holds_a_link(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base / "whole", work := runs.unfinished(tmp_path / "run"))
    (work / "log.jsonl").rename(tmp_path / "log.jsonl")
    (work / "log.jsonl").symlink_to(tmp_path / "log.jsonl")
    answer = cli(f"scrub --resume {tmp_path / 'run'}")
    assert answer.code == 2
    assert "log.jsonl is a link" in in_one_line(answer.err)
    assert not (tmp_path / "run").exists()


def test_a_mistake_in_code_is_not_taken_for_another_version(nursery: Nursery, base: Path) -> None:
    begun(base, "mistaken")
    finished = nursery.run("scrub --resume mistaken", base, Fault("step", 2, "KeyError"))
    assert "another version" not in finished.err
    assert len(checkpoints(base, "mistaken")) == 1


def test_seconds_go_on_from_those_before_the_kill(nursery: Nursery, base: Path) -> None:
    place = begun(base, "timed")
    (path,) = runs.unfinished(place).glob(f"checkpoints/*/{ABOUT}")
    about = json.loads(path.read_text())
    assert 0 < about["seconds"] < 60
    del about["checksum"]
    about["seconds"] = 1000.0
    path.write_text(json.dumps(about | {"checksum": checkpoint_files.checksum(json.dumps(about).encode())}))
    assert resumed(nursery, base, "timed").code in (0, 3)
    seconds = runs.read(place).result.seconds
    assert seconds is not None
    assert 1000.0 < seconds < 1030.0


def test_a_run_goes_on_from_any_folder(nursery: Nursery, base: Path, tmp_path: Path) -> None:
    begun(base, "afar")
    finished = nursery.run(f"scrub --resume {base / 'afar'}", tmp_path)
    assert finished.code == 0, finished.err
    assert same(base / "afar", base / "whole")


def test_the_command_that_it_names_can_be_typed_as_it_stands(nursery: Nursery, base: Path) -> None:
    stopped = nursery.run(f"{SCRUB} -o 'my run'", base, Fault("step", 3, "SIGTERM"))
    _, _, named = in_one_line(stopped.err).partition("go on with '")
    named = named.removesuffix("'.").removeprefix("scissorhands ")
    finished = nursery.run(named, base)
    assert finished.code == 0, finished.err
    assert same(base / "my run", base / "whole")


def test_a_list_of_ids_is_found_again_from_any_folder(nursery: Nursery, base: Path, tmp_path: Path) -> None:
    (base / "some.txt").write_text("\n".join((base / "whole/forget.txt").read_text().split()))
    command = f"scrub trained --forget ids:some.txt {QUICK} --checkpoint 0 -o listed"
    assert nursery.run(command, base, Fault("step", 4, "kill")).code == -signal.SIGKILL
    elsewhere = nursery.run(f"scrub --resume {base / 'listed'}", tmp_path)
    if elsewhere.code:
        assert checkpoints(base, "listed"), "a run whose list was not found is lost"
        assert resumed(nursery, base, "listed").code == 0


# A whole recipe.

RECIPE = """
data = "digits"
model = "small"
model_set = {width = 4}
forget = "class:3"
seeds = [0]
methods = ["retrain", "scissorhands"]
[training]
epochs = 2
batch_size = 128
[scissorhands]
reading = "paper"
epochs = 2
"""


def test_a_recipe_goes_on_with_a_run_that_is_not_finished(nursery: Nursery, base: Path) -> None:
    (base / "recipe.toml").write_text(RECIPE)
    assert nursery.run("bench recipe.toml -o benched-whole", base).code == 0
    for step, inside in ((5, "trained"), (25, "retrain")):  # the second is in the midst of the next run
        finished = nursery.run("bench recipe.toml -o benched", base, Fault("step", step, "SIGTERM"))
        assert finished.code == 143, finished.err
        in_one_line(finished.err)
        assert runs.resumable(base / "benched/seed-0" / inside)
    finished = nursery.run("bench recipe.toml -o benched", base)
    assert finished.code == 0, finished.err
    for name in ("trained", "retrain", "scissorhands"):
        one, other = (
            load_file(base / f"{where}/seed-0/{name}/model/model.safetensors") for where in ("benched", "benched-whole")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
        logs = [(base / f"{where}/seed-0/{name}/log.jsonl").read_bytes() for where in ("benched", "benched-whole")]
        assert logs[0] == logs[1]
    assert list((base / "benched").rglob("*unfinished*")) == []


def test_a_demo_that_is_stopped_names_no_run_that_is_gone(nursery: Nursery, base: Path) -> None:
    finished = nursery.run("demo -o shown", base, Fault("step", 5, "SIGTERM"))
    assert finished.code == 143
    if "--resume " in finished.err:
        named = finished.err.partition("--resume ")[2].split("'")[0]
        assert runs.resumable(base / named), f"it says to go on with {named}, which is not there"


# Many processes.


def test_two_processes_that_are_stopped_go_on_as_two(nursery: Nursery, base: Path) -> None:
    command = f"{SCRUB} --set lr=0.0005"
    for child in nursery.launch(2, f"{command} --checkpoint 1e9 -o two-whole", base):
        assert child.wait().code == 0
    stopped = [Fault("step", step, "SIGTERM") for step in (4, 5)]  # as torchrun does, not at the same time in both
    children = nursery.launch(2, f"{command} --checkpoint 0 -o two", base, stopped)
    assert [child.wait().code for child in children] == [143, 143]
    (written,) = (base / ".two.unfinished/checkpoints").iterdir()
    assert sorted(path.name for path in written.iterdir()) == ["0.safetensors", "1.safetensors", ABOUT]
    before = content_of_unfinished(base, "two")
    alone = resumed(nursery, base, "two")
    assert alone.code == 2
    assert "'world_size' was 2, and is 1 now" in in_one_line(alone.err)
    assert content_of_unfinished(base, "two") == before, "a run that was refused is lost"
    for child in nursery.launch(2, "scrub --resume two", base):
        again = child.wait()
        assert again.code == 0, again.err
    assert same(base / "two", base / "two-whole")
