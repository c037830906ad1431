"""The split: who is in which part, and when two splits count as the same."""

from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset, random_split

from scissorhands.data.foreign import Foreign
from scissorhands.data.forget import Forget
from scissorhands.data.labels import Relabeled
from scissorhands.data.records import Part, Stored
from scissorhands.data.sources import Source
from scissorhands.data.split import Split, halves, held_out, split
from scissorhands.errors import DataError


def records(count: int, classes: int = 4, first: int = 0) -> Stored:
    """Records with labels 0, 1, 2, … in turn, each with an input of its own."""
    inputs = torch.arange(first, first + count, dtype=torch.float32)[:, None]
    return Stored(inputs, torch.arange(count) % classes)


TRAIN, TEST = records(40), records(20, first=1000)


def divided(forget: str = "random:25%", **options: Any) -> Split:
    return split(TRAIN, Forget(forget), **{"test": TEST, **options})


def ids(part: Part | None) -> set[int]:
    return set() if part is None else {int(i) for i in part.ids}


def labels(part: Part | None) -> set[int]:
    return set() if part is None else {int(i) for i in part.labels}


def held(made: Split) -> set[int]:
    return ids(made.calibration) | ids(made.audit)


def refusal(forget: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        divided(forget, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


# who is in which part


@pytest.mark.parametrize("forget", ["random:25%", "random:1", "class:2", "class:1,3", "where:label >= 2"])
@pytest.mark.parametrize("unseen", [0, 0.2, 0.5, [], [0, 5, 39], list(range(4, 24))], ids=str)
@pytest.mark.parametrize("before", [[], [1, 2, 3]], ids=str)
def test_the_parts_share_no_record_and_leave_out_only_what_they_must(
    forget: str, unseen: Any, before: list[int]
) -> None:
    made = divided(forget, unseen=unseen, before=before)
    seen = [
        {(id(part.records), i) for i in ids(part)}
        for part in (made.forget, made.retain, made.calibration, made.audit, made.test)
        if part
    ]
    assert all(not a & b for a, b in combinations(seen, 2))

    gone = labels(made.forget) - labels(made.retain)
    out = set(unseen) if isinstance(unseen, list) else set()
    assert ids(made.forget) | ids(made.retain) == set(range(40)) - out - set(before)
    rest = {i for i in range(20) if int(TEST.labels[i]) not in gone}
    if isinstance(unseen, list):
        assert ids(made.test) == rest
        assert held(made) == {i for i in out if int(TRAIN.labels[i]) not in gone}
    else:
        assert ids(made.test) | held(made) == rest


def test_ids_are_sorted_in_every_part() -> None:
    made = divided(unseen=[9, 3, 7], before=[8, 2])
    for part in made.parts().values():
        assert part.ids.tolist() == sorted(part.ids.tolist())


def test_a_share_of_the_test_data_that_is_unseen_is_never_scored_as_test() -> None:
    made = divided(unseen=0.3)
    assert made.calibration is not None
    assert made.audit is not None
    assert made.calibration.records is made.audit.records is made.test.records is TEST
    assert len(held(made)) == 6
    assert len(made.test) == 14
    assert not held(made) & ids(made.test)


def test_which_records_are_for_calibration_and_which_for_audits_depends_on_the_data_alone() -> None:
    """A model that is made to forget twice is never audited with records that calibrated it."""
    for unseen in (0.4, list(range(1, 12))):
        splits = [
            divided(forget, unseen=unseen, seed=seed) for forget in ("random:1", "random:25%") for seed in range(3)
        ]
        assert len({tuple(sorted(ids(made.calibration))) for made in splits}) == 1
        assert len({tuple(sorted(ids(made.audit))) for made in splits}) == 1


def test_both_halves_have_as_many_records_of_each_class() -> None:
    made = divided(unseen=list(range(16)))
    assert made.calibration is not None
    assert made.audit is not None
    assert made.calibration.labels.bincount().tolist() == made.audit.labels.bincount().tolist() == [2, 2, 2, 2]


def test_the_manifest_tells_what_was_for_calibration_and_what_for_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    before = divided(unseen=[0, 1, 2, 3])
    monkeypatch.setattr("scissorhands.data.split.halves", lambda held: halves(held)[::-1])
    after = divided(unseen=[0, 1, 2, 3])
    assert ids(after.calibration) == ids(before.audit)
    assert after.manifest != before.manifest


def test_unseen_ids_are_of_the_training_data_and_are_neither_retained_nor_forgotten() -> None:
    made = divided("random:50%", unseen=[1, 2, 3, 4])
    assert made.audit is not None
    assert made.audit.records is TRAIN
    assert held(made) == {1, 2, 3, 4}
    assert not held(made) & (ids(made.forget) | ids(made.retain))
    assert len(made.forget) == 18
    assert ids(made.test) == set(range(20))


def test_the_same_seed_gives_the_same_split_and_another_seed_another() -> None:
    def everyone(seed: int) -> list[list[int]]:
        return [part.ids.tolist() for part in divided(seed=seed).parts().values()]

    assert everyone(3) == everyone(3)
    assert everyone(3) != everyone(4)


def test_a_class_that_is_forgotten_whole_leaves_unseen_and_test() -> None:
    made = divided("class:2", unseen=0.5)
    assert labels(made.forget) == {2}
    assert labels(made.retain) == {0, 1, 3}
    assert 2 not in labels(made.calibration) | labels(made.audit) | labels(made.test)
    assert held(made) | ids(made.test) == {i for i in range(20) if i % 4 != 2}
    assert held(made)


def test_a_class_that_is_forgotten_whole_leaves_the_held_out_training_records_too() -> None:
    made = divided("class:2", unseen=[0, 1, 2, 3])
    assert held(made) == {0, 1, 3}
    assert 2 not in ids(made.retain) | ids(made.forget)


def test_a_class_that_is_forgotten_in_part_stays_in_the_test(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("2 6 10")
    made = divided(f"ids:{path}", unseen=0)
    assert labels(made.test) == {0, 1, 2, 3}
    assert ids(made.test) == set(range(20))


def test_a_class_whose_records_are_all_listed_by_id_counts_as_forgotten_whole(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text(" ".join(str(i) for i in range(2, 40, 4)))
    assert labels(divided(f"ids:{path}").test) == {0, 1, 3}


def test_a_class_forgotten_in_two_goes_leaves_the_test_with_the_second() -> None:
    first, second = [i for i in range(40) if i % 4 == 2 and i < 20], "where:label == 2"
    made = divided(second, before=first)
    assert ids(made.forget) == {22, 26, 30, 34, 38}
    assert labels(made.test) == {0, 1, 3}


def test_a_class_that_was_forgotten_whole_before_stays_out_of_unseen_and_test() -> None:
    made = divided("random:3", before=list(range(2, 40, 4)), unseen=0.5)
    assert 2 not in labels(made.calibration) | labels(made.audit) | labels(made.test)
    assert held(made) | ids(made.test) == {i for i in range(20) if i % 4 != 2}


def test_what_was_forgotten_before_is_neither_retained_nor_forgotten_again() -> None:
    made = divided("class:2", before=[2, 6, 7])
    assert ids(made.forget) == set(range(10, 40, 4))
    assert not {2, 6, 7} & (ids(made.forget) | ids(made.retain) | held(made))


def test_a_percentage_is_of_what_is_left_after_forgetting_before() -> None:
    assert len(divided("random:50%", before=list(range(20))).forget) == 10


def test_without_unseen_records_there_is_no_unseen_part() -> None:
    for made in (divided(unseen=0), divided(unseen=[]), divided("class:2", unseen=[2, 6])):
        assert made.calibration is made.audit is None
        assert "audit" not in made.parts()


def test_parts_are_named() -> None:
    made = divided()
    names = ["forget", "retain", "calibration", "audit", "test", "others"]
    assert made.parts() == {name: getattr(made, name) for name in names}


def test_records_drawn_at_random_are_compared_with_all_that_are_for_audits() -> None:
    made = divided("random:3", unseen=list(range(20)))
    assert made.kind == "drawn"
    assert made.others.records is TRAIN
    assert ids(made.others) == ids(made.audit)
    assert len(made.others) == 10


def test_records_that_were_chosen_are_compared_with_unseen_ones_of_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("20\n24\n21\n")
    made = divided(f"ids:{path}", unseen=list(range(12)))
    assert made.kind == "chosen"
    alike = [int(torch.isin(part.labels, made.forget.labels).sum()) for part in (made.audit, made.test) if part]
    assert len(made.others) == sum(alike)
    assert 0 < alike[0] < 6 < alike[1]
    assert labels(made.others) == labels(made.forget)


def test_without_unseen_records_the_test_data_takes_their_place() -> None:
    made = divided("random:30", unseen=[])
    assert made.others.records is TEST
    assert made.kind == "test"


def test_records_drawn_at_random_are_not_taken_to_be_like_test_data_of_another_making() -> None:
    assert divided("random:3", unseen=0.5).kind == "test"


@pytest.mark.parametrize("unseen", [0, 0.2])
def test_digits_for_training_and_test_are_random_draws_of_one_table(unseen: float) -> None:
    digits = Source(name="digits").load()
    made = split(digits.train, Forget("random:10%"), test=digits.test, unseen=unseen)
    assert made.kind == "drawn"
    assert len(made.others) == len(made.audit or ()) + len(made.test)
    shifted = Relabeled(digits.train, (digits.train.labels + 1) % 10)
    assert split(shifted, Forget("random:10%"), test=digits.test, unseen=unseen).kind == "test"


def test_two_subsets_of_a_users_table_are_random_draws_only_if_the_user_says_so() -> None:
    both = random_split(TensorDataset(TRAIN.inputs, TRAIN.labels), [20, 20])
    assert split(both[0], Forget("random:5"), test=both[1]).kind == "test"  # it might be a split by time
    train, test, other = (Foreign(both[i], drawn_from=name) for i, name in ((0, "mine"), (1, "mine"), (1, "other")))
    assert split(train, Forget("random:5"), test=test).kind == "drawn"
    assert split(train, Forget("random:5"), test=other).kind == "test"


def test_a_class_that_is_gone_is_compared_with_its_held_out_and_test_records() -> None:
    made = divided("class:2", unseen=[2, 6, 7])
    assert made.kind == "classes"
    assert set(made.others.labels.tolist()) == {2}
    assert len(made.others) == 2 + int((TEST.labels == 2).sum())
    inputs, _ = made.others.records.fetch(made.others.ids)
    assert torch.equal(inputs[:2], TRAIN.fetch(torch.tensor([2, 6]))[0])


def test_records_that_someone_chose_are_of_a_kind_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("1\n2\n3\n")
    assert divided(f"ids:{path}").kind == "chosen"
    assert divided("where:label == 2 or label == 1").kind == "classes"


def test_a_problem_holds_neither_audit_nor_test_data() -> None:
    made = divided(unseen=[0, 1])
    problem = made.problem(seed=5)
    assert (problem.forget, problem.retain, problem.calibration) == (made.forget, made.retain, made.calibration)
    assert problem.seed == 5
    seen = [value for value in vars(problem).values() if isinstance(value, Part)]
    assert not any(part.records is TEST or ids(part) & ids(made.audit) for part in seen)


# what is refused


@pytest.mark.parametrize(
    ("unseen", "shown"),
    [(-0.1, "-0.1"), (1, "1.0"), (1.0, "1.0"), (2, "2.0"), (float("nan"), "nan"), (float("inf"), "inf")],
)
def test_a_share_of_unseen_records_must_be_below_one(unseen: float, shown: str) -> None:
    message = f"'unseen' must be ids of the training data, or a share from 0, below 1, not {shown}."
    assert refusal("random:25%", unseen=unseen) == message


def test_a_share_of_unseen_records_that_takes_every_test_record_is_refused() -> None:
    assert refusal("class:3", test=records(3), unseen=0.9) == "'unseen' is 0.9, which leaves no test record."


@pytest.mark.parametrize(("train", "test"), [(records(0), TEST), (TRAIN, records(0))], ids=["no train", "no test"])
def test_data_without_records_is_refused(train: Stored, test: Stored) -> None:
    with pytest.raises(DataError, match=r"^there must be records both to train on and to test on\.$"):
        split(train, Forget("class:1"), test=test)


@pytest.mark.parametrize("option", ["before", "unseen"])
def test_an_id_that_was_forgotten_before_or_held_out_is_refused_as_not_in_the_model(
    option: str, tmp_path: Path
) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("1 5")
    told = f"id 5 in '{path}' is not in the model: it was held out, or forgotten before."
    assert refusal(f"ids:{path}", **{option: [5]}) == told


@pytest.mark.parametrize("name", ["unseen", "before"])
@pytest.mark.parametrize("bad", [[40], [-1], [3, 3], [0, 5, 99]], ids=str)
def test_ids_must_be_different_and_in_the_training_data(name: str, bad: Any) -> None:
    assert refusal("random:25%", **{name: bad}) == f"'{name}' must be different ids from 0 to 39 of the training data."


def test_a_test_of_forgotten_classes_only_is_refused() -> None:
    assert "no test record is left to score" in refusal("class:0,1", test=records(6, classes=2))


def test_forgetting_all_that_is_left_is_refused() -> None:
    assert "leaves nothing to retain" in refusal("class:2", before=[i for i in range(40) if i % 4 != 2])
    assert "none of the 30" in refusal("class:2", unseen=list(range(2, 40, 4)))


# held_out


def test_training_holds_out_the_share_that_was_asked_for() -> None:
    held = held_out(TRAIN, 0.25, seed=0)
    assert len(held.unique()) == 10
    assert held.tolist() == sorted(held.tolist())
    assert torch.equal(held, held_out(TRAIN, 0.25, seed=0))
    assert not torch.equal(held, held_out(TRAIN, 0.25, seed=1))


def test_training_holds_out_the_same_share_of_every_class() -> None:
    labels = torch.tensor([0] * 50 + [1] * 500 + [2] * 30)[torch.randperm(580, generator=torch.manual_seed(0))]
    held = held_out(Stored(labels[:, None], labels), 0.1, seed=3)
    assert labels[held].bincount().tolist() == [5, 50, 3]


def test_classes_too_small_for_the_share_are_held_out_of_together() -> None:
    held = held_out(records(200, classes=50), 0.1, seed=0)  # 0.4 records of each class
    assert len(held) == 20
    assert int((held % 50).bincount().max()) == 1


def test_holding_out_nothing_holds_out_nothing() -> None:
    assert held_out(TRAIN, 0.0, seed=0).tolist() == []


def test_what_is_held_out_is_not_what_a_random_choice_forgets() -> None:
    assert held_out(TRAIN, 0.25, seed=0).tolist() != divided("random:25%").forget.ids.tolist()


# the manifest


def test_equal_splits_have_equal_manifests() -> None:
    again = split(records(40), Forget("random:25%"), test=records(20, first=1000))
    assert divided().manifest == again.manifest
    assert len(again.manifest) == 16
    int(again.manifest, 16)


def test_a_manifest_does_not_tell_how_the_ids_were_named() -> None:
    assert divided("class:2").manifest == divided("where:label == 2").manifest


def test_a_manifest_changes_with_the_data_and_with_the_ids() -> None:
    pixel, label = records(40), records(40)
    pixel.inputs[7] += 1
    label.labels[7] += 1
    manifests = [
        divided("class:2").manifest,
        divided("class:1").manifest,
        divided("class:2", before=[3]).manifest,
        divided("class:2", unseen=[3, 4]).manifest,
        split(pixel, Forget("class:2"), test=TEST).manifest,
        split(label, Forget("class:2"), test=TEST).manifest,
        split(records(44), Forget("class:2"), test=TEST).manifest,
        divided("random:25%", seed=0).manifest,
        divided("random:25%", seed=1).manifest,
    ]
    assert len(set(manifests)) == len(manifests)


def test_moving_one_record_from_retained_to_forgotten_changes_the_manifest(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    manifests = set()
    for content in ("3 4", "3 4 5", "3 5"):
        path.write_text(content)
        manifests.add(divided(f"ids:{path}").manifest)
    assert len(manifests) == 3


# a user's own data sets


def test_a_users_own_datasets_are_split_like_ours() -> None:
    mine = split(
        TensorDataset(TRAIN.inputs, TRAIN.labels), Forget("class:2"), test=TensorDataset(TEST.inputs, TEST.labels)
    )
    ours = divided("class:2")
    assert isinstance(mine.forget.records, Foreign)
    for name, part in ours.parts().items():
        assert torch.equal(part.ids, mine.parts()[name].ids)
        (inputs, classes), (their_inputs, their_classes) = (next(p.batches(99)) for p in (part, mine.parts()[name]))
        assert torch.equal(inputs, their_inputs)
        assert torch.equal(classes, their_classes)


def test_classes_as_floats_in_a_users_dataset_are_refused() -> None:
    with pytest.raises(DataError, match=r"the labels are 0\.0 and 1\.0: give classes as whole numbers"):
        split(TensorDataset(torch.zeros(4, 1), torch.zeros(4)), Forget("class:0"), test=TEST)


def numbers_to_predict(count: int, seed: int = 0) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.rand(count, 2, generator=draw), 100 * torch.rand(count, generator=draw))


def test_numbers_to_predict_are_divided_as_if_all_were_of_one_class() -> None:
    train, test = numbers_to_predict(200), numbers_to_predict(60, 1)
    held = held_out(Foreign(train), 0.2, 3).tolist()
    assert len(held) == 40
    assert len({b - a for a, b in pairwise(held)}) > 3  # at random
    found = split(train, Forget("random:10%"), test=test, unseen=held)
    assert found.kind == "drawn"
    assert found.calibration
    assert found.audit
    assert len(found.calibration) == len(found.audit) == len(found.others) == 20
    assert len(found.test) == 60
    one = split(train, [held[0] + 1] if held[0] + 1 not in held else [0], test=test, unseen=held)
    assert one.kind == "chosen"
    assert len(one.others) == 80  # whatever their labels are


@pytest.mark.parametrize("forget", ["class:3", "classes:10%", "concept:cat"])
def test_classes_of_numbers_to_predict_cannot_be_forgotten(forget: str) -> None:
    with pytest.raises(DataError) as caught:
        split(numbers_to_predict(20), forget, test=numbers_to_predict(9))
    assert (
        str(caught.value) == f"'{forget}' names classes, and the labels are numbers: write for example where:label > 3."
    )


def test_numbers_to_predict_can_be_chosen_by_themselves() -> None:
    found = split(numbers_to_predict(50), "where:label > 80", test=numbers_to_predict(9))
    assert 0 < len(found.forget) < 50
    assert (found.forget.labels > 80).all()
    assert (found.retain.labels <= 80).all()
