"""A training that leaves out records: they are in no part of what it, or a later scrub of it, takes."""

import signal
from pathlib import Path

import pytest
import torch

from helpers.album import album
from helpers.commands import cli, done
from helpers.nursery import Fault, Nursery
from scissorhands import runs
from scissorhands.data.forget import Forget
from scissorhands.data.records import Part
from scissorhands.data.sources import Source
from scissorhands.data.split import halves, held_out
from scissorhands.runs.subject import load_classifier
from scissorhands.tasks.classification.networks import Normalize
from scissorhands.tasks.classification.request import Request

TRAIN = "train --model small --model-set width=4 --set epochs=2 --set batch_size=16"


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    album(tmp_path / "photos")
    return tmp_path / "photos"


def test_what_is_excluded_is_in_no_part_of_this_training_or_of_a_later_scrub(photos: Path, tmp_path: Path) -> None:
    data = Source(name=str(photos)).load()
    held, names = held_out(data.train, 0.2, 0), data.train.keys
    calibration, audit = (part.ids.tolist() for part in halves(Part(data.train, held)))
    trained = [number for number in range(len(names)) if number not in held.tolist()]
    out = [trained[0], trained[1], calibration[0], audit[0]]
    (tmp_path / "out.txt").write_text("\n".join([Path(names[out[0]]).name, *(names[n] for n in out[1:]), "gone.png"]))
    answer = done(f"{TRAIN} --data {photos} --holdout 0.2 --exclude {tmp_path}/out.txt -o {tmp_path}/trained")
    assert f"left out 4 records, which 5 keys in {tmp_path}/out.txt name" in answer.err
    run = runs.read(tmp_path / "trained")
    assert run.ids("before") == sorted(out)
    assert (tmp_path / "trained/before.txt").stat().st_mode & 0o777 == 0o600
    counts = run.result.scores.counts
    assert (counts["retain"], counts["calibration"], counts["audit"]) == (
        len(trained) - 2,
        len(calibration) - 1,
        len(audit) - 1,
    )
    (tmp_path / "out.txt").unlink()
    (tmp_path / "more.txt").write_text(names[trained[2]])
    for erased in (False, True):
        posed = load_classifier(str(tmp_path / "trained")).pose(
            Request(forget=Forget(f"keys:{tmp_path}/more.txt")), 0, torch.device("cpu"), str
        )
        parts = posed.split.parts()
        assert not {*out} & {
            n for name in ("forget", "retain", "calibration", "audit") for n in parts[name].ids.tolist()
        }
        assert {*parts["calibration"].ids.tolist()} == {*calibration} - {*out}
        assert {*parts["audit"].ids.tolist()} == {*audit} - {*out}
        assert posed.ids["before"] == sorted(out)
        for number in () if erased else out:
            (photos / names[number]).unlink()
    answer = cli(
        f"scrub {tmp_path}/trained --forget keys:{tmp_path}/more.txt --untrained --method finetune --set epochs=1 "
        f"-o {tmp_path}/scrubbed"
    )
    assert answer.code in (0, 3), answer.err
    assert runs.read(tmp_path / "scrubbed").ids("before") == sorted(out)


def test_what_is_excluded_is_not_measured_to_normalize_inputs_either(photos: Path, tmp_path: Path) -> None:
    data = Source(name=str(photos)).load()
    (tmp_path / "out.txt").write_text("\n".join(data.train.keys[:30]))
    done(f"{TRAIN} --data {photos} --exclude {tmp_path}/out.txt -o {tmp_path}/trained")
    normalize = next(
        one for one in load_classifier(str(tmp_path / "trained")).model.modules() if isinstance(one, Normalize)
    )
    every, left = (data.train.fetch(torch.arange(first, len(data.train)))[0] / 255 for first in (0, 30))
    assert torch.allclose(normalize.mean.flatten(), left.mean((0, 2, 3)), rtol=1e-6)
    assert not torch.allclose(normalize.mean.flatten(), every.mean((0, 2, 3)), rtol=1e-6)


def test_a_training_that_leaves_out_records_goes_on_without_the_list(
    nursery: Nursery, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.txt").write_text(Source(name=str(photos)).load().train.keys[3])
    command = f"{TRAIN} --data photos --exclude out.txt --checkpoint 0"
    assert nursery.run(f"{command} -o whole", tmp_path).code == 0
    assert nursery.run(f"{command} -o killed", tmp_path, Fault("save", 3, "kill half way")).code == -signal.SIGKILL
    (tmp_path / "out.txt").unlink()
    resumed = nursery.run("train --resume killed", tmp_path)
    assert resumed.code == 0, resumed.err
    assert runs.read(tmp_path / "killed").ids("before") == [3]
    weights = [(tmp_path / name / "model/model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_a_list_that_names_all_or_that_is_not_there_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("\n".join(Source(name=str(photos)).load().train.keys))
    for name, says in (("out.txt", "'holdout' and 'exclude' leave nothing to train on"), ("none.txt", "No such file")):
        answer = cli(f"{TRAIN} --data {photos} --exclude {tmp_path}/{name} -o {tmp_path}/none")
        assert (answer.code, answer.out) == (2, "")
        assert says in answer.err
        assert not (tmp_path / "none").exists()
