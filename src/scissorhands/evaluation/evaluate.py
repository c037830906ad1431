"""Evaluate a model: its outputs on each part of the data, the observations of a level, all metrics, then Scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from .. import files
from ..data.problem import Log, ignore
from ..data.records import Part, same
from ..data.split import Split
from ..distributed import rank
from ..errors import NoReferenceError, ScissorhandsError
from ..methods.method import Method
from ..methods.training import Training
from ..metrics import METRICS, Observations, Verdict, accuracy, avg_gap, gap_over, skill, verdict
from .context import Context, Evaluation, discard_shadows
from .observations import due, gather, wanted
from .predict import predict, require_fit
from .reference_models import Trainer


@dataclass(frozen=True)
class Scores:
    """What was measured: numbers by name, the records behind them, and what could not be measured and why.

    `manifest` says what was forgotten; scores of different manifests are not compared.
    """

    values: Mapping[str, float]
    counts: Mapping[str, int]
    failed: Mapping[str, str] = field(default_factory=dict)
    manifest: str = ""
    reference: Mapping[str, float] = field(default_factory=dict)
    verdict: Verdict | None = None

    def __getitem__(self, name: str) -> float:
        """Return one score by name."""
        return self.values[name]

    @property
    def avg_gap(self) -> float:
        """Return the mean distance to the reference, from the scores as stored: see `avg_gap` in the metrics."""
        if not self.reference:
            raise NoReferenceError("Avg. Gap needs a reference: evaluate against a retrained model.")
        _require_all(self.values)
        return avg_gap(self.values, self.reference)

    def against(self, reference: "Scores") -> "Scores":
        """Return the same scores, compared with the reference."""
        if self.manifest != reference.manifest:
            raise NoReferenceError(
                f"the reference forgot something else: its manifest is {reference.manifest}, not {self.manifest}."
            )
        _require_all(reference.values)
        return replace(self, reference=reference.values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a gap that cannot be computed has failed, with its reason."""
        values, failed = dict(self.values), dict(self.failed)
        if self.reference:
            try:
                values["avg_gap"] = self.avg_gap
            except NoReferenceError as error:
                failed["avg_gap"] = str(error)
        return {
            "manifest": self.manifest,
            "values": values,
            "counts": dict(self.counts),
            "failed": failed,
            "reference": dict(self.reference),
            "verdict": self.verdict.to_dict() if self.verdict else None,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Scores":
        """Read the scores from plain values."""
        values, failed = (
            {name: value for name, value in stored[kind].items() if name != "avg_gap"} for kind in ("values", "failed")
        )
        said = Verdict(**stored["verdict"]) if stored.get("verdict") else None
        return cls(values, stored["counts"], failed, stored["manifest"], stored["reference"], said)


def _require_all(values: Mapping[str, float]) -> None:
    """Refuse scores that lack one of those that the gap is made of."""
    for name in gap_over(values):
        if name not in values:
            raise NoReferenceError(f"Avg. Gap needs '{name}', which was not measured on both models.")


def evaluate(
    model: nn.Module,
    split: Split,
    against: "nn.Module | Scores | None" = None,
    *,
    level: str = "quick",
    settings: Evaluation | None = None,
    training: Training | None = None,
    method: Method | None = None,
    original: nn.Module | None = None,
    log: Log = ignore,
) -> Scores:
    """Score the model on every part of the split, and its distance to a reference if one is given.

    A level above `quick` trains other models for comparison. `training` says how such a model is trained, `method` is
    the method that made this one forget, and `original` is the model before that, with which the verdict compares.
    """
    require_fit(model, split.test.records)
    before = outputs(original, split.parts()) if original else {}
    context = Context(
        model,
        split,
        settings or Evaluation(),
        Trainer(model, training, folder=files.cache("models")) if training else None,
        method,
        original_accuracy=skill(before["forget"]) if before else None,
    )
    observed: dict[str, Any] = outputs(model, split.parts())
    if before:
        observed["before"] = before
    if isinstance(against, nn.Module):
        observed["retrained"] = outputs(against, split.parts())
        against = evaluate(against, split)
    try:
        scores, _ = examine(context, observed, level, log=log)
    finally:
        if rank() == 0:
            discard_shadows()
    return scores.against(against) if against else scores


def outputs(model: nn.Module, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Return the outputs of the model on each part; parts that are the same are predicted once."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        twins = (other for other in found if same(part, parts[other]))
        found[name] = found[twin] if (twin := next(twins, None)) else predict(model, part)
    return found


def accuracies(model: nn.Module, parts: Mapping[str, Part]) -> dict[str, float]:
    """Return the accuracy of the model on each part."""
    return {name: accuracy(said.logits, said.labels) for name, said in outputs(model, parts).items()}


def examine(
    context: Context, observed: Observations, level: str = "quick", known: Scores | None = None, log: Log = ignore
) -> tuple[Scores, Observations]:
    """Return the scores up to a level and all observations behind them, without computing again what is known."""
    counts = {name: len(part) for name, part in context.split.parts().items()}
    scores = known or Scores({}, counts, manifest=context.split.manifest)
    numbers = context.problem.regression
    found, failed = gather(context, wanted(level, scores.values, observed, numbers), log)
    observed = {**observed, **found}
    scores = measure(observed, due(level, scores.values, numbers), failed, scores)
    return judge(scores, observed, context.split.kind), observed


def measure(observed: Observations, names: list[str], missing: Mapping[str, str], scores: Scores) -> Scores:
    """Add these metrics to the scores where the observations allow; one that fails is reported, never dropped."""
    values, failed = dict(scores.values), dict(scores.failed)
    for name in names:
        metric = METRICS[name]
        failed.pop(name, None)
        if lacking := [need for need in metric.needs if need in missing]:
            failed[name] = missing[lacking[0]]
        elif metric.compute and set(metric.needs) <= set(observed):
            try:
                values[name] = metric.compute(observed)
            except (ScissorhandsError, ValueError, RuntimeError) as error:
                failed[name] = str(error).splitlines()[0]
    return replace(scores, values=values, failed=failed)


def judge(scores: Scores, observed: Observations, kind: str) -> Scores:
    """Add a verdict to the scores: by the retrained model and by reference models, where there are any."""
    retrained = [observed["retrained"]] if "retrained" in observed else []
    references = [*retrained, *observed.get("references", [])]
    return replace(scores, verdict=verdict(observed, references, kind))
