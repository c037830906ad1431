"""Makes a trained PyTorch model forget chosen training data, and measures how well it forgot."""

from .data import Split, split
from .errors import ScissorhandsError
from .evaluate import Scores, evaluate
from .forget import Forget
from .methods import FineTune, Method, Retrain, Scissorhands
from .problem import Problem
from .sources import Source

__all__ = [
    "FineTune",
    "Forget",
    "Method",
    "Problem",
    "Retrain",
    "Scissorhands",
    "ScissorhandsError",
    "Scores",
    "Source",
    "Split",
    "evaluate",
    "split",
]
