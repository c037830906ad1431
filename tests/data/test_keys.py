"""Records named as people name them: by file, by the value of a column, by a value of Python."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.data.forget import Forget
from scissorhands.data.keys import find
from scissorhands.data.records import Stored
from scissorhands.data.sources import Data, Source
from scissorhands.errors import DataError

PATHS = ("train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "train/dog/3.png")
NONE = torch.zeros(0, dtype=torch.int64)


def photos() -> Stored:
    """Four photos of two classes."""
    return Stored(torch.zeros(4, 1, 2, 2), torch.tensor([0, 0, 1, 1]), keys=PATHS, key="path")


def orders() -> Stored:
    """Six orders of three customers, the last of whom ordered once."""
    customers = ("ada", "bob", "ada", "bob", "ada", "org/eve")
    return Stored(torch.zeros(6, 1), torch.arange(6) % 2, keys=customers, key="customer")


def found(names: Iterable[str], records: Stored, **options: Any) -> list[int]:
    return find(names, records, torch.arange(len(records)), **{"before": NONE, **options}).tolist()


def refusal(names: Iterable[str], records: Stored, among: Tensor, before: Tensor = NONE) -> str:
    with pytest.raises(DataError) as caught:
        find(names, records, among, before=before)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def folder(root: Path) -> str:
    """A folder of gray images, each of another shade."""
    for number, path in enumerate((*PATHS, "test/cat/1.png", "test/dog/1.png")):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), 10 * number).save(root / path)
    return str(root)


def chosen(text: str, data: Data, **options: Any) -> list[int]:
    return Forget(text, **options).ids(data.train, torch.arange(len(data.train))).tolist()


def test_a_file_is_named_by_its_path_or_by_its_name_where_that_is_unique() -> None:
    assert found(["train/dog/1.png", "2.png", "dog/3.png", " train/dog/1.png "], photos()) == [1, 2, 3]


def test_a_name_that_several_files_have_is_refused() -> None:
    message = refusal(["1.png"], photos(), torch.arange(4))
    assert message.startswith("'1.png' names 2 files: train/cat/1.png, train/dog/1.png.")


def test_every_record_of_a_key_is_meant_and_no_part_of_a_key() -> None:
    assert found(["ada"], orders()) == [0, 2, 4]
    assert "'eve' is not in the data" in refusal(["eve"], orders(), torch.arange(6))


def test_keys_that_cannot_be_forgotten_are_listed_with_the_reason() -> None:
    names = ["train/cat/1.png", "2.png", "train/dog/1.png", "cats/3.png", "train/dog/4.png"]
    message = refusal(names, photos(), torch.tensor([0, 3]), before=torch.tensor([1]))
    assert message == (
        "4 of 5 keys in the list name no record that the model knows: "
        "'cats/3.png' is not in the data (Did you mean 'train/dog/3.png'?), "
        "'train/dog/4.png' is not in the data (Did you mean 'train/dog/3.png'?), "
        "'2.png' was forgotten before, or left out of training, "
        "'train/dog/1.png' was held out of training. "
        "Correct them, or go on without them: --missing skip."
    )
    assert found(names, photos(), skip=True) == [0, 1, 2]


def test_a_key_is_one_line_of_text() -> None:
    strange = Stored(torch.zeros(2, 1), torch.arange(2), keys=["a\nb\tc", "é ß"], key="path")
    assert strange.keys == ("a\\nb\\tc", "é ß")
    assert found(["é ß", "a\nb\tc"], strange) == [0, 1]


def test_records_without_names_are_called_by_their_numbers() -> None:
    plain = Stored(torch.zeros(3, 1), torch.arange(3))
    assert (plain.keys, plain.key) == (("0", "1", "2"), "")
    with pytest.raises(DataError, match="3 records need as many keys, not 1"):
        Stored(torch.zeros(3, 1), torch.arange(3), keys=["a"])


@pytest.mark.parametrize("memory", [2.0, 0.0], ids=["cached", "streamed"])
def test_keys_of_a_folder_of_images_are_paths_below_it(memory: float, tmp_path: Path) -> None:
    data = Source(name=folder(tmp_path / "d"), memory=memory).load()
    assert (data.train.keys, data.train.key) == (PATHS, "path")
    assert data.test.keys == ("test/cat/1.png", "test/dog/1.png")
    names = tmp_path / "delete.txt"
    names.write_text("\ufefftrain/cat/1.png\r\n\r\n3\ttrain/dog/3.png\n")
    assert chosen(f"keys:{names}", data) == [0, 3]
    assert chosen("where:file_name in (2.png, '3.png')", data) == [1, 3]
    names.write_text("train/cat/1.png\ngone.png")
    assert chosen(f"keys:{names}", data, missing="skip") == [0]
    with pytest.raises(DataError, match=f"1 of 2 keys in '{names}' name no record that the model knows: 'gone.png' is"):
        chosen(f"keys:{names}", data)


def test_keys_are_the_values_of_a_column_if_it_is_named(tmp_path: Path) -> None:
    root = Path(folder(tmp_path / "d"))
    for split in ("train", "test"):
        places = sorted((root / split).rglob("*.png"))
        lines = [f"{path.relative_to(root / split)},{i % 2},{i % 3}" for i, path in enumerate(places)]
        (root / split / "metadata.csv").write_text("\n".join(["file_name,label,customer", *lines]))
    assert Source(name=str(root)).load().train.keys == PATHS
    data = Source(name=str(root), key="customer").load()
    assert (data.train.keys, data.train.key) == (("0", "1", "2", "0"), "customer")
    with pytest.raises(DataError, match=r"no column 'costumer' to take keys from\. Did you mean 'customer'"):
        Source(name=str(root), key="costumer").load()
    with pytest.raises(DataError, match="cannot be set for digits"):
        Source(key="customer").load()


def test_a_number_that_was_held_out_is_skipped_if_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("0 3")
    request = Forget(f"ids:{tmp_path / 'ids.txt'}", missing="skip")
    assert request.ids(photos(), torch.tensor([0, 1])).tolist() == [0]
    with pytest.raises(DataError, match="'missing' must be one of refuse, skip"):
        Forget("class:1", missing="drop")


FORMS = {
    "text": "class:1",
    "ids": [2, 3],
    "array": np.array([3, 2]),
    "tensor": torch.tensor([2, 3]),
    "set": {2, 3},
    "range": range(2, 4),
    "keys": ["3.png", "train/dog/1.png"],
    "set of keys": {"3.png", "train/dog/1.png"},
    "array of keys": np.array(["3.png", "train/dog/1.png"]),
    "mask": np.array([False, False, True, True]),
    "function": lambda row: row["label"] == 1 and row["key"].startswith("train/dog/"),
}


@pytest.mark.parametrize("what", FORMS.values(), ids=FORMS.keys())
def test_what_to_forget_is_said_in_python_as_people_have_it(what: Any) -> None:
    split = sh.split(photos(), what, test=photos(), unseen=0.0)
    assert split.forget.ids.tolist() == [2, 3]
    assert split.kind == "classes"


def test_a_dataset_of_the_user_is_named_by_numbers() -> None:
    own = TensorDataset(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
    assert sh.split(own, ["2"], test=own).forget.ids.tolist() == [2]
    assert sh.split(own, lambda row: row["label"] == 1, test=own).forget.ids.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ([4], "4 is to be forgotten, and is no record of the data"),
        ([-1], "-1 is to be forgotten, and is no record of the data"),
        ([0], "0 is to be forgotten, and is not in the model: it was held out, or forgotten before"),
        ([1.5], "must be ids, which are whole numbers, or keys"),
        (["2.png", 3], "must be ids, which are whole numbers, or keys"),
        ([True, False], "2 marks .* are not one for each of the 4 records"),
        ([], "matches none of the 3 training records"),
        (lambda row: True, "matches all 3 training records"),
        (17, "what to forget is a text such as 'class:3'"),
        ("klass:1", "cannot forget by 'klass'"),
        (["cow.png"], "'cow.png' is not in the data"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(what: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        sh.split(photos(), what, test=photos(), before=[0])
