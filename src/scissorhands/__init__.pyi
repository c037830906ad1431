"""The public names, and where they are; each is imported when it is first used."""

from .data.forget import Forget
from .data.problem import Problem
from .data.sources import Source
from .data.split import Split, split
from .errors import ScissorhandsError
from .evaluation.context import Evaluation
from .evaluation.evaluate import Scores, evaluate
from .methods import (
    SCRUB,
    SSD,
    BoundaryExpand,
    BoundaryShrink,
    FineTune,
    GradientAscent,
    GradTau,
    InfluenceUnlearning,
    L1Sparse,
    LoTUS,
    Method,
    MUNBa,
    NegGradPlus,
    RandomLabel,
    ReGUn,
    Retrain,
    SalUn,
    Scissorhands,
    SFRon,
)
from .methods.damage import DamageWarning, GuessWarning
from .methods.training import Training
from .metrics import Verdict
from .python import Run, scrub

__version__: str

__all__ = [
    "SCRUB",
    "SSD",
    "BoundaryExpand",
    "BoundaryShrink",
    "DamageWarning",
    "Evaluation",
    "FineTune",
    "Forget",
    "GradTau",
    "GradientAscent",
    "GuessWarning",
    "InfluenceUnlearning",
    "L1Sparse",
    "LoTUS",
    "MUNBa",
    "Method",
    "NegGradPlus",
    "Problem",
    "RandomLabel",
    "ReGUn",
    "Retrain",
    "Run",
    "SFRon",
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
    "scrub",
    "split",
]
