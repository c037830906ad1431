"""Records: fetching by number, columns, fingerprints, and a user's own data sets."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from scissorhands.data.foreign import Foreign, as_records
from scissorhands.data.records import Joined, Part, Stored, same
from scissorhands.errors import DataError


class Pairs(Dataset[Any]):
    """A user's data set: whatever is in the list, and a note of what was asked for."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return self.items[index]


def stored() -> Stored:
    inputs = torch.arange(6 * 4, dtype=torch.uint8).reshape(6, 1, 2, 2)
    return Stored(
        inputs, torch.tensor([0, 1, 2, 0, 1, 2]), classes=("a", "b", "c"), columns={"age": lambda: np.arange(6)}
    )


def of_label(label: Any) -> Foreign:
    """A user's data set whose second record has the label."""
    return Foreign(Pairs([(torch.zeros(2), 0), (torch.zeros(2), label)]))


# Stored


def test_stored_records_are_fetched_in_the_order_of_the_ids() -> None:
    records = stored()
    inputs, labels = records.fetch(torch.tensor([4, 0, 4]))
    assert inputs.tolist() == [records.inputs[4].tolist(), records.inputs[0].tolist(), records.inputs[4].tolist()]
    assert labels.tolist() == [1, 0, 1]
    assert inputs.dtype == torch.uint8
    assert len(records) == 6


def test_the_label_is_a_column_and_so_is_whatever_else_is_given() -> None:
    assert list(stored().columns) == ["label", "age"]
    assert stored().column("label").tolist() == [0, 1, 2, 0, 1, 2]
    assert stored().column("age").tolist() == [0, 1, 2, 3, 4, 5]


def test_a_column_is_not_read_before_it_is_asked_for() -> None:
    def unread() -> np.ndarray[Any, Any]:
        raise AssertionError("read too early")

    records = Stored(torch.zeros(2, 1), torch.tensor([0, 1]), columns={"slow": unread})
    assert records.column("label").tolist() == [0, 1]
    with pytest.raises(AssertionError, match="read too early"):
        records.column("slow")


def test_a_given_column_called_label_hides_the_numbers() -> None:
    records = Stored(torch.zeros(2, 1), torch.tensor([0, 1]), columns={"label": lambda: np.array(["cat", "dog"])})
    assert records.column("label").tolist() == ["cat", "dog"]
    assert records.labels.tolist() == [0, 1]


def test_an_unknown_column_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError) as caught:
        stored().column("agee")
    assert str(caught.value) == "the data has no column 'agee'. Did you mean 'age'? Known: label, age."


def test_equal_records_have_equal_fingerprints() -> None:
    assert stored().fingerprint == stored().fingerprint
    assert len(stored().fingerprint) == 64


@pytest.mark.parametrize(
    "other",
    [
        Stored(torch.zeros(2, 1, 2, 3), torch.tensor([0, 2])),
        Stored(torch.zeros(2, 1, 2, 3).index_fill(0, torch.tensor([1]), 1e-30), torch.tensor([0, 1])),
        Stored(torch.zeros(2, 1, 3, 2), torch.tensor([0, 1])),
        Stored(torch.zeros(2, 1, 2, 3, dtype=torch.int32), torch.tensor([0, 1])),
        Stored(torch.zeros(3, 1, 2, 3), torch.tensor([0, 1, 1])),
    ],
    ids=["a label", "a pixel", "the shape", "the type", "a record more"],
)
def test_a_fingerprint_changes_with(other: Stored) -> None:
    assert Stored(torch.zeros(2, 1, 2, 3), torch.tensor([0, 1])).fingerprint != other.fingerprint


def test_a_fingerprint_is_of_the_values_and_not_of_how_they_lie_in_memory() -> None:
    inputs = torch.arange(24.0).reshape(4, 6)
    lying = inputs.t().contiguous().t()
    assert not lying.is_contiguous()
    assert Stored(inputs, torch.arange(4)).fingerprint == Stored(lying, torch.arange(4)).fingerprint


def test_order_counts_in_a_fingerprint() -> None:
    turned = Stored(stored().inputs.flip(0), stored().labels.flip(0))
    assert turned.fingerprint != stored().fingerprint


# Foreign


