"""Data folders: what is listed is what is loaded, or it is named in one line; and no copy stays behind."""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest

from helpers.commands import cli
from scissorhands.data.forget import Forget
from scissorhands.data.sources import Data, Source
from scissorhands.errors import DataError, FailedError

SPLIT = "Lay images out as FOLDER/train/CLASS/image and FOLDER/test/CLASS/image"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cache is the test's own."""
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCISSORHANDS_DATA", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    datasets.disable_progress_bars()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the test lays out its data."""
    return tmp_path / "d"


def ppm(seed: int) -> bytes:
    """An image of 2 × 2 pixels whose bytes no version of a library decides."""
    return b"P6 2 2 255\n" + bytes((seed * 31 + i * 7) % 256 for i in range(12))


def write(folder: Path, *paths: str) -> Path:
    """Write these images, each of its own seed."""
    for seed, path in enumerate(paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(ppm(seed))
    return folder


def plain(folder: Path) -> Path:
    return write(folder, "train/a/1.ppm", "train/b/2.ppm", "test/a/3.ppm", "test/b/4.ppm")


def parquet(folder: Path, **splits: list[int]) -> Path:
    """A parquet file per name, with images of these seeds and a label that alternates."""
    folder.mkdir(parents=True, exist_ok=True)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["x", "y"])})
    for name, seeds in splits.items():
        images = [{"bytes": ppm(seed), "path": None} for seed in seeds]
        table = {"image": images, "label": [seed % 2 for seed in seeds]}
        with (folder / f"{name}.parquet").open("wb") as file:
            datasets.Dataset.from_dict(table, features=features).to_parquet(file)
    return folder


def load(folder: Path, **settings: Any) -> Data:
    return Source(name=str(folder), **settings).load()


def refused(folder: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, **settings)
    return str(caught.value)


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# order, labels, fingerprints


def test_order_labels_and_paths_are_those_of_datasets_for_an_ordinary_folder(folder: Path, tmp_path: Path) -> None:
    write(folder, *(f"{split}/{name}/{i}.ppm" for split in ("train", "val") for name in ("b", "a", "a-b", "A") for i in
                    (10, 9, 1)))  # fmt: skip
    theirs = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "theirs"))
    data = load(folder)
    for ours, name in ((data.train, "train"), (data.test, "validation")):
        assert ours.classes == tuple(theirs[name].features["label"].names)
        assert ours.labels.tolist() == theirs[name]["label"]
    paths = theirs["train"].cast_column("image", datasets.Image(decode=False))["image"]
    ours = load(folder, memory=0.0).train
    assert ours.table["image"] == [{"bytes": None, "path": image["path"]} for image in paths]  # type: ignore[attr-defined]


@pytest.mark.parametrize("memory", [2.0, 0.0])
def test_the_fingerprints_of_results_that_are_already_out_there_stay(memory: float, tmp_path: Path) -> None:
    order = ["train/a/1", "train/a/2", "train/a-b/3", "train/B/4", "test/a/5", "test/a-b/6", "test/B/7"]
    for seed, path in enumerate(order, start=1):
        (tmp_path / "i" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "i" / f"{path}.ppm").write_bytes(ppm(seed))
    images = load(tmp_path / "i", memory=memory)
    assert images.train.fingerprint == "e5d1254baa331508f72f9a27d91d7665fc55bdf65b02e4f27aa9bb8953a0b8fc"
    assert images.test.fingerprint == "2b04fda3b9e5b5867f596eb769924936c229f73fda0a9fcb9e1fa0b6f7212baa"
    table = load(parquet(tmp_path / "p", train=[1, 2, 3], test=[4, 5]), memory=memory)
    assert table.train.fingerprint == "c4b54a7b38289553fb5f81fff42057b6fda16addf38be869d9631321cf793b3e"
    assert table.test.fingerprint == "db533df798044e55b472cd9b3285d2c0169e804c2cd21c5e4188fcf66dff959c"


# splits and classes


def test_classes_may_be_called_train_and_test(folder: Path) -> None:
    names = ("bus", "test", "train")
    data = load(write(folder, *(f"{split}/{name}/1.ppm" for split in ("train", "test") for name in names)))
    assert data.train.classes == names
    assert data.train.labels.tolist() == data.test.labels.tolist() == [0, 1, 2]


