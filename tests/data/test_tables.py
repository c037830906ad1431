"""Tables of numbers: CSV, JSON lines and parquet files, by themselves or in a folder."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from scissorhands.data.records import Stored, one_table
from scissorhands.data.sources import Data, Source
from scissorhands.errors import DataError

ROWS = {
    "customer": ["007", "008", "007", "010", "011"],
    "age": [31, 45, 31, 62, 19],
    "income": [1.5, 2.5, 1.0, 0.5, 3.0],
    "member": [True, False, True, True, False],
    "label": ["no", "yes", "no", "yes", "no"],
}


def csv(path: Path, rows: Mapping[str, Any] = ROWS) -> Path:
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def jsonl(path: Path, rows: Mapping[str, Any] = ROWS) -> Path:
    lines = (dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def parquet(path: Path, rows: Mapping[str, Any] = ROWS) -> Path:
    pd.DataFrame(rows).to_parquet(path)
    return path


def load(path: Path, **settings: Any) -> Data:
    return Source(name=str(path), **settings).load()


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(path, **settings)
    return str(caught.value)


@pytest.mark.parametrize("write", [csv, jsonl, parquet])
def test_the_numbers_of_a_file_are_its_inputs(write: Callable[[Path], Path], tmp_path: Path) -> None:
    data = load(write(tmp_path / f"people.{write.__name__}"), test="train", key="customer")
    assert isinstance(data.train, Stored)
    assert torch.equal(data.train.inputs[:2], torch.tensor([[31, 1.5, 1], [45, 2.5, 0]]))
    assert data.train.labels.tolist() == [0, 1, 0, 1, 0]
    assert data.train.classes == ("no", "yes")
    assert data.train.keys == ("007", "008", "007", "010", "011")
    assert data.train.column("age").tolist() == ROWS["age"]


def test_columns_are_chosen_by_name_and_the_key_is_none_of_them(tmp_path: Path) -> None:
    path = csv(tmp_path / "people.csv")
    chosen = load(path, test="train", columns="income, age").train.fetch(torch.tensor([1]))[0]
    rest = load(path, test="train", key="age").train.fetch(torch.tensor([1]))[0]
    assert torch.equal(chosen, torch.tensor([[2.5, 45]]))
    assert rest.shape == (1, 3)
    assert "no column 'incom' of numbers. Did you mean 'income'?" in refused(path, test="train", columns="incom")


def test_test_records_are_a_split_a_file_or_a_share(tmp_path: Path) -> None:
    path, other = csv(tmp_path / "people.csv"), csv(tmp_path / "later.csv", {**ROWS, "age": [1, 2, 3, 4, 5]})
    shared, again = (load(path, test="40%") for _ in range(2))
    (tmp_path / "folder").mkdir()
    csv(tmp_path / "folder" / "train.csv")
    csv(tmp_path / "folder" / "test.csv", {**ROWS, "age": [1, 2, 3, 4, 5]})
    for data in (load(path, test=str(other)), load(tmp_path / "folder")):
        assert data.test.column("age").tolist() == [1, 2, 3, 4, 5]
        assert not one_table(data.train, data.test)
    ages: list[int] = [*shared.train.column("age"), *shared.test.column("age")]
    assert sorted(ages) == [19, 31, 31, 45, 62]
    assert one_table(shared.train, shared.test)
    assert torch.equal(shared.test.fetch(torch.arange(1))[0], again.test.fetch(torch.arange(1))[0])
    assert "has no test split" in refused(path)
    assert "there is no data set or folder 'none.csv'" in refused(path, test="none.csv")
    for share in ("0%", "100%", "a%", "nan%"):
        assert f"'test' is {share} of 5 records" in refused(path, test=share)


def test_a_row_that_is_erased_moves_no_other_between_training_and_test(tmp_path: Path) -> None:
    rows = {"age": [*range(300)], "name": [f"n{i}" for i in range(300)], "label": [i % 2 for i in range(300)]}
    less = {name: values[:100] + values[150:] for name, values in rows.items()}
    whole, rest = (load(csv(tmp_path / f"{len(x['age'])}.csv", x), test="30%", key="name") for x in (rows, less))
    assert 60 < len(whole.test) < 120
    assert set(rest.test.keys) == set(whole.test.keys) & set(less["name"])
    assert set(rest.train.keys) == set(whole.train.keys) & set(less["name"])


def test_a_gap_among_the_numbers_is_refused_by_name(tmp_path: Path) -> None:
    path = csv(tmp_path / "people.csv", {**ROWS, "income": [1.5, None, 1.0, 0.5, 3.0]})
    assert "record 1 has no number in the column 'income'" in refused(path, test="train")
    assert load(path, test="train", columns="age").train.labels.tolist() == [0, 1, 0, 1, 0]


def test_test_records_without_a_column_are_refused(tmp_path: Path) -> None:
    other = csv(tmp_path / "test.csv", {name: values for name, values in ROWS.items() if name != "age"})
    says = refused(csv(tmp_path / "people.csv"), test=str(other))
    assert says == "the test records have no numbers in the column 'age', which training records have."


@pytest.mark.parametrize(("setting", "noun"), [({"size": 8}, "images"), ({"mean": "0"}, "images")])
def test_a_setting_for_other_data_is_refused(setting: dict[str, Any], noun: str, tmp_path: Path) -> None:
    path = csv(tmp_path / "people.csv")
    assert f"is for {noun}, and {path} is read as numbers" in refused(path, test="train", **setting)


def test_files_that_are_no_tables_are_refused_in_one_line(tmp_path: Path) -> None:
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        (tmp_path / name).write_bytes(b'\x00{"')
        assert " cannot be read as a" in refused(tmp_path / name, test="train")


def test_two_plain_files_of_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train-1.csv", "train-2.csv"):
        csv(tmp_path / name)
    assert "'train' is in 2 files" in refused(tmp_path)
