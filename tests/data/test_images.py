"""Decoding against Pillow and NumPy; augmentation against a loop over the images."""

import gc
import io
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from scissorhands.data.images import augmentation, crop, decode, flip, refusing_bombs
from scissorhands.data.records import Augment
from scissorhands.errors import DataError
from scissorhands.randomness import generator

COLORED = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
GRAY = COLORED[..., 0].copy()


def encoded(image: Image.Image, kind: str = "PNG") -> dict[str, Any]:
    stream = io.BytesIO()
    image.save(stream, kind)
    return {"bytes": stream.getvalue(), "path": None}


def colored() -> dict[str, Any]:
    return encoded(Image.fromarray(COLORED))


def gray() -> dict[str, Any]:
    return encoded(Image.fromarray(GRAY))


def damaged(place: int, value: int) -> dict[str, Any]:
    """The colored image with one byte of its file changed."""
    content = bytearray(colored()["bytes"])
    content[place] = value
    return {"bytes": bytes(content), "path": None}


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        action()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


# decoding


def test_a_color_image_becomes_channels_by_height_by_width() -> None:
    pixels = decode(colored(), 0, None, None)
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (3, 4, 6)
    assert np.array_equal(pixels.numpy(), np.moveaxis(COLORED, 2, 0))


def test_a_gray_image_has_one_channel() -> None:
    assert np.array_equal(decode(gray(), 0, None, None).numpy(), GRAY[None])


def test_a_gray_image_among_colored_ones_gets_three_equal_channels() -> None:
    assert np.array_equal(decode(gray(), 0, None, False).numpy(), np.stack([GRAY] * 3))


def test_a_colored_image_among_gray_ones_is_refused() -> None:
    assert refusal(lambda: decode(colored(), 7, None, True)).startswith("record 7 has colors")


def test_a_black_and_white_image_counts_as_gray() -> None:
    image = Image.fromarray(GRAY > 127)
    assert image.mode == "1"
    assert np.array_equal(decode(encoded(image), 0, None, None).numpy(), np.where(GRAY > 127, 255, 0)[None])


def test_a_gray_image_of_16_bits_keeps_the_upper_8_of_them() -> None:
    image = Image.fromarray(np.array([[0, 16384], [32768, 65535]], dtype=np.uint16))
    assert decode(encoded(image), 0, None, None).tolist() == [[[0, 64], [128, 255]]]


@pytest.mark.parametrize("mode", ["RGBA", "P", "CMYK"])
def test_an_image_of_another_mode_is_turned_into_colors_as_pillow_does(mode: str) -> None:
    image = Image.fromarray(COLORED).convert(mode)
    kind = "TIFF" if mode == "CMYK" else "PNG"
    assert np.array_equal(
        decode(encoded(image, kind), 0, None, None).numpy(), np.moveaxis(np.array(image.convert("RGB")), 2, 0)
    )


def test_an_image_may_be_a_path(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    Image.fromarray(COLORED).save(path)
    pixels = decode({"bytes": None, "path": str(path)}, 0, None, None)
    assert np.array_equal(pixels.numpy(), np.moveaxis(COLORED, 2, 0))


def test_a_size_is_height_by_width_and_resizing_is_pillows_bilinear() -> None:
    pixels = decode(colored(), 0, (8, 5), None)
    expected = np.array(Image.fromarray(COLORED).resize((5, 8), Image.Resampling.BILINEAR))
    assert pixels.shape == (3, 8, 5)
    assert np.array_equal(pixels.numpy(), np.moveaxis(expected, 2, 0))


def test_an_image_that_has_the_size_already_is_left_alone() -> None:
    assert torch.equal(decode(colored(), 0, (4, 6), None), decode(colored(), 0, None, None))


@pytest.mark.parametrize(
    "bad",
    [
        {"bytes": b"not an image", "path": None},
        {"bytes": colored()["bytes"][:60], "path": None},
        damaged(11, 5),
        damaged(colored()["bytes"].index(b"IDAT") - 1, 40),
        {"bytes": None, "path": None},
        {"bytes": b"", "path": None},
        None,
    ],
    ids=["rubbish", "truncated", "short header", "short chunk", "nothing", "empty", "none"],
)
def test_an_image_that_cannot_be_read_is_refused_by_its_number(bad: Any) -> None:
    assert refusal(lambda: decode(bad, 41, None, None)) == "record 41 is not a readable image."


def test_an_image_too_large_to_be_harmless_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2)
    assert refusal(lambda: decode(colored(), 41, None, None)).startswith("record 41 has too many pixels")


