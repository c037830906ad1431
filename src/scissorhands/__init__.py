"""Makes a trained PyTorch model forget chosen training data, and measures how well it forgot."""

from .data import Split, split
from .errors import ScissorhandsError
from .evaluate import Scores, evaluate
from .forget import Forget
from .methods import (
    BoundaryExpand,
    BoundaryShrink,
    FineTune,
    GradientAscent,
    InfluenceUnlearning,
    L1Sparse,
    Method,
    RandomLabel,
    Retrain,
    SalUn,
    Scissorhands,
)
from .problem import Problem
from .sources import Source

__all__ = [
    "BoundaryExpand",
    "BoundaryShrink",
    "FineTune",
    "Forget",
    "GradientAscent",
    "InfluenceUnlearning",
    "L1Sparse",
    "Method",
    "Problem",
    "RandomLabel",
    "Retrain",
    "SalUn",
    "Scissorhands",
    "ScissorhandsError",
    "Scores",
    "Source",
    "Split",
    "evaluate",
    "split",
]
