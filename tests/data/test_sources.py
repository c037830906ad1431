"""Reading data: real parquet files and real folders of images, written on the spot."""

import datetime
import io
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from scissorhands import files
from scissorhands.data.forget import Forget
from scissorhands.data.images import crop, flip
from scissorhands.data.records import Records, Stored
from scissorhands.data.sources import Data, Source
from scissorhands.data.split import split
from scissorhands.data.streamed import Streamed
from scissorhands.errors import DataError, SettingError
from scissorhands.randomness import generator

REAL = os.environ.get("SCISSORHANDS_DATA", "")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
INTEGER, TEXT = datasets.Value("int64"), datasets.Value("string")
NO_LABEL = "the column '{}' cannot be the label: it holds neither names nor whole numbers from 0 to 99,999."


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cache is the test's own, and the hub is out of reach."""

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("a test asked the network")

    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("SCISSORHANDS_DATA", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf" / "datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("socket.socket.connect", no_network)
    datasets.disable_progress_bars()


def pixels(seed: int, height: int = 4, width: int = 4, gray: bool = False) -> np.ndarray[Any, np.dtype[np.uint8]]:
    shape = (height, width) if gray else (height, width, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def png(seed: int, **shape: Any) -> dict[str, Any]:
    stream = io.BytesIO()
    Image.fromarray(pixels(seed, **shape)).save(stream, "PNG")
    return {"bytes": stream.getvalue(), "path": None}


def expected(seeds: range, **shape: Any) -> Tensor:
    """The images of these seeds as one tensor."""
    return torch.stack([torch.from_numpy(pixels(seed, **shape)).permute(2, 0, 1) for seed in seeds])


def parquet(folder: Path, features: Mapping[str, Any] | None = None, **splits: Mapping[str, list[Any]]) -> str:
    """A folder with one parquet file per split; a column of images unless the split brings its own."""
    folder.mkdir(parents=True)
    features = {"image": datasets.Image(), **(features or {"label": INTEGER})}
    for name, columns in splits.items():
        count = len(next(iter(columns.values())))
        filled = {"image": [png(seed) for seed in range(count)], **columns}
        datasets.Dataset.from_dict(filled, features=datasets.Features(features)).to_parquet(folder / f"{name}.parquet")
    return str(folder)


def plain(folder: Path, labels: list[Any] | None = None, **columns: list[Any]) -> str:
    """A folder with whole-number labels, the same records in train and test."""
    records = {"label": labels or [0, 1, 2, 0], **columns}
    return parquet(folder, train=records, test=records)


def image_folder(folder: Path, **splits: Mapping[str, list[int]]) -> str:
    """A folder of images: split / class / seed.png."""
    for name, classes in splits.items():
        for label, seeds in classes.items():
            (folder / name / label).mkdir(parents=True)
            for seed in seeds:
                Image.fromarray(pixels(seed)).save(folder / name / label / f"{seed}.png")
    return str(folder)


def everything(records: Records) -> Tensor:
    inputs: Tensor
    inputs, labels = records.fetch(torch.arange(len(records)))
    assert torch.equal(labels, records.labels)
    return inputs


def cached(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "images").iterdir())


def forgotten(data: Data, text: str) -> list[int]:
    return [int(i) for i in Forget(text).ids(data.train, torch.arange(len(data.train)))]


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        action()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def refused(name: str, **settings: Any) -> str:
    return refusal(lambda: Source(name=name, **settings).load())


# digits


def test_digits_come_with_scikit_learn_and_are_always_divided_alike() -> None:
    data, again = Source().load(), Source().load()
    assert (len(data.train), len(data.test)) == (1437, 360)
    assert everything(data.train).shape == (1437, 1, 8, 8)
    assert everything(data.train).dtype == torch.uint8
    assert int(everything(data.train).max()) == 255
    assert data.train.classes == tuple("0123456789")
    assert data.augment is None
    assert data.train.fingerprint == again.train.fingerprint
    assert data.train.fingerprint != data.test.fingerprint


def test_noisy_digits_are_the_digits_under_noise_that_is_always_the_same() -> None:
    clean, noisy = Source(name="digits").load(), Source(name="noisy-digits").load()
    for part, under_noise in ((clean.train, noisy.train), (clean.test, noisy.test)):
        assert torch.equal(part.labels, under_noise.labels)
    ids = torch.arange(200)
    first, other = (data.train.fetch(ids)[0].double() for data in (clean, noisy))
    assert torch.equal(other, Source(name="noisy-digits").load().train.fetch(ids)[0].double())
    gray = (first > 100) & (first < 155)  # far from black and white, which cut the noise off
    assert (other - first)[gray].std().item() == pytest.approx(90, abs=10)
    assert noisy.train.fingerprint != clean.train.fingerprint


def test_digits_are_scikit_learns_and_none_is_in_both_parts() -> None:
    from sklearn.datasets import load_digits

    data = Source().load()
    inputs = torch.cat([everything(data.train), everything(data.test)]).flatten(1)
    labels = torch.cat([data.train.labels, data.test.labels])
    ours = sorted(zip(inputs.tolist(), labels.tolist(), strict=True))
    raw = load_digits()
    theirs = np.rint(raw.data * 255 / 16).astype(int).tolist()
    assert ours == sorted(zip(theirs, raw.target.tolist(), strict=True))


@pytest.mark.parametrize("memory", [2.0, 0.0], ids=["cached", "streamed"])
def test_a_limit_takes_the_first_training_records_and_all_test_records(memory: float, tmp_path: Path) -> None:
    name = plain(tmp_path / "d", [0, 1, 2, 0])
    few, whole = (Source(name=name, limit=limit, memory=memory).load() for limit in (3, 0))
    assert torch.equal(everything(few.train), expected(range(3)))
    assert few.train.labels.tolist() == [0, 1, 2]
    assert len(few.test) == len(whole.test) == len(whole.train) == 4
    assert few.train.fingerprint not in ("", whole.train.fingerprint)
    assert Source(name=name, limit=9, memory=memory).load().train.fingerprint == whole.train.fingerprint
    digits = [Source(limit=limit).load() for limit in (30, 0)]
    assert torch.equal(everything(digits[0].train), everything(digits[1].train)[:30])


def test_a_load_without_a_cache_writes_none_and_reads_the_same(tmp_path: Path) -> None:
    source = Source(name=plain(tmp_path / "d"))
    streamed = source.load(cache=False)
    assert not (tmp_path / "cache").exists()
    assert torch.equal(everything(streamed.train), everything(source.load().train))


def test_data_is_here_if_its_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_DATA", str(tmp_path))
    assert Source().here()
    assert not Source(name="svhn").here()
    plain(tmp_path / "svhn")
    assert Source(name="svhn").here()
    assert "is not on the hub" in refusal(Source(name="celebamask-hq").here)


# parquet


def test_a_folder_of_parquet_files_is_read_exactly(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"label": [0, 1, 2, 0]}, test={"label": [2, 2]})
    data = Source(name=name).load()
    assert isinstance(data.train, Stored)
    assert torch.equal(everything(data.train), expected(range(4)))
    assert torch.equal(everything(data.test), expected(range(2)))
    assert data.train.labels.tolist() == [0, 1, 2, 0]
    assert data.test.labels.tolist() == [2, 2]
    assert data.train.labels.dtype == torch.int64
    assert data.augment is None


