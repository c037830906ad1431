"""Makes a trained PyTorch model forget chosen training data, and measures how well it forgot."""

from importlib.metadata import version

from .damage import DamageWarning, GuessWarning
from .data import Split, split
from .errors import ScissorhandsError
from .evaluate import Scores, evaluate
from .exam import Evaluation
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
from .metrics import Verdict
from .problem import Problem
from .sources import Source
from .train import Training

__version__ = version("scissorhands")

__all__ = [
    "BoundaryExpand",
    "BoundaryShrink",
    "DamageWarning",
    "Evaluation",
    "FineTune",
    "Forget",
    "GradientAscent",
    "GuessWarning",
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
    "Training",
    "Verdict",
    "__version__",
    "evaluate",
    "split",
]
