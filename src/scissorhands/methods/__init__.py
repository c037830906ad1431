"""The methods, one file each, the table of them, and all that a method is written with.

To add one: write its file, add its line; the contract tests then cover it. A method of your own needs neither: import
what it needs from here, pass the object, or name it on the command line as `my_module:MyMethod`.
"""

from inspect import isabstract

from ..errors import SettingError, did_you_mean
from ..plugins import named_object
from .base import (
    INITS,
    SALIENCY,
    Batch,
    Descent,
    Log,
    Loss,
    Method,
    Part,
    Problem,
    Training,
    add_,
    at_least_one,
    below_one,
    bounded,
    count,
    damage,
    evaluating,
    fisher_times,
    generator,
    gradient_saliency,
    guard,
    head_of,
    ignore,
    inner,
    l1_norm,
    mean_gradient,
    narrow,
    non_negative,
    on_device,
    one_of,
    overlap,
    patterns,
    positive,
    positive_share,
    random_labels,
    reinitialize,
    reset,
    restart,
    select,
    setting,
    share,
    snapshot,
    state,
    subtract_,
    swapped,
    switch,
    text,
    top_share,
    trainable,
    weights,
    widened,
    without_norms,
)
from .boundary import BoundaryExpand, BoundaryShrink
from .finetune import FineTune
from .gradientascent import GradientAscent
from .influence import InfluenceUnlearning
from .l1sparse import L1Sparse
from .randomlabel import RandomLabel
from .retrain import Retrain
from .salun import SalUn
from .scissorhands import Scissorhands

METHODS: dict[str, type[Method]] = {
    "scissorhands": Scissorhands,
    "retrain": Retrain,
    "finetune": FineTune,
    "ascent": GradientAscent,
    "influence": InfluenceUnlearning,
    "shrink": BoundaryShrink,
    "expand": BoundaryExpand,
    "l1sparse": L1Sparse,
    "salun": SalUn,
    "randomlabel": RandomLabel,
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
    if not (isinstance(found, type) and issubclass(found, Method)) or isabstract(found):
        raise SettingError(f"'{name}' is not a class derived from scissorhands.Method.")
    return found


__all__ = [
    "INITS",
    "METHODS",
    "SALIENCY",
    "Batch",
    "BoundaryExpand",
    "BoundaryShrink",
    "Descent",
    "FineTune",
    "GradientAscent",
    "InfluenceUnlearning",
    "L1Sparse",
    "Log",
    "Loss",
    "Method",
    "Part",
    "Problem",
    "RandomLabel",
    "Retrain",
    "SalUn",
    "Scissorhands",
    "Training",
    "add_",
    "at_least_one",
    "below_one",
    "bounded",
    "count",
    "damage",
    "evaluating",
    "find",
    "fisher_times",
    "generator",
    "gradient_saliency",
    "guard",
    "head_of",
    "ignore",
    "inner",
    "l1_norm",
    "mean_gradient",
    "narrow",
    "non_negative",
    "on_device",
    "one_of",
    "overlap",
    "patterns",
    "positive",
    "positive_share",
    "random_labels",
    "reinitialize",
    "reset",
    "restart",
    "select",
    "setting",
    "share",
    "snapshot",
    "state",
    "subtract_",
    "swapped",
    "switch",
    "text",
    "top_share",
    "trainable",
    "weights",
    "widened",
    "without_norms",
]
