"""Classes of the data and of the model: matched by name, and refused where names do not say which is which."""

import pytest

from scissorhands.errors import DataError, ScissorhandsError, SettingError
from scissorhands.tasks.classification.classes import numbers


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
        (["a", "A"], ["a", "b"], "", DataError, "two classes of the data are the model's class 'a'"),
        (["a"], ["a", "A"], "", DataError, "several classes of the model are called 'a'"),
        (["a"], ["b"], "a", SettingError, "'a' is not of the form DATA=MODEL"),
        (["cat"], ["b"], "cst=b", SettingError, "the data has no class 'cst'. Did you mean 'cat'?"),
        (["cat"], ["dog"], "cat=dgo", SettingError, "the model has no class 'dgo'. Did you mean 'dog'?"),
        (["a"], ["b"], "a=b,a=b", SettingError, "'a' stands there twice"),
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
