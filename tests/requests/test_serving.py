"""Open requests are served by one scrub; what was begun is gone on with, whenever it was killed."""

import hashlib
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.commands import Answer, cli, done
from helpers.nursery import Fault, Nursery
from scissorhands import runs
from scissorhands.data.sources import Source
from scissorhands.data.split import held_out
from scissorhands.report import pdf
from scissorhands.requests.ledger import Ledger
from scissorhands.runs.lock import lock
from scissorhands.verify.pack import verify

TRAIN = "train --model small --model-set width=4 --data digits --set epochs=4 --set batch_size=64 --set lr=0.05"
UNPRINTED = {"PATH": "/nowhere"}  # where no browser is found that prints the page
METHOD = "--level quick --method finetune --set epochs=1 --set batch_size=512 --set lr=0.001"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained model, in `trained`."""
    folder = tmp_path_factory.mktemp("serving")
    done(TRAIN, "-o", folder / "trained")
    return folder


@pytest.fixture
def folder(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with the same model; no page is printed."""
    monkeypatch.setattr(pdf, "browser", lambda: "")
    (tmp_path / "trained").symlink_to(place / "trained")
    return tmp_path


def trained_on(place: Path) -> list[int]:
    """The records that the model was trained on."""
    division, data = runs.read(place / "trained").record["split"], Source(name="digits").load().train
    held = {*held_out(data, float(division["holdout"]), int(division["held_seed"])).tolist()}
    return [number for number in range(len(data)) if number not in held]


def album(folder: Path) -> tuple[Path, str]:
    """A few photos that are easy to tell apart, and the command that trains a model on them."""
    images, draw = folder / "images", np.random.default_rng(0)
    for number in range(80):
        path = images / ("train" if number < 60 else "test") / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 99, (8, 8), dtype=np.uint8) + 99 * np.uint8(number % 2)).save(path)
    return images, f"train --data {images} --model small --model-set width=4 --set epochs=8 --set batch_size=16"


def request(folder: Path, keys: Sequence[object], name: str = "") -> None:
    """Add a request."""
    Ledger(folder / "ledger").add(list(map(str, keys)), name, "", "+30d", "")


def serve(folder: Path, options: str = METHOD) -> Answer:
    return cli(f"request serve {folder}/trained --ledger {folder}/ledger {options}")


def states(folder: Path) -> dict[str, tuple[str, str]]:
    return {name: (one.state, one.run) for name, one in Ledger(folder / "ledger").requests().items()}


def require_consistent(folder: Path) -> None:
    """Every request is open with its keys, or served by a run that is whole and by a pack that holds."""
    ledger = Ledger(folder / "ledger")
    for one in ledger.requests().values():
        if one.state == "open":
            ledger.keys(one)
    for entry in ledger.entries():
        if entry["event"] == "served":
            run = ledger.folder / entry["run"]
            pack = ledger.folder / "packs" / f"{run.name}.zip"
            assert hashlib.sha256(pack.read_bytes()).hexdigest() == entry["pack"]
            assert not verify(pack, run, ledger.folder).failed
            assert runs.read(run).result.scores.counts["forget"] == entry["records"]


