"""The methods, one file each, the table of them, and all that a method is written with.

To add one: write its file, add its line; the contract tests then cover it. A method of your own needs neither: import
what it needs from here, pass the object, or name it on the command line as `my_module:MyMethod`.
"""

from inspect import isabstract

from ..errors import SettingError, did_you_mean
from ..plugins import named_object
from . import base
from .base import *  # noqa: F403  # one list of names, in base.py
from .base import Method
from .boundary import BoundaryExpand, BoundaryShrink
from .finetune import FineTune
from .gradientascent import GradientAscent
from .gradtau import GradTau
from .influence import InfluenceUnlearning
from .l1sparse import L1Sparse
from .lotus import LoTUS
from .munba import MUNBa
from .neggradplus import NegGradPlus
from .randomlabel import RandomLabel
from .regun import ReGUn
from .retrain import Retrain
from .salun import SalUn
from .scissorhands import Scissorhands
from .scrub import SCRUB
from .sfron import SFRon
from .ssd import SSD

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
    "neggradplus": NegGradPlus,
    "scrub": SCRUB,
    "ssd": SSD,
    "sfron": SFRon,
    "munba": MUNBa,
    "gradtau": GradTau,
    "lotus": LoTUS,
    "regun": ReGUn,
}


def find(name: str) -> type[Method]:
    """Return the method of that name, or the class that `module:Class` names."""
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
    *base.__all__,
    "METHODS",
    "SCRUB",
    "SSD",
    "SFRon",
    "MUNBa",
    "GradTau",
    "LoTUS",
    "ReGUn",
    "NegGradPlus",
    "BoundaryExpand",
    "BoundaryShrink",
    "FineTune",
    "GradientAscent",
    "InfluenceUnlearning",
    "L1Sparse",
    "RandomLabel",
    "Retrain",
    "SalUn",
    "Scissorhands",
    "find",
]
