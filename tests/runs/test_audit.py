"""Looking at a finished run again: what it adds, what it leaves alone, and how it answers mistakes."""

import json
import shutil
import stat
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from helpers.commands import cli, done
from helpers.forged import reseal
from helpers.nursery import Nursery
from scissorhands import runs
from scissorhands.data import sources
from scissorhands.distributed import on_rank_0
from scissorhands.errors import RunError
from scissorhands.methods.damage import damage
from scissorhands.metrics import METRICS, Outputs
from scissorhands.runs.audit import Audit
from scissorhands.runs.score import compare
from scissorhands.settings import to_toml
from scissorhands.tasks.classification import models

TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set batch_size=64"
QUICK = "--method finetune --set epochs=1"
STANDARD = "--level standard --pictures --set references=2 --set relearn=10"
ADDED = {"probe", "reawakened", "few_shot", "rmia_auc"}  # and relearn_epochs, as a number or as "more than"


def refused(command: str, says: str, *more: str | Path) -> None:
    """The command, which must be answered with one line and exit code 2."""
    answer = cli(command, *more)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
    assert says in answer.err


def tree(folder: Path) -> dict[str, tuple[int, bytes] | None]:
    """Every file below the folder with its content and the time of its last change, and every folder."""
    return {
        str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes()) if p.is_file() else None
        for p in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run, two of it that forgot a class, one of them looked at again, and the cache."""
    folder = tmp_path_factory.mktemp("audit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(folder / "cache"))
        done(TRAIN, "-o", folder / "trained")
        done(f"scrub {folder}/trained --forget class:3 {QUICK} -o {folder}/three")
        done(f"scrub {folder}/trained --forget class:3 --method retrain -o {folder}/retrained")
        shutil.copytree(folder / "three", folder / "seen")
        done(f"evaluate {folder}/seen {STANDARD}")
    return folder


@pytest.fixture
def world(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, in which the commands run."""
    folder = tmp_path / "world"
    shutil.copytree(finished, folder)
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)
    return folder


def again(folder: Path, level: str = "standard", **settings: Any) -> Audit:
    """The run in the folder, to be looked at again for little."""
    few = {"references": 2, "relearn": 10, **settings}
    return Audit(runs.read(folder), level, few, {}, None, torch.device("cpu"), pictures=True)


def test_a_run_that_was_scored_on_other_records_is_not_added_to(world: Path) -> None:
    observed = runs.read_outputs(world / "three")
    few = Outputs(observed["others"].logits[:5], observed["others"].labels[:5])
    runs.write_outputs(world / "three", {**observed, "others": few})
    with pytest.raises(
        RunError, match=r"was scored on 5 records of the part 'others', and there are \d+: it was made by"
    ):
        again(world / "three").carry_out()


# A dry run


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(world: Path) -> None:
    shutil.rmtree(world / "cache")
    before = tree(world)
    answer = done(f"evaluate three {STANDARD} --dry-run")
    first, *lines = answer.err.splitlines()
    assert first.startswith("level standard: ")
    assert first.endswith(", measured on a few steps here")
    assert [line.split("  ")[-1] for line in lines] == [
        "a linear probe of the features",
        "relearning from retained data alone, 3 epochs",
        "relearning from 5 records of each class",
        "relearning the forgotten records, at most 10 epochs",
        "2 reference models on half of the retained data",
    ]
    assert answer.out == ""
    assert tree(world) == before


def test_a_dry_run_says_what_is_kept_from_before(world: Path) -> None:
    answer = done("evaluate three --level deep --set references=3 --set shadows=2 --dry-run")
    assert "3 reference models on half of the retained data, 2 of them kept from before" in answer.err
    assert "2 shadow models, each made to forget\n" in answer.err


@pytest.mark.parametrize("level", ["quick", "standard"])
def test_a_dry_run_of_what_is_there_says_so(level: str, world: Path) -> None:
    answer = done(f"evaluate seen --level {level} --dry-run")
    assert answer.err == {"quick": "level quick trains nothing.\n"}.get(level, "level standard: all of it is there\n")


def test_a_dry_run_of_a_model_that_is_no_run_yet_leaves_no_run(world: Path) -> None:
    before = tree(world)
    answer = done(f"evaluate trained --forget random:5% {STANDARD} --dry-run")
    assert "reference models" in answer.err
    assert answer.out == ""
    assert tree(world) == before