def test_a_class_called_train_beside_others_is_a_class(folder: Path) -> None:
    data = load(write(folder, "bus/1.ppm", "train/2.ppm", "train/3.ppm"), test="train")
    assert data.train.classes == ("bus", "train")
    assert data.train.labels.tolist() == [0, 1, 1]


def test_an_image_called_test_is_not_in_the_test_split(folder: Path) -> None:
    assert len(load(write(plain(folder), "train/a/test-5.ppm")).train) == 3


@pytest.mark.parametrize(
    "paths",
    [
        ("train/a/1.ppm", "train/b/2.ppm", "test/a/3.ppm", "docs/b/4.ppm"),
        ("train/1.ppm", "test/2.ppm"),
        ("train/a/1.ppm", "train/b/1.ppm", "test/2.ppm"),
    ],
    ids=["another folder", "images in both", "images in one"],
)
def test_folders_that_could_be_splits_or_classes_are_refused(paths: tuple[str, ...], folder: Path) -> None:
    message = refused(write(folder, *paths))
    assert "could be splits or classes" in message
    assert SPLIT in message


def test_two_folders_for_one_split_are_refused(folder: Path) -> None:
    message = refused(write(plain(folder), "val/a/1.ppm", "valid/a/1.ppm"))
    assert message == f"{folder / 'val'} and {folder / 'valid'} are both the split 'validation': keep one."


def test_images_lie_anywhere_inside_the_folder_of_their_class(folder: Path) -> None:
    data = load(write(plain(folder), "train/a/2020/may/5.ppm"))
    assert data.train.classes == ("a", "b")
    assert data.train.labels.tolist() == [0, 0, 1]


def test_a_class_that_only_the_test_split_has_images_of_keeps_its_number(folder: Path) -> None:
    write(folder, "train/b/1.ppm", "train/c/2.ppm", "test/a/3.ppm", "test/b/4.ppm", "test/c/5.ppm")
    (folder / "train" / "a").mkdir()
    assert load(folder).train.labels.tolist() == [1, 2]


def test_an_empty_class_is_refused(folder: Path) -> None:
    (plain(folder) / "train" / "c").mkdir()
    assert refused(folder) == f"the class 'c' of {folder} has no images: add some, or remove its folder."


def test_one_class_alone_is_refused(folder: Path) -> None:
    assert refused(write(folder, "train/a/1.ppm", "test/a/2.ppm")).startswith(f"{folder} has one class only, 'a'")


# nothing is left out in silence


@pytest.mark.parametrize("name", ["__x__", "a::b", "a*b", "[a]", "a?", "é", "a b", "~"])
def test_an_oddly_named_class_is_a_class(name: str, folder: Path) -> None:
    data = load(write(plain(folder), f"train/{name}/5.ppm", f"test/{name}/6.ppm"))
    assert name in data.train.classes
    assert (len(data.train), len(data.test)) == (3, 3)


def test_a_hidden_class_is_refused_by_name(folder: Path) -> None:
    write(plain(folder), "train/.x/5.ppm")
    assert refused(folder) == (
        f"the folder {folder / 'train' / '.x'} is hidden: rename it if it is a class, or remove it."
    )


@pytest.mark.parametrize("name", ["._x", ".cache", ".git", "desktop.ini", "Thumbs.db"])
@pytest.mark.parametrize("file", ["5.ppm", "deep/5.ppm"])
def test_a_class_called_like_what_systems_leave_behind_is_refused_by_name(name: str, file: str, folder: Path) -> None:
    write(plain(folder), f"train/{name}/{file}")
    says = refused(folder)
    assert says.startswith(str(folder / "train" / name))
    assert says.endswith(f"folders called '{name}' are not read: rename it if it is a class, or remove it.")


@pytest.mark.parametrize("name", ["notes.txt", "5", ".hidden.ppm", "5.ppm.part", "metadata.csv"])
def test_a_file_that_is_no_image_among_images_is_refused_by_name(name: str, folder: Path) -> None:
    write(plain(folder), f"train/a/{name}")
    assert refused(folder).startswith(f"{folder / 'train' / 'a' / name} is not an image")


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "desktop.ini", "._1.ppm"])
def test_what_systems_leave_behind_is_ignored(name: str, folder: Path) -> None:
    write(plain(folder), f"train/a/{name}", f"train/{name}", name)
    assert len(load(folder).train) == 2


