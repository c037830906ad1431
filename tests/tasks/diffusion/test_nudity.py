"""NudeNet's detector, the one in its wheel: what it finds, what it is fed, and what is counted."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from helpers import tinysd
from helpers.tinysd import listing
from scissorhands.errors import DataError, MissingError
from scissorhands.metrics import METRICS
from scissorhands.tasks.diffusion import nudity
from scissorhands.tasks.diffusion.nudity import PARTS, SEEN, Detector, change, counted, found, metric
from scissorhands.tasks.diffusion.pictures import Pictures


@pytest.fixture(scope="module")
def detector() -> Detector:
    pytest.importorskip("nudenet")
    return Detector()


def loose(detector: Detector, threshold: float) -> Detector:
    """The same detector with another threshold, without loading it again."""
    other = object.__new__(Detector)
    other.__dict__.update(detector.__dict__, threshold=threshold)
    return other


def labels(detector: Detector, images: Tensor) -> list[list[str]]:
    """What the detector finds in each image."""
    return [[finding.label for finding in findings] for findings in detector.findings(images)]


def counts(detector: Detector, images: Tensor) -> dict[str, int]:
    """How often it finds each part."""
    return counted(labels(detector, images))


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
    assert labels(detector, noise()) == [[], [], []]
    assert counts(detector, noise()) == dict.fromkeys(PARTS, 0)


def test_a_face_is_found_and_is_no_exposed_part(detector: Detector, face: Tensor) -> None:
    assert labels(detector, face) == [["FACE_FEMALE"]]
    assert sum(counts(detector, face).values()) == 0


def test_only_what_reaches_the_threshold_is_found(detector: Detector, face: Tensor) -> None:
    assert labels(detector, face) != []
    assert labels(loose(detector, 0.9), face) == [[]]
    assert len(labels(loose(detector, 0.2), face)[0]) >= 1


@pytest.mark.parametrize("batch_size", [2, 16])
def test_images_are_told_apart_whatever_the_batch(
    detector: Detector, face: Tensor, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nudity, "_BATCH", batch_size)
    blank = torch.zeros_like(face)
    images = torch.cat([face, blank, face])
    expected = [["FACE_FEMALE"], [], ["FACE_FEMALE"]]
    assert labels(detector, images) == expected


def test_bytes_and_floats_are_the_same(detector: Detector, face: Tensor) -> None:
    assert labels(detector, face / 255) == labels(detector, face)


def test_gray_images_are_taken(detector: Detector) -> None:
    assert labels(detector, noise(channels=1)) == [[], [], []]


def test_no_images_have_no_parts(detector: Detector) -> None:
    assert counts(detector, noise(0)) == dict.fromkeys(PARTS, 0)


def test_the_network_is_fed_red_green_blue(detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    """NudeNet swaps colors on the way, once or twice depending on its version and on what it is given."""
    fed: list[Any] = []
    inner = detector._detector

    class Session:
        def run(self, _: None, inputs: dict[str, Any]) -> list[Any]:
            fed.extend(inputs.values())
            return [np.zeros((len(fed[0]), 22, 2100), np.float32)]

    monkeypatch.setattr(inner, "onnx_session", Session())
    image = torch.tensor([1.0, 0.6, 0.2]).reshape(1, 3, 1, 1).expand(1, 3, 320, 320)
    assert labels(detector, image) == [[]]
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
    found = labels(detector, images)
    assert all(len(set(labels)) == 18 for labels in found)
    exposed = {label for label in found[0] if label.endswith("_EXPOSED")}
    assert exposed == {*PARTS.values(), "ANUS_EXPOSED"}
    assert counts(detector, images) == dict.fromkeys(PARTS, 2)
    assert counts(loose(detector, 0.71), images) == dict.fromkeys(PARTS, 0)


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
        labels(detector, torch.full((1, 3, 8, 8), -1.0))


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


# What was found is written down


def folder_of(folder: Path, images: Tensor) -> Path:
    """A folder of images and their list."""
    folder.mkdir()
    names = [f"{number:02}.png" for number in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / name)
    listing(folder, [(name, "somebody") for name in names])
    return folder


def record(folder: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """What the record says: how it was looked, and what was found in which image."""
    about, *lines = map(json.loads, (folder / SEEN).read_text().splitlines())
    assert len({line["file_name"] for line in lines}) == len(lines)
    return about, {line["file_name"]: [thing["class"] for thing in line["found"]] for line in lines}


def write_record(folder: Path, about: Mapping[str, Any], labels: Mapping[str, list[str]]) -> None:
    rows = [{"file_name": name, "found": tinysd.found(what)} for name, what in labels.items()]
    (folder / SEEN).write_text("\n".join(map(json.dumps, [about, *rows])) + "\n")


class Looks:
    """A log that keeps how many images were looked at, and may interrupt."""

    def __init__(self, stop: int = 0) -> None:
        self.steps: list[tuple[int, int]] = []
        self.stop = stop

    def __call__(self, event: Mapping[str, Any]) -> None:
        assert event["phase"] == "look"
        self.steps.append((event["step"], event["steps"]))
        if len(self.steps) == self.stop:
            raise KeyboardInterrupt


BARE = {"00.png": ["FEET_EXPOSED", "FEET_EXPOSED", "FACE_MALE"], "02.png": ["BELLY_EXPOSED", "FEET_EXPOSED"]}


def test_what_is_found_in_a_folder_is_written_down(detector: Detector, face: Tensor, tmp_path: Path) -> None:
    square = face[:, :, :512, :512]
    folder = folder_of(tmp_path / "drawn", torch.cat([square, torch.zeros_like(square)]))
    sharp = loose(detector, 0.2)
    expected = labels(sharp, torch.cat([square, torch.zeros_like(square)]))
    assert expected[0]
    assert found(folder, Pictures.of(folder), sharp) == counted(expected)
    assert record(folder) == (sharp.about, dict(zip(("00.png", "01.png"), expected, strict=True)))


def test_what_was_looked_at_is_not_looked_at_again(detector: Detector, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "drawn", noise(3))
    write_record(folder, detector.about, {**BARE, "01.png": []})
    before, looks = (folder / SEEN).read_bytes(), Looks()
    counts = found(folder, Pictures.of(folder), detector, looks)
    assert counts == {**dict.fromkeys(PARTS, 0), "Feet": 3, "Belly": 1}  # there is nothing of that in the noise
    assert looks.steps == []
    assert (folder / SEEN).read_bytes() == before


def test_only_what_nobody_looked_at_is_looked_at(detector: Detector, tmp_path: Path) -> None:
    folder, looks = folder_of(tmp_path / "drawn", noise(5)), Looks()
    write_record(folder, detector.about, BARE)
    counts = found(folder, Pictures.of(folder), detector, looks)
    assert counts == {**dict.fromkeys(PARTS, 0), "Feet": 3, "Belly": 1}
    assert looks.steps == [(3, 3)]
    assert record(folder) == (detector.about, {**BARE, "01.png": [], "03.png": [], "04.png": []})


def test_only_the_images_that_are_asked_for_count(detector: Detector, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "drawn", noise(3))
    write_record(folder, detector.about, {**BARE, "01.png": [], "old.png": ["FEET_EXPOSED"]})
    some = Pictures.of(folder).only([False, True, True])
    assert found(folder, some, detector) == {**dict.fromkeys(PARTS, 0), "Feet": 1, "Belly": 1}
    assert record(folder)[1].keys() == {*BARE, "01.png", "old.png"}


def test_a_look_that_was_interrupted_goes_on(detector: Detector, tmp_path: Path) -> None:
    whole, folder = (folder_of(tmp_path / name, noise(20)) for name in ("whole", "drawn"))
    with pytest.raises(KeyboardInterrupt):
        found(folder, Pictures.of(folder), detector, Looks(stop=1))
    assert len(record(folder)[1]) == 16
    looks = Looks()
    counts = found(folder, Pictures.of(folder), detector, looks)
    assert looks.steps == [(4, 4)]
    assert counts == found(whole, Pictures.of(whole), detector)
    assert (folder / SEEN).read_bytes() == (whole / SEEN).read_bytes()


@pytest.mark.parametrize("other", ["threshold", "version"])
def test_with_another_threshold_or_version_it_starts_anew(other: str, detector: Detector, tmp_path: Path) -> None:
    folder, looks = folder_of(tmp_path / "drawn", noise(3)), Looks()
    write_record(folder, {**detector.about, other: 0.5}, {**BARE, "01.png": []})
    assert found(folder, Pictures.of(folder), detector, looks) == dict.fromkeys(PARTS, 0)
    assert looks.steps == [(3, 3)]
    assert record(folder) == (detector.about, {"00.png": [], "01.png": [], "02.png": []})


@pytest.mark.parametrize("cut", [1, 2, 3, 20, 40])
def test_a_last_line_that_was_cut_off_is_ignored(cut: int, detector: Detector, tmp_path: Path) -> None:
    folder, looks = folder_of(tmp_path / "drawn", noise(3)), Looks()
    write_record(folder, detector.about, {"00.png": BARE["00.png"], "01.png": [], "02.png": ["FEET_EXPOSED"]})
    (folder / SEEN).write_bytes((folder / SEEN).read_bytes()[:-cut])
    counts = found(folder, Pictures.of(folder), detector, looks)
    lost = cut > 1  # the first to go is the end of the line
    assert counts == {**dict.fromkeys(PARTS, 0), "Feet": 2 if lost else 3}
    assert looks.steps == ([(1, 1)] if lost else [])
    assert record(folder)[1].keys() == {"00.png", "01.png", "02.png"}


@pytest.mark.parametrize("text", ["", "{", "[]\n", "nothing of ours\n{}\n"])
def test_a_record_without_its_first_line_is_begun_anew(text: str, detector: Detector, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "drawn", noise(1))
    (folder / SEEN).write_text(text)
    assert found(folder, Pictures.of(folder), detector) == dict.fromkeys(PARTS, 0)
    assert record(folder) == (detector.about, {"00.png": []})


def test_images_of_one_name_in_two_folders_are_told_apart(detector: Detector, tmp_path: Path) -> None:
    folder, looks = folder_of(tmp_path / "drawn", noise(2)), Looks()
    for name, inner in (("00.png", "one"), ("01.png", "two")):
        (folder / inner).mkdir()
        (folder / name).rename(folder / inner / "00.png")
    listing(folder, [("one/00.png", "somebody"), ("two/00.png", "somebody")])
    found(folder, Pictures.of(folder), detector, looks)
    assert looks.steps == [(2, 2)]
    assert len(record(folder)[1]) == 2


def test_every_part_has_a_metric_and_one_for_its_change() -> None:
    for name in ("nudity", *map(metric, PARTS)):
        assert {name, f"{name}_change"} <= METRICS.keys()
    assert len([name for name in METRICS if name.startswith("nudity")]) == 2 * (1 + len(PARTS))
