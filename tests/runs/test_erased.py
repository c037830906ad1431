"""Requests that come one after another over a folder of photos, whose files are erased between them, and a purge."""

import io
import json
import shutil
from collections.abc import Container
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.album import FIRST, QUICK, SECOND, THIRD, album, photo, wish
from helpers.commands import Answer, cli, done
from scissorhands import runs
from scissorhands.data.records import Stored, held_by
from scissorhands.data.split import held_out
from scissorhands.files import read_metadata


def refused(answer: Answer) -> str:
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    return answer.err


@pytest.fixture
def album_of(shrunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the photos that are left, which a test may change."""
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(shrunk / "cache"))
    shutil.copytree(shrunk / "photos", tmp_path / "photos")
    return tmp_path / "photos"


def scrub(run: Path, data: Path, list_of_files: Path, out: Path, *more: str) -> Answer:
    return cli(f"scrub {run} --data {data} --forget keys:{list_of_files} {QUICK} -o {out}", *more)


def test_a_run_says_which_records_there_were(shrunk: Path) -> None:
    known = runs.read(shrunk / "one").inventory()
    assert known == runs.read(shrunk / "trained").inventory()
    assert (len(known["train"].keys), known["train"].keys[0]) == (72, "train/apple/apple-0.png")
    assert (shrunk / "one" / "inventory.json").stat().st_mode & 0o777 == 0o600


def test_a_scrubbed_run_is_scrubbed_again_after_what_it_forgot_was_erased(shrunk: Path, tmp_path: Path) -> None:
    answer = scrub(shrunk / "one", shrunk / "photos", wish(tmp_path, "second.txt", *SECOND), tmp_path / "two")
    assert answer.code in (0, 3), answer.err
    two = runs.read(tmp_path / "two")
    assert {Path(key).name for key in two.keys("forget")} == {*SECOND}
    assert {Path(key).name for key in two.keys("before")} == {*FIRST}
    assert two.record["split"]["fingerprint"] == runs.read(shrunk / "one").record["split"]["fingerprint"]
    known = two.inventory()["train"]
    assert {Path(known.keys[number]).name for number in known.missing.tolist()} == {*FIRST}
    counts = two.result.scores.counts
    assert counts["forget"] + counts["retain"] + counts["calibration"] + counts["audit"] == 72 - len(FIRST)


def test_what_was_forgotten_before_is_listed_and_can_be_skipped(shrunk: Path, tmp_path: Path) -> None:
    asked = wish(tmp_path, "again.txt", FIRST[0], SECOND[0])
    said = refused(scrub(shrunk / "one", shrunk / "photos", asked, tmp_path / "two"))
    assert (
        f"1 of 2 keys in '{asked}' name no record that the model knows: '{FIRST[0]}' was forgotten before, or" in said
    )
    assert scrub(shrunk / "one", shrunk / "photos", asked, tmp_path / "two", "--missing", "skip").code in (0, 3)
    assert [Path(key).name for key in runs.read(tmp_path / "two").keys("forget")] == [SECOND[0]]


def test_anything_else_that_changed_is_named_and_can_be_skipped(shrunk: Path, album_of: Path, tmp_path: Path) -> None:
    asked = wish(tmp_path, "second.txt", *SECOND)
    photo(album_of, "apple-20.png").unlink()
    shutil.copy(photo(album_of, "brick-1.png"), photo(album_of, "brick-2.png"))
    shutil.copy(photo(album_of, "brick-1.png"), photo(album_of, "brick-99.png"))
    next((album_of / "test" / "cloud").iterdir()).unlink()
    said = refused(scrub(shrunk / "one", album_of, asked, tmp_path / "two"))
    for one in ("apple-20.png' is not there any more", "brick-2.png' has changed", "brick-99.png' is new"):
        assert one in said
    assert f"{album_of} is not as it was when {shrunk / 'one'} was made" in said
    assert "'test/cloud/cloud-" in said
    assert not (tmp_path / "two").exists()
    assert scrub(shrunk / "one", album_of, asked, tmp_path / "two", "--missing", "skip").code in (0, 3)
    counts = runs.read(tmp_path / "two").result.scores.counts
    assert counts["test"] == 23
    assert counts["forget"] + counts["retain"] + counts["calibration"] + counts["audit"] == 72 - 2 - 2


def test_the_run_that_did_not_forget_what_was_erased_is_refused(shrunk: Path, tmp_path: Path) -> None:
    said = refused(
        scrub(shrunk / "trained", shrunk / "photos", wish(tmp_path, "second.txt", *SECOND), tmp_path / "two")
    )
    assert f"'train/apple/{FIRST[0]}' is not there any more" in said


def test_a_photo_that_was_held_out_is_erased_with_the_others(shrunk: Path, album_of: Path, tmp_path: Path) -> None:
    known = runs.read(shrunk / "one").inventory()["train"]
    labels = torch.tensor(known.labels)
    unseen = Path(known.keys[int(held_out(Stored(labels, labels), 0.2, 0)[0])]).name
    asked = wish(tmp_path, "second.txt", *SECOND, unseen)
    said = refused(scrub(shrunk / "one", album_of, asked, tmp_path / "two"))
    assert f"'{unseen}' was held out of training" in said
    done(f"scrub {shrunk}/one --data {album_of} --forget keys:{asked} --missing skip {QUICK} -o {tmp_path}/two")
    for name in (*SECOND, unseen):
        photo(album_of, name).unlink()
    answer = scrub(tmp_path / "two", album_of, wish(tmp_path, "third.txt", *THIRD), tmp_path / "three")
    assert answer.code in (0, 3), answer.err
    assert len(runs.read(tmp_path / "three").inventory()["train"].missing) == 5


def test_a_class_is_forgotten_and_its_folder_removed(shrunk: Path, album_of: Path, tmp_path: Path) -> None:
    done(f"scrub {shrunk}/one --data {album_of} --forget class:apple {QUICK} -o {tmp_path}/two")
    for split in ("train", "test"):
        shutil.rmtree(album_of / split / "apple")  # with those that were held out
    asked = wish(tmp_path, "third.txt", "cloud-9.png")
    answer = scrub(tmp_path / "two", album_of, asked, tmp_path / "three")
    assert answer.code in (0, 3), answer.err
    three = runs.read(tmp_path / "three")
    assert three.record["retain_accuracy_before"] > 80  # clouds are still clouds to the model
    assert len(three.ids("before")) > 10


def orders(path: Path, without: Container[str] = ()) -> None:
    """A table with four orders of each of 50 customers."""
    draw = np.random.default_rng(0)
    lines = ["customer,a,b,label"]
    for number in range(200):
        customer, (a, b) = f"c{number // 4:02}", draw.normal(size=2).round(4) + 3 * (number % 2)
        lines += [f"{customer},{a},{b},{number % 2}"] if customer not in without else []
    path.write_text("\n".join(lines))


def test_customers_are_erased_from_a_table_with_what_was_held_out_of_theirs(tmp_path: Path) -> None:
    table, first, second = tmp_path / "orders.csv", ("c03", "c10", "c11"), ("c20", "c21")
    orders(table)
    read = f"--data {table} --data-set test=20% --key customer --model mlp --set epochs=3 --set batch_size=16"
    done(f"train {read} --holdout 0.2 -o {tmp_path}/zero")
    done(f"scrub {tmp_path}/zero --forget keys:{wish(tmp_path, '1.txt', *first)} {QUICK} -o {tmp_path}/one")
    one = runs.read(tmp_path / "one")
    assert len(one.ids("forget")) < 12, "some were held out, or are test records"
    orders(table, first)
    done(f"scrub {tmp_path}/one --forget keys:{wish(tmp_path, '2.txt', *second)} {QUICK} -o {tmp_path}/two")
    two = runs.read(tmp_path / "two")
    assert {*two.keys("forget")} == {*second}
    assert two.ids("before") == one.ids("forget")
    assert sum(len(known.missing) for known in two.inventory().values()) == 12


def test_an_inventory_that_was_lost_is_missed(shrunk: Path, tmp_path: Path) -> None:
    shutil.copytree(shrunk / "one", tmp_path / "one")
    (tmp_path / "one" / "inventory.json").unlink()
    said = refused(scrub(tmp_path / "one", shrunk / "photos", wish(tmp_path, "s.txt", *SECOND), tmp_path / "two"))
    assert "inventory.json is missing, though the run was written with it" in said


def test_what_can_be_told_of_a_run_is_told_after_the_erasure(shrunk: Path, tmp_path: Path) -> None:
    shutil.copytree(shrunk / "one", tmp_path / "one")
    answer = cli(f"evaluate {tmp_path}/one --level standard --set references=1 --set relearn=1")
    assert answer.code == 0, answer.err
    failed = json.loads((tmp_path / "one" / "scores.json").read_text())["failed"]
    assert "is not in the data any more" in failed["probe"]


def traces(photos: dict[str, bytes], *folders: Path) -> dict[str, set[str]]:
    """The files below these folders in which a photo is found, as it was or decoded, by the name of the photo."""
    found: dict[str, set[str]] = {}
    files = {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
    for name, encoded in photos.items():
        pixels = np.array(Image.open(io.BytesIO(encoded)))
        planes = pixels.transpose(2, 0, 1).copy()
        forms = [encoded, *(x.tobytes() for y in (pixels, planes) for x in (y, np.float32(y), np.float32(y) / 255))]
        found[name] = {str(path) for path, content in files.items() if any(form in content for form in forms)}
    return found


def test_nothing_is_left_of_the_photos_of_three_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shrunk: Path
) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    data, run = album(tmp_path / "photos"), tmp_path / "zero"
    shutil.copytree(shrunk / "trained", run)
    erased: dict[str, bytes] = {}
    for number, files in enumerate((FIRST, SECOND, THIRD), start=1):
        asked, out = wish(tmp_path, f"{number}.txt", *files), tmp_path / f"run-{number}"
        done(f"scrub {run} --data {data} --forget keys:{asked} {QUICK} -o {out}")
        if number < 3:
            deeper = "--level standard --pictures --set references=1 --set relearn=1 --train epochs=1"
            done(f"evaluate {out} {deeper}")
        for name in files:
            erased[name] = photo(data, name).read_bytes()
            photo(data, name).unlink()
        run = out
    made = [tmp_path / f"run-{number}" for number in (1, 2, 3)]
    assert all(traces(erased, tmp_path / "cache", *made).values()), "what is searched for is not found where it is"
    planned = json.loads(cli(f"purge {made[2]} --dry-run --json").out)
    assert {Path(one["path"]).parent.name for one in planned["found"]} == {"images", "models"}
    assert all(traces(erased, tmp_path / "cache").values())
    answer = done("purge", *made)
    assert answer.out.count("decoded images, of ") == 3
    assert "a reference model, of " in answer.out
    assert answer.out.count("pictures of some records") == 2
    assert answer.err == ""
    assert not any(traces(erased, tmp_path / "cache", *made).values())
    assert not any((folder / "gradcam").exists() for folder in made)
    assert done("purge", *made).out == "Nothing that we made of these records is there.\n"
    assert done(f"evaluate {made[2]}").code == 0


def test_a_purge_keeps_what_was_made_of_other_records(
    shrunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    assert cli(f"purge {shrunk}/trained").err == f"error: {shrunk}/trained forgot nothing: name a run of scrub.\n"
    asked = wish(tmp_path, "second.txt", *SECOND)
    done(f"scrub {shrunk}/one --data {shrunk}/photos --forget keys:{asked} {QUICK} -o {tmp_path}/two")
    cached = tmp_path / "cache" / "images"
    (tests,) = (path for path in cached.iterdir() if len(held_by(read_metadata(path))) == 24)
    (cached / "foreign.safetensors").write_bytes(tests.read_bytes()[:10])
    answer = done(f"purge {tmp_path}/two")
    assert "foreign.safetensors: decoded images, of records that are not known" in answer.out
    assert [*cached.iterdir()] == [tests]
    assert "2 of the forgotten files are still in the data, such as train/apple/apple-11.png: erase them" in answer.err


def test_what_is_cached_is_for_its_owner_alone(shrunk: Path) -> None:
    rooms = [*(shrunk / "cache").iterdir()]
    assert {path.stat().st_mode & 0o777 for path in rooms} == {0o700}
    assert {path.stat().st_mode & 0o777 for room in rooms for path in room.iterdir()} == {0o600}