def test_three_hundred_requests_are_served_by_one_scrub_and_the_next_goes_on_from_its_model(folder: Path) -> None:
    known = trained_on(folder)
    for number in known[:300]:
        request(folder, [number])
    answer = serve(folder)
    assert answer.code == 0, answer.err
    assert {*states(folder).values()} == {("served", "runs/001")}
    ledger = Ledger(folder / "ledger")
    assert runs.read(ledger.folder / "runs/001").ids("forget") == known[:300]
    assert len(list((ledger.folder / "keys").iterdir())) == 300
    assert not (ledger.folder / "serving").exists()
    assert serve(folder).err == "no request is open\n"

    request(folder, known[300:303], "later")
    assert serve(folder).code == 0
    assert states(folder)["later"] == ("served", "runs/002")
    second = runs.read(ledger.folder / "runs/002")
    assert (second.ids("forget"), second.ids("before")) == (known[300:303], known[:300])
    require_consistent(folder)
    first, moved = (entry["drift"] for entry in ledger.entries() if entry["event"] == "served")
    assert (first["scrubs"], moved["scrubs"], moved["began"]) == (1, 2, first["began"])
    assert moved["forgotten"] == pytest.approx(100 * 303 / len(known))
    assert 0 < first["weights"] < moved["weights"] < 10
    assert moved["accuracy"] == pytest.approx(
        max(value - second.result.scores.values[name] for name, value in first["began"].items())
    )
    assert "2 scrubs, 2" in cli(f"request list --ledger {ledger.folder}").out
    assert cli(f"request close later 1 --ledger {ledger.folder}").code == 0
    assert states(folder)["later"] == ("closed", "runs/002")
    require_consistent(folder)


def test_a_new_training_leaves_out_whatever_was_asked_for(folder: Path) -> None:
    images, train = album(folder)
    train += " --holdout 0.3"
    done(train, "-o", folder / "first")
    ledger, listed = Ledger(folder / "ledger"), folder / "exclude.txt"
    options = "--level quick --missing skip --untrained --method finetune --set lr=0.0001"
    serve = f"request serve {{}} --ledger {ledger.folder} {options}"
    request(folder, [f"{number}.png" for number in range(8)] + ["gone.png"])
    served = cli(serve.format(folder / "first"))
    assert served.code == 0
    forgotten = runs.read(ledger.folder / "runs/001").keys("forget")
    held = 8 - len(forgotten)
    assert held > 0, "the case has a record that was held out"
    assert f"request 1: no record is called 'gone.png'\nrequest 1: {held} of 9 keys name records" in served.err
    request(folder, ["train/a/20.png"], "open")
    request(folder, ["22.png"], "mistyped")
    request(folder, ["24.png"], "was-held-out")
    done(f"request close mistyped --ledger {ledger.folder} --note wrong --withdrawn")
    done(f"request close was-held-out 1 --ledger {ledger.folder} --note 'not in the model'")
    exclude = f"request exclude --ledger {ledger.folder} -o {listed}"
    assert cli(exclude).code == 0
    names = [*(f"{number}.png" for number in range(8)), "gone.png", "train/a/20.png", "24.png"]
    assert listed.read_text().splitlines() == names
    assert listed.stat().st_mode & 0o077 == 0
    assert cli(exclude).code == 2

    done(f"{train} --seed 1", "-o", folder / "again")
    refused = cli(serve.format(folder / "again"))
    assert refused.code == 2
    assert "was made from 9 records that were to be forgotten" in refused.err
    assert "left out 10 records" in done(f"{train} --seed 1 --exclude {listed} -o {folder}/second").err
    assert not (folder / "second/model").samefile(folder / "first/model")
    done(f"request close open --ledger {ledger.folder} --note 'trained again without it'")
    for key in [*forgotten, "train/a/20.png"]:
        (images / key).unlink()
    request(folder, ["train/a/26.png", "train/b/23.png"])
    again = cli(serve.format(folder / "second"))
    assert again.code == 0, again.err
    assert "second did not serve this ledger before" in again.err
    assert ledger.entries()[-1]["drift"]["scrubs"] == 1
    require_consistent(folder)

    (ledger.folder / "keys/was-held-out.txt").unlink()
    assert "The keys of was-held-out are not there any more" in done(f"{exclude} --overwrite").err
    assert "24.png" not in listed.read_text()
    (ledger.folder / "keys/1.txt").write_text("other.png\n")
    assert "does not hold the keys that were asked for" in cli(f"{exclude} --overwrite").err


