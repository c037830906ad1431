"""The methods, one file each, and the table of them.

To add one: write its file, add its line; the contract tests then cover it. A method of your own needs neither: pass the
object, or name it on the command line as `my_module:MyMethod`.
"""

from ..errors import SettingError, did_you_mean
from ..models import named_object
from .finetune import FineTune
from .method import Method
from .retrain import Retrain
from .scissorhands import Scissorhands

METHODS: dict[str, type[Method]] = {
    "scissorhands": Scissorhands,
    "retrain": Retrain,
    "finetune": FineTune,
}


def find(name: str) -> type[Method]:
    """The method of that name, or the class that `module:Class` names."""
    if ":" not in name:
        if name not in METHODS:
            raise SettingError(
                f"there is no method '{name}'. {did_you_mean(name, METHODS)} Or name your own: module:Class."
            )
        return METHODS[name]
    found = named_object(name)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise SettingError(f"'{name}' is not a class derived from scissorhands.Method.")
    return found


__all__ = ["METHODS", "FineTune", "Method", "Retrain", "Scissorhands", "find"]
