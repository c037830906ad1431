"""Images that are read: the square in the center, resized."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.tinysd import listing
from scissorhands.tasks.diffusion.pictures import Pictures, read


@pytest.mark.parametrize(("width", "height"), [(40, 16), (16, 40), (17, 30), (16, 16)])
def test_an_image_is_cut_to_its_center_and_not_squashed(width: int, height: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(height, width, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    picture.save(tmp_path / "a.png")
    listing(tmp_path, [("a.png", "a three")])
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = picture.crop((left, top, left + side, top + side))
    assert np.array_equal(Pictures.of(tmp_path)[:][0].permute(1, 2, 0).numpy(), np.array(square))
    smaller = np.array(square.resize((8, 8), Image.Resampling.BILINEAR))
    for found in (read(tmp_path, 8).inputs[0], Pictures.in_folder(tmp_path, 8)[:][0]):
        assert np.array_equal(found.permute(1, 2, 0).numpy(), smaller)


def test_a_disk_stays_a_disk(tmp_path: Path) -> None:
    rows, columns = torch.meshgrid(torch.arange(60) - 29.5, torch.arange(100) - 49.5, indexing="ij")
    disk = ((rows**2 + columns**2) < 20**2).to(torch.uint8) * 255
    Image.fromarray(disk.numpy()).save(tmp_path / "a.png")
    listing(tmp_path, [("a.png", "a disk")])
    found = read(tmp_path, 30).inputs[0, 0] > 127
    assert int(found.any(0).sum()) == int(found.any(1).sum()) == 20
