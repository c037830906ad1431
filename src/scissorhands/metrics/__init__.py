"""The metrics: pure functions of tensors, and the table of them."""

from .accuracy import accuracy
from .gap import GAP_OVER, avg_gap, noise_floor
from .intervals import Interval, auc_interval, interval, share_interval, widest
from .metric import Metric
from .mia import called_non_members
from .outputs import Observations, Outputs
from .perrecord import scaled_logit
from .power import Power, power
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
    "called_non_members",
    "interval",
    "noise_floor",
    "power",
    "scaled_logit",
    "share_interval",
    "tpr_at_fpr",
    "verdict",
    "widest",
]
