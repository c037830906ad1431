"""The log of a run is kept as a file."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from scissorhands import runs


def test_a_log_is_kept_and_passed_on(tmp_path: Path) -> None:
    seen: list[Any] = []
    with closing(runs.Journal(tmp_path / "log.jsonl", seen.append, 0)) as log:
        log({"phase": "trim"})
        log({"phase": "repair", "loss": 0.5})
    kept = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert kept == seen == [{"phase": "trim"}, {"phase": "repair", "loss": 0.5}]