def declared(width: int, height: int) -> dict[str, Any]:
    """A PNG file of a few bytes that says it is that large."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = (header, b"IDAT" + zlib.compress(b"\0" * 100), b"IEND")
    framed = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return {"bytes": b"\x89PNG\r\n\x1a\n" + b"".join(framed), "path": None}


@pytest.mark.parametrize("size", [(8192, 8193), (10_000, 10_000), (100_000, 100_000), (2**31 - 1, 1)])
def test_a_huge_image_is_refused_without_a_warning(size: tuple[int, int]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with refusing_bombs():
            message = refusal(lambda: decode(declared(*size), 41, None, None))
    assert message == "record 41 has too many pixels: resize it to 67,108,864 or fewer."
    assert told == []


def test_a_missing_file_is_refused_by_number_and_name() -> None:
    message = refusal(lambda: decode({"bytes": None, "path": "/nowhere/x.png"}, 41, None, None))
    assert message == "record 41 is not a readable image: /nowhere/x.png cannot be read: No such file or directory."


def test_a_broken_file_is_refused_by_number_and_name(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(colored()["bytes"][:60])
    message = refusal(lambda: decode({"bytes": None, "path": str(tmp_path / "x.png")}, 41, None, None))
    assert message == f"record 41 ({tmp_path / 'x.png'}) is not a readable image."


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/stdin"])
def test_a_device_is_no_image(device: str) -> None:
    message = refusal(lambda: decode({"bytes": None, "path": device}, 41, None, None))
    assert message.endswith("it is not a regular file.")


def test_postscript_is_refused_since_reading_it_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    postscript = encoded(Image.fromarray(COLORED), "EPS")
    ran: list[object] = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *given: ran.append(given))
    assert refusal(lambda: decode(postscript, 41, None, None)) == "record 41 is not a readable image."
    assert ran == []


def test_the_file_of_an_animated_image_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "x.gif"
    frames = [Image.fromarray(GRAY), Image.fromarray(255 - GRAY)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    gc.collect()
    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always")
        decode({"bytes": None, "path": str(path)}, 0, None, None)
        gc.collect()
    assert left_open == []


# augmentation


def batch(count: int, height: int, width: int, channels: int = 2) -> Tensor:
    """Random images without zeros, so that a zero in the output is padding."""
    shape = (count, channels, height, width)
    return torch.randint(1, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def shifted(image: Tensor, down: int, right: int) -> Tensor:
    """The image moved, pixel by pixel."""
    _, height, width = image.shape
    moved = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            if 0 <= y - down < height and 0 <= x - right < width:
                moved[:, y, x] = image[:, y - down, x - right]
    return moved


def shift_of(before: Tensor, after: Tensor, most_y: int, most_x: int) -> tuple[int, int]:
    """The one shift that turns an image into the other."""
    found = [
        (y, x)
        for y in range(-most_y, most_y + 1)
        for x in range(-most_x, most_x + 1)
        if torch.equal(shifted(before, y, x), after)
    ]
    assert len(found) == 1
    return found[0]


def test_a_crop_is_what_a_loop_over_images_and_pixels_makes() -> None:
    images = batch(60, 9, 17)
    shifts = {shift_of(a, b, 1, 2) for a, b in zip(images, crop(images, generator(0)), strict=True)}
    assert shifts == {(y, x) for y in (-1, 0, 1) for x in (-2, -1, 0, 1, 2)}


def test_a_crop_draws_rows_and_columns_for_each_image_apart() -> None:
    images = batch(40, 8, 8)
    shifts = [shift_of(a, b, 1, 1) for a, b in zip(images, crop(images, generator(1)), strict=True)]
    assert any(y != x for y, x in shifts)
    assert len(set(shifts)) == 9


def test_an_image_too_small_for_an_eighth_is_not_cropped() -> None:
    images = batch(5, 7, 7)
    assert torch.equal(crop(images, generator(0)), images)


def test_a_flip_mirrors_whole_images_left_to_right_and_about_half_of_them() -> None:
    images = batch(200, 3, 4)
    mirrored = 0
    for before, after in zip(images, flip(images, generator(0)), strict=True):
        reversed_rows = torch.stack([before[:, :, x] for x in (3, 2, 1, 0)], dim=2)
        assert torch.equal(after, before) or torch.equal(after, reversed_rows)
        mirrored += torch.equal(after, reversed_rows)
    assert 70 < mirrored < 130


@pytest.mark.parametrize("augment", [crop, flip], ids=["crop", "flip"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
def test_an_augmentation_keeps_shape_and_type_and_leaves_its_input_alone(augment: Augment, dtype: torch.dtype) -> None:
    images = batch(8, 8, 16).to(dtype)
    before = images.clone()
    after = augment(images, generator(0))
    assert after.shape == images.shape
    assert after.dtype == dtype
    assert torch.equal(images, before)


@pytest.mark.parametrize("names", ["crop", "flip", "crop,flip"])
def test_an_augmentation_depends_on_its_generator_alone(names: str) -> None:
    augment, images = augmentation(names), batch(16, 8, 8)
    assert augment is not None
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = augment(images, generator(3, "augment"))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(augment(images, generator(3, "augment")), first)
    assert not torch.equal(augment(images, generator(4, "augment")), first)


def test_one_generator_draws_differently_for_the_next_batch() -> None:
    images, draw = batch(32, 8, 8), generator(0)
    assert not torch.equal(crop(images, draw), crop(images, draw))


def test_two_augmentations_follow_each_other_in_the_order_of_their_names() -> None:
    both, reverse, images = augmentation("crop,flip"), augmentation("flip,crop"), batch(16, 8, 8)
    assert both is not None
    assert reverse is not None
    draw = generator(0)
    assert torch.equal(both(images, generator(0)), flip(crop(images, draw), draw))
    draw = generator(0)
    assert torch.equal(reverse(images, generator(0)), crop(flip(images, draw), draw))


def test_none_is_no_augmentation() -> None:
    assert augmentation("none") is None


@pytest.mark.parametrize(
    ("names", "bad", "near"), [("cropp", "cropp", "crop"), ("crop,flop", "flop", "flip"), ("Flip", "Flip", "flip")]
)
def test_an_unknown_augmentation_is_answered_with_the_nearest(names: str, bad: str, near: str) -> None:
    expected = f"there is no augmentation '{bad}'. Did you mean '{near}'? Known: crop, flip. Or none."
    assert refusal(lambda: augmentation(names)) == expected


@pytest.mark.parametrize(
    ("names", "bad"), [("", ""), ("crop,", ""), ("rotate", "rotate"), ("crop,none", "none"), ("none,flip", "none")]
)
def test_an_augmentation_like_no_other_is_answered_with_all_that_are_known(names: str, bad: str) -> None:
    assert refusal(lambda: augmentation(names)) == f"there is no augmentation '{bad}'. Known: crop, flip. Or none."
