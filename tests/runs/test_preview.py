"""What a request would touch is said before anything is done."""

import json
import re
import shutil
from pathlib import Path

import pytest

from helpers.album import SECOND, photo, wish
from helpers.commands import cli, done


@pytest.fixture(autouse=True)
def _cache(shrunk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(shrunk / "cache"))


def files(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_a_preview_says_what_would_be_touched_and_touches_nothing(shrunk: Path, tmp_path: Path) -> None:
    asked = wish(tmp_path, "second.txt", *SECOND)
    before = files(tmp_path), files(shrunk / "one"), files(shrunk / "photos")
    lines = done(f"preview {shrunk}/one --forget keys:{asked}").out.splitlines()
    assert (files(tmp_path), files(shrunk / "one"), files(shrunk / "photos")) == before
    assert re.fullmatch(r"2 of 5\d records would be forgotten, 2 forgotten before", lines[0])
    rows = [re.split(r" +", line.strip())[:2] for line in lines[1:4]]
    assert rows == [["class", "forget"], ["apple", "1"], ["cloud", "1"]]
    assert "0 of them have a near-duplicate that stays" in lines
    helps = "It takes reference models: level standard trains some (with --train if it is not known how)."
    assert f"verdict at level quick: {helps}" in lines
    assert any(line.startswith("verdict at level standard: With ") for line in lines)
    assert re.fullmatch(r"scissorhands takes about .+ here", lines[-2])


def test_a_preview_finds_what_looks_like_a_record_and_shows_both(shrunk: Path, tmp_path: Path) -> None:
    data, page = tmp_path / "photos", tmp_path / "preview.html"
    shutil.copytree(shrunk / "photos", data)
    shutil.copy(photo(data, SECOND[0]), photo(data, "apple-20.png"))
    model = shrunk / "trained" / "model"  # which does not know what it was trained on
    command = f"preview {model} --data {data} --forget keys:{wish(tmp_path, 's.txt', *SECOND)} --json -o {page}"
    told = json.loads(done(command).out)
    assert told["keys"] == ["train/apple/apple-11.png", "train/cloud/cloud-9.png"]
    assert (told["forget"], told["before"], told["cannot"]) == (2, 0, "")
    assert told["seconds"] > 0
    twin = {"key": "train/cloud/cloud-9.png", "part": "retain", "other": "train/apple/apple-20.png"}
    assert told["duplicates"] == [twin]
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 4
    assert "train/apple/apple-20.png" in text
    assert page.stat().st_mode & 0o777 == 0o600
    assert done(command).err.endswith(f"wrote {page}\n")  # a page of ours is replaced


def test_a_preview_says_what_a_method_cannot_do(shrunk: Path) -> None:
    told = json.loads(
        done(f"preview {shrunk}/trained/model --data {shrunk}/photos --forget class:apple --unseen 0 --json").out
    )
    assert told["seconds"] is None
    assert "unseen" in told["cannot"]
    assert told["classes"] == [{"class": "apple", "forget": 23, "of": 23}]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--forget class:pear", "names no class"),
        ("--forget class:apple -o preview.png", "give it a name that ends in .html"),
        ("--forget class:apple -o mine.html", "it exists and is no page of ours"),
        ("--forget class:apple --method scisors", "scisors"),
        ("", "say what to forget"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    more: str, says: str, shrunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.html").write_text("my own")
    answer = cli(f"preview {shrunk}/one {more}")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert says in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.html"]