def test_notes_beside_the_folders_are_ignored(folder: Path) -> None:
    assert (
        len(load(write(plain(folder), "README.md", "train/labels.txt", ".git/HEAD", "train/.cache/x/y.metadata")).train)
        == 2
    )


def test_an_image_in_no_class_folder_is_refused_by_name(folder: Path) -> None:
    write(folder, "a/1.ppm", "b/2.ppm", "3.ppm")
    assert refused(folder, test="train").startswith(f"{folder / '3.ppm'} lies in no class folder.")


# globs


@pytest.mark.parametrize(
    ("name", "sibling"), [("a*", "ab"), ("a?", "ab"), ("[ab]", "a"), ("{a,b}", "a"), ("a::b", "a")]
)
def test_a_folder_is_not_a_pattern(name: str, sibling: str, tmp_path: Path) -> None:
    plain(tmp_path / name)
    write(tmp_path / sibling, "train/c/1.ppm", "test/c/2.ppm")
    assert load(tmp_path / name).train.classes == ("a", "b")
    parquet(tmp_path / "p" / name, train=[0, 1], test=[2])
    parquet(tmp_path / "p" / sibling, train=[3, 4, 5], test=[6])
    assert (len(load(tmp_path / "p" / name).train), len(load(tmp_path / "p" / name).test)) == (2, 1)


# links and what is not a file


def test_a_link_that_leads_out_of_the_data_is_refused(folder: Path, tmp_path: Path) -> None:
    write(tmp_path, "secret.ppm")
    (plain(folder) / "train" / "a" / "9.ppm").symlink_to(tmp_path / "secret.ppm")
    assert "is a link that leads out of the data folder" in refused(folder)


def test_a_link_inside_the_data_is_followed(folder: Path) -> None:
    (plain(folder) / "train" / "a" / "9.ppm").symlink_to(Path("..", "b", "2.ppm"))
    assert load(folder).train.labels.tolist() == [0, 0, 1]


def test_a_data_folder_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(plain(folder))
    assert len(load(tmp_path / "link").train) == 2


@pytest.mark.parametrize("target", ["/etc", "..", "."])
def test_a_link_to_a_folder_is_refused(target: str, folder: Path) -> None:
    (plain(folder) / "train" / "c").symlink_to(target)
    assert refused(folder) == f"{folder / 'train' / 'c'} is a link to a folder: put the folder itself there."


@pytest.mark.parametrize("target", ["nowhere", "9.ppm", "/dev/zero"])
def test_a_link_to_no_file_is_refused(target: str, folder: Path) -> None:
    (plain(folder) / "train" / "a" / "9.ppm").symlink_to(target)
    assert refused(folder).endswith("it is neither a folder nor a regular file.")


@pytest.mark.parametrize("place", ["train/a/9.ppm", "train.parquet", "train/pipe"])
def test_a_fifo_is_refused(place: str, folder: Path) -> None:
    os.mkfifo(plain(folder) / place)
    assert refused(folder) == f"{folder / place} cannot be read: it is neither a folder nor a regular file."


