"""Which class of the data is which class of the model: by name, not by position."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError, ModelError, SettingError, did_you_mean, listed

POSITION = "position"
_UNNAMED = re.compile(r"(?:label[_ -]?)?\d+", re.IGNORECASE)  # what data and models are given that nobody named


def numbers(data: Sequence[str], model: Sequence[str], given: str = "") -> list[int] | None:
    """Return the model's number for each class of the data; None if the numbers are the same.

    If one side has no class names, and the model does not know those of the data, classes are matched by position.
    `given` overrides this: `position`, or pairs of a class of the data and one of the model, as in `lorry=truck`.

    >>> numbers(["airplane", "frog", "ship"], ["ship", "frog", "airplane"])
    [2, 1, 0]
    >>> numbers(["cat", "dog"], ["LABEL_0", "LABEL_1"]), numbers(["0", "1"], ["cat", "dog"])
    (None, None)
    >>> numbers(["1", "10", "2"], ["1", "2", "10"])
    [0, 2, 1]
    >>> numbers(["lorry", "plane"], ["airplane", "truck"], "lorry=truck,plane=airplane")
    [1, 0]
    """
    unnamed = not (named(data) and named(model)) and not {*data} <= {*model}
    if given == POSITION or (not given and unnamed):
        return None
    asked = _parsed(given, data, model) if given else {}
    found = [asked[name] if name in asked else _number(name, model) for name in data]
    if len(set(found)) < len(found):
        twice = next(number for number in found if found.count(number) > 1)
        raise DataError(f"two classes of the data match the model's class '{_shown(model, twice)}'. {_HINT}")
    return None if found == list(range(len(model))) else found


_HINT = "Say which is which: --labels DATA=MODEL,… or, to take them by their position, --labels position."


def require_agreement(id2label: Any, label2id: Any, path: Path) -> None:
    """Refuse a configuration whose two lists of class names contradict each other: either may be the true one."""
    if not isinstance(label2id, dict) or not named(list(label2id)):  # a list that nobody named says nothing
        return
    called = id2label if isinstance(id2label, dict) else {}
    for name, number in label2id.items():
        if called.get(str(number)) != name:
            other = f"calls that '{called[str(number)]}'" if str(number) in called else "does not have that"
            raise ModelError(
                f"{path} contradicts itself: by 'label2id' class {number} is '{name}', and 'id2label' {other}. "
                "Make the two agree."
            )


def named(classes: Sequence[str]) -> bool:
    """Return whether the classes have names, and not only numbers."""
    return any(not _UNNAMED.fullmatch(name) for name in classes)


def _number(name: str, model: Sequence[str]) -> int:
    """Find the number of the model's class of that name, or with that name among its comma-separated ones."""
    same = [i for i, other in enumerate(model) if _plain(other) == _plain(name)]
    same = same or [i for i, other in enumerate(model) if _plain(name) in map(_plain, other.split(","))]
    if len(same) != 1:
        several = f"several classes of the model are called '{name}'" if same else f"the model has no class '{name}'"
        raise DataError(f"{several}, as the data has. Its classes: {listed(model)}. {_HINT}")
    return same[0]


def _plain(name: str) -> str:
    """Normalize a name: drop what makes no difference.

    >>> _plain("Golden_Retriever "), _plain("golden retriever")
    ('golden retriever', 'golden retriever')
    """
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _parsed(given: str, data: Sequence[str], model: Sequence[str]) -> dict[str, int]:
    """Parse the pairs of `data class=model class`; the model's class by its name or number."""
    found: dict[str, int] = {}
    if not model:
        raise SettingError("--labels: the model does not say what its classes are called, so leave --labels out.")
    for pair in given.split(","):
        name, equals, other = (part.strip() for part in pair.partition("="))
        if not equals or not name or not other:
            raise SettingError(f"--labels: '{pair.strip()}' is not of the form DATA=MODEL.")
        if name not in data:
            raise SettingError(f"--labels: the data has no class '{name}'. {did_you_mean(name, data)}")
        if name in found:
            raise SettingError(f"--labels: '{name}' is given twice.")
        if other not in model and other.isdecimal() and len(other) < 10 and int(other) < len(model):
            found[name] = int(other)
        elif other in model:
            found[name] = list(model).index(other)
        else:
            raise SettingError(f"--labels: the model has no class '{other}'. {did_you_mean(other, model)}")
    return found


def _shown(model: Sequence[str], number: int) -> str:
    return model[number] if number < len(model) else str(number)
