"""How large a page is: it is opened from a mail. The runs are the most that ten runs can give it to show."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from scissorhands.metrics import Outputs
from scissorhands.report import page as report
from scissorhands.report.figures import classes, losses
from scissorhands.report.figures.all import figures
from scissorhands.report.figures.kept import AFTER, BEFORE, RETRAINED
from scissorhands.report.gathering import gathered
from scissorhands.report.table import Table, tabulate
from scissorhands.runs import LOG, Run


def outputs(seed: int) -> dict[str, Outputs]:
    """Outputs of forty classes whose losses fill all bins."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(4000) % 40
    right = torch.linspace(-3, 22, 4000)[torch.randperm(4000, generator=generator)]
    logits = torch.zeros(4000, 40).scatter(1, labels[:, None], right[:, None])
    return {name: Outputs(logits, labels) for name in ("forget", "others", "retain", "test")}


@pytest.fixture
def ten(complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Ten methods of a real bench: the original, the retrained model and eight others, with long logs."""
    known = {state: outputs(seed) for seed, state in enumerate((BEFORE, AFTER, RETRAINED))}
    for module in (losses, classes):
        monkeypatch.setattr(module, "states", lambda _: known)
    steps = {"phase": "repair", "steps": 5000, "loss": 1.0}
    trim = {"phase": "trim", "layers": {f"layer{n}.block.conv.weight": [100 + n, 100_000] for n in range(60)}}
    lines = [json.dumps(trim)]
    for n in range(1000):
        numbers = {"retain": 1 / (n + 1), "forget": 1.2345678 + n, "guard": 0.1 + n / 7}
        lines.append(json.dumps({**steps, "step": n + 1, **numbers}))
    made, _ = gathered([complete / "seed-0"])
    first = {run.method: run for run in made if run.record["verb"] != "train"}
    found = [first["original"], first["retrain"]]
    for number in range(8):
        folder = tmp_path / f"method-{number}"
        folder.mkdir()
        (folder / LOG).write_text("\n".join(lines))
        record = {**first["finetune"].record, "variant": f"with-settings-{number}"}
        found.append(replace(first["finetune"], folder=folder, record=record))
    return found


def page(runs: list[Run], folder: Path, records: bool = False) -> str:
    table: Table = tabulate(runs)
    return report.page(table, runs, "Ten runs", records, [folder])


def test_a_page_of_ten_runs_is_at_most_a_megabyte_and_a_half(ten: list[Run], tmp_path: Path) -> None:
    drawn = {figure.name: figure for figure in figures(tabulate(ten))}
    assert {"tradeoff", "losses", "attacks", "classes", "trimmed", "progress"} <= drawn.keys()
    assert len(drawn["losses"].charts) == 8 * 3
    assert len(drawn["classes"].rows) == 8 * 3 * 30
    size = len(page(ten, tmp_path).encode())
    assert size <= 1_500_000


def noise(path: Path, seed: int) -> None:
    """Write a picture that hardly gets smaller."""
    path.parent.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (768, 768, 3), dtype=torch.uint8, generator=generator)
    Image.fromarray(pixels.numpy()).save(path, compress_level=1)


def test_a_page_with_pictures_is_at_most_six_and_says_what_it_leaves_out(ten: list[Run], tmp_path: Path) -> None:
    for number, run in enumerate(ten[2:7]):
        noise(run.folder / "grids/before.png", 99)
        noise(run.folder / "grids/after.png", number)
        noise(run.folder / "flagged/0.png", 10 + number)
    text = page(ten, tmp_path)
    size, shown = len(text.encode()), re.findall(r'id="(picture-\d+)" src="data:image/webp', text)
    assert 5_000_000 < size <= 6_000_000
    assert len({*shown}) == len(shown) > 5  # what is drawn comes before what was flagged, and `before` is there once
    again = re.findall(r'data-same="(picture-\d+)"', text)
    assert {*again} <= {*shown}
    (told,) = re.findall(r'<p id="missed".*?</p>', text)
    left_out = [int(count) for count in re.findall(r"(\d+) of \S*method-\d", told)]
    assert sum(left_out) == 1 + 5 + 5 - len(shown)


def test_small_pictures_stay_as_they_are_and_leave_nothing_out(ten: list[Run], tmp_path: Path) -> None:
    (ten[2].folder / "grids").mkdir()
    Image.new("RGB", (8, 8), "red").save(ten[2].folder / "grids/after.png")
    text = page(ten, tmp_path)
    assert text.count('src="data:image/png') == 1
    assert 'id="missed"' not in text
