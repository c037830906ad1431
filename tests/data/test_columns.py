"""What the column of labels says: classes, or numbers to predict."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

from scissorhands.data.sources import Source
from scissorhands.errors import DataError, SettingError


def labeled(folder: Path, labels: Sequence[Any], kind: str = "float64") -> str:
    """A data set of rows of numbers with these labels, the same in train and test."""
    folder.mkdir()
    rows = {"x": [0.5 * number for number in range(len(labels))], "label": list(labels)}
    features = datasets.Features({"x": datasets.Value("float64"), "label": datasets.Value(kind)})
    for split in ("train", "test"):
        datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / f"{split}.parquet")
    return str(folder)


def refused(name: str, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        Source(name=name, **settings).load()
    return str(caught.value)


def test_floats_are_numbers_to_predict(tmp_path: Path) -> None:
    data = Source(name=labeled(tmp_path / "d", [151.5, -75.0, 141.0])).load()
    assert data.train.regression
    assert data.train.classes == ()
    assert data.train.labels.tolist() == [151.5, -75.0, 141.0]
    assert data.train.column("label").tolist() == [151.5, -75.0, 141.0]
    assert data.train.fetch(torch.tensor([2]))[1].dtype == torch.float32


@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_whole_numbers_are_numbers_to_predict_where_one_says_so(kind: str, tmp_path: Path) -> None:
    name = labeled(tmp_path / "d", [3, 1, -200_000], kind)
    assert Source(name=name, task="regression").load().train.labels.tolist() == [3.0, 1.0, -200_000.0]


def test_floats_that_are_whole_are_classes_where_one_says_so(tmp_path: Path) -> None:
    data = Source(name=labeled(tmp_path / "d", [0, 2, 1, 0]), task="classification").load()
    assert data.train.classes == ("0", "1", "2")
    assert data.train.labels.tolist() == [0, 2, 1, 0]
    assert data.train.labels.dtype == torch.int64


IN_DOUBT = (
    "the column 'label' holds {} in {} records{}: say whether they are classes or numbers to predict, "
    "--data-set task=classification or --data-set task=regression."
)


def test_a_few_whole_numbers_as_floats_may_be_either(tmp_path: Path) -> None:
    said = IN_DOUBT.format("2 different whole numbers", 4, ", as floats")
    assert refused(labeled(tmp_path / "few", [0, 1, 0, 1])) == said
    assert Source(name=labeled(tmp_path / "many", range(11))).load().train.regression  # as in diabetes


def test_whole_numbers_of_which_hardly_two_are_the_same_may_be_either(tmp_path: Path) -> None:
    said = IN_DOUBT.format("30 different whole numbers", 60, "")
    assert refused(labeled(tmp_path / "many", [*range(30)] * 2, "int64")) == said
    assert not Source(name=labeled(tmp_path / "few", [*range(10)] * 6, "int64")).load().train.regression


@pytest.mark.parametrize("gap", [None, float("nan"), float("inf")])
def test_a_record_without_a_number_to_predict_is_refused(gap: float | None, tmp_path: Path) -> None:
    wanted = "record 1 has no number in the column 'label', which is to be predicted."
    assert refused(labeled(tmp_path / "d", [0.5, gap, 1.5])) == wanted


def test_names_cannot_be_predicted_as_numbers(tmp_path: Path) -> None:
    name = labeled(tmp_path / "d", ["a", "b"], "string")
    said = "the column 'label' cannot be predicted as a number: it holds none."
    assert refused(name, task="regression") == said


def test_another_task_is_refused() -> None:
    with pytest.raises(SettingError, match="'task' must be one of , classification, regression"):
        Source.make({"task": "ranking"})


def test_diabetes_comes_inside_scikit_learn() -> None:
    data = Source(name="diabetes").load()
    assert (len(data.train), len(data.test)) == (354, 88)
    assert data.train.regression
    known = load_diabetes(scaled=False)
    found = torch.cat([data.train.labels, data.test.labels]).sort().values
    assert found.tolist() == sorted(known.target.tolist())
    inputs, labels = data.train.fetch(torch.arange(1))
    (place,) = np.flatnonzero((known.data.astype(np.float32) == inputs.numpy()).all(1))
    assert labels.item() == known.target[place]
    assert data.train.column("bmi")[0] == inputs[0, 2]
    assert data.train.drawn_from == data.test.drawn_from == "diabetes"
    assert len(Source(name="diabetes", limit=50).load().train) == 50


@pytest.mark.parametrize("setting", ["label", "task", "key", "augment", "mean"])
def test_diabetes_is_read_in_one_way_only(setting: str) -> None:
    value = {"task": "regression", "augment": "flip", "mean": "0"}.get(setting, "age")
    said = f"'{setting}' cannot be set for diabetes, which comes inside scikit-learn."
    assert refused("diabetes", **{setting: value}) == said
