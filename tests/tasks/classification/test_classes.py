"""Classes of the data and of the model: matched by name, and refused where names do not say which is which."""

from pathlib import Path
from typing import Any

import pytest

from scissorhands.errors import DataError, ModelError, ScissorhandsError, SettingError
from scissorhands.tasks.classification.classes import numbers, require_agreement


@pytest.mark.parametrize(
    ("data", "model", "given", "expected"),
    [
        (["a", "b"], ["a", "b"], "", None),
        (["a", "b"], ["b", "a"], "", [1, 0]),
        (["Golden_Retriever", "cat"], ["cat", "golden retriever"], "", [1, 0]),
        (["tench"], ["goldfish, Carassius auratus", "tench, Tinca tinca"], "", [1]),
        (["b", "a"], ["a", "b", "c"], "", [1, 0]),
        (["a", "b"], ["a", "b", "c"], "", [0, 1]),
        (["0", "1"], ["cat", "dog"], "", None),
        (["0", "1", "10", "2"], ["0", "1", "2", "10"], "", [0, 1, 3, 2]),
        (["cat", "dog"], ["LABEL_0", "LABEL_1"], "", None),
        (["cat", "dog"], [], "", None),
        (["a", "b"], ["b", "a"], "position", None),
        (["x", "y"], ["b", "a"], "x=a,y=b", [1, 0]),
        (["x", "y"], ["LABEL_0", "LABEL_1"], "x=1,y=0", [1, 0]),
        (["x", "b"], ["b", "a"], "x=a", [1, 0]),
    ],
)
def test_classes_are_matched(data: list[str], model: list[str], given: str, expected: list[int] | None) -> None:
    assert numbers(data, model, given) == expected


@pytest.mark.parametrize(
    ("data", "model", "given", "error", "says"),
    [
        (["lorry"], ["truck"], "", DataError, "the model has no class 'lorry', as the data has. Its classes: truck."),
        (["a", "A"], ["a", "b"], "", DataError, "two classes of the data match the model's class 'a'"),
        (["a"], ["a", "A"], "", DataError, "several classes of the model are called 'a'"),
        (["a"], ["b"], "a", SettingError, "'a' is not of the form DATA=MODEL"),
        (["cat"], ["b"], "cst=b", SettingError, "the data has no class 'cst'. Did you mean 'cat'?"),
        (["cat"], ["dog"], "cat=dgo", SettingError, "the model has no class 'dgo'. Did you mean 'dog'?"),
        (["a"], ["b"], "a=b,a=b", SettingError, "'a' is given twice"),
        (["a"], ["b"], "a=7", SettingError, "the model has no class '7'"),
        (["a"], [], "a=0", SettingError, "does not say what its classes are called"),
    ],
)
def test_what_cannot_be_matched_is_refused(
    data: list[str], model: list[str], given: str, error: type[ScissorhandsError], says: str
) -> None:
    with pytest.raises(error) as refused:
        numbers(data, model, given)
    assert says in str(refused.value)


NAMED = {"0": "cat", "1": "dog"}


@pytest.mark.parametrize(
    ("id2label", "label2id"),
    [
        (NAMED, {"cat": 0, "dog": 1}),
        (NAMED, {"cat": "0", "dog": "1"}),
        (NAMED, {"LABEL_0": 0, "LABEL_1": 1}),
        ({"0": "crane", "1": "crane"}, {"crane": 1}),
        (NAMED, None),
        (None, None),
    ],
)
def test_lists_of_names_that_agree_are_taken(id2label: Any, label2id: Any) -> None:
    require_agreement(id2label, label2id, Path("config.json"))


@pytest.mark.parametrize(
    ("id2label", "label2id", "says"),
    [
        (NAMED, {"cat": 1, "dog": 0}, "by 'label2id' class 1 is 'cat', and 'id2label' calls that 'dog'"),
        (NAMED, {"cat": 0, "dog": 2}, "by 'label2id' class 2 is 'dog', and 'id2label' does not have that"),
        (NAMED, {"cat": 0, "dog": []}, "'id2label' does not have that"),
        ({"0": "LABEL_0"}, {"cat": 0}, "by 'label2id' class 0 is 'cat', and 'id2label' calls that 'LABEL_0'"),
        (None, {"cat": 0, "dog": 1}, "'id2label' does not have that"),
    ],
)
def test_lists_of_names_that_contradict_each_other_are_refused(id2label: Any, label2id: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        require_agreement(id2label, label2id, Path("config.json"))
