"""Texts as records: encoded by a function, filled up when they are fetched."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from scissorhands.data.records import Joined, Part
from scissorhands.data.sources import Data, Source
from scissorhands.data.texts import text_kind
from scissorhands.errors import DataError

ROWS = {"who": ["ada", "bo", "ada"], "review": ["a", "abc", "ab"], "mood": ["up", "down", "up"], "age": [1, 2, 3]}


def encode(texts: Sequence[str]) -> dict[str, list[list[int]]]:
    """A number for each letter."""
    return {
        "input_ids": [[*text.encode()] for text in texts],
        "attention_mask": [[1] * len(text) for text in texts],
    }


def load(path: Path, rows: dict[str, Any] = ROWS, **settings: Any) -> Data:
    pd.DataFrame(rows).to_parquet(path / "reviews.parquet")
    source = Source(name=str(path / "reviews.parquet"), label="mood", test="train", **settings)
    return source.load(kind=text_kind(encode))


def refused(path: Path, rows: dict[str, Any] = ROWS, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(path, rows, **settings)
    return str(caught.value)


def test_texts_are_filled_up_to_the_longest_of_a_batch(tmp_path: Path) -> None:
    train = load(tmp_path, key="who").train
    inputs, labels = train.fetch(torch.tensor([0, 2]))
    assert isinstance(inputs, dict)
    assert inputs["input_ids"].tolist() == [[97, 0], [97, 98]]
    assert inputs["attention_mask"].tolist() == [[1, 0], [1, 1]]
    assert labels.tolist() == [1, 1]
    assert train.classes == ("down", "up")
    assert train.keys == ("ada", "bo", "ada")
    assert train.column("age").tolist() == [1, 2, 3]
    joined = Joined(Part(train, torch.tensor([0])), Part(train, torch.tensor([1]))).fetch(torch.arange(2))[0]
    assert isinstance(joined, dict)
    assert joined["input_ids"].tolist() == [[97, 0, 0], [97, 98, 99]]


def test_a_text_that_changes_changes_its_hash_and_that_of_all(tmp_path: Path) -> None:
    first, same = (load(tmp_path, key="who").train for _ in range(2))
    other = load(tmp_path, {**ROWS, "review": ["a", "abd", "ab"]}, key="who").train
    assert (first.fingerprint, first.hashes) == (same.fingerprint, same.hashes)
    assert first.fingerprint != other.fingerprint
    assert [a == b for a, b in zip(first.hashes, other.hashes, strict=True)] == [True, False, True]


def test_the_column_of_texts_is_found_or_named(tmp_path: Path) -> None:
    assert refused(tmp_path).startswith("2 columns could hold the text; name it as text.")
    assert load(tmp_path, text="review").train.classes == ("down", "up")
    assert "Did you mean 'review'?" in refused(tmp_path, text="reviw")
    assert refused(tmp_path, text="age") == "record 0 has no text in the column 'age'."
    assert "record 1 has no text" in refused(tmp_path, {**ROWS, "review": ["a", None, "c"]}, text="review")
    assert "'columns' is for numbers" in refused(tmp_path, text="review", columns="age")
