"""Near-duplicates of what is to be forgotten are found among what stays."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from scissorhands.data.duplicates import near_duplicates
from scissorhands.data.records import Part, Stored


def photos(count: int, channels: int) -> Tensor:
    """Smooth pictures, each unlike the others."""
    coarse = torch.rand(count, channels, 6, 6, generator=torch.Generator().manual_seed(0))
    return F.interpolate(coarse, (32, 32), mode="bilinear").mul(255).byte()


def parts(images: Tensor) -> tuple[Part, dict[str, Part]]:
    """The first three images are to be forgotten; the others stay."""
    records, ids = Stored(images, torch.zeros(len(images), dtype=torch.int64)), torch.arange(len(images))
    return Part(records, ids[:3]), {"retain": Part(records, ids[3:-5]), "test": Part(records, ids[-5:])}


@pytest.mark.parametrize("channels", [1, 3])
def test_a_copy_that_was_changed_a_little_is_found_and_nothing_else(channels: int) -> None:
    images = photos(300, channels)
    assert near_duplicates(*parts(images)) == []
    images[100] = images[1]
    noise = torch.randn(images[2].shape, generator=torch.Generator().manual_seed(1))
    images[-2] = (images[2] * 0.8 + 20 + 4 * noise).clamp(0, 255).byte()
    found = near_duplicates(*parts(images))
    assert [(one.record, one.part, one.other) for one in found] == [(1, "retain", 100), (2, "test", 298)]
    assert found[0].bits == 0


def test_records_that_are_no_images_have_no_near_duplicates() -> None:
    assert near_duplicates(*parts(torch.zeros(20, 7))) == []
