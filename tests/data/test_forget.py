"""What to forget, as a string: which ids it stands for, and how it is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from scissorhands.data.forget import Forget
from scissorhands.data.records import Stored
from scissorhands.errors import DataError

CLASSES = ("ant", "bee", "cat", "dog")
EVERYONE = torch.arange(40)


def records(classes: tuple[str, ...] = CLASSES) -> Stored:
    """Forty records; record i has the label i % 4 and the age i."""
    return Stored(
        torch.zeros(40, 1, 2, 2), torch.arange(40) % 4, classes=classes, columns={"age": lambda: np.arange(40)}
    )


def chosen(text: str, among: Tensor = EVERYONE, seed: int = 0, classes: tuple[str, ...] = CLASSES) -> list[int]:
    ids = Forget(text).ids(records(classes), among, seed)
    assert ids.dtype == torch.int64
    return [int(i) for i in ids]


def refusal(text: str, among: Tensor = EVERYONE, classes: tuple[str, ...] = CLASSES) -> str:
    with pytest.raises(DataError) as caught:
        chosen(text, among, classes=classes)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def ids_file(folder: Path, content: str | bytes) -> str:
    path = folder / "ids.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return f"ids:{path}"


# random


@pytest.mark.parametrize(
    ("text", "count"),
    [("random:10%", 4), ("random:12.5%", 5), ("random: 50 %", 20), ("random:7", 7), ("random:1", 1), ("random:39", 39)],
)
def test_a_random_choice_has_the_size_that_was_asked_for(text: str, count: int) -> None:
    ids = chosen(text)
    assert len(set(ids)) == count
    assert ids == sorted(ids)


def test_a_percentage_is_of_the_records_that_were_trained_on() -> None:
    among = torch.arange(1, 40, 2)
    ids = chosen("random:50%", among)
    assert len(ids) == 10
    assert set(ids) <= set(among.tolist())


def test_the_same_seed_chooses_the_same_and_another_seed_chooses_others() -> None:
    assert chosen("random:25%", seed=0) == chosen("random:25%", seed=0)
    assert len({tuple(chosen("random:25%", seed=seed)) for seed in range(5)}) == 5


def test_a_random_choice_leaves_the_global_generator_alone_and_does_not_depend_on_it() -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = chosen("random:25%")
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert chosen("random:25%") == first


def test_over_many_seeds_every_record_is_chosen_about_equally_often() -> None:
    counts = torch.zeros(40)
    for seed in range(200):
        counts[chosen("random:10", seed=seed)] += 1
    assert counts.min() > 25
    assert counts.max() < 80


@pytest.mark.parametrize("amount", ["x", "%", "ten%", "1.5", "nan%", "inf%", "-inf%", "1e400%", "10%%"])
def test_a_random_amount_that_is_no_number_is_refused(amount: str) -> None:
    assert "needs a number of records or a percentage" in refusal(f"random:{amount}")


@pytest.mark.parametrize(
    ("amount", "count"), [("0", 0), ("-1", -1), ("41", 41), ("0%", 0), ("1%", 0), ("-10%", -4), ("200%", 80)]
)
def test_a_random_amount_that_cannot_be_had_is_refused(amount: str, count: int) -> None:
    assert refusal(f"random:{amount}") == f"'random:{amount}' asks for {count} of 40 training records."


# class


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("class:3", {3}),
        ("class:0", {0}),
        ("class:cat", {2}),
        ("class:cat,dog", {2, 3}),
        ("class: cat , dog ", {2, 3}),
        ("class:cat,0", {0, 2}),
        ("class:dog,dog", {3}),
    ],
)
def test_classes_are_chosen_by_name_or_number_or_as_a_list(text: str, labels: set[int]) -> None:
    assert chosen(text) == [i for i in range(40) if i % 4 in labels]


def test_a_class_without_a_name_is_chosen_by_its_number() -> None:
    assert chosen("class:1", classes=()) == list(range(1, 40, 4))
    assert "Known: 0, 1, 2, 3." in refusal("class:4", classes=())


def test_a_class_that_is_called_by_a_number_is_found_by_its_name_first() -> None:
    assert chosen("class:7", classes=("12", "7", "0", "5")) == list(range(1, 40, 4))
    assert chosen("class:0", classes=("12", "7", "0", "5")) == list(range(2, 40, 4))
    assert chosen("class:3", classes=("12", "7", "0", "5")) == list(range(3, 40, 4))


def test_only_trained_records_of_a_class_are_chosen() -> None:
    assert chosen("class:ant", torch.arange(10)) == [0, 4, 8]


@pytest.mark.parametrize("name", ["4", "-1", "bird", "", "²", "1.0", "cat dog"])
def test_an_unknown_class_is_answered_with_all_that_are_known(name: str) -> None:
    message = refusal(f"class:ant,{name}")
    assert message.startswith(f"'class:{name}' names no class of this data, which has 4.")
    assert "Known: ant (0), bee (1), cat (2), dog (3)." in message


def test_a_misspelt_class_is_answered_with_the_nearest() -> None:
    assert "Did you mean 'cat'?" in refusal("class:cta")
    assert "Did you mean 'dog'?" in refusal("class:Dog")


# ids


@pytest.mark.parametrize(
    "content", ["3\n1\n2\n", "3 1 2", "1\r\n2\r\n3\r\n", "\n\n1\t2\n\n3", "01 2 003", "\ufeff3 1 2"]
)
def test_ids_are_read_from_a_file_and_sorted(content: str, tmp_path: Path) -> None:
    assert chosen(ids_file(tmp_path, content)) == [1, 2, 3]


@pytest.mark.parametrize("bad", ["40", "-1", "1.5", "1,2", "two", "²", "0x1", "9" * 30, "\0"])
def test_an_id_that_names_no_record_is_refused(bad: str, tmp_path: Path) -> None:
    message = refusal(ids_file(tmp_path, f"1\n{bad}\n"))
    assert message.startswith(f"'{bad}' in '{tmp_path}")
    assert message.endswith("is not an id: they are whole numbers from 0 to 39.")


@pytest.mark.parametrize("character", ["x", "1"])
def test_a_long_line_that_is_no_id_is_cut_in_the_message(character: str, tmp_path: Path) -> None:
    message = refusal(ids_file(tmp_path, character * 10_000))
    assert message.startswith(f"'{character * 40}' in '{tmp_path}")
    assert message.endswith("is not an id: they are whole numbers from 0 to 39.")


def test_a_file_of_ids_may_be_given_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ids_file(tmp_path, "1")
    assert chosen("ids:~/ids.txt") == [1]


def test_the_last_record_is_an_id_and_the_one_after_is_not(tmp_path: Path) -> None:
    assert chosen(ids_file(tmp_path, "39")) == [39]
    assert "'40'" in refusal(ids_file(tmp_path, "40"))


@pytest.mark.parametrize("content", ["5 6 5", "5 05"])
def test_a_doubled_id_is_refused(content: str, tmp_path: Path) -> None:
    assert refusal(ids_file(tmp_path, content)).startswith("id 5 is listed twice in")


def test_an_id_that_was_held_out_is_refused(tmp_path: Path) -> None:
    message = refusal(ids_file(tmp_path, "3 30"), torch.arange(20))
    assert message.startswith(f"id 30 in '{tmp_path}")
    assert message.endswith("is not in the model: it was held out, or forgotten before.")


def test_an_empty_file_of_ids_is_refused(tmp_path: Path) -> None:
    assert refusal(ids_file(tmp_path, "\n \n")).endswith("matches none of the 40 training records.")


def test_a_file_of_all_ids_is_refused(tmp_path: Path) -> None:
    everything = " ".join(map(str, range(40)))
    assert "leaves nothing to retain" in refusal(ids_file(tmp_path, everything))


def test_a_binary_file_of_ids_is_refused(tmp_path: Path) -> None:
    assert refusal(ids_file(tmp_path, bytes(range(256)))).startswith("the list of ids: ")


def test_a_missing_file_of_ids_is_refused(tmp_path: Path) -> None:
    assert refusal(f"ids:{tmp_path / 'gone.txt'}").endswith("gone.txt cannot be read: No such file or directory.")


def test_a_folder_in_the_place_of_ids_is_refused(tmp_path: Path) -> None:
    assert refusal(f"ids:{tmp_path}") == f"the list of ids: {tmp_path} cannot be read: it is not a regular file."


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "ids.txt").write_text("1")
    monkeypatch.setattr(Path, "open", denied)
    assert refusal(f"ids:{tmp_path / 'ids.txt'}").endswith("ids.txt cannot be read: Permission denied.")


# where


def test_a_condition_chooses_the_records_that_fulfil_it() -> None:
    assert chosen("where:age >= 30 and not label == 2") == [i for i in range(30, 40) if i % 4 != 2]


def test_a_condition_may_hold_colons() -> None:
    assert "holds numbers, and 'a:b' is none" in refusal("where:age == a:b")


def test_a_condition_chooses_among_trained_records_only() -> None:
    assert chosen("where:age > 15", torch.arange(20)) == [16, 17, 18, 19]


def test_a_condition_that_matches_nothing_is_refused() -> None:
    assert refusal("where:age > 99") == "'where:age > 99' matches none of the 40 training records."
    assert "none of the 20 training records" in refusal("where:age > 25", torch.arange(20))


def test_a_condition_that_matches_everything_is_refused() -> None:
    assert "matches all 40 training records, which leaves nothing to retain" in refusal("where:age >= 0")
    assert "matches all 20 training records" in refusal("where:age < 20", torch.arange(20))


def test_a_condition_on_an_unknown_column_is_answered_with_the_nearest() -> None:
    assert refusal("where:agee > 3") == "the data has no column 'agee'. Did you mean 'age'? Known: label, age."


def test_code_in_a_condition_is_an_unknown_column(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    assert "no column '__import__'" in refusal(f"where:__import__('os').system('touch {touched}') == 1")
    assert not touched.exists()


# the string as a whole


@pytest.mark.parametrize("text", ["random:40", "random:100%", "class:0,1,2,3", "class:ant,bee,cat,dog"])
def test_forgetting_everything_is_refused(text: str) -> None:
    assert "leaves nothing to retain" in refusal(text)


def test_a_class_without_trained_records_is_refused() -> None:
    assert "matches none of the 10 training records" in refusal(
        "class:ant", torch.arange(40)[torch.arange(40) % 4 == 1]
    )


@pytest.mark.parametrize("text", ["", ":", "class", "class:", "class: ", "10%", "random"])
def test_a_string_that_does_not_say_what_to_forget_is_refused_at_once(text: str) -> None:
    with pytest.raises(DataError, match="does not say what to forget"):
        Forget(text)


@pytest.mark.parametrize(("kind", "near"), [("clas", "class"), ("Class", "class"), ("id", "ids"), ("wher", "where")])
def test_a_misspelt_kind_is_answered_with_the_nearest_at_once(kind: str, near: str) -> None:
    with pytest.raises(DataError) as caught:
        Forget(f"{kind}:3")
    assert str(caught.value) == (
        f"cannot forget by '{kind}'. Did you mean '{near}'? Known: random, class, classes, ids, keys, where, concept."
    )


def test_a_kind_like_no_other_is_answered_with_all_that_are_known() -> None:
    with pytest.raises(
        DataError, match=r"^cannot forget by 'xyz'\. Known: random, class, classes, ids, keys, where, concept\.$"
    ):
        Forget("xyz:3")


def test_every_kind_answers_in_sorted_order_even_when_the_trained_records_are_not(tmp_path: Path) -> None:
    among = torch.arange(39, -1, -1)
    for text in ("random:9", "class:dog,ant", "where:age > 5", ids_file(tmp_path, "9 3 7")):
        ids = chosen(text, among)
        assert ids == sorted(ids)
        assert len(ids) > 2


def test_a_share_of_the_classes_is_forgotten_whole() -> None:
    labels = torch.arange(200) % 20
    data = Stored(torch.zeros(200, 1), labels)
    chosen = Forget("classes:10%").ids(data, torch.arange(200), seed=0)
    gone = set(labels[chosen].tolist())
    assert len(gone) == 2
    assert chosen.tolist() == [i for i in range(200) if int(labels[i]) in gone]
    assert Forget("classes:3").ids(data, torch.arange(200), seed=0).numel() == 30
    assert gone != set(labels[Forget("classes:10%").ids(data, torch.arange(200), seed=1)].tolist())


@pytest.mark.parametrize("text", ["classes:0%", "classes:21", "classes:x"])
def test_a_share_of_the_classes_that_cannot_be_is_refused(text: str) -> None:
    data = Stored(torch.zeros(40, 1), torch.arange(40) % 20)
    with pytest.raises(DataError):
        Forget(text).ids(data, torch.arange(40))
