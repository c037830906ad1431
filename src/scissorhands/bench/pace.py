"""How fast a model trains on this machine."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..data.problem import Problem
from ..data.records import Part, Stored
from ..data.sources import Data
from ..methods.training import Training
from ..randomness import seeded
from ..tasks.classification import models

_STEPS = 4  # of training that are timed; the first is left out, since it is slow
_FEW = 16  # records in such a step on a CPU, which may take seconds for each of a batch of 256


def seconds_per_record(
    data: Data, model: str, arguments: Mapping[str, Any], training: Training, device: torch.device
) -> float:
    """Time a few steps of training a new model, on a CPU with few records each."""
    size = min(training.batch_size, _FEW) if device.type == "cpu" else training.batch_size
    first = torch.arange(min(len(data.train), _STEPS * size))
    inputs, labels = data.train.fetch(first)
    few = Stored(inputs, labels, classes=data.train.classes) if isinstance(inputs, Tensor) else data.train
    with seeded(0, "model"):
        built, _ = models.create(model, few, arguments)
    part, ticks = Part(few, first), [time.perf_counter()]
    problem = Problem(replace(part, ids=part.ids[:0]), part, augment=data.augment)
    short = replace(training, epochs=1, batch_size=size)
    short.fit(built.to(device), problem, lambda _: ticks.append(time.perf_counter()))
    ticks = ticks[1:] if len(ticks) > 2 else ticks
    return (ticks[-1] - ticks[0]) / ((len(ticks) - 1) * min(size, len(first)))
