"""Evaluate a finished run at a deeper level. What is known already is not computed again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch

from .. import files, runs, tasks
from ..data.problem import Log, ignore
from ..data.records import Augment
from ..data.split import Split
from ..distributed import on_rank_0
from ..errors import ModelError, RunError, ScissorhandsError
from ..evaluation.context import Context, Evaluation
from ..evaluation.evaluate import Scores, examine, outputs
from ..evaluation.observations import Step, computable, plan, still_good, wanted
from ..evaluation.reference_models import Trainer
from ..methods import Method, find
from ..methods.training import Training
from ..metrics import Observations
from ..tasks import DividedTask, Division, Read, each_time
from ..tasks.classification.models import fingerprint
from . import PICTURES, Run
from .score import Scoring
from .subject import load


@dataclass(frozen=True)
class Audit:
    """A finished run to evaluate, and how deeply.

    `settings` are those of the evaluation, `training` those of the training of reference models; what is not given is
    as it was the last time, and at first the default, or as the original was trained. A user's code runs only if it
    is named, as `factory` or as `method`. With `pictures` it draws where the model looks, on forgotten records too.
    `scoring` is what just scored the run, whose model and data are then not loaded again; `read` loads data.
    """

    run: Run
    level: str
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    factory: str | None
    device: torch.device
    method: str | None = None
    pictures: bool = False
    scoring: Scoring | None = None
    read: Read = each_time

    def plan(self) -> list[Step]:
        """Say what will be trained and looked at, and about how long each takes here."""
        scores, observed = self._known()
        at_hand = observed or (self.scoring.posed.counts if self.scoring else {})
        names = wanted(self.level, scores.values, at_hand, self._regression)
        return plan(self._context, names) if names else []

    def carry_out(self, log: Log = ignore) -> Run:
        """Add to the run what is missing up to the level."""
        if self.level == "quick":
            return self.run  # a run that is there was scored at that level
        scores, observed = self._known()
        numbers = self._regression
        drawn = not self.pictures or (self.run.folder / PICTURES).exists() or PICTURES in scores.failed
        settled = {*scores.values, *scores.failed}
        missing = wanted(self.level, scores.values, observed, numbers)
        if drawn and not missing and not computable(self.level, settled, observed, numbers):
            return self.run
        context = self._context
        self._require_same(observed, context.split)
        observed = observed or outputs(context.model, context.split.parts())
        scores, observed = examine(context, observed, self.level, scores, log)
        if not drawn:
            scores = replace(scores, failed={**scores.failed, **self._draw(context)})
        # Whenever it is killed, what is stored follows from the outputs: first without what changes, then with it.
        kept = replace(self._known()[0], verdict=None)
        runs.write_result(self.run.folder, replace(self.run.result, scores=kept))
        runs.write_outputs(self.run.folder, observed)
        runs.write_result(self.run.folder, replace(self.run.result, scores=scores, examined=self._settings()))
        return runs.read(self.run.folder)

    def _require_same(self, observed: Observations, split: Split) -> None:
        """Refuse outputs on other records than those of the split."""
        for name, part in split.parts().items():
            if name in observed and len(observed[name]) != len(part):
                said = f"scored on {len(observed[name])} records of the part '{name}', and there are {len(part)}"
                raise RunError(f"{self.run.folder} was {said}: it was made by another version. Make the run again.")

    @property
    def _regression(self) -> bool:
        """Whether the run is about numbers to predict."""
        return self.scoring.posed.problem.regression if self.scoring else "retain_mae" in self.run.result.scores.values

    def _settings(self) -> dict[str, Any]:
        """Return all settings that the evaluation depends on, as plain values."""
        before = dict(self.run.result.examined)
        trained = {**self.run.record.get("training", {}), **before.pop("training", {}), **self.training}
        return {**Evaluation.make({**before, **self.settings}).to_dict(), "training": trained}

    def _known(self) -> tuple[Scores, Observations]:
        """Return the stored scores and outputs, without those that a changed setting makes stale."""
        scores = self.run.result.scores
        observed = runs.with_reference(self.run) if scores.values else {}  # one that is only expected has none
        before, now = self.run.result.examined, self._settings()
        kept = {*still_good([*scores.values, *scores.failed, *observed], before, now)}
        values = {name: value for name, value in scores.values.items() if name in kept}
        failed = {name: reason for name, reason in scores.failed.items() if name in kept}
        return replace(scores, values=values, failed=failed), {k: x for k, x in observed.items() if k in kept}

    @cached_property
    def _context(self) -> Context:
        """Return the run's model with its data, split as they were."""
        record = self.run.record
        if record["verb"] == "train":
            raise RunError(f"{self.run.folder} was trained and has nothing to forget yet: say what with --forget.")
        task, posed = self._task, self.scoring.posed if self.scoring else None
        divided, augment = (
            (posed.split, posed.problem.augment) if isinstance(posed, Division) else task.divided(self.run)
        )
        scrubbed = record["verb"] == "scrub"
        values = self.run.result.scores.values
        was = {name.removesuffix("_before"): x for name, x in record.items()} if scrubbed else values
        known = -was["forget_mae"] if "forget_mae" in was else was.get("forget_accuracy")
        settings = {name: value for name, value in self._settings().items() if name != "training"}
        return Context(
            task.model,
            divided,
            Evaluation.make(settings),
            self._trainer(task, augment),
            self._method() if scrubbed and self.level == "deep" else None,
            self.run.result.seconds or 0.0,
            known if scrubbed or self.run.method == "original" else None,
        )

    def _trainer(self, task: DividedTask[Any], augment: Augment | None) -> Trainer | None:
        """Return what trains reference models, where it is known how."""
        record, training = self.run.record, self._settings()["training"]
        pretrained = task.pretrained and record.get("training")
        start, about = record["model"]["origin"] if pretrained else "", str(record["data"].get("augment", ""))
        if not training:
            return None
        return Trainer(task.model, Training.make(training), start, augment, about, files.cache("models"))

    def _method(self) -> Method:
        """Return the method that is applied to shadow models."""
        name = self.run.method
        if ":" in name and name != self.method:
            raise RunError(f"the run needs the code '{name}'. If you trust it, name it: --method {name}")
        return find(name).make(self.run.settings)

    @cached_property
    def _task(self) -> DividedTask[Any]:
        """Load the model that the run made or scored."""
        if (self.run.folder / "model").is_dir():
            return self._load(str(self.run.folder))
        scored = self.run.record["model"].get("weights")
        if not self.scoring and scored and scored != fingerprint(self._before.model):
            raise ModelError(f"the model that {self.run.folder} scored has changed since: score it again.")
        return self._before

    @cached_property
    def _before(self) -> DividedTask[Any]:
        """Load the model as it was before the run."""
        if self.scoring and isinstance(self.scoring.task, DividedTask):
            return self.scoring.task
        source = str(self.run.record["model"]["source"])
        there = self.run.folder / source
        if source.startswith("..") and not there.exists():
            raise ModelError(f"{self.run.folder} was made from {source}, which is not there any more.")
        return self._load(str(there) if there.exists() else source)

    def _load(self, source: str) -> DividedTask[Any]:
        """Load a model; refuse one of a kind that does not have the level."""
        tasks.require_level(self.level, tasks.find(source), source)
        found = load(source, self.factory, self.device, self.read)
        assert isinstance(found, DividedTask)
        return found

    def _draw(self, context: Context) -> dict[str, str]:
        """Draw Grad-CAM pictures before and after the run; if that fails, return the reason."""
        parts = {name: part for name, part in context.split.parts().items() if name in ("forget", "retain")}
        try:
            sheets = self._task.pictures(self._before, parts)
        except (ScissorhandsError, RuntimeError) as error:
            return {PICTURES: str(error).splitlines()[0]}
        with runs.writing(self.run.folder / PICTURES, overwrite=False) as work:
            on_rank_0(partial(work.chmod, 0o700))
            for name, sheet in sheets.items():
                on_rank_0(partial(sheet.save, work / f"{name}.png"))
        return {}