def test_a_dry_run_works_where_temporary_files_are_behind_a_link(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "one" / "two" / "three"
    deep.mkdir(parents=True)
    (world / "tmp").symlink_to(deep)
    monkeypatch.setattr("tempfile.tempdir", str(world / "tmp"))  # as /tmp is on a Mac
    done(f"evaluate trained --forget random:5% {STANDARD} --dry-run")


# The level standard


def test_a_deeper_look_adds_its_metrics_and_pictures(world: Path) -> None:
    before, after = runs.read(world / "three"), runs.read(world / "seen")
    added = after.result.scores.values.keys() - before.result.scores.values.keys()
    assert added - {"relearn_epochs"} == ADDED
    known = {**after.result.scores.values, **after.result.scores.failed}
    assert {
        name for name, metric in METRICS.items() if metric.level == "standard" and metric.applies_to(False)
    } <= known.keys()
    assert {path.name for path in (world / "seen" / "gradcam").iterdir()} == {"forget.png", "retain.png"}
    with Image.open(world / "seen" / "gradcam" / "forget.png") as picture:
        assert picture.width > 300
    assert after.result.scores.verdict
    assert after.result.scores.verdict.call != "cannot tell" or "too few" in after.result.scores.verdict.reason


def test_a_deeper_look_keeps_all_that_was_there(world: Path) -> None:
    before, after = runs.read(world / "three").result, runs.read(world / "seen").result
    assert all(after.values()[name] == value for name, value in before.values().items())
    assert before.scores.failed.items() <= after.scores.failed.items()
    assert after.scores.counts == before.scores.counts
    assert (after.seconds, after.memory_mib) == (before.seconds, before.memory_mib)
    old, new = (runs.read_outputs(world / name) for name in ("three", "seen"))
    for part in ("forget", "retain", "audit", "test", "others"):
        assert torch.equal(old[part].logits, new[part].logits)
    same = ("run.toml", "log.jsonl", "forget.txt", "inventory.json", "model/model.safetensors", "model/config.json")
    for name in same:
        assert (world / "three" / name).read_bytes() == (world / "seen" / name).read_bytes()


def test_a_deeper_look_leaves_the_original_alone_and_no_half_files(world: Path, finished: Path) -> None:
    names = {str(path.relative_to(world / "seen")) for path in (world / "seen").rglob("*") if path.is_file()}
    assert names == {
        *("run.toml", "log.jsonl", "forget.txt", "scores.json", "outputs.safetensors", "inventory.json"),
        *("model/config.json", "model/model.safetensors", "gradcam/forget.png", "gradcam/retain.png"),
    }
    before = tree(world / "trained")
    done(f"evaluate three {STANDARD}")
    assert tree(world / "trained") == before
    assert {path.suffix for path in (world / "cache" / "models").iterdir()} == {".safetensors"}


def test_no_picture_of_a_record_is_kept_unless_it_is_asked_for(world: Path) -> None:
    done(f"evaluate three {STANDARD.replace('--pictures ', '')}")
    assert not (world / "three" / "gradcam").exists()
    assert "gradcam" not in runs.read(world / "three").result.scores.failed
    assert stat.S_IMODE((world / "seen" / "gradcam").stat().st_mode) == 0o700


def test_a_second_look_computes_nothing(world: Path) -> None:
    before = tree(world)
    first = done("evaluate seen --level standard --json")
    assert first.err == "level standard: all of it is there\n"
    assert done(f"evaluate seen {STANDARD} --json").out == first.out
    assert tree(world) == before

    def refuse(event: Mapping[str, Any]) -> None:
        pytest.fail(f"it began to work: {event}")

    assert again(world / "seen").carry_out(refuse) == runs.read(world / "seen")


def test_another_run_shares_the_reference_models(world: Path) -> None:
    kept = {path.name for path in (world / "cache" / "models").iterdir()}
    done("scrub trained --forget class:3 --method ascent --set epochs=1 --set lr=0.001 -o other")
    phases: list[str] = []
    run = again(world / "other").carry_out(lambda event: phases.append(event["phase"]))
    assert run.result.scores.values.keys() >= ADDED
    assert "train" not in phases
    assert {path.name for path in (world / "cache" / "models").iterdir()} == kept


def test_the_same_look_gives_the_same_numbers(world: Path) -> None:
    shutil.rmtree(world / "cache")
    done(f"evaluate three {STANDARD}")
    assert runs.read(world / "three").result == runs.read(world / "seen").result
    old, new = (runs.read_outputs(world / name) for name in ("three", "seen"))
    assert old.keys() == new.keys()
    assert torch.equal(old["probe"], new["probe"])


def test_another_setting_is_looked_at_anew_and_the_rest_is_kept(world: Path) -> None:
    before = runs.read(world / "seen").result.scores
    answer = done("evaluate seen --level standard --set relearn=2")
    planned = [line.split("  ")[-1] for line in answer.err.splitlines() if line.startswith("  ")]
    assert planned == ["relearning the forgotten records, at most 2 epochs"]
    after = runs.read(world / "seen").result
    assert after.examined["relearn"] == 2
    assert after.examined["references"] == 2  # as it was the last time
    assert len(runs.read_outputs(world / "seen")["relearning"]) <= 3
    unlike = {name for name in before.values if after.scores.values.get(name) != before.values[name]}
    assert unlike <= {"relearn_epochs"}


def test_what_was_measured_but_not_written_is_not_lost(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(runs, "write_result", full)
        with pytest.raises(KeyboardInterrupt):
            again(world / "three").carry_out()
    assert runs.read(world / "three").result.scores.values.keys().isdisjoint(ADDED)
    assert again(world / "three").carry_out().result.scores == runs.read(world / "seen").result.scores


def test_a_run_is_looked_at_beside_a_retrained_one(world: Path) -> None:
    done("evaluate seen --against retrained")
    compared = runs.read(world / "seen").result
    assert {"jsd_forget", "agreement_test", "avg_gap"} <= compared.values().keys()
    assert compared.values().keys() >= ADDED
    done(f"evaluate three --against retrained {STANDARD}")
    both = runs.read(world / "three").result
    assert both.values() == compared.values()
    assert both.scores.verdict == compared.scores.verdict


def test_a_reference_that_was_replaced_is_told_and_judges_no_more(world: Path) -> None:
    done("evaluate three --against retrained")
    done("scrub trained --forget class:8 --method retrain --overwrite -o retrained")
    note = "three was compared with a reference that has changed since; compare again: "
    for command in ("evaluate three", "evaluate three --json", f"evaluate three {STANDARD}"):
        assert f"warning: {note}scissorhands evaluate three --against retrained" in done(command).err
    assert {*runs.read(world / "three").result.scores.values} >= ADDED


def test_a_reference_that_lost_its_outputs_is_no_obstacle(world: Path) -> None:
    done("evaluate three --against retrained")
    (world / "retrained" / "outputs.safetensors").unlink()
    assert again(world / "three").carry_out().result.scores.values.keys() >= ADDED


def test_a_reference_that_was_probed_by_other_shots_is_no_obstacle(world: Path) -> None:
    observed = runs.read_outputs(world / "seen")
    probed = {**runs.read_outputs(world / "retrained"), "probe": observed["probe"][:-7]}  # seven were always shown
    runs.write_outputs(world / "retrained", probed)
    done("evaluate seen --against retrained")


def test_probes_that_were_shown_other_numbers_of_records_are_not_compared(world: Path) -> None:
    seen, retrained = runs.read(world / "seen"), runs.read(world / "retrained")
    observed = runs.read_outputs(seen.folder)
    few, many = torch.zeros_like(observed["probe"]), torch.ones_like(observed["probe"])
    runs.write_outputs(seen.folder, {**observed, "probe": many, "probe_shots": 20})
    runs.write_result(seen.folder, replace(seen.result, examined={**seen.result.examined, "shots": 20}))
    runs.write_outputs(retrained.folder, {**runs.read_outputs(retrained.folder), "probe": few})
    runs.write_result(retrained.folder, replace(retrained.result, examined=seen.result.examined))
    found = compare(runs.read(seen.folder), runs.read(retrained.folder)).result.scores.verdict
    assert found
    assert "probe" not in found.reason


def test_a_run_without_outputs_is_looked_at_from_the_start(world: Path) -> None:
    (world / "three" / "outputs.safetensors").unlink()
    assert again(world / "three").carry_out().result.scores == runs.read(world / "seen").result.scores


# The level deep


def test_a_few_shadow_models_are_enough_for_the_deep_level(world: Path) -> None:
    before = runs.read(world / "seen").result
    answer = done("evaluate seen --level deep --set shadows=4")
    assert "4 shadow models, each made to forget" in answer.err
    assert "reference models" not in answer.err
    after = runs.read(world / "seen").result
    assert 0 <= after.scores["ulira_auc"] <= 1
    assert all(after.values()[name] == value for name, value in before.values().items())
    assert len(runs.read_outputs(world / "seen")["shadows"]) == 4
    assert list((world / "cache" / "shadows").iterdir()) == []  # they were trained on what is to be forgotten
    kept = tree(world)
    assert done("evaluate seen --level deep").err == "level deep: all of it is there\n"
    assert tree(world) == kept


# What is refused


def test_a_run_whose_data_has_changed_is_refused(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = sources._every_digit()
    others = images.clone()
    others[5, 0, 3, 3] += 1
    monkeypatch.setattr(sources, "_every_digit", lambda: (others, labels))
    before = tree(world)
    for how in ("", "--dry-run"):
        refused(f"evaluate three {STANDARD} {how}", "digits is not as it was when three was made: record ")
    assert tree(world) == before


def test_a_run_whose_record_of_the_division_has_changed_is_refused(world: Path) -> None:
    ids = (world / "three" / "forget.txt").read_text().split()
    (world / "three" / "forget.txt").write_text("\n".join(ids[1:]))
    before = tree(world)
    refused(f"evaluate three {STANDARD}", "forget.txt was changed after the run was written.")
    assert tree(world) == before
    reseal(world / "three")
    refused(f"evaluate three {STANDARD}", f"forgot {len(ids)} records, and its forget.txt lists {len(ids) - 1}.")
    other = next(str(number) for number in range(len(ids) + 1) if str(number) not in ids)
    (world / "three" / "forget.txt").write_text("\n".join([other, *ids[1:]]))
    reseal(world / "three")
    before = tree(world)
    wrong = "cannot be divided as it was: the test data or its forget.txt has changed."
    refused(f"evaluate three {STANDARD}", wrong)
    refused(f"scrub three --forget class:4 {QUICK} -o again", wrong)
    assert tree(world) == before


def test_emptying_the_list_of_what_was_forgotten_does_not_bring_it_back(world: Path) -> None:
    (world / "three" / "forget.txt").write_text("")
    refused(f"scrub three --forget class:4 {QUICK} -o again", "forget.txt was changed after the run was written.")
    reseal(world / "three")
    refused(f"scrub three --forget class:4 {QUICK} -o again", "records, and its forget.txt lists 0.")
    assert not (world / "again").exists()


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
def test_a_forged_run_that_forgot_nothing_does_not_bring_back_what_was_forgotten(counted: bool, world: Path) -> None:
    record = world / "three" / "run.toml"
    lines = [line for line in record.read_text().splitlines() if counted or not line.startswith("forget_records")]
    record.write_text("\n".join('manifest = ""' if line.startswith("manifest") else line for line in lines))
    (world / "three" / "forget.txt").unlink()
    forge(world / "three", lambda stored: stored.update(manifest=""))
    if not counted:
        forge(world / "three", lambda stored: stored["counts"].pop("forget"))
    before = tree(world)
    for command in ("evaluate three", "report three -o page.html", f"scrub three --forget class:5 {QUICK} -o again"):
        refused(command, "three forgot something, and its manifest is ''")
    record.write_text(record.read_text().replace('manifest = ""', 'manifest = "0123"'))
    forge(world / "three", lambda stored: stored.update(manifest="0123"))
    for command in ("evaluate three", "report three -o page.html", f"scrub three --forget class:5 {QUICK} -o again"):
        refused(command, "records, and its forget.txt lists 0")
    assert tree(world).keys() == before.keys()


def test_the_model_folder_of_a_run_that_forgot_does_not_hide_what_it_forgot(world: Path) -> None:
    refused(f"scrub three/model --data digits --forget class:5 {QUICK} -o again", "name the run, three.")


def test_a_model_that_was_changed_is_told_by_every_command_that_reads_its_run(world: Path) -> None:
    shutil.copy(world / "trained/model/model.safetensors", world / "three/model/model.safetensors")
    for command in ("evaluate three", "report three -o page.html", f"scrub three --forget class:5 {QUICK} -o again"):
        refused(command, "model/model.safetensors was changed after the run was written")


@pytest.mark.parametrize(
    ("name", "value"),
    [("retain_accuracy", 99.99), ("auc", 0.51), ("mia", 47.11), ("tpr_1", 1.0), ("probe", 3.0), ("rmia_auc", 0.5)],
)
def test_scores_that_contradict_the_outputs_are_told_though_their_seal_fits(
    name: str, value: float, world: Path
) -> None:
    forge(world / "seen", lambda stored: stored["values"].update({name: value}))
    for command in ("evaluate seen", "report seen -o page.html"):
        refused(command, f"says {name} is {value:.2f}")


@pytest.mark.parametrize("reference", [False, True])
def test_a_verdict_that_does_not_follow_from_the_outputs_is_told_though_its_seal_fits(
    reference: bool, world: Path
) -> None:
    if reference:
        done("evaluate seen --against retrained")
    forge(world / "seen", lambda stored: stored["verdict"].update(call="forgotten, and nothing else"))
    for command in ("evaluate seen", "report seen -o page.html"):
        refused(command, "has the verdict 'forgotten, and nothing else', and by outputs.safetensors it is")


READ = ("evaluate {}", "report {} -o page.html")


def test_a_verdict_that_was_removed_is_computed_again(world: Path) -> None:
    done("evaluate three --against retrained")
    known = runs.read(world / "three").result.scores.verdict
    forge(world / "three", lambda stored: stored.update(verdict=None))
    assert known
    assert runs.checked(world / "three").result.scores.verdict == known
    for command in READ:
        assert known.call in done(command.format("three")).out
    done("evaluate retrained --against retrained")  # which says nothing about itself
    assert runs.checked(world / "retrained").result.scores.verdict is None


def test_counts_that_contradict_the_outputs_are_told_though_their_seal_fits(world: Path) -> None:
    forge(world / "seen", lambda stored: stored["counts"].update(test=99_999))
    for command in READ:
        refused(command.format("seen"), "says that 99999 records are 'test', and by outputs.safetensors it is 323")


@pytest.mark.parametrize("name", ["forget_accuracy", "test_accuracy", "mia", "seconds"])
def test_numbers_of_the_reference_that_are_not_its_own_are_told_though_their_seal_fits(name: str, world: Path) -> None:
    done("evaluate three --against retrained")
    edit = {"reference_seconds": 0.5} if name == "seconds" else {}
    forge(world / "three", lambda stored: stored.update(edit))
    if not edit:
        forge(world / "three", lambda stored: stored["reference"].update({name: 12.5}))
    for command in READ:
        refused(command.format("three"), f"says {name} of its reference is {'0.5' if edit else '12.5'}")


def forged_damage(folder: Path, before: float, says: str) -> None:
    """Let a run say what it was before and that it was damaged, and make its seal fit."""
    record = tomllib.loads((folder / "run.toml").read_text())
    (folder / "run.toml").write_text(to_toml({**record, "retain_accuracy_before": before, "damage": says}))
    reseal(folder)


@pytest.mark.parametrize("method", ["finetune", "gift.payload:M"])
def test_damage_that_was_hidden_is_told(method: str, world: Path) -> None:
    record = world / "three" / "run.toml"
    record.write_text(record.read_text().replace('name = "finetune"', f'name = "{method}"'))
    now = runs.read_outputs(world / "three") and json.loads((world / "three/scores.json").read_text())["values"]
    lost = damage({"retain_accuracy": now["retain_accuracy"] + 6}, now)
    forged_damage(world / "three", now["retain_accuracy"] + 6, "")
    for command in READ:
        refused(command.format("three"), f"says of its damage '', and by its numbers it is '{lost}'")
    forged_damage(world / "three", now["retain_accuracy"] + 6, lost)
    done("evaluate three")
    if ":" not in method:
        forged_damage(world / "three", now["retain_accuracy"], lost)
        refused("evaluate three", "and by its numbers it is ''")


def test_damage_is_told_of_a_damaged_run_that_is_scored(world: Path) -> None:
    now = runs.read(world / "three").result.scores["retain_accuracy"]
    forged_damage(world / "three", now + 6, damage({"retain_accuracy": now + 6}, {"retain_accuracy": now}))
    answer = done("evaluate three --forget class:5 -o scored")
    assert answer.err.startswith("warning: accuracy on the retained data fell from")
    assert "warning: damaged: " in done("report scored -o page.html").err
    assert "the retained data fell from" in (world / "page.html").read_text()


def test_scores_beside_a_reference_that_is_gone_are_not_refused(world: Path) -> None:
    done("evaluate seen --against retrained")
    shutil.rmtree(world / "retrained")
    done("evaluate seen")
    done("report seen -o page.html")


def test_of_two_processes_that_evaluate_one_run_the_second_is_refused(nursery: Nursery, world: Path) -> None:
    command = "evaluate three --level standard --set references=4 --set relearn=10"
    earlier = nursery.start(command, world, SCISSORHANDS_CACHE=str(world / "cache"))
    while earlier.poll() is None and not is_locked(world / "three"):
        time.sleep(0.01)
    refused(command, "three is being evaluated by another process.")
    ended = earlier.wait()
    assert (ended.err.count("error"), ended.code) == (0, 0)
    assert {*runs.checked(world / "three").result.scores.values} >= ADDED


@pytest.mark.parametrize("writes", [1, 2])
def test_an_evaluation_that_is_killed_while_it_writes_can_be_repeated(
    writes: int, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(range(writes))

    def killed(work: Callable[[], Any]) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return on_rank_0(work)

    command = "evaluate seen --level standard --set references=2 --set shots=9 --set relearn=10"
    with monkeypatch.context() as patch:
        patch.setattr("scissorhands.runs.writer.on_rank_0", killed)
        assert cli(command).code != 0
    for one in ("report seen -o page.html", command, "evaluate seen"):
        done(one)
    assert runs.read(world / "seen").result.scores.verdict
    assert runs.read(world / "seen").result.examined["shots"] == 9


def is_locked(folder: Path) -> bool:
    """Whether another process holds the lock of a run."""
    try:
        with runs.locked(folder):
            return False
    except RunError:
        return True


def forge(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the scores of a run and make its seal fit."""
    path = folder / "scores.json"
    stored = json.loads(path.read_text())
    edit(stored)
    path.write_text(json.dumps(stored))
    reseal(folder)


def test_code_that_a_run_names_does_not_run_unless_it_is_named(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (world / "gift").mkdir()
    (world / "gift" / "payload.py").write_text(
        "from pathlib import Path\nPath('it_ran').touch()\nfrom scissorhands import FineTune as M\n"
    )
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    record = world / "three" / "run.toml"
    record.write_text(record.read_text().replace('name = "finetune"', 'name = "gift.payload:M"'))
    reseal(world / "three")
    for options in (STANDARD, f"{STANDARD} --dry-run"):
        done(f"evaluate three {options}")
    few = "--level deep --set references=2 --set relearn=10 --set shadows=2"
    for options in (few, f"{few} --dry-run"):
        refused(f"evaluate three {options}", "If you trust it, name it: --method gift.payload:M")
    assert not (world / "it_ran").exists()
    done(f"evaluate three {few} --method gift.payload:M --dry-run")
    assert (world / "it_ran").exists()


def test_a_run_that_was_only_trained_has_nothing_to_look_at(world: Path) -> None:
    before = tree(world)
    for options in (STANDARD, f"{STANDARD} --dry-run", "--level deep"):
        refused(
            f"evaluate trained {options}", "trained was trained and has nothing to forget yet: say what with --forget"
        )
    assert tree(world) == before


MISTAKES = {
    "a misspelt level": ("--level standart", "'standart'"),
    "a misspelt setting": (
        "--level deep --set shadow=4",
        "Evaluation has no setting 'shadow'. Did you mean 'shadows'?",
    ),
    "a setting that breaks its rule": ("--level deep --set shadows=0", "'shadows' must be a whole number"),
    "a setting in words": ("--level standard --set shots=few", "'shots' must be a whole number, 1 or more"),
    "a setting without a value": ("--level standard --set shots", "'shots' is not of the form name=value"),
    "a setting twice": ("--level standard --set shots=1 --set shots=2", "'shots' is set twice"),
    "a misspelt setting of training": ("--level standard --train epoch=2", "Did you mean 'epochs'?"),
    "training that breaks its rule": ("--level standard --train lr=0", "'lr' must be a number above 0, not 0.0"),
    "a setting at the quick level": ("--set shots=2", "add --level standard"),
    "training at the quick level": ("--train epochs=2", "add --level standard"),
    "a place for what goes into the run": ("--level standard -o out", "adds to the run itself"),
    "other data": ("--level standard --data cifar10", "adds to the run itself"),
}


@pytest.mark.parametrize(("options", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_with_one_line_and_nothing_is_written(options: str, says: str, world: Path) -> None:
    before = tree(world)
    refused(f"evaluate three {options}", says)
    refused(f"evaluate three {options} --dry-run", says)
    assert tree(world) == before


@pytest.mark.parametrize("name", ["outputs.safetensors", "scores.json"])
def test_a_run_that_is_damaged_is_refused(name: str, world: Path) -> None:
    (world / "three" / name).write_bytes(b"garbage")
    before = tree(world)
    refused(f"evaluate three {STANDARD}", "cannot be read")
    assert tree(world) == before


def test_a_run_of_an_firstrelease_is_answered_in_one_line(world: Path) -> None:
    record = world / "three" / "run.toml"
    lines = record.read_text().splitlines()
    record.write_text("\n".join(line for line in lines if not line.startswith("kind = ")))
    answer = cli(f"evaluate three {STANDARD}")
    assert answer.code in (0, 2)


# Runs that move, and models without a past


def test_a_run_that_moved_together_with_its_original_can_be_looked_at(world: Path, tmp_path: Path) -> None:
    there = tmp_path / "far" / "away"
    there.mkdir(parents=True)
    for name in ("trained", "three"):
        shutil.move(world / name, there / name)
    done(f"evaluate {there}/three {STANDARD}")
    assert runs.read(there / "three").result.scores == runs.read(world / "seen").result.scores
    assert (there / "three" / "gradcam" / "forget.png").exists()


def test_a_run_whose_original_is_gone_lacks_only_the_pictures(world: Path) -> None:
    shutil.rmtree(world / "trained")
    done(f"evaluate three {STANDARD}")
    scores = runs.read(world / "three").result.scores
    assert scores.values == runs.read(world / "seen").result.scores.values
    assert "trained" in scores.failed["gradcam"]
    assert not (world / "three" / "gradcam").exists()


def test_a_scored_run_that_moved_with_its_model_can_be_looked_at(world: Path, tmp_path: Path) -> None:
    done("evaluate trained --forget class:3 -o scored")
    there = tmp_path / "far"
    there.mkdir()
    for name in ("trained", "scored"):
        shutil.move(world / name, there / name)
    done(f"evaluate {there}/scored {STANDARD}")
    assert runs.read(there / "scored").result.scores.values.keys() >= ADDED


def test_a_scored_run_never_looks_at_a_model_that_only_has_the_name_of_its_own(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("evaluate trained --forget class:3 -o scored")
    elsewhere = tmp_path / "elsewhere" / "desk"
    elsewhere.mkdir(parents=True)
    shutil.copytree(world / "three" / "model", elsewhere.parent / "trained")
    shutil.rmtree(world / "trained")
    monkeypatch.chdir(elsewhere)
    answer = cli(f"evaluate {world}/scored {STANDARD}")
    assert answer.code == 2
    assert "trained" in answer.err


def test_a_model_without_a_past_lacks_what_needs_training_until_that_is_said(world: Path) -> None:
    done(f"evaluate trained/model --data digits --forget class:3 {STANDARD} -o scored")
    first = runs.read(world / "scored").result.scores
    assert {"probe", "reawakened", "few_shot", "relearn_epochs"} <= first.values.keys()
    for name in ("rmia_auc", "rmia_tpr_1"):
        assert first.failed[name].startswith("it is not known how the model was trained")
        assert "--train" in first.failed[name]
    assert first.verdict
    assert first.verdict.call == "cannot tell"

    answer = done("evaluate scored --level standard --train epochs=2")
    assert "2 reference models on half of the retained data" in answer.err
    mended = runs.read(world / "scored").result
    assert 0 <= mended.scores["rmia_auc"] <= 1
    assert "rmia_auc" not in mended.scores.failed
    assert mended.examined["training"] == {"epochs": 2}
    assert all(mended.scores.values[name] == value for name, value in first.values.items())


def test_a_model_without_a_convolution_has_no_pictures_and_the_reason(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world / "flat_network.py").write_text(
        "from torch import nn\n\n"
        "class Flat(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.head = nn.Linear(64, 10)\n\n"
        "    def forward(self, images):\n"
        "        return self.head(images.flatten(1).float() / 255)\n"
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(world)
    monkeypatch.delitem(sys.modules, "flat_network", raising=False)
    done("train --model flat_network:Flat --set epochs=2 --set batch_size=64 -o flat")
    done(f"scrub flat --forget random:20% --factory flat_network:Flat {QUICK} -o scrubbed")
    answer = done(f"evaluate scrubbed --factory flat_network:Flat {STANDARD}")
    assert "Probe" in answer.out
    scores = runs.read(world / "scrubbed").result.scores
    assert scores.values.keys() >= {*ADDED, "rmia_tpr_1"}
    assert scores.failed["gradcam"] == "Grad-CAM needs a convolution, and this model has none."
    before = tree(world)
    done(f"evaluate scrubbed --factory flat_network:Flat {STANDARD}")
    assert tree(world) == before
    refused("evaluate scrubbed --level deep --set shadows=2", "--factory flat_network:Flat")


def test_a_few_records_of_few_classes_are_compared_with_the_same_others_as_before(world: Path) -> None:
    done("scrub trained --forget random:3 --method finetune --set epochs=1 -o few")
    others = len(runs.read_outputs(world / "few")["others"])
    done(f"evaluate few {STANDARD}")
    observed = runs.read_outputs(world / "few")
    assert len(observed["references"][0]["others"]) == len(observed["others"]) == others
    assert "rmia_auc" in runs.read(world / "few").result.scores.values


def test_a_model_that_has_changed_since_it_was_scored_is_refused(world: Path) -> None:
    done("evaluate trained --forget class:3 -o scored")
    weights = world / "trained" / "model" / "model.safetensors"
    changed = {name: value + 1 for name, value in load_file(weights).items()}
    save_file(changed, weights)
    refused(f"evaluate scored {STANDARD}", "model.safetensors was changed after the run was written")


# Interruption


@pytest.mark.parametrize("phase", ["reawaken", "few-shot", "relearn", "train"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_a_look_that_breaks_off_leaves_the_run_as_it_was(error: BaseException, phase: str, world: Path) -> None:
    """Of a model that never saw the class, so that there is something to relearn."""
    shutil.rmtree(world / "cache")
    before = tree(world / "retrained")

    def log(event: Mapping[str, Any]) -> None:
        if event["phase"] == phase:
            raise error

    with pytest.raises(type(error)):
        again(world / "retrained").carry_out(log)
    assert tree(world / "retrained") == before
    assert runs.read(world / "retrained").result.scores["forget_accuracy"] >= 0


def test_an_interrupted_look_is_answered_in_one_line(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scissorhands.evaluation.probes.relearn", stop)
    before = tree(world)
    answer = cli(f"evaluate three {STANDARD}")
    assert answer.code == 130
    assert answer.err.splitlines()[-1].startswith("error: interrupted")
    assert tree(world) == before


def test_a_quick_score_stays_when_the_deeper_look_breaks_off(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scissorhands.evaluation.probes.relearn", stop)
    assert cli(f"evaluate trained --forget class:3 {STANDARD} -o scored").code == 130
    assert "forget_accuracy" in json.loads((world / "scored" / "scores.json").read_text())["values"]
    assert "probe" not in runs.read(world / "scored").result.scores.values


def test_a_model_that_is_no_run_and_no_model_is_refused(world: Path) -> None:
    (world / "empty").mkdir()
    refused(f"evaluate empty {STANDARD}", "'empty' is no run, so say what it should forget")
    assert models.load(world / "three" / "model")