def test_whole_number_labels_name_themselves_up_to_the_highest(tmp_path: Path) -> None:
    data = Source(name=plain(tmp_path / "d", [0, 3, 1, 3])).load()
    assert data.train.classes == data.test.classes == ("0", "1", "2", "3")
    assert forgotten(data, "class:3") == [1, 3]


def test_text_labels_are_numbered_in_the_order_of_the_alphabet(tmp_path: Path) -> None:
    name = parquet(
        tmp_path / "d", {"label": TEXT}, train={"label": ["dog", "cat", "dog", "ant"]}, test={"label": ["cat"]}
    )
    data = Source(name=name).load()
    assert data.train.classes == data.test.classes == ("ant", "cat", "dog")
    assert data.train.labels.tolist() == [2, 1, 2, 0]
    assert data.test.labels.tolist() == [1]
    assert forgotten(data, "class:dog") == forgotten(data, "where:label == dog") == [0, 2]


def test_the_names_that_the_data_gives_its_labels_are_kept(tmp_path: Path) -> None:
    records = {"kind": [1, 0, 1]}
    name = parquet(tmp_path / "d", {"kind": datasets.ClassLabel(names=["z", "a"])}, train=records, test=records)
    data = Source(name=name).load()
    assert data.train.classes == ("z", "a")
    assert data.train.labels.tolist() == [1, 0, 1]
    assert forgotten(data, "where:kind == a") == forgotten(data, "where:label == 1") == [0, 2]


def test_a_label_that_is_neither_name_nor_number_is_refused(tmp_path: Path) -> None:
    records: dict[str, list[Any]] = {"label": [1, 0]}
    name = parquet(tmp_path / "d", {"label": datasets.Value("bool")}, train=records, test=records)
    assert refused(name) == NO_LABEL.format("label")


@pytest.mark.parametrize("bad", [-1, 100_000])
def test_a_whole_number_label_below_0_or_beyond_any_network_is_refused(bad: int, tmp_path: Path) -> None:
    hint = " To predict numbers: --data-set task=regression."
    assert refused(plain(tmp_path / "d", [0, 1, bad])) == NO_LABEL.format("label") + hint