def test_a_file_that_got_the_name_of_one_that_was_forgotten_may_be_trained_on(folder: Path) -> None:
    images, train = album(folder)
    done(train, "-o", folder / "first")
    options = "--level quick --missing skip --untrained --method finetune --set lr=0.0001"
    serve = f"request serve {{}} --ledger {folder}/ledger {options}"
    request(folder, [f"{number}.png" for number in range(4)])
    assert cli(serve.format(folder / "first")).code == 0
    shutil.copy(images / "train/b/5.png", images / "train/b/0.png")
    listed = folder / "exclude.txt"
    done(f"request exclude --ledger {folder}/ledger -o {listed}")
    again = f"{train} --seed 1 --exclude {listed} -o {folder}/second"
    assert "'0.png' names 2 files" in cli(again).err
    listed.write_text(listed.read_text().replace("0.png", "train/a/0.png"))
    done(again)
    request(folder, ["8.png", "11.png", "12.png"])
    assert cli(serve.format(folder / "second")).code == 0


def test_a_model_that_calls_its_records_by_number_is_compared_where_the_data_is_the_same(folder: Path) -> None:
    known = trained_on(folder)
    request(folder, known[:2])
    assert serve(folder).code == 0
    request(folder, known[2:4])
    again = f"request serve {folder}/again --ledger {folder}/ledger {METHOD}"
    done(f"{TRAIN} --seed 1 -o {folder}/again")
    assert "was made from 2 records that were to be forgotten" in cli(again).err
    listed = f"request exclude --ledger {folder}/ledger -o {folder}/exclude.txt"
    done(listed)
    done(f"{TRAIN} --seed 1 --exclude {folder}/exclude.txt -o {folder}/again --overwrite")
    assert "there is nothing to forget" in cli(f"{again} --missing skip").err
    request(folder, known[4:6])
    assert cli(f"{again} --missing skip").code == 0
    assert runs.read(folder / "ledger/runs/002").ids("forget") == known[4:6]


def test_a_model_that_calls_its_records_otherwise_is_refused(folder: Path) -> None:
    rows = [f"{number % 2},{number // 3},{number % 2 + number / 1000}" for number in range(90)]
    (folder / "rows.csv").write_text("\n".join(["label,customer,value", *rows]))
    train = f"train --model mlp --data {folder}/rows.csv --data-set test=20% --set epochs=8 --set batch_size=16"
    done(f"{train} --key customer -o {folder}/one")
    done(f"{train} -o {folder}/two")
    request(folder, range(3))
    how = f"--ledger {folder}/ledger --level quick --untrained --method finetune --set lr=0.0001"
    assert cli(f"request serve {folder}/one {how}").code == 0
    request(folder, range(3, 5))
    assert "Train it with --key customer." in cli(f"request serve {folder}/two {how}").err


def test_the_verdict_is_foretold_and_given_at_level_standard_unless_another_is_asked_for(folder: Path) -> None:
    request(folder, trained_on(folder)[:60])
    answer = serve(folder, METHOD.removeprefix("--level quick "))
    assert answer.code == 0, answer.err
    lines = answer.err.splitlines()
    assert lines[0].startswith("verdict at level standard: can tell; it finds a memory of AUC 0.6")
    assert any("4 reference models" in line for line in lines[1:])
    found = runs.read(folder / "ledger/runs/001").result
    assert found.examined["references"] == 4
    assert "rmia_auc" in found.scores.values
    request(folder, trained_on(folder)[60:62])
    few = serve(folder, METHOD)
    helps = "It takes reference models: level standard trains some (with --train if it is not known how)."
    assert few.err.splitlines()[0] == f"verdict at level quick: {helps}"


