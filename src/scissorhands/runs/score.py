"""Score a model as it is, and compare a run with a reference."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .. import runs
from ..data.problem import Log, ignore
from ..errors import NoReferenceError
from ..evaluation.evaluate import Scores, judge, measure
from ..metrics import METRICS
from ..tasks import PreparedProblem, Task
from . import Result, Run
from .place import Place, about, now


@dataclass(frozen=True)
class Scoring:
    """A model that is to be scored as it is: what it knows of the records that someone wants forgotten."""

    task: Task[Any, Any]
    request: Any
    place: Place
    log: Log = ignore

    @cached_property
    def posed(self) -> PreparedProblem:
        """Load the data and pose the problem, on first access."""
        folder, device = self.place.folder, self.place.torch_device()
        posed: PreparedProblem = self.task.pose(
            self.request, self.place.seed, device, lambda path: runs.from_there(path, folder), self.log
        )
        return posed

    def carry_out(self, reference: Run | None = None) -> Run:
        """Score the model, and write the run."""
        begun = now()
        with runs.writing(self.place.folder, self.place.overwrite) as work:
            scores, observed = self.task.measure(self.posed)
            runs.write_record(work, self._record(begun), self.posed.ids, self.posed.keys)
            if observed:
                runs.write_outputs(work, observed)
            runs.write_result(work, self._result(scores))
            if reference:
                compare(runs.read(work), reference)
        return runs.read(self.place.folder)

    def expected(self) -> Run:
        """Return the run that scoring would make, but for its scores, and write nothing."""
        scores = Scores({}, self.posed.counts, manifest=self.posed.manifest)
        return Run(self.place.folder, self._record(now()), self._result(scores))

    def _record(self, begun: str) -> dict[str, Any]:
        """Say what is scored; its method is that of the run that made it."""
        made = self.task.run.record if self.task.run else {}
        maker = made["method"] if made.get("verb") == "scrub" else {"name": "original"}
        damaged = {"damage": made["damage"]} if made.get("damage") else {}  # it is still so, whatever is scored
        made_by = about("evaluate", self.place, begun, self.posed.record["split"]["forget"])
        record = {**made_by, **damaged, **self.posed.record, "method": maker}
        return {**record, "model": {**record["model"], "weights": self.posed.weights}}

    def _result(self, scores: Scores) -> Result:
        """Return the scores, with what it cost to make the model."""
        made = self.task.run.result if isinstance(self.task.run, Run) else Result(scores)
        return Result(scores, made.seconds, made.memory_mib)


def score(task: Task[Any, Any], request: Any, place: Place, reference: Run | None = None) -> Run:
    """Score a model as it is, and write the run."""
    return Scoring(task, request, place).carry_out(reference)


def compare(run: Run, reference: Run, tried: int | None = None) -> Run:
    """Add to a run how far it is from a reference, from what both have stored."""
    if reference.method == "original":
        raise NoReferenceError(f"{reference.folder} was not scrubbed or retrained, so it is no reference.")
    scores = run.result.scores.against(reference.result.scores)
    observed, retrained = runs.read_outputs(run.folder), runs.read_outputs(reference.folder)
    if observed and retrained:
        observed["retrained"] = retrained
        numbers = observed["forget"].regression
        compared = {name: metric for name, metric in METRICS.items() if "retrained" in metric.needs}
        beside = [name for name, metric in compared.items() if metric.applies_to(numbers)]
        scores = measure(observed, beside, {}, scores)
        itself = run.folder.resolve() == reference.folder.resolve()  # which says nothing about itself
        scores = (
            replace(scores, verdict=None)
            if itself
            else judge(scores, observed, run.record["split"].get("kind", "chosen"))
        )
    result = replace(
        run.result,
        scores=scores,
        reference=runs.from_there(reference.folder, run.folder),
        reference_seconds=reference.result.seconds,
        reference_hash=runs.scores_hash(reference.folder),
        tried=tried if tried is not None else run.result.tried,
    )
    runs.write_result(run.folder, result)
    return runs.read(run.folder)
