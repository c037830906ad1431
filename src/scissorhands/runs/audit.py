"""Looks at a finished run again: deeper, or beside a reference. What is known already is not computed again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from .. import files, runs
from ..data.problem import Log, ignore
from ..data.sources import Source
from ..distributed import on_rank_0
from ..errors import ModelError, RunError, ScissorhandsError
from ..evaluation.context import Context, Evaluation
from ..evaluation.evaluate import Scores, examine, outputs
from ..evaluation.evidence import Step, computable, plan, still_good, wanted
from ..evaluation.predict import require_fit
from ..evaluation.reference_models import Trainer
from ..methods import Method, find
from ..methods.training import Training
from ..metrics import Evidence
from ..tasks.classification import gradcam, models
from ..tasks.classification.huggingface import HuggingFaceClassifier
from ..tasks.classification.models import Blueprint
from . import PICTURES, Run
from .jobs import Subject, divided_as_in, matched


@dataclass(frozen=True)
class Audit:
    """A run to be looked at again, and what may be spent on it.

    `settings` are those of the evaluation, `training` those of the training of reference models; what is not given is
    as it was the last time, and at first the default, or as the original was trained. Somebody's code runs only if it
    is named, as `factory` or as `method`. With `pictures` it draws where the model looks, on forgotten records too.
    """

    run: Run
    level: str
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    factory: str | None
    device: torch.device
    method: str | None = None
    pictures: bool = False

    def plan(self) -> list[Step]:
        """What will be trained and looked at, and about how long each takes here."""
        scores, evidence = self._known()
        names = wanted(self.level, scores.values, evidence)
        return plan(self._context(), names) if names else []

    def carry_out(self, log: Log = ignore) -> Run:
        """Adds to the run what is missing up to the level."""
        if self.level == "quick":
            return self.run  # a run that is there was scored at that level
        scores, evidence = self._known()
        drawn = not self.pictures or (self.run.folder / PICTURES).exists() or PICTURES in scores.failed
        settled = {*scores.values, *scores.failed}
        if drawn and not wanted(self.level, scores.values, evidence) and not computable(self.level, settled, evidence):
            return self.run
        context = self._context()
        evidence = evidence or outputs(context.model, context.split.parts())
        scores, evidence = examine(context, evidence, self.level, scores, log)
        if not drawn:
            scores = replace(scores, failed={**scores.failed, **self._draw(context)})
        # Whenever it is killed, what is stored follows from the evidence: first without what changes, then with it.
        kept = replace(self._known()[0], verdict=None)
        runs.write_result(self.run.folder, replace(self.run.result, scores=kept))
        runs.write_evidence(self.run.folder, evidence)
        runs.write_result(self.run.folder, replace(self.run.result, scores=scores, examined=self._settings()))
        return runs.read(self.run.folder)

    def _settings(self) -> dict[str, Any]:
        """All that an evaluation depends on, as plain values."""
        before = dict(self.run.result.examined)
        trained = {**self.run.record.get("training", {}), **before.pop("training", {}), **self.training}
        return {**Evaluation.make({**before, **self.settings}).to_dict(), "training": trained}

    def _known(self) -> tuple[Scores, Evidence]:
        """The scores and the evidence that are there, but for what a changed setting makes stale."""
        scores, evidence = self.run.result.scores, runs.with_reference(self.run)
        before, now = self.run.result.examined, self._settings()
        kept = {*still_good([*scores.values, *scores.failed, *evidence], before, now)}
        values = {name: value for name, value in scores.values.items() if name in kept}
        failed = {name: reason for name, reason in scores.failed.items() if name in kept}
        return replace(scores, values=values, failed=failed), {k: x for k, x in evidence.items() if k in kept}

    def _context(self) -> Context:
        """The run's model with its data, divided as they were."""
        record = self.run.record
        if record["verb"] == "train":
            raise RunError(f"{self.run.folder} was trained and has nothing to forget yet: say what with --forget.")
        model, blueprint = self._model()
        data = matched(Source.make(record["data"]).load(), blueprint, str(record["split"].get("labels", "")))
        require_fit(model, data.train)
        settings = self._settings()
        known = settings.pop("training")
        start = record["model"]["origin"] if isinstance(model, HuggingFaceClassifier) and record.get("training") else ""
        about = str(record["data"].get("augment", ""))
        scrubbed = record["verb"] == "scrub"
        before = record.get("forget_accuracy_before") if scrubbed else self.run.result.scores["forget_accuracy"]
        trainer = (
            Trainer(model, Training.make(known), start, data.augment, about, files.cache("models")) if known else None
        )
        return Context(
            model,
            divided_as_in(self.run, data),
            Evaluation.make(settings),
            trainer,
            self._method() if scrubbed and self.level == "deep" else None,
            self.run.result.seconds or 0.0,
            before if scrubbed or self.run.method == "original" else None,
        )

    def _method(self) -> Method:
        """The method that shadow models are made to forget by."""
        name = self.run.method
        if ":" in name and name != self.method:
            raise RunError(f"the run needs the code '{name}'. If you trust it, name it: --method {name}")
        return find(name).make(self.run.settings)

    def _model(self) -> tuple[nn.Module, Blueprint]:
        """The model that the run made, or that it scored, and how it is built."""
        own = self.run.folder / "model"
        if own.is_dir():
            on_rank_0(self.run.require_model)
            return models.load(own, self.factory, self.device)
        scored, subject = self.run.record["model"].get("weights"), self._before()
        if scored and scored != models.fingerprint(subject.model):
            raise ModelError(f"the model that {self.run.folder} scored has changed since: score it again.")
        return subject.model, subject.blueprint

    def _before(self) -> Subject:
        """The model as it was before the run."""
        source = str(self.run.record["model"]["source"])
        there = self.run.folder / source
        if source.startswith("..") and not there.exists():
            raise ModelError(f"{self.run.folder} was made from {source}, which is not there any more.")
        return Subject.load(str(there) if there.exists() else source, self.factory, self.device)

    def _draw(self, context: Context) -> dict[str, str]:
        """Draws where the model looked before and looks now, and says why where that is not possible."""
        parts = {name: part for name, part in context.split.parts().items() if name in ("forget", "retain")}
        try:
            sheets = gradcam.pictures(self._before().model, context.model, parts)
        except (ScissorhandsError, RuntimeError) as error:
            return {PICTURES: str(error).splitlines()[0]}
        with runs.writing(self.run.folder / PICTURES, overwrite=False) as work:
            on_rank_0(partial(work.chmod, 0o700))
            for name, sheet in sheets.items():
                on_rank_0(partial(sheet.save, work / f"{name}.png"))
        return {}
