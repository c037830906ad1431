"""All that a method is written with, in one place; `scissorhands.methods` has the same names for methods elsewhere."""

from ..data.labels import Relabeled, random_labels, relabeled_parts
from ..data.problem import Log, Loss, Problem, ignore, on_device
from ..data.records import Part
from ..distributed import Batch, add_
from ..errors import FailedError, ModelError
from ..randomness import generator
from ..settings import (
    Depends,
    at_least_one,
    below_one,
    count,
    non_negative,
    one_of,
    patterns,
    positive,
    positive_share,
    setting,
    share,
    switch,
    text,
)
from .damage import damage, points_lost, utility
from .descent import Descent, linear_decay
from .heads import head_of, narrow, widened
from .method import Method
from .modes import evaluating
from .optimizer import choose_optimizer, optimizers, rate
from .outputs import (
    calibration_error_rate,
    calibration_of,
    class_counts,
    error_rate,
    kl_divergence,
    logits,
    logits_of,
    reweighted,
    teacher_logits,
)
from .parameters import clip_, l1_norm, restore, select, snapshot, swapped, trainable, weights
from .projection import bounded, guard, inner, overlap, subtract_
from .reinit import INITS, reinitialize, reset, restart, trim_event, without_norms
from .saliency import (
    SALIENCY,
    fisher_times,
    gradient_saliency,
    gradients,
    mean_gradient,
    top_share,
    train_mode_saliency,
)
from .training import Training

__all__ = [
    "INITS",
    "SALIENCY",
    "Batch",
    "Depends",
    "Descent",
    "FailedError",
    "Log",
    "Loss",
    "Method",
    "ModelError",
    "Part",
    "Problem",
    "Relabeled",
    "Training",
    "add_",
    "at_least_one",
    "below_one",
    "bounded",
    "calibration_error_rate",
    "calibration_of",
    "choose_optimizer",
    "class_counts",
    "clip_",
    "count",
    "damage",
    "error_rate",
    "evaluating",
    "fisher_times",
    "generator",
    "gradient_saliency",
    "gradients",
    "guard",
    "head_of",
    "ignore",
    "inner",
    "kl_divergence",
    "l1_norm",
    "linear_decay",
    "logits",
    "logits_of",
    "mean_gradient",
    "narrow",
    "non_negative",
    "on_device",
    "one_of",
    "optimizers",
    "overlap",
    "patterns",
    "points_lost",
    "positive",
    "positive_share",
    "random_labels",
    "rate",
    "reinitialize",
    "relabeled_parts",
    "reset",
    "restart",
    "restore",
    "reweighted",
    "select",
    "setting",
    "share",
    "snapshot",
    "subtract_",
    "swapped",
    "switch",
    "teacher_logits",
    "text",
    "top_share",
    "train_mode_saliency",
    "trainable",
    "trim_event",
    "utility",
    "weights",
    "widened",
    "without_norms",
]