def test_a_record_without_a_label_is_refused_by_its_number(tmp_path: Path) -> None:
    assert refused(plain(tmp_path / "d", [0, 1, None])) == "record 2 has the label None, which is none of: 0, 1."


def test_a_test_label_that_training_does_not_know_is_refused(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", {"label": TEXT}, train={"label": ["a", "b"]}, test={"label": ["a", "z"]})
    assert refused(name) == "record 1 has the label 'z', which is none of: a, b."


def test_an_unlabeled_record_among_named_labels_is_refused(tmp_path: Path) -> None:
    records = {"label": [0, -1]}
    name = parquet(tmp_path / "d", {"label": datasets.ClassLabel(names=["a", "b"])}, train=records, test=records)
    assert refused(name) == "record 1 has the label -1, which is none of: a, b."


# columns


def columns_folder(folder: Path) -> str:
    """Two columns that could be the image, and two that could be the label."""
    features = {
        "mask": datasets.Image(),
        "fine": datasets.ClassLabel(names=["a", "b", "c"]),
        "coarse": datasets.ClassLabel(names=["x", "y"]),
    }
    masks = [png(seed) for seed in (50, 51, 52)]
    records: dict[str, list[Any]] = {"mask": masks, "fine": [0, 1, 2], "coarse": [0, 1, 1]}
    return parquet(folder, features, train=records, test=records)


def test_ambiguous_columns_are_refused_until_they_are_named(tmp_path: Path) -> None:
    name = columns_folder(tmp_path / "d")
    known = "Columns: image, mask, fine, coarse."
    assert refused(name) == f"2 columns could hold the image; name it as image. {known}"
    assert refused(name, image="image") == f"2 columns could hold the label; name it as label. {known}"
    data = Source(name=name, image="mask", label="coarse").load()
    assert torch.equal(everything(data.train), expected(range(50, 53)))
    assert data.train.classes == ("x", "y")
    assert data.train.labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize(("setting", "near"), [("image", "image"), ("label", "label")])
def test_a_misspelt_column_is_answered_with_the_nearest(setting: str, near: str, tmp_path: Path) -> None:
    message = refused(plain(tmp_path / "d"), **{setting: near[:-1]})
    assert message == f"the data has no column '{near[:-1]}'. Did you mean '{near}'? Known: image, label."


def test_a_column_of_another_kind_is_refused_as_image_and_as_label(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    assert refused(name, image="label") == "the column 'label' holds no images."
    assert refused(name, label="image") == NO_LABEL.format("image")


@pytest.mark.parametrize("usual", ["label", "labels", "class", "target", "identity"])
def test_a_label_is_found_under_its_usual_names(usual: str, tmp_path: Path) -> None:
    records = {usual: [1, 0], "other": [0, 0]}
    name = parquet(tmp_path / "d", {usual: INTEGER, "other": INTEGER}, train=records, test=records)
    assert Source(name=name).load().train.labels.tolist() == [1, 0]


def test_a_label_under_an_unusual_name_has_to_be_named(tmp_path: Path) -> None:
    records = {"species": [1, 0]}
    name = parquet(tmp_path / "d", {"species": INTEGER}, train=records, test=records)
    assert "no column seems to hold the label; name it as label. Columns: image, species." in refused(name)
    assert Source(name=name, label="species").load().train.labels.tolist() == [1, 0]


def test_data_without_images_or_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for part in ("train", "test"):
        datasets.Dataset.from_dict({"label": [0, 1]}).to_parquet(tmp_path / "d" / f"{part}.parquet")
    assert "no column holds images or numbers to learn from. Columns: label." in refused(str(tmp_path / "d"))


def test_where_works_on_every_extra_column(tmp_path: Path) -> None:
    features = {
        "label": INTEGER,
        "age": datasets.Value("int32"),
        "score": datasets.Value("float64"),
        "vip": datasets.Value("bool"),
        "city": TEXT,
        "size": datasets.ClassLabel(names=["small", "large"]),
    }
    records: dict[str, list[Any]] = {
        "label": [0, 1, 0, 1],
        "age": [20, 30, 40, 50],
        "score": [0.1, 0.2, 0.3, 0.4],
        "vip": [True, False, True, False],
        "city": ["Rome", "New York", None, "Oslo"],
        "size": [0, 1, 1, 0],
    }
    name = parquet(tmp_path / "d", features, train=records, test=records)
    for memory in (2.0, 0.0):
        data = Source(name=name, memory=memory, label="label").load()
        assert forgotten(data, "where:age > 25 and not vip == true") == [1, 3]
        assert forgotten(data, "where:score in (0.1, 0.4)") == [0, 3]
        assert forgotten(data, "where:city in ('New York', Rome)") == [0, 1]
        assert forgotten(data, "where:city == ''") == [2]
        assert forgotten(data, "where:size == large") == [1, 2]
        assert forgotten(data, "where:label == 1") == [1, 3]
        assert "no column 'citty'. Did you mean 'city'?" in refusal(partial(forgotten, data, "where:citty == Rome"))
        assert "no column 'image'" in refusal(partial(forgotten, data, "where:image == 1"))


def test_a_column_with_gaps_is_still_of_its_type(tmp_path: Path) -> None:
    features = {"label": INTEGER, "age": INTEGER, "vip": datasets.Value("bool")}
    records: dict[str, list[Any]] = {
        "label": [0, 1, 0, 1],
        "age": [1, None, 3, 4],
        "vip": [True, None, False, True],
    }
    data = Source(name=parquet(tmp_path / "d", features, train=records, test=records)).load()
    assert forgotten(data, "where:age == 3") == [2]
    assert forgotten(data, "where:age != 3") == [0, 3]
    assert forgotten(data, "where:age > 3") == [3]
    assert forgotten(data, "where:age in (1, 4)") == [0, 3]
    assert forgotten(data, "where:vip == true") == [0, 3]


def test_a_column_of_single_precision_equals_what_is_typed(tmp_path: Path) -> None:
    records: dict[str, list[Any]] = {"label": [0, 1], "score": [0.1, 0.2]}
    features = {"label": INTEGER, "score": datasets.Value("float32")}
    data = Source(name=parquet(tmp_path / "d", features, train=records, test=records)).load()
    assert forgotten(data, "where:score == 0.1") == [0]


def test_dates_are_compared_as_text_and_lists_not_at_all(tmp_path: Path) -> None:
    features = {"label": INTEGER, "when": datasets.Value("timestamp[s]"), "tags": [TEXT], "ragged": [TEXT]}
    records: dict[str, list[Any]] = {
        "label": [0, 1],
        "when": [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 3)],
        "tags": [["a"], ["b"]],
        "ragged": [["a"], []],
    }
    data = Source(name=parquet(tmp_path / "d", features, train=records, test=records)).load()
    assert forgotten(data, "where:when > 2020-01-02") == [1]
    for name in ("tags", "ragged"):
        message = refusal(partial(forgotten, data, f"where:{name} == a"))
        assert message.startswith(f"the column '{name}' holds list<")
        assert message.endswith("which cannot be compared.")


# splits


@pytest.mark.parametrize("part", ["test", "validation"])
def test_the_test_split_is_found_under_its_usual_names(part: str, tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"label": [0, 1]}, **{part: {"label": [1, 1, 0]}})
    assert Source(name=name).load().test.labels.tolist() == [1, 1, 0]


