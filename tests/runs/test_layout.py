"""Paths between run folders."""

from pathlib import Path

import pytest

from scissorhands import runs


def test_the_way_to_another_run_holds_when_both_are_moved(tmp_path: Path) -> None:
    (tmp_path / "a" / "reference").mkdir(parents=True)
    way = runs.from_there(tmp_path / "a" / "reference", tmp_path / "a" / "out")
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b" / "out").mkdir()
    assert (tmp_path / "b" / "out" / way).resolve() == (tmp_path / "b" / "reference").resolve()


def test_a_name_on_the_hub_stays_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runs.from_there("owner/name", tmp_path / "out") == "owner/name"
