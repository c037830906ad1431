"""Looks at a finished run again: deeper, or beside a reference. What is known already is not computed again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from . import files, gradcam, models, runs
from .data import Split, held_out, split
from .distributed import first
from .errors import DataError, ModelError, RunError, ScissorhandsError
from .evaluate import Scores, examine, outputs
from .evidence import Step, computable, plan, still_good, wanted
from .exam import Evaluation, Exam
from .forget import Forget
from .huggingface import HuggingFaceClassifier
from .jobs import Subject
from .methods import find
from .metrics import Evidence
from .problem import Log, ignore
from .records import Records
from .runs import Run
from .sources import Source
from .teacher import Teacher
from .train import Training

PICTURES = "gradcam"


@dataclass(frozen=True)
class Audit:
    """A run to be looked at again, and what may be spent on it.

    `settings` are those of the evaluation, `training` those of the training of reference models; what is not given is
    as it was the last time, and at first the default, or as the original was trained.
    """

    run: Run
    level: str
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    factory: str | None
    device: torch.device

    def plan(self) -> list[Step]:
        """What will be trained and looked at, and about how long each takes here."""
        scores, evidence = self._known()
        names = wanted(self.level, scores.values, evidence)
        return plan(self._exam(), names) if names else []

    def carry_out(self, log: Log = ignore) -> Run:
        """Adds to the run what is missing up to the level."""
        if self.level == "quick":
            return self.run  # a run that is there was scored at that level
        scores, evidence = self._known()
        drawn = (self.run.folder / PICTURES).exists() or PICTURES in scores.failed
        settled = {*scores.values, *scores.failed}
        if drawn and not wanted(self.level, scores.values, evidence) and not computable(self.level, settled, evidence):
            return self.run
        exam = self._exam()
        evidence = evidence or outputs(exam.model, exam.split.parts())
        scores, evidence = examine(exam, evidence, self.level, scores, log)
        if not drawn:
            scores = replace(scores, failed={**scores.failed, **self._draw(exam)})
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
        scores, evidence = self.run.result.scores, _evidence(self.run)
        before, now = self.run.result.examined, self._settings()
        kept = {*still_good([*scores.values, *scores.failed, *evidence], before, now)}
        values = {name: value for name, value in scores.values.items() if name in kept}
        failed = {name: reason for name, reason in scores.failed.items() if name in kept}
        return replace(scores, values=values, failed=failed), {k: x for k, x in evidence.items() if k in kept}

    def _exam(self) -> Exam:
        """The run's model with its data, divided as they were."""
        record = self.run.record
        if record["verb"] == "train":
            raise RunError(f"{self.run.folder} was trained and has nothing to forget yet: say what with --forget.")
        data = Source.make(record["data"]).load()
        model = self._model()
        models.require_fit(model, data.train)
        settings = self._settings()
        known = settings.pop("training")
        start = record["model"]["origin"] if isinstance(model, HuggingFaceClassifier) and record.get("training") else ""
        about = str(record["data"].get("augment", ""))
        scrubbed = record["verb"] == "scrub"
        before = record.get("forget_accuracy_before") if scrubbed else self.run.result.scores["forget_accuracy"]
        teacher = (
            Teacher(model, Training.make(known), start, data.augment, about, files.cache("models")) if known else None
        )
        return Exam(
            model,
            _divided(self.run, data.train, data.test),
            Evaluation.make(settings),
            teacher,
            find(self.run.method).make(self.run.settings) if scrubbed else None,
            self.run.result.seconds or 0.0,
            before if scrubbed or self.run.method == "original" else None,
        )

    def _model(self) -> nn.Module:
        """The model that the run made, or that it scored."""
        own = self.run.folder / "model"
        if own.is_dir():
            return models.load(own, self.factory, self.device)[0]
        scored, model = self.run.record["model"].get("weights"), self._before()
        if scored and scored != models.fingerprint(model):
            raise ModelError(f"the model that {self.run.folder} scored has changed since: score it again.")
        return model

    def _before(self) -> nn.Module:
        """The model as it was before the run."""
        source = str(self.run.record["model"]["source"])
        there = self.run.folder / source
        if source.startswith("..") and not there.exists():
            raise ModelError(f"{self.run.folder} was made from {source}, which is not there any more.")
        return Subject.load(str(there) if there.exists() else source, self.factory, self.device).model

    def _draw(self, exam: Exam) -> dict[str, str]:
        """Draws where the model looked before and looks now, and says why where that is not possible."""
        parts = {name: part for name, part in exam.split.parts().items() if name in ("forget", "retain")}
        try:
            sheets = gradcam.pictures(self._before(), exam.model, parts)
        except (ScissorhandsError, RuntimeError) as error:
            return {PICTURES: str(error).splitlines()[0]}
        with runs.writing(self.run.folder / PICTURES, overwrite=False) as work:
            for name, sheet in sheets.items():
                first(partial(sheet.save, work / f"{name}.png"))
        return {}


def _evidence(run: Run) -> dict[str, Any]:
    """What the run's scores were computed from, and the retrained model's, where it was compared with one."""
    evidence = runs.read_evidence(run.folder)
    there = run.folder / run.result.reference
    other = bool(run.result.reference) and there.resolve() != run.folder.resolve()
    if evidence and other and (retrained := runs.read_evidence(there)):
        evidence["retrained"] = retrained
    return evidence


def _divided(run: Run, train: Records, test: Records) -> Split:
    """The data, divided as it was in the run; refused if it is other data."""
    known = run.record["split"]
    if known["fingerprint"] != train.fingerprint:
        raise DataError(f"{run.record['data']['name']} is not the data of {run.folder}: its content differs.")
    holdout = float(known["holdout"])
    unseen = held_out(train, holdout, int(known["held_seed"])).tolist() if holdout else float(known["unseen"])
    own = f"ids:{run.folder / 'forget.txt'}"  # a list of ids is the user's file, and may be gone
    forget = Forget(own if known["forget"].startswith("ids:") else known["forget"])
    divided = split(train, forget, test=test, unseen=unseen, before=run.ids("before"), seed=int(known["seed"]))
    if divided.manifest != known["manifest"] or divided.forget.ids.tolist() != run.ids("forget"):
        raise DataError(f"{run.folder} cannot be divided as it was: the test data or its forget.txt has changed.")
    return divided
