"""The log of a run is kept as a file."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scissorhands import runs
from scissorhands.errors import RunError


def test_a_log_is_kept_and_passed_on(tmp_path: Path) -> None:
    seen: list[Any] = []
    with closing(runs.Journal(tmp_path / "log.jsonl", seen.append, 0)) as log:
        log({"phase": "trim"})
        log({"phase": "repair", "loss": 0.5})
    kept = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert kept == seen == [{"phase": "trim"}, {"phase": "repair", "loss": 0.5}]


@pytest.mark.parametrize("content", ["", "a thesis"])
def test_a_log_is_not_written_through_a_link(content: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text(content)
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match=r"log\.jsonl is a link"):
        runs.Journal(tmp_path / "log.jsonl", lambda _: None, 0)
    assert (tmp_path / "precious").read_text() == content