def test_a_users_dataset_is_read_as_it_is() -> None:
    inputs, labels = torch.randn(5, 3), torch.tensor([2, 0, 1, 1, 0])
    records = as_records(TensorDataset(inputs, labels))
    assert isinstance(records, Foreign)
    assert len(records) == 5
    assert torch.equal(records.labels, labels)
    fetched, their_labels = records.fetch(torch.tensor([3, 0]))
    assert torch.equal(fetched, inputs[[3, 0]])
    assert their_labels.tolist() == [1, 2]
    assert their_labels.dtype == torch.int64


@pytest.mark.parametrize(
    "label", [1, True, np.int64(1), np.uint8(1), torch.tensor(1), torch.tensor(1, dtype=torch.int32)], ids=repr
)
def test_any_whole_number_is_a_label(label: Any) -> None:
    labels = of_label(label).labels
    assert labels.tolist() == [0, 1]
    assert labels.dtype == torch.int64


@pytest.mark.parametrize(
    "label", [1, np.int64(1), torch.tensor(1), torch.tensor(1, dtype=torch.int32), torch.tensor([1])], ids=repr
)
def test_a_fetched_label_is_the_label_of_the_record(label: Any) -> None:
    records = Foreign(Pairs([(torch.zeros(2), label), (torch.zeros(2), label)]))
    _, labels = records.fetch(torch.arange(2))
    assert torch.equal(labels, records.labels)
    assert labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        (-1, "-1"),
        (torch.tensor([0, 1]), "[0, 1]"),
        (torch.zeros(0, dtype=torch.int64), "[]"),
    ],
)
def test_a_label_that_is_no_whole_number_from_0_nor_a_float_is_refused(label: Any, shown: str) -> None:
    with pytest.raises(DataError) as caught:
        _ = of_label(label).labels
    assert str(caught.value) == f"record 1 has the label {shown}, which is not a whole number from 0, nor a float."


@pytest.mark.parametrize("label", [2.5, -3.0, np.float32(0.5), torch.tensor(2.0), torch.tensor([7.0]).double()])
def test_a_float_is_a_number_to_predict(label: Any) -> None:
    records = Foreign(Pairs([(torch.zeros(2), label), (torch.zeros(2), label)]))
    assert records.regression
    assert records.labels.dtype == torch.float32
    assert records.labels.tolist() == [float(label)] * 2
    assert records.groups.tolist() == [0, 0]  # all are of one class


@pytest.mark.parametrize("label", [float("nan"), float("inf"), -np.inf])
def test_a_number_to_predict_that_is_none_is_refused(label: float) -> None:
    with pytest.raises(DataError, match=rf"^record 1 has the label {label}, which is no number to predict"):
        _ = Foreign(Pairs([(torch.zeros(2), 0.5), (torch.zeros(2), label)])).labels


def test_floats_that_may_be_classes_are_refused() -> None:
    with pytest.raises(DataError, match=r"the labels are 0\.0 and 1\.0: give classes as whole numbers"):
        _ = Foreign(Pairs([(torch.zeros(2), 0.0), (torch.zeros(2), 1.0)])).labels


@pytest.mark.parametrize(
    "item",
    [5, (torch.zeros(2),), (torch.zeros(2), 1, 2), (torch.zeros(2), "cat"), (torch.zeros(2), None), None],
    ids=["a number", "no label", "three", "a name", "none as label", "none"],
)
def test_a_record_that_is_no_pair_of_input_and_label_is_refused(item: Any) -> None:
    records = Foreign(Pairs([(torch.zeros(2), 0), item]))
    with pytest.raises(DataError, match=r"^record 1 is not an \(input, label\) pair: [^\n]+$"):
        _ = records.labels


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ([Image.new("L", (2, 2))], "Image"),
        (["text"], "str"),
        ([torch.zeros(2), torch.zeros(3)], r"Tensor of shape \(2,\), Tensor of shape \(3,\)"),
    ],
    ids=["an image", "text", "two shapes"],
)
def test_inputs_that_make_no_batch_are_refused(inputs: list[Any], found: str) -> None:
    records = Foreign(Pairs([(x, 0) for x in inputs]))
    told = rf"^inputs must be tensors or arrays of one shape to make a batch; here are: {found}\.$"
    with pytest.raises(DataError, match=told):
        records.fetch(torch.arange(len(inputs)))


def test_an_iterable_dataset_is_refused() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield torch.zeros(2), 0

        def __len__(self) -> int:
            return 1

    with pytest.raises(DataError, match=r"^a Stream cannot be indexed; forgetting needs records with numbers\.$"):
        as_records(Stream())


