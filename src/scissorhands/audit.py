"""Looks at a finished run again: deeper, or beside a reference. What is known already is not computed again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from . import gradcam, models, runs
from .data import Split, held_out, split
from .errors import DataError, RunError, ScissorhandsError
from .evaluate import examine, outputs
from .evidence import Step, plan, wanted
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
from .teacher import Teacher, cache
from .train import Training

PICTURES = "gradcam"


@dataclass(frozen=True)
class Audit:
    """A run to be looked at again, and what may be spent on it.

    `training` are settings of the training of reference models, where the run does not say them or says them wrong.
    """

    run: Run
    level: str
    settings: Evaluation
    training: Mapping[str, Any]
    factory: str | None
    device: torch.device

    def exam(self) -> Exam:
        """The run's model with its data, divided as they were."""
        record = self.run.record
        if record["verb"] == "train":
            raise RunError(f"{self.run.folder} was trained and has nothing to forget yet: say what with --forget.")
        data = Source.make(record["data"]).load()
        model = self._model().to(self.device)
        models.require_fit(model, data.train)
        known: Mapping[str, Any] = {**record.get("training", {}), **self.training}
        start = record["model"]["origin"] if isinstance(model, HuggingFaceClassifier) and record.get("training") else ""
        about = str(record["data"].get("augment", ""))
        teacher = Teacher(model, Training.make(known), start, data.augment, about, cache()) if known else None
        values = self.run.result.values()
        return Exam(
            model,
            _divided(self.run, data.train, data.test),
            self.settings,
            teacher,
            find(self.run.method).make(self.run.settings) if self.run.method != "original" else None,
            self.run.result.seconds or 0.0,
            record.get("forget_accuracy_before", values.get("forget_accuracy")),
        )

    def plan(self) -> list[Step]:
        """What will be trained and looked at, and about how long each takes here."""
        names = wanted(self.level, self.run.result.scores.values, runs.read_evidence(self.run.folder))
        return plan(self.exam(), names) if names else []

    def carry_out(self, log: Log = ignore) -> Run:
        """Adds to the run what is missing up to the level."""
        if self.level == "quick":
            return self.run  # a run that is there was scored at that level
        evidence: Evidence = _evidence(self.run)
        drawn = (self.run.folder / PICTURES).exists() or PICTURES in self.run.result.scores.failed
        if evidence and drawn and not wanted(self.level, self.run.result.scores.values, evidence):
            return self.run
        exam = self.exam()
        evidence = evidence or outputs(exam.model, exam.split.parts())
        scores, evidence = examine(exam, evidence, self.level, self.run.result.scores, log)
        if not drawn:
            scores = replace(scores, failed={**scores.failed, **self._draw(exam)})
        runs.write_evidence(self.run.folder, evidence)
        runs.write_result(self.run.folder, replace(self.run.result, scores=scores))
        return runs.read(self.run.folder)

    def _model(self) -> nn.Module:
        """The model that the run made, or that it scored."""
        own = self.run.folder / "model"
        return models.load(own, self.factory)[0] if own.is_dir() else self._before()

    def _before(self) -> nn.Module:
        """The model as it was before the run."""
        source = str(self.run.record["model"]["source"])
        there = self.run.folder / source
        return Subject.load(str(there) if there.exists() else source, self.factory).model

    def _draw(self, exam: Exam) -> dict[str, str]:
        """Draws where the model looked before and looks now, and says why where that is not possible."""
        parts = {name: part for name, part in exam.split.parts().items() if name in ("forget", "retain")}
        try:
            sheets = gradcam.pictures(self._before().to(self.device), exam.model, parts)
        except (ScissorhandsError, RuntimeError) as error:
            return {PICTURES: str(error).splitlines()[0]}
        with runs.writing(self.run.folder / PICTURES, overwrite=False) as work:
            for name, sheet in sheets.items():
                sheet.save(work / f"{name}.png")
        return {}


def _evidence(run: Run) -> dict[str, Any]:
    """What the run's scores were computed from, and the retrained model's, where it was compared with one."""
    evidence = runs.read_evidence(run.folder)
    there = run.folder / run.result.reference
    if evidence and run.result.reference and there.resolve() != run.folder.resolve() and there.is_dir():
        evidence["retrained"] = runs.read_evidence(there)
    return evidence


def _divided(run: Run, train: Records, test: Records) -> Split:
    """The data, divided as it was in the run; refused if it is other data."""
    known = run.record["split"]
    if known["fingerprint"] != train.fingerprint:
        raise DataError(f"{run.record['data']['name']} is not the data of {run.folder}: its content differs.")
    holdout = float(known["holdout"])
    unseen = held_out(train, holdout, int(known["held_seed"])).tolist() if holdout else float(known["unseen"])
    forget = Forget(f"ids:{run.folder / 'forget.txt'}")
    divided = split(train, forget, test=test, unseen=unseen, before=run.ids("before"), seed=int(known["seed"]))
    divided = replace(divided, kind=known["kind"])
    if divided.manifest != known["manifest"]:
        raise DataError(f"{run.folder} cannot be divided again as it was: its manifest differs.")
    return divided
