"""NudeNet's detector, the one in its wheel: what it finds, what it is fed, and what is counted."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from scissorhands.diffusion.nudity import PARTS, Detector, change, counted
from scissorhands.errors import DataError, MissingError


@pytest.fixture(scope="module")
def detector() -> Detector:
    pytest.importorskip("nudenet")
    return Detector()


def loose(detector: Detector, threshold: float) -> Detector:
    """The same detector with another threshold, without loading it again."""
    other = object.__new__(Detector)
    other.__dict__.update(detector.__dict__, threshold=threshold)
    return other


@pytest.fixture(scope="module")
def face() -> Tensor:
    """Grace Hopper in uniform, from matplotlib's sample data."""
    matplotlib = pytest.importorskip("matplotlib")
    path = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    with Image.open(path) as picture:
        return torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1)[None]


def noise(count: int = 3, channels: int = 3) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, 64, 64), dtype=torch.uint8, generator=draw)


def test_nothing_is_found_in_noise(detector: Detector) -> None:
    assert detector.labels(noise()) == [[], [], []]
    assert detector.counts(noise()) == dict.fromkeys(PARTS, 0)


def test_a_face_is_found_and_is_no_exposed_part(detector: Detector, face: Tensor) -> None:
    assert detector.labels(face) == [["FACE_FEMALE"]]
    assert sum(detector.counts(face).values()) == 0


def test_only_what_reaches_the_threshold_is_found(detector: Detector, face: Tensor) -> None:
    assert detector.labels(face) != []
    assert loose(detector, 0.9).labels(face) == [[]]
    assert len(loose(detector, 0.2).labels(face)[0]) >= 1


def test_images_are_told_apart_whatever_the_batch(detector: Detector, face: Tensor) -> None:
    blank = torch.zeros_like(face)
    images = torch.cat([face, blank, face])
    expected = [["FACE_FEMALE"], [], ["FACE_FEMALE"]]
    assert detector.labels(images, batch_size=2) == detector.labels(images, batch_size=16) == expected


def test_bytes_and_floats_are_the_same(detector: Detector, face: Tensor) -> None:
    assert detector.labels(face / 255) == detector.labels(face)


def test_grey_images_are_taken(detector: Detector) -> None:
    assert detector.labels(noise(channels=1)) == [[], [], []]


def test_no_images_have_no_parts(detector: Detector) -> None:
    assert detector.counts(noise(0)) == dict.fromkeys(PARTS, 0)


def test_the_network_is_fed_red_green_blue(detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    """NudeNet swaps colours on the way, once or twice depending on its version and on what it is given."""
    fed: list[Any] = []
    inner = detector._detector

    class Session:
        def run(self, _: None, inputs: dict[str, Any]) -> list[Any]:
            fed.extend(inputs.values())
            return [np.zeros((len(fed[0]), 22, 2100), np.float32)]

    monkeypatch.setattr(inner, "onnx_session", Session())
    image = torch.tensor([1.0, 0.6, 0.2]).reshape(1, 3, 1, 1).expand(1, 3, 320, 320)
    assert detector.labels(image) == [[]]
    np.testing.assert_allclose(fed[0][0].mean(axis=(1, 2)), [1.0, 0.6, 0.2], atol=1e-6)


def test_every_part_is_one_of_the_labels_that_the_detector_gives(
    detector: Detector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up output with one sure box per class, far from each other."""
    inner = detector._detector

    class Session:
        def run(self, _: None, inputs: dict[str, Any]) -> list[Any]:
            out = np.zeros((len(next(iter(inputs.values()))), 22, 2100), np.float32)
            for k in range(18):
                out[:, :4, k] = 10 + 16 * k, 10, 8, 8
                out[:, 4 + k, k] = 0.7
            return [out]

    monkeypatch.setattr(inner, "onnx_session", Session())
    images = torch.zeros(2, 3, 320, 320)
    found = detector.labels(images)
    assert all(len(set(labels)) == 18 for labels in found)
    exposed = {label for label in found[0] if label.endswith("_EXPOSED")}
    assert exposed == {*PARTS.values(), "ANUS_EXPOSED"}
    assert detector.counts(images) == dict.fromkeys(PARTS, 2)
    assert loose(detector, 0.71).counts(images) == dict.fromkeys(PARTS, 0)


def test_a_result_can_say_how_it_was_counted(detector: Detector) -> None:
    import importlib.metadata

    about = detector.about
    assert about == {"detector": "nudenet", "version": importlib.metadata.version("nudenet"), "threshold": 0.6}


def test_what_is_covered_or_no_part_is_not_counted() -> None:
    assert counted([["FACE_MALE", "FEET_COVERED", "ANUS_EXPOSED"], ["BELLY_COVERED"]]) == dict.fromkeys(PARTS, 0)


def test_the_change_is_in_percent_of_the_original() -> None:
    before = dict(zip(PARTS, (10, 3, 0, 1, 200, 7, 2, 0), strict=True))
    after = dict(zip(PARTS, (0, 3, 0, 2, 150, 7, 3, 5), strict=True))
    assert change(before, after) == dict(zip(PARTS, (-100.0, 0.0, None, 100.0, -25.0, 0.0, 50.0, None), strict=True))


def test_values_that_are_no_images_are_refused(detector: Detector) -> None:
    with pytest.raises(DataError, match="bytes or floats from 0 to 1"):
        detector.labels(torch.full((1, 3, 8, 8), -1.0))


@pytest.mark.parametrize("missing", ["nudenet", "cv2", "onnxruntime"])
def test_a_missing_extra_gives_one_line(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing != "nudenet":
        pytest.importorskip("nudenet")
    for name in [name for name in sys.modules if name.split(".")[0] == "nudenet"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        MissingError, match=rf"^'{missing}' is not installed\. Get it with: pip install '.*\[nudity\]'$"
    ):
        Detector()
