"""Counts of records from which a reader can compute scores again, and that say nothing about a single record."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..metrics import Outputs, sureness

_LEAST = 10  # records in a bin, so that none stands alone


def recount(observed: Mapping[str, Any], values: Mapping[str, float]) -> dict[str, Any]:
    """Return how many records of each part the model is right about, and the binned scores behind the AUC.

    The bins are in the order of the scores, but do not say where they begin and end. Who has the model and a record
    can compute its score, and would otherwise find out whether it is among the forgotten ones.
    """
    parts = {name: said for name, said in observed.items() if isinstance(said, Outputs)}
    right = {name: _right(said) for name, said in parts.items() if f"{name}_accuracy" in values}
    known = "auc" in values and {"forget", "others"} <= parts.keys()
    scores = [sureness(parts[name]) for name in ("forget", "others")] if known else []
    return {"right": right, "bins": binned(*scores) if known else []}


def binned(forgotten: Tensor, others: Tensor) -> list[list[int]]:
    """Count forgotten and other records in bins of scores, from the lowest; equal scores share a bin.

    >>> binned(torch.arange(6.0), torch.arange(3.0, 17.0))
    [[6, 4], [0, 10]]
    """
    scores = torch.cat([forgotten, others])
    levels, level = scores.unique(return_inverse=True)
    counts = torch.zeros(len(levels), 2, dtype=torch.int64)
    counts[:, 0] = level[: len(forgotten)].bincount(minlength=len(levels))
    counts[:, 1] = level[len(forgotten) :].bincount(minlength=len(levels))
    bins = [[0, 0]]
    for some, rest in counts.tolist():
        if sum(bins[-1]) >= _LEAST:
            bins.append([0, 0])
        bins[-1] = [bins[-1][0] + some, bins[-1][1] + rest]
    if len(bins) > 1 and sum(bins[-1]) < _LEAST:
        few = bins.pop()
        bins[-1] = [bins[-1][0] + few[0], bins[-1][1] + few[1]]
    return bins


def _right(said: Outputs) -> list[int]:
    return [int((said.logits.argmax(1) == said.labels).sum()), len(said)]