def test_test_goes_before_validation_and_either_may_be_asked_for(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"label": [0, 1]}, validation={"label": [0, 0, 0]}, test={"label": [1]})
    assert len(Source(name=name).load().test) == 1
    assert len(Source(name=name, test="validation").load().test) == 3


def test_a_missing_test_split_is_refused(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"label": [0, 1]})
    assert refused(name).startswith(f"{name} has no test split. Name one of its splits, train: --data-set test=NAME.")


def test_a_misspelt_test_split_is_answered_with_the_nearest(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    assert refused(name, test="tset") == f"{name} has no split 'tset'. Did you mean 'test'? Known: train, test."


def test_data_without_a_train_split_is_refused(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", test={"label": [0, 1]})
    assert refused(name) == f"{name} has no split 'train'. It has: test."


# images


def test_an_unreadable_image_is_refused_by_its_number(tmp_path: Path) -> None:
    broken = {"bytes": png(0)["bytes"][:60], "path": None}
    name = plain(tmp_path / "d", [0, 1, 0], image=[png(0), png(1), broken])
    assert refused(name) == "record 2 is not a readable image."
    streamed = Source(name=name, memory=0.0).load().train
    assert len(streamed.fetch(torch.tensor([0, 1]))[0]) == 2
    assert refusal(lambda: streamed.fetch(torch.tensor([0, 2]))) == "record 2 is not a readable image."


def test_a_record_without_an_image_is_refused_by_its_number(tmp_path: Path) -> None:
    name = plain(tmp_path / "d", [0, 1], image=[png(0), None])
    assert refused(name) == "record 1 is not a readable image."


def test_a_record_whose_file_is_gone_is_refused_by_its_number(tmp_path: Path) -> None:
    folder, here, gone = tmp_path / "d", tmp_path / "here.png", tmp_path / "gone.png"
    folder.mkdir()
    Image.fromarray(pixels(0)).save(here)
    features = datasets.Features({"image": datasets.Image(decode=False), "label": INTEGER})
    images = [{"bytes": None, "path": str(path)} for path in (here, gone)]
    table = datasets.Dataset.from_dict({"image": images, "label": [0, 1]}, features=features).data.table
    for part in ("train", "test"):
        pyarrow.parquet.write_table(table, folder / f"{part}.parquet")  # to_parquet would want to read both files
    assert refused(str(folder)) == (
        f"record 1 is not a readable image: {gone} cannot be read: No such file or directory."
    )


@pytest.mark.parametrize(
    ("shape", "told"), [({"gray": True}, "1 × 4 × 4"), ({"height": 5, "width": 6}, "3 × 5 × 6")], ids=["gray", "size"]
)
def test_test_images_of_another_shape_than_the_training_images_are_refused(
    shape: dict[str, Any], told: str, tmp_path: Path
) -> None:
    test: dict[str, list[Any]] = {"label": [0, 1], "image": [png(0, **shape), png(1, **shape)]}
    name = parquet(tmp_path / "d", train={"label": [0, 1]}, test=test)
    assert refused(name) == f"training images are 3 × 4 × 4 and test images {told}: make them alike."


def test_images_of_several_sizes_want_a_size(tmp_path: Path) -> None:
    images = [png(0), png(1, height=6, width=5), png(2)]
    name = plain(tmp_path / "d", [0, 1, 0], image=images)
    assert refused(name) == "record 1 is 6 × 5 pixels while the first is 4 × 4: give a size."
    data = Source(name=name, size=4).load()
    inputs = everything(data.train)
    assert inputs.shape == (3, 3, 4, 4)
    resized = Image.fromarray(pixels(1, height=6, width=5)).resize((4, 4), Image.Resampling.BILINEAR)
    assert np.array_equal(inputs[1].numpy(), np.moveaxis(np.array(resized), 2, 0))
    assert torch.equal(inputs[[0, 2]], torch.stack([expected(range(1))[0], expected(range(2, 3))[0]]))


def test_two_sizes_of_the_same_data_are_not_mixed_up_in_the_cache(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    shapes = [tuple(everything(Source(name=name, size=size).load().train).shape[2:]) for size in (0, 8, 6, 8, 0)]
    assert shapes == [(4, 4), (8, 8), (6, 6), (8, 8), (4, 4)]


def test_gray_images_have_one_channel(tmp_path: Path) -> None:
    name = plain(tmp_path / "d", [0, 1], image=[png(0, gray=True), png(1, gray=True)])
    inputs = everything(Source(name=name).load().train)
    assert np.array_equal(inputs.numpy(), np.stack([pixels(0, gray=True), pixels(1, gray=True)])[:, None])


def test_a_gray_image_after_colored_ones_gets_three_equal_channels(tmp_path: Path) -> None:
    name = plain(tmp_path / "d", [0, 1], image=[png(0), png(1, gray=True)])
    inputs = everything(Source(name=name).load().train)
    assert np.array_equal(inputs[1].numpy(), np.stack([pixels(1, gray=True)] * 3))


def test_a_colored_image_after_gray_ones_is_refused(tmp_path: Path) -> None:
    name = plain(tmp_path / "d", [0, 1], image=[png(0, gray=True), png(1)])
    assert refused(name).startswith("record 1 has colors while the first record is gray")


# folders of images


def test_a_folder_of_images_is_labeled_by_its_folders(tmp_path: Path) -> None:
    name = image_folder(tmp_path / "d", train={"cat": [1, 2], "ant": [3]}, test={"cat": [4], "ant": [5]})
    data = Source(name=name).load()
    assert data.train.classes == ("ant", "cat")
    assert data.train.labels.tolist() == [0, 1, 1]
    order = [3, 1, 2]
    assert torch.equal(everything(data.train), torch.cat([expected(range(seed, seed + 1)) for seed in order]))
    assert forgotten(data, "class:cat") == forgotten(data, "where:label == cat") == [1, 2]


def test_the_metadata_of_a_folder_of_images_are_columns(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / "d" / part).mkdir(parents=True)
        lines = []
        for seed in range(3):
            Image.fromarray(pixels(seed)).save(tmp_path / "d" / part / f"{seed}.png")
            lines.append(f'{{"file_name": "{seed}.png", "identity": {seed % 2}, "age": {20 + seed}}}\n')
        (tmp_path / "d" / part / "metadata.jsonl").write_text("".join(lines))
    data = Source(name=str(tmp_path / "d")).load()
    assert data.train.labels.tolist() == [0, 1, 0]
    assert forgotten(data, "where:age >= 21") == [1, 2]
    assert forgotten(data, "where:identity == 0") == [0, 2]


def test_an_unreadable_file_in_a_folder_of_images_is_refused(tmp_path: Path) -> None:
    name = image_folder(tmp_path / "d", train={"a": [1], "b": [2]}, test={"a": [3], "b": [4]})
    broken = tmp_path / "d" / "train" / "b" / "2.png"
    broken.write_bytes(b"no image")
    assert refused(name) == f"record 1 ({broken}) is not a readable image."


def test_celebamask_hq_is_a_folder_of_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_DATA", str(tmp_path))
    image_folder(tmp_path / "celebamask-hq", train={"7": [1, 2], "12": [3]}, test={"7": [4], "12": [5]})
    data = Source(name="celebamask-hq").load()
    assert data.train.classes == ("12", "7")
    assert forgotten(data, "class:7") == [1, 2]
    made = split(data.train, Forget("class:7"), test=data.test, unseen=0)
    assert made.retain.labels.tolist() == made.test.labels.tolist() == [0]
    images = everything(data.train)
    assert data.augment is not None
    assert torch.equal(data.augment(images, generator(0)), flip(images, generator(0)))


def test_celebamask_hq_without_a_folder_says_where_to_put_it() -> None:
    assert refused("celebamask-hq") == (
        "celebamask-hq is not on the hub: put it into a folder celebamask-hq and set SCISSORHANDS_DATA to its parent."
    )


# the cache


def test_what_was_decoded_is_cached(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"label": [0, 1, 1]}, test={"label": [0]})
    data = Source(name=name).load()
    held = [load_file(path)["images"] for path in cached(tmp_path)]
    assert sorted(len(images) for images in held) == [1, 3]
    assert any(torch.equal(images, everything(data.train)) for images in held)
    assert {path.suffix for path in cached(tmp_path)} == {".safetensors"}


def test_the_cache_is_read_and_not_written_again(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    Source(name=name).load()
    (path,) = cached(tmp_path)
    marked = expected(range(70, 74))
    save_file({"images": marked}, path)
    before = path.stat().st_mtime_ns
    assert torch.equal(everything(Source(name=name).load().train), marked)
    assert path.stat().st_mtime_ns == before
    assert cached(tmp_path) == [path]


@pytest.mark.parametrize("same_time", [False, True])
def test_an_image_that_changes_is_decoded_anew(same_time: bool, tmp_path: Path) -> None:
    name = image_folder(tmp_path / "d", train={"a": [1, 2], "b": [3]}, test={"a": [4], "b": [5]})
    before = Source(name=name).load()
    path = tmp_path / "d" / "train" / "a" / "2.png"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    Image.fromarray(pixels(99)).save(path)
    if same_time:
        os.utime(path, ns=times)
    after = Source(name=name).load()
    assert torch.equal(everything(after.train)[[0, 2]], everything(before.train)[[0, 2]])
    assert torch.equal(everything(after.train)[1], expected(range(99, 100))[0])
    assert after.train.fingerprint != before.train.fingerprint
    assert after.test.fingerprint == before.test.fingerprint
    assert len(cached(tmp_path)) == 3


def test_parquet_files_that_change_are_decoded_anew(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    Source(name=name).load()
    for part in ("train", "test"):
        (tmp_path / "d" / f"{part}.parquet").unlink()
    (tmp_path / "d").rmdir()
    plain(tmp_path / "d", image=[png(seed) for seed in range(30, 34)])
    assert torch.equal(everything(Source(name=name).load().train), expected(range(30, 34)))


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff" * 64], ids=["empty", "short", "long"])
def test_a_corrupt_cache_is_survived_and_mended(content: bytes, tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    Source(name=name).load()
    (path,) = cached(tmp_path)
    path.write_bytes(content)
    assert torch.equal(everything(Source(name=name).load().train), expected(range(4)))
    assert torch.equal(load_file(path)["images"], expected(range(4)))


def test_a_cut_off_cache_is_survived_and_mended(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    Source(name=name).load()
    (path,) = cached(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    assert torch.equal(everything(Source(name=name).load().train), expected(range(4)))
    assert torch.equal(load_file(path)["images"], expected(range(4)))


@pytest.mark.parametrize(
    "other",
    [
        {"weights": torch.zeros(3)},
        {"images": torch.zeros(1, 3, 4, 4, dtype=torch.uint8)},
        {"images": torch.zeros(4, 3, 4, 4)},
    ],
    ids=["weights", "another shape", "another type"],
)
def test_a_cache_of_something_else_is_survived(other: dict[str, Tensor], tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    Source(name=name).load()
    (path,) = cached(tmp_path)
    save_file(other, path)
    assert torch.equal(everything(Source(name=name).load().train), expected(range(4)))


def test_a_disk_without_room_for_the_cache_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(tensors: object, path: Path, metadata: object) -> None:
        Path(path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "save_file", full)
    assert torch.equal(everything(Source(name=plain(tmp_path / "d")).load().train), expected(range(4)))
    assert cached(tmp_path) == []


def test_a_file_in_the_place_of_the_cache_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("mine")
    assert torch.equal(everything(Source(name=plain(tmp_path / "d")).load().train), expected(range(4)))
    assert (tmp_path / "cache").read_text() == "mine"


# streaming


@pytest.mark.parametrize("threads", [False, True], ids=["in turn", "by threads"])
@pytest.mark.parametrize("size", [0, 6])
def test_streamed_records_are_the_stored_ones(
    threads: bool, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = image_folder(tmp_path / "d", train={"a": [1, 2, 3], "b": [4, 5]}, test={"a": [6], "b": [7]})
    stored = Source(name=name, size=size).load()
    if threads:
        monkeypatch.setattr("scissorhands.data.streamed._WORTH_A_THREAD", 0)
    streamed = Source(name=name, size=size, memory=0.0).load()
    for ours, theirs in ((stored.train, streamed.train), (stored.test, streamed.test)):
        assert isinstance(ours, Stored)
        assert isinstance(theirs, Streamed)
        assert len(ours) == len(theirs)
        assert ours.classes == theirs.classes
        assert torch.equal(ours.labels, theirs.labels)
        assert list(ours.columns) == list(theirs.columns)
        assert ours.column("label").tolist() == theirs.column("label").tolist()
        assert torch.equal(everything(ours), everything(theirs))
    ids = torch.tensor([3, 0, 3])
    for one, other in zip(stored.train.fetch(ids), streamed.train.fetch(ids), strict=True):
        assert torch.equal(one, other)


def test_streamed_records_are_not_cached(tmp_path: Path) -> None:
    everything(Source(name=plain(tmp_path / "d"), memory=0.0).load().train)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_records_are_streamed_exactly_when_they_exceed_the_memory(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    needed = 4 * 3 * 4 * 4 / 2**30
    assert isinstance(Source(name=name, memory=needed).load().train, Stored)
    assert isinstance(Source(name=name, memory=needed * 0.99).load().train, Streamed)


def test_a_streamed_fingerprint_changes_with_an_image_and_with_a_label(tmp_path: Path) -> None:
    names = [
        plain(tmp_path / "a"),
        plain(tmp_path / "b"),
        plain(tmp_path / "c", [0, 1, 2, 1]),
        plain(tmp_path / "d", image=[png(0), png(1), png(2), png(9)]),
    ]
    first, same, label, image = (Source(name=name, memory=0.0).load().train.fingerprint for name in names)
    assert first == same
    assert len({first, label, image}) == 3


def test_a_streamed_fingerprint_survives_moving_the_folder(tmp_path: Path) -> None:
    name = image_folder(tmp_path / "d", train={"a": [1], "b": [2]}, test={"a": [3], "b": [4]})
    before = Source(name=name, memory=0.0).load().train.fingerprint
    moved = (tmp_path / "d").rename(tmp_path / "moved")
    assert Source(name=str(moved), memory=0.0).load().train.fingerprint == before


def test_a_streamed_split_has_the_manifest_of_the_stored_one(tmp_path: Path) -> None:
    name = plain(tmp_path / "d")
    stored, streamed = (Source(name=name, memory=memory).load() for memory in (2.0, 0.0))
    manifests = {split(data.train, Forget("class:1"), test=data.test).manifest for data in (stored, streamed)}
    assert len(manifests) == 1


@pytest.mark.parametrize("memory", [0.0, 1e9])
def test_more_images_at_once_than_the_machine_can_hold_are_refused(
    memory: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"SC_PAGE_SIZE": 100, "SC_PHYS_PAGES": 1}  # each of the four images takes 48 bytes
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    name = plain(tmp_path / "d")
    message = refusal(lambda: everything(Source(name=name, memory=memory).load().train))
    assert message.startswith("4 images of 3 × 4 × 4 take 0 GiB and this machine has 0: give a smaller 'size', ")


def test_a_huge_image_in_a_table_is_refused_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    warnings.simplefilter("always")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    name = plain(tmp_path / "d", [0, 1], image=[png(0), png(1, height=5, width=5)])
    assert refused(name).startswith("record 1 has too many pixels")
    assert len(recwarn) == 0


# names


@pytest.mark.parametrize(("name", "near"), [("cifra10", "cifar10"), ("CIFAR10", "cifar10"), ("digts", "digits")])
def test_a_misspelt_data_set_is_answered_with_the_nearest(name: str, near: str) -> None:
    message = refused(name)
    assert message.startswith(f"there is no data set or folder '{name}'. Did you mean '{near}'? Known: digits, ")
    assert message.endswith("Or give a file, or owner/name on the hub.")


@pytest.mark.parametrize(
    "name",
    ["./nowhere", "/nowhere/at/all", "../nowhere", "~/nowhere-at-all", "~nobody-at-all/x", "a/b/c", "a/b/", "x" * 300],
)
def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(name: str) -> None:
    assert refused(name).startswith(f"there is no data set or folder '{name}'.")


def test_no_name_is_not_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plain(tmp_path / "d"))
    assert refused("").startswith("there is no data set or folder ''.")


def test_a_name_is_looked_up_under_scissorhands_data_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain(tmp_path / "here" / "mine", [0, 1])
    plain(tmp_path / "there" / "mine", [0, 1, 1])
    monkeypatch.chdir(tmp_path / "here")
    assert len(Source(name="mine").load().train) == 2
    monkeypatch.setenv("SCISSORHANDS_DATA", str(tmp_path / "there"))
    assert len(Source(name="mine").load().train) == 3
    monkeypatch.setenv("SCISSORHANDS_DATA", str(tmp_path / "nowhere"))
    assert len(Source(name="mine").load().train) == 2


def test_a_folder_may_be_given_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    plain(tmp_path / "mine", [0, 1])
    assert len(Source(name="~/mine").load().train) == 2


def test_a_known_name_in_a_folder_keeps_its_label_and_its_augmentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCISSORHANDS_DATA", str(tmp_path))
    labels = {
        "fine_label": datasets.ClassLabel(names=["a", "b", "c"]),
        "coarse_label": datasets.ClassLabel(names=["x", "y"]),
    }
    images = [png(seed, height=8, width=8) for seed in (1, 2)]
    records: dict[str, list[Any]] = {"image": images, "fine_label": [0, 2], "coarse_label": [0, 1]}
    parquet(tmp_path / "cifar100", labels, train=records, test=records)
    data = Source(name="cifar100").load()
    assert data.train.labels.tolist() == [0, 2]
    inputs, draw = everything(data.train), generator(0)
    assert data.augment is not None
    assert torch.equal(data.augment(inputs, generator(0)), flip(crop(inputs, draw), draw))
    assert Source(name="cifar100", label="coarse_label").load().train.labels.tolist() == [0, 1]
    assert Source(name="cifar100", augment="none").load().augment is None


def test_a_known_name_that_is_nowhere_here_is_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    load = datasets.load_dataset
    name = plain(tmp_path / "d", [0, 1])

    def hub(*wanted: Any, revision: str | None) -> Any:
        asked.append((*wanted, revision))
        return load(name)

    monkeypatch.setattr(datasets, "load_dataset", hub)
    monkeypatch.chdir(tmp_path)
    assert Source(name="svhn").load().train.labels.tolist() == [0, 1]
    for asked_for in ("someone/something", "someone/something@v1"):
        assert Source(name=asked_for).load().train.labels.tolist() == [0, 1]
    known = [("ufldl-stanford/svhn", "cropped_digits", None)]
    assert asked == [*known, ("someone/something", None, None), ("someone/something", None, "v1")]


def test_what_the_hub_answers_is_cut_to_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ConnectionError("Couldn't reach the Hub\nTraceback\n  more")

    monkeypatch.setattr(datasets, "load_dataset", broken)
    message = refused("someone/something")
    assert message.startswith("'someone/something', on the hub or here, cannot be read as a data set: ")
    assert message.endswith("Couldn't reach the Hub")


def test_an_error_without_words_is_told_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(datasets, "load_dataset", broken)
    assert refused("someone/something").endswith("cannot be read as a data set: NotImplementedError")


def test_a_folder_that_holds_no_data_is_refused(tmp_path: Path) -> None:
    assert refused(str(tmp_path)).startswith(f"the folder {tmp_path} cannot be read as a data set: ")


def test_a_folder_of_broken_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "train.parquet").write_bytes(b"rubbish")
    assert refused(str(tmp_path / "d")).startswith(f"the folder {tmp_path / 'd'} cannot be read as a data set: ")


# settings


def test_an_unknown_augmentation_is_refused_before_anything_is_read() -> None:
    assert "Did you mean 'flip'?" in refused("someone/something", augment="flipp")


@pytest.mark.parametrize(
    ("setting", "value"), [("size", -1), ("size", 8193), ("memory", -0.5), ("size", "big"), ("name", 3)]
)
def test_a_bad_setting_is_refused_when_the_source_is_made(setting: str, value: Any) -> None:
    with pytest.raises(SettingError, match=rf"^Source: '{setting}' must be "):
        Source.make({setting: value})


# the real thing, where it is


@pytest.mark.skipif(
    not (REAL and Path(REAL, "cifar10").is_dir()), reason="SCISSORHANDS_DATA names no folder that holds cifar10"
)
def test_the_real_cifar10_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_DATA", REAL)
    data = Source(name="cifar10", memory=0.0).load()
    assert data.train.classes == CIFAR10
    assert data.train.labels.bincount().tolist() == [5000] * 10
    assert data.test.labels.bincount().tolist() == [1000] * 10
    inputs, labels = data.train.fetch(torch.tensor([49_999, 0]))
    assert inputs.shape == (2, 3, 32, 32)
    assert torch.equal(labels, data.train.labels[[49_999, 0]])
    made = split(data.train, Forget("class:cat"), test=data.test)
    assert (
        len(made.forget),
        len(made.retain),
        len(made.test) + len(made.calibration or ()) + len(made.audit or ()),
    ) == (5000, 45_000, 9000)