def test_a_fifo_that_a_table_names_is_refused(folder: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    os.mkfifo(tmp_path / "pipe")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    images = [{"bytes": ppm(1), "path": None}, {"bytes": None, "path": str(tmp_path / "pipe")}]
    folder.mkdir()
    table = pa.table({"image": images, "label": [0, 1]}, schema=features.arrow_schema)
    for name in ("train", "test"):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    assert refused(folder).endswith(f"{tmp_path / 'pipe'} cannot be read: it is not a regular file.")


def test_a_name_that_is_not_utf_8_is_refused(folder: Path) -> None:
    bad = os.fsencode(plain(folder) / "train" / "a") + b"/\xff.ppm"
    Path(os.fsdecode(bad)).write_bytes(ppm(9))
    assert refused(folder).endswith("\\udcff.ppm' has a name that is not UTF-8: rename it.")


def test_a_data_folder_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = plain(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    assert refused(folder).endswith("has a name that is not UTF-8: rename it.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_refused(folder: Path) -> None:
    (plain(folder) / "train" / "a").chmod(0)
    assert refused(folder) == f"the folder {folder / 'train' / 'a'} cannot be read: Permission denied."


def test_the_root_of_the_file_system_is_refused_at_once() -> None:
    assert refused(Path("/"))


def test_a_file_in_the_place_of_the_folder_is_refused(folder: Path) -> None:
    path = folder.with_suffix(".zip")
    path.touch()
    assert refused(path) == f"{path} is not a folder, nor a table in a .csv, .jsonl or .parquet file."


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_data_that_is_neither_file_nor_folder_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    path = Path("/dev/zero") if kind == "device" else tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as there:
            there.bind("x")
    assert refused(path) == f"{path} is not a folder, nor a table in a .csv, .jsonl or .parquet file."


def test_a_name_with_a_zero_in_it_is_refused() -> None:
    with pytest.raises(DataError, match="there is no data set or folder"):
        Source(name="a\0b").load()


def test_an_empty_folder_is_refused(folder: Path) -> None:
    folder.mkdir()
    assert refused(folder) == f"the folder {folder} cannot be read as a data set: it holds no images. {SPLIT}."


# metadata


def described(folder: Path, text: str, name: str = "metadata.csv") -> Path:
    for split in ("train", "test"):
        write(folder / split, "1.ppm", "2.ppm")
        (folder / split / name).write_text(text)
    return folder


def forgotten(data: Data, text: str) -> list[int]:
    import torch

    return [int(i) for i in Forget(text).ids(data.train, torch.arange(len(data.train)))]


def test_metadata_give_the_order_the_label_and_other_columns(folder: Path) -> None:
    data = load(described(folder, "file_name,label,age\n2.ppm,cat,30\n1.ppm,ant,\n"))
    assert data.train.classes == ("ant", "cat")
    assert data.train.labels.tolist() == [1, 0]
    assert forgotten(data, "where:age == 30") == [0]


def test_metadata_may_be_parquet_and_name_more_than_one_image(folder: Path) -> None:
    table = datasets.Dataset.from_dict({"file_name": ["1.ppm"], "mask_file_name": ["2.ppm"], "label": [1]})
    for split in ("train", "test"):
        write(folder / split, "1.ppm", "2.ppm")
        table.to_parquet(folder / split / "metadata.parquet")
    assert load(folder, image="mask").train.labels.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("file_name,label\n1.ppm,0\n", "does not name 2.ppm"),
        ("file_name,label\n1.ppm,0\n2.ppm,1\n3.ppm,1\n", "names 3.ppm, which is no image there"),
        ("file_name,label\n1.ppm,0\n../test/2.ppm,1\n", "names ../test/2.ppm, which is no image there"),
        ("file_name,label\n1.ppm,0\n/etc/passwd,1\n", "etc/passwd, which is no image there"),
        ("name,label\n1.ppm,0\n", "needs a column 'file_name'"),
        ("", "cannot be read as metadata"),
        ('a\n"', "cannot be read as metadata"),
    ],
)
def test_metadata_that_do_not_agree_with_the_images_are_refused(text: str, says: str, folder: Path) -> None:
    assert says in refused(described(folder, text))


def test_metadata_beside_the_splits_are_refused(folder: Path) -> None:
    (plain(folder) / "metadata.csv").write_text("file_name\n")
    assert "put metadata into the folder of each split" in refused(folder)


def test_metadata_of_one_split_only_are_refused(folder: Path) -> None:
    shutil.rmtree(described(folder, "file_name,label\n1.ppm,0\n2.ppm,1\n") / "test")
    write(folder, "test/a/1.ppm", "test/b/2.ppm")
    assert "metadata in some splits only" in refused(folder)


# parquet


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train-00000-of-00002", "test-00000-of-00001"),
        ("data/train-00000-of-00001-0123abcd", "data/test-00000-of-00001-0123abcd"),
        ("train/0000", "test/0000"),
        ("my_set.train", "my_set.val"),
    ],
)
def test_parquet_files_are_found_as_the_hub_lays_them_out(train: str, test: str, folder: Path) -> None:
    for path, seeds in ((train, [0, 1, 2]), (test, [3, 4])):
        parquet((folder / path).parent, **{Path(path).name: seeds})
    (folder / "README.md").write_text("# Pictures\n")
    assert (len(load(folder).train), len(load(folder).test)) == (3, 2)


