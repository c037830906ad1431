"""The sheet of Grad-CAM maps that a bench leaves: which records and models it shows, and who sees it."""

import stat
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scissorhands.bench.classification import bench
from scissorhands.bench.recipe import Recipe
from scissorhands.data.sources import Source
from scissorhands.data.split import held_out
from scissorhands.errors import ModelError
from scissorhands.runs.subject import load_classifier
from scissorhands.tasks.classification.gradcam import looked_at, overlaid

TEXT = """
title = "<b>digits</b>"
data = "digits"
model = "small"
forget = "class:3"
seeds = [1]
methods = ["retrain", "finetune"]
gradcam = 2
training = {epochs = 1}
finetune = {epochs = 1}
"""
LEFT, CELL = 80, 112 + 6  # the text beside the rows; a cell with its gap


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small bench."""
    root = tmp_path_factory.mktemp("bench")
    (root / "recipe.toml").write_text(TEXT)
    bench(Recipe.read(root / "recipe.toml"), root / "out", "cpu")
    return root / "out"


def test_a_row_is_a_record_and_a_column_a_model(folder: Path) -> None:
    with Image.open(folder / "gradcam.png") as picture:
        pixels = np.asarray(picture)
    above = pixels.shape[0] - 4 * CELL
    assert pixels.shape[1] == LEFT + 4 * CELL  # the record, original, retrain and finetune

    def cell(row: int, column: int) -> np.ndarray:
        top, left = above + row * CELL, LEFT + column * CELL
        return pixels[top : top + 112, left : left + 112]

    data = Source(name="digits").load()
    trained = sorted({*range(len(data.train))} - {*held_out(data.train, 0.1, 0).tolist()})
    threes = data.train.labels[torch.tensor(trained)] == 3
    parts = [torch.tensor(trained)[chosen] for chosen in (threes, ~threes)]
    inputs, labels = data.train.fetch(torch.stack([ids[at] for ids in parts for at in (0, len(ids) // 2)]))
    for row, image in enumerate(inputs):
        enlarged = (image.squeeze() / image.max().clamp(min=1)).numpy().repeat(14, 0).repeat(14, 1)
        assert np.corrcoef(cell(row, 0)[..., 0].ravel(), enlarged.ravel())[0, 1] > 0.999
    for column, name in enumerate(("trained", "retrain", "finetune"), start=1):
        model = load_classifier(str(folder / "seed-1" / name)).model
        for row, image in enumerate(overlaid(inputs, looked_at(model, inputs, labels))):
            assert np.array_equal(cell(row, column), np.asarray(image)), (name, row)


def test_the_page_shows_it_and_only_its_owner_may_read_it(folder: Path) -> None:
    shown, sheet = (folder / "report.html").read_text(), folder / "gradcam.png"
    assert b64encode(sheet.read_bytes()).decode() in shown
    assert "<b>" not in shown
    assert stat.S_IMODE(sheet.stat().st_mode) == 0o600


FLAT = """
from torch import nn

class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        return self.last(x.flatten(1).float())
"""


def test_a_model_without_a_convolution_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "flat_model.py").write_text(FLAT)
    (tmp_path / "recipe.toml").write_text(TEXT.replace('"small"', '"flat_model:Flat"'))
    with pytest.raises(ModelError, match="Grad-CAM needs a convolution"):
        bench(Recipe.read(tmp_path / "recipe.toml", ["flat_model:Flat"]), tmp_path / "out", "cpu")
    assert not (tmp_path / "out").exists()
