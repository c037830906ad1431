"""A user's own data: rows by name, texts of different lengths, and Hugging Face tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Value
from PIL import Image
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

import scissorhands as sh
from scissorhands.data.foreign import Foreign, as_records
from scissorhands.data.problem import forward
from scissorhands.data.records import Joined, Part, Records
from scissorhands.data.streamed import Streamed
from scissorhands.errors import DataError, ModelError

TEXTS = [[1, 5], [1, 6, 7, 8], [1], [1, 5, 6]]


class Rows:
    """Rows of a user's own Dataset."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


def texts(repeat: int = 1) -> list[dict[str, Any]]:
    """Tokenized texts, as a tokenizer leaves them."""
    return [
        {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": number % 2}
        for number, ids in enumerate(TEXTS * repeat)
    ]


class Reader(nn.Module):
    """A text classifier that answers as those of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SequenceClassifierOutput:
        """Reads the mean of what is not filled in."""
        mask = attention_mask[..., None]
        mean = (self.embedding(input_ids) * mask).sum(1) / mask.sum(1)
        return SequenceClassifierOutput(logits=self.head(mean))


def fetched(records: Records, *ids: int) -> Mapping[str, Tensor]:
    """Inputs by name."""
    inputs: Mapping[str, Tensor] = records.fetch(torch.tensor(ids))[0]
    return inputs


def test_rows_by_name_become_a_batch_that_is_filled_up_with_zeros() -> None:
    records = as_records(Rows(texts()))  # type: ignore[arg-type]
    assert isinstance(records, Foreign)
    assert records.labels.tolist() == [0, 1, 0, 1]
    inputs = fetched(records, 1, 0)
    assert inputs["input_ids"].tolist() == [[1, 6, 7, 8], [1, 5, 0, 0]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]


def test_a_pair_may_have_inputs_by_name() -> None:
    records = Foreign(Rows([({"a": torch.ones(2), "b": np.float32(3)}, 0), ({"a": torch.zeros(2), "b": 4.0}, 1)]))
    inputs = fetched(records, 0, 1)
    assert inputs["a"].tolist() == [[1, 1], [0, 0]]
    assert inputs["b"].tolist() == [3, 4]
    assert records.labels.tolist() == [0, 1]


def test_texts_of_several_data_sets_are_one() -> None:
    short, long = Foreign(Rows(texts()[:1])), Foreign(Rows(texts()[1:]))
    both = Joined(Part(short, torch.tensor([0])), Part(long, torch.tensor([0, 2])))
    inputs = fetched(both, 2, 0, 1)
    assert inputs["input_ids"].tolist() == [[1, 5, 6, 0], [1, 5, 0, 0], [1, 6, 7, 8]]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"x": [1, 2], "label": 0}, {"x": [1], "label": 1}], "'x' must be tensors or arrays of one shape"),
        ([{"x": "text", "label": 0}], "'x' must be tensors or arrays of one shape to make a batch; here are: str"),
        ([{"x": 1.0, "label": 0}, {"y": 1.0, "label": 0}], "some records have 'x', and others have not"),
        ([{"x": 1.0, "target": 0}], "record 0 is not .*: its label must be called labels or label, and it has x, targ"),
    ],
)
def test_rows_that_make_no_batch_are_refused(rows: list[Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        Foreign(Rows(rows)).fetch(torch.arange(len(Foreign(Rows(rows)).labels)))


def table() -> Any:
    """A Hugging Face table, in another order than it was made."""
    features = Features({"text": Value("string"), "age": Value("int32"), "label": ClassLabel(names=["no", "yes"])})
    made = {"text": list("abcd"), "age": [40, 20, 30, 50], "label": [1, 0, 1, 0]}
    return Dataset.from_dict(made, features=features).select([3, 0, 2, 1])


def test_a_hugging_face_table_is_read_in_its_order_with_names_and_conditions() -> None:
    records = as_records(table())
    assert records.classes == ("no", "yes")
    assert records.labels.tolist() == [0, 1, 1, 0]
    assert fetched(records, 3, 0)["age"].tolist() == [20, 50]
    assert sh.Forget("where:text == 'b'").ids(records, torch.arange(4)).tolist() == [3]


def test_labels_that_are_numbers_have_no_names() -> None:
    assert as_records(Dataset.from_list(texts())).classes == ()


def test_a_table_with_a_transform_is_read_row_by_row() -> None:
    changed = table().with_transform(lambda rows: {"x": [float(a) for a in rows["age"]], "labels": rows["label"]})
    records = as_records(changed)
    assert fetched(records, 0, 1)["x"].tolist() == [50, 40]
    assert records.labels.tolist() == [0, 1, 1, 0]


def test_a_table_of_images_gives_images() -> None:
    images = [Image.new("L", (3, 2), color) for color in (10, 20)]
    records = as_records(Dataset.from_dict({"image": images, "label": [0, 1]}))
    assert isinstance(records, Streamed)
    assert records.fetch(torch.arange(2))[0][:, 0, 0, 0].tolist() == [10, 20]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"text": ["a"], "label": [0]}, "none of the columns text holds numbers: text is to be tokenized first"),
        ({"x": [1.0], "price": [0]}, "the label must be in a column labels or label; the table has x, price"),
    ],
)
def test_a_table_that_a_model_cannot_see_is_refused(content: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        as_records(Dataset.from_dict(content))


def test_a_text_classifier_is_scrubbed_and_judged_in_a_few_lines() -> None:
    torch.manual_seed(0)
    model, data = Reader(), Dataset.from_list(texts(10))
    split = sh.split(data, sh.Forget("random:10%"), unseen=range(0, 40, 4), seed=0)
    before = forward(model, fetched(split.retain.records, 0, 1)).clone()
    sh.Scissorhands(epochs=2).scrub(model, split.problem())
    assert not torch.equal(before, forward(model, fetched(split.retain.records, 0, 1)))
    scores = sh.evaluate(model, split)
    assert {"forget_accuracy", "retain_accuracy", "audit_accuracy", "auc"} <= {*scores.values}
    assert "test_accuracy" not in scores.values


def test_a_model_that_does_not_take_the_names_is_refused() -> None:
    split = sh.split(table(), sh.Forget("random:1"), unseen=0)
    with pytest.raises(ModelError, match=r"cannot take inputs of shape 1 \(age\): .*unexpected keyword argument 'age'"):
        sh.evaluate(Reader(), split)


def test_without_test_data_it_must_be_said_what_was_never_seen() -> None:
    with pytest.raises(DataError, match="without test data, 'unseen' must be ids"):
        sh.split(table(), sh.Forget("random:1"))
    assert len(sh.split(table(), sh.Forget("random:1"), unseen=0).retain) == 3


def test_a_boundary_method_says_that_it_needs_images() -> None:
    split = sh.split(Dataset.from_list(texts(10)), sh.Forget("random:10%"), unseen=0)
    with pytest.raises(ModelError, match="moves an input by its gradient"):
        sh.BoundaryShrink(epochs=1).scrub(Reader(), split.problem())


def test_a_function_of_rows_reads_only_what_it_asks_for() -> None:
    rows = {"input_ids": [[1, 2], [3, 4], [5, 6]], "who": ["a", "b", "a"], "label": [0, 1, 0]}
    found = sh.split(Dataset.from_dict(rows), lambda row: row["who"] == "b" and "label" in row, unseen=())
    assert found.forget.ids.tolist() == [1]