def test_shards_are_joined_in_the_order_of_their_names(folder: Path) -> None:
    parquet(folder, **{"train-00001-of-00002": [3, 3], "train-00000-of-00002": [2, 2, 2], "test": [0, 1]})
    for memory in (2.0, 0.0):
        assert load(folder, memory=memory).train.labels.tolist() == [0, 0, 0, 1, 1]


def test_a_split_of_another_name_is_found_and_may_be_asked_for(folder: Path) -> None:
    parquet(folder, train=[0, 1], **{"holdout-00000-of-00001": [2, 3, 4]})
    assert len(load(folder, test="holdout").test) == 3


def test_parquet_files_of_one_split_in_two_folders_are_refused(folder: Path) -> None:
    parquet(folder / "cropped", train=[0, 1], test=[2])
    parquet(folder / "full", train=[3, 4], test=[5])
    assert f"'test' in 2 folders: {folder / 'cropped'}, {folder / 'full'}. Give one." in refused(folder)


def test_parquet_files_and_images_in_one_folder_are_refused(folder: Path) -> None:
    assert "holds both test.parquet and a/1.ppm" in refused(write(parquet(folder, train=[0], test=[1]), "a/1.ppm"))


def test_a_parquet_file_that_could_be_of_two_splits_is_refused(folder: Path) -> None:
    assert "could belong to test, train" in refused(parquet(folder, **{"train-test": [0, 1]}))


def test_shards_with_other_columns_are_refused(folder: Path) -> None:
    parquet(folder, train=[0, 1])
    datasets.Dataset.from_dict({"other": [1]}).to_parquet(folder / "test.parquet")
    assert refused(folder).startswith(f"the folder {folder} cannot be read as a data set: ")


# no copy stays behind


@pytest.mark.parametrize("memory", [2.0, 0.0])
@pytest.mark.parametrize("kind", [plain, lambda folder: parquet(folder, train=[0, 1], test=[2, 3])], ids=["i", "p"])
def test_reading_leaves_only_the_private_cache(kind: Any, memory: float, folder: Path, tmp_path: Path) -> None:
    kind(folder)
    before = contents(folder)
    for part in (load(folder, memory=memory).train, load(folder, memory=memory).test):
        part.fetch(part.labels.argsort())
    assert contents(folder) == before
    assert not (tmp_path / "hf").exists()
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(kept) == (2 if memory else 0)
    for path in kept:
        assert path.parent == tmp_path / "cache" / "images"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_an_empty_cache_variable_is_not_the_folder_one_is_in(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    load(plain(folder))
    assert list((tmp_path / "here").iterdir()) == []
    assert len(list((tmp_path / "xdg" / "scissorhands" / "images").iterdir())) == 2


def test_a_table_that_neither_fits_the_memory_nor_the_disk_is_told(folder: Path, tmp_path: Path) -> None:
    parquet(folder, train=[0, 1], test=[2, 3])
    (tmp_path / "cache").write_text("mine")
    with pytest.raises(FailedError, match="cannot unpack the data"):
        load(folder, memory=0.0)


def test_splits_are_known_whatever_their_case(folder: Path) -> None:
    for place in ("Train", "TEST"):
        for name in ("a", "b"):
            write(folder, f"{place}/{name}/1.png")
    data = load(folder)
    assert (len(data.train), len(data.test), data.train.classes) == (2, 2, ("a", "b"))


def test_parquet_files_that_number_classes_otherwise_are_refused(folder: Path) -> None:
    parquet(folder, train=[0, 1], test=[2, 3])
    turned = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["y", "x"])})
    rows = datasets.Dataset.from_parquet(str(folder / "test.parquet"), keep_in_memory=True)
    datasets.Dataset(rows.data.table, info=datasets.DatasetInfo(features=turned)).to_parquet(folder / "test.parquet")
    assert "numbers the classes of 'label' unlike the first file: y, x." in refused(folder)


# from the shell


@pytest.mark.parametrize("name", ["", "d", "fifo", "empty", "/", "\udcff", "d/train.parquet"])
def test_the_shell_shows_one_line_and_exits_with_2(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(plain(folder), "train/a/notes.txt")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    answer = cli("train --model small -o out --data", name)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