def test_a_budget_that_is_used_up_says_that_it_is_time_to_train_again(folder: Path) -> None:
    (folder / "policy.toml").write_text("signed = true\nlargest_drift_forgotten = 0.1\n")
    listed = f"request list --ledger {folder}/ledger --policy {folder}/policy.toml"
    request(folder, trained_on(folder)[:3])
    assert cli(listed).code == 0
    for answer in (serve(folder, f"{METHOD} --policy {folder}/policy.toml"), cli(listed)):
        assert answer.code == 3
        assert "It is time to train the model again, without what 'scissorhands request exclude' lists." in answer.err
        assert "largest_drift_forgotten = 0.1, but the share forgotten" in answer.err
    assert "signed" not in cli(listed).err


def test_a_model_that_is_damaged_serves_nobody(folder: Path) -> None:
    request(folder, trained_on(folder)[:3])
    answer = serve(folder, "--level quick --method ascent --set lr=0.5 --set epochs=3")
    assert answer.code == 3
    assert "Nothing was served: 1 stay open" in answer.err
    assert states(folder) == {"1": ("open", "")}
    assert serve(folder).code == 0
    assert states(folder) == {"1": ("served", "runs/001")}


def test_requests_wait_that_came_after_it_began_and_a_policy_is_held_to(nursery: Nursery, folder: Path) -> None:
    known = trained_on(folder)
    request(folder, known[:2])
    command = f"request serve trained --ledger ledger {METHOD} --checkpoint 0"
    stopped = nursery.run(command, folder, Fault("examine", 1, "SIGINT"))
    assert (stopped.code, stopped.err.splitlines()[-1]) == (130, "error: interrupted; the same command goes on.")
    request(folder, known[2:4])
    (folder / "policy.toml").write_text("signed = true")
    answer = serve(folder, f"{METHOD} --policy {folder}/policy.toml")
    assert answer.code == 3
    assert "signed = true, but the pack is not signed" in answer.err
    assert states(folder) == {"1": ("served", "runs/001"), "2": ("open", "")}
    assert runs.read(folder / "ledger/runs/001").ids("forget") == known[:2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            METHOD,
            "1 of 3 keys name no record that the model knows: '99999' of request typed is not in the data (Did",
        ),
        ("--method nothing", "there is no method 'nothing'"),
        (f"{METHOD} --evaluate references=1", "add --level standard"),
        (f"{METHOD} --policy {{0}}/trained/run.toml", "has no setting 'verb'"),
    ],
)
def test_a_mistake_is_told_and_the_requests_stay_open(folder: Path, options: str, says: str) -> None:
    request(folder, trained_on(folder)[:2])
    request(folder, [99999], "typed")
    answer = serve(folder, options.format(folder))
    assert answer.code == 2
    assert says in answer.err
    assert states(folder) == {"1": ("open", ""), "typed": ("open", "")}
    assert not list((folder / "ledger").glob("runs/*"))


def test_a_closed_request_leaves_no_key_behind_after_it_could_not_be_served(folder: Path) -> None:
    ledger = folder / "ledger"
    request(folder, [99999])
    assert serve(folder).code == 2
    done(f"request close 1 --ledger {ledger} --note mistyped --withdrawn")
    assert not [path for path in ledger.rglob("*.txt") if "99999" in path.read_text()]


def test_what_was_begun_is_gone_on_with_by_the_same_command_and_model_alone(nursery: Nursery, folder: Path) -> None:
    known = trained_on(folder)
    request(folder, known[:2])
    command = f"request serve trained --ledger ledger {METHOD} --checkpoint 0"
    assert nursery.run(command, folder, Fault("examine", 1, "SIGINT")).code == 130
    for other, says in (
        ("--method scissorhands", "'method' was 'finetune', and is 'scissorhands' now"),
        (METHOD.replace("lr=0.001", "lr=0.002"), "'lr' was 0.001, and is 0.002 now"),
        (f"{METHOD} --seed 3", "'seed' was 0, and is 3 now"),
    ):
        refused = serve(folder, other)
        assert refused.code == 2
        assert says in refused.err
    done(f"{TRAIN} --seed 1 -o {folder}/other")
    assert cli(f"request serve {folder}/other --ledger {folder}/ledger {METHOD}").code == 0
    served = runs.read(folder / "ledger/runs/001")
    assert (served.folder / served.record["model"]["source"]).samefile(folder / "other")
    request(folder, known[2:4])
    assert nursery.run(command.replace("trained", "other"), folder, Fault("rename", 1, "kill after")).code < 0
    other = f"request serve {folder}/other --ledger {folder}/ledger {METHOD.replace('lr=0.001', 'lr=0.002')}"
    assert "'lr' was 0.001" in cli(other).err


