"""One forward pass per part of the data, then all metrics, then Scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from .data import Split
from .errors import NoReferenceError, ScissorhandsError
from .metrics import GAP_OVER, METRICS, Outputs, avg_gap
from .models import require_fit
from .modes import evaluating
from .problem import on_device
from .records import Part


@dataclass(frozen=True)
class Scores:
    """What was measured: percentages by name, the records behind them, and what could not be measured and why.

    `manifest` says what was forgotten; scores of different manifests are not compared.
    """

    values: Mapping[str, float]
    counts: Mapping[str, int]
    failed: Mapping[str, str] = field(default_factory=dict)
    manifest: str = ""
    reference: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """One score by name."""
        return self.values[name]

    @property
    def avg_gap(self) -> float:
        """The mean distance to the reference in the paper's four percentages, from the scores as stored."""
        if not self.reference:
            raise NoReferenceError("Avg. Gap needs a reference: evaluate against a retrained model.")
        for name in GAP_OVER:
            if name not in self.values or name not in self.reference:
                raise NoReferenceError(f"Avg. Gap needs '{name}', which was not measured on both models.")
        return avg_gap(self.values, self.reference)

    def against(self, reference: "Scores") -> "Scores":
        """The same scores, compared with the reference."""
        if self.manifest != reference.manifest:
            raise NoReferenceError(
                f"the reference forgot something else: its manifest is {reference.manifest}, not {self.manifest}."
            )
        return replace(self, reference=reference.values)

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain values."""
        gap = {"avg_gap": self.avg_gap} if self.reference else {}
        return {
            "manifest": self.manifest,
            "values": {**self.values, **gap},
            "counts": dict(self.counts),
            "failed": dict(self.failed),
            "reference": dict(self.reference),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Scores":
        """The scores from plain values."""
        raw = {name: value for name, value in stored["values"].items() if name != "avg_gap"}
        return cls(raw, stored["counts"], stored["failed"], stored["manifest"], stored["reference"])


def evaluate(model: nn.Module, split: Split, against: "nn.Module | Scores | None" = None) -> Scores:
    """Scores the model on every part of the split and, where there is a reference, its distance to that."""
    require_fit(model, split.test.records)
    scores = measure(model, split.parts(), split.manifest)
    if isinstance(against, nn.Module):
        against = evaluate(against, split)
    return scores.against(against) if against else scores


def measure(model: nn.Module, parts: Mapping[str, Part], manifest: str = "") -> Scores:
    """All metrics that these parts allow; one that fails is reported with its reason, never dropped."""
    outputs = {name: predict(model, part) for name, part in parts.items()}
    values: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, metric in METRICS.items():
        if not set(metric.needs) <= set(outputs):
            continue
        try:
            values[name] = metric.compute(outputs)
        except (ScissorhandsError, ValueError, RuntimeError) as error:
            failed[name] = str(error).splitlines()[0]
    return Scores(values, {name: len(part) for name, part in parts.items()}, failed, manifest)


def predict(model: nn.Module, part: Part, batch_size: int = 512) -> Outputs:
    """What the model says about a part, without changing the model."""
    with evaluating(model), torch.inference_mode():
        found = [(model(on_device(model, inputs)).cpu(), labels) for inputs, labels in part.batches(batch_size)]
    return Outputs(torch.cat([logits for logits, _ in found]).float(), torch.cat([labels for _, labels in found]))
