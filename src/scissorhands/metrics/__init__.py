"""The metrics: pure functions of tensors, and the table of them."""

from .accuracy import accuracy
from .gap import GAP_OVER, avg_gap, gap_over, noise_floor
from .intervals import Interval, auc_interval, interval, share_interval, widest
from .metric import Metric
from .mia import called_non_members
from .outputs import Observations, Outputs
from .perrecord import errors, normal_score, scaled_logit, sureness
from .power import Power, power
from .regression import basics, mae, r2, skill
from .separation import auc, tpr_at_fpr
from .table import METRICS
from .verdict import CALLS, DAMAGED, Verdict, verdict

__all__ = [
    "CALLS",
    "DAMAGED",
    "GAP_OVER",
    "METRICS",
    "Interval",
    "Metric",
    "Observations",
    "Outputs",
    "Power",
    "Verdict",
    "accuracy",
    "auc",
    "auc_interval",
    "avg_gap",
    "basics",
    "called_non_members",
    "errors",
    "gap_over",
    "interval",
    "mae",
    "noise_floor",
    "normal_score",
    "power",
    "r2",
    "scaled_logit",
    "share_interval",
    "skill",
    "sureness",
    "tpr_at_fpr",
    "verdict",
    "widest",
]