def test_closing_one_request_keeps_what_a_run_goes_on_with(nursery: Nursery, folder: Path) -> None:
    known = trained_on(folder)
    request(folder, known[:2])
    request(folder, known[2:4])
    command = f"request serve trained --ledger ledger {METHOD} --checkpoint 0"
    assert nursery.run(command, folder, Fault("examine", 1, "SIGINT")).code == 130
    done(f"request close 2 --ledger {folder}/ledger --note withdrawn")
    assert serve(folder).code == 0
    assert runs.read(folder / "ledger/runs/001").ids("forget") == known[:4]


def test_a_ledger_whose_end_was_cut_off_does_not_replace_a_pack(folder: Path) -> None:
    request(folder, trained_on(folder)[:2])
    assert serve(folder).code == 0
    path, pack = folder / "ledger/ledger.jsonl", folder / "ledger/packs/001.zip"
    before = pack.read_bytes()
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    refused = serve(folder)
    assert refused.code == 2
    assert "does not list" in refused.err
    assert "its end was cut off" in refused.err
    assert pack.read_bytes() == before


def test_one_process_serves_at_a_time_and_runs_of_the_ledger_are_no_models_to_begin_with(folder: Path) -> None:
    request(folder, trained_on(folder)[:2])
    held = lock(folder / "ledger", "")
    try:
        assert "is being served by another process" in serve(folder).err
    finally:
        os.close(held)
    assert serve(folder).code == 0
    request(folder, trained_on(folder)[2:4])
    first = f"request serve {folder}/ledger/runs/001 --ledger {folder}/ledger {METHOD}"
    assert cli(first).code == 0
    request(folder, trained_on(folder)[4:6])
    assert "is not the run that served the ledger last" in cli(first).err
    shutil.rmtree(folder / "ledger/runs/002")
    assert "served requests before and is missing" in serve(folder).err


def test_a_kill_at_any_moment_leaves_ledger_and_runs_as_they_should_be(nursery: Nursery, folder: Path) -> None:
    """Kill it again and again, at thirty moments; what was served grows all the same."""
    names, killed = iter([f"{number}.png" for number in range(60)]), 0
    done(album(folder)[1], "-o", folder / "first")
    method = "--level quick --method finetune --set epochs=1 --set lr=0.0001 --missing skip --untrained"
    command = f"request serve first --ledger ledger {method} --checkpoint 0"
    early = [Fault("replace", call, what) for call in range(1, 10) for what in ("kill", "kill after")]
    late = [Fault(place, 1, what) for place in ("examine", "weights", "rename") for what in ("kill", "kill after")]
    inside = [Fault("rmtree", call, what) for call in (1, 2, 3) for what in ("kill", "kill half way")]
    moments = [*early, *late, *inside]
    assert len(moments) == 30
    for fault in moments:
        ledger = Ledger(folder / "ledger")
        if not (ledger.folder / "ledger.jsonl").exists() or "open" not in {x for x, _ in states(folder).values()}:
            request(folder, [next(names) for _ in range(3)])
        ended = nursery.run(command, folder, fault, **UNPRINTED)
        assert ended.code in (-signal.SIGKILL, 0), ended.err
        killed += ended.code != 0
        require_consistent(folder)
    assert nursery.run(command, folder, **UNPRINTED).code == 0
    require_consistent(folder)
    assert killed > 20
    assert {state for state, _ in states(folder).values()} == {"served"}