def test_a_dataset_without_a_length_is_refused() -> None:
    class Endless(Dataset[Any]):
        def __getitem__(self, index: int) -> Any:
            return torch.zeros(2), 0

    with pytest.raises(DataError, match=r"^a Endless cannot be indexed"):
        as_records(Endless())


def test_the_labels_of_a_users_dataset_are_read_once_and_in_order() -> None:
    dataset = Pairs([(torch.zeros(2), i) for i in range(3)])
    records = Foreign(dataset)
    assert dataset.asked == []
    for _ in range(2):
        assert records.labels.tolist() == [0, 1, 2]
    assert dataset.asked == [0, 1, 2]


def test_a_users_dataset_has_the_label_as_its_only_column_and_no_fingerprint() -> None:
    records = of_label(1)
    assert records.column("label").tolist() == [0, 1]
    assert list(records.columns) == ["label"]
    assert records.fingerprint == ""


def test_an_empty_users_dataset_has_no_labels() -> None:
    labels = Foreign(Pairs([])).labels
    assert labels.shape == (0,)
    assert labels.dtype == torch.int64


def test_records_are_left_as_they_are() -> None:
    records = stored()
    assert as_records(records) is records


# Part


def test_a_part_has_the_labels_of_its_ids() -> None:
    part = Part(stored(), torch.tensor([5, 0, 1]))
    assert len(part) == 3
    assert part.labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize(("size", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (5, [5]), (99, [5])])
def test_the_batches_of_a_part_are_one_pass_in_order(size: int, sizes: list[int]) -> None:
    records, ids = stored(), torch.tensor([5, 3, 0, 1, 2])
    batches = list(Part(records, ids).batches(size))
    assert [len(labels) for _, labels in batches] == sizes
    assert torch.equal(torch.cat([inputs for inputs, _ in batches]), records.inputs[ids])
    assert torch.equal(torch.cat([labels for _, labels in batches]), records.labels[ids])


# Joined


def _of(numbers: list[float], fingerprint: str = "") -> Stored:
    return Stored(torch.tensor(numbers)[:, None], torch.arange(len(numbers)), fingerprint=fingerprint)


def test_joined_parts_are_fetched_from_where_they_are_in_any_order() -> None:
    joined = Joined(Part(_of([1.0, 2.0, 3.0]), torch.tensor([2, 0])), Part(_of([10.0, 20.0]), torch.tensor([1])))
    assert len(joined) == 3
    assert joined.labels.tolist() == [2, 0, 1]
    inputs, labels = joined.fetch(torch.tensor([2, 0, 1, 2]))
    assert inputs[:, 0].tolist() == [20.0, 3.0, 1.0, 20.0]
    assert labels.tolist() == [1, 2, 0, 1]


def test_joined_parts_have_a_fingerprint_if_all_have_one() -> None:
    one, other = Part(_of([1.0, 2.0], "a"), torch.tensor([0])), Part(_of([3.0], "b"), torch.tensor([0]))
    elsewhere = Part(one.records, torch.tensor([1]))
    prints = [Joined(*parts).fingerprint for parts in ((one, other), (other, one), (elsewhere, other))]
    assert len({*prints}) == 3
    foreign = Part(as_records(TensorDataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64))), torch.tensor([0]))
    assert Joined(one, foreign).fingerprint == ""


def test_parts_are_the_same_if_they_are_the_same_records_in_the_same_order() -> None:
    records = _of([1.0, 2.0, 3.0])
    assert same(Part(records, torch.tensor([0, 1])), Part(records, torch.tensor([0, 1])))
    assert not same(Part(records, torch.tensor([0, 1])), Part(records, torch.tensor([1, 0])))
    assert not same(Part(records, torch.tensor([0, 1])), Part(_of([1.0, 2.0, 3.0]), torch.tensor([0, 1])))


def test_tensors_of_a_user_are_fetched_as_any_other_records_are() -> None:
    class Own(TensorDataset):
        pass

    tensors = torch.randn(5, 3, 4, 4).contiguous(memory_format=torch.channels_last), torch.arange(5) % 3
    ids = torch.tensor([3, 0, 0, 4])
    found, expected = (as_records(dataset).fetch(ids) for dataset in (TensorDataset(*tensors), Own(*tensors)))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert [a.stride() for a in found] == [b.stride() for b in expected]
