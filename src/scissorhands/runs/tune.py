"""Tune: try settings of a method on records that no score is about, and keep the best.

The trials are an Optuna study in a file or a database, so they can be stopped and resumed, and shared by machines.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from .. import tasks
from ..data.problem import Log, Problem, ignore
from ..distributed import world_size
from ..errors import FailedError, ModelError, RunError, SettingError
from ..evaluation.practice import WORST, GapEstimate, practice
from ..files import read_toml, write_text
from ..methods import Method
from ..methods.damage import utility
from ..methods.parameters import restore, snapshot
from ..methods.search import Span, search_space
from ..randomness import key
from ..settings import REQUIRED, Settings, at_least_one, non_negative, setting, table, text, to_toml
from ..tasks import DividedTask, Task
from ..tasks.diffusion.extras import imported
from .place import Place
from .subject import load

TUNED, STUDY = "tuned.toml", "study.journal"
_DIGITS = 3  # of a setting that is tried


@dataclass(frozen=True, kw_only=True)
class Tuned(Settings):
    """The settings that a search chose, and what it cost."""

    method: str = setting(REQUIRED, text, "name of the method")
    settings: dict[str, Any] = setting(REQUIRED, table, "its settings, those that were given and those that were found")
    trials: int = setting(REQUIRED, at_least_one, "runs that chose them")
    seconds: float = setting(REQUIRED, non_negative, "time of these runs")
    estimate: float = setting(REQUIRED, non_negative, "estimated Avg. Gap on the records of the search")

    @classmethod
    def read(cls, path: Path) -> "Tuned":
        """Read what `tune` wrote."""
        try:
            return cls.make(read_toml(path))
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None

    def cost(self) -> dict[str, Any]:
        """Return what a run says of how its settings were chosen."""
        return {"trials": self.trials, "seconds": self.seconds, "estimate": self.estimate}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Where trials are kept, and how many there shall be in all, over all machines that share them."""

    folder: Path
    trials: int
    storage: str = ""  # a file or a database, by default a file in the folder


def tune(
    source: str,
    request: Any,
    method: str,
    values: Mapping[str, Any],
    study: Study,
    place: Place,
    factory: str | None = None,
    log: Log = ignore,
) -> Tuned:
    """Search settings for a request, on other records than it names; those in `values` stay."""
    optuna = require_optuna()
    kind = tasks.method(method, tasks.asked_of(source, request), source)
    kind.make(values)
    device = place.torch_device()
    task: Task[Any, Any] = load(source, factory, device)
    if not isinstance(task, DividedTask):
        raise ModelError(f"{source} is a {task.noun}, and settings are searched for classifiers.")
    posed = task.pose(request, place.seed, device, str, log)
    if not posed.inputs["untrained"] and (guess := utility(posed.model, posed.problem)["guess"]):
        raise ModelError(f"{guess}: do labels and inputs fit {source}? To go on all the same, add --untrained.")
    chosen = kind.make({**task.defaults(kind), **values})
    search = Search(posed.model, practice(posed.problem), method, chosen, values, posed.weights + posed.manifest)
    return search.carry_out(study, optuna, log)


def require_optuna() -> Any:
    """Return Optuna; refuse a search that could not run."""
    if world_size() > 1:
        raise SettingError("a search runs in one process; let several machines share one by --storage.")
    return imported("optuna", "tune")


@dataclass(frozen=True)
class Search:
    """A method whose settings are searched on a problem; `given` are those that stay."""

    model: nn.Module
    problem: Problem
    name: str
    method: Method
    given: Mapping[str, Any]
    about: str  # a hash of the model and the data

    def carry_out(self, study: Study, optuna: Any, log: Log = ignore) -> Tuned:
        """Run the trials that are missing, and write the best settings."""
        space = search_space(self.method, self.given)
        estimate, original = GapEstimate(self.model, self.problem), snapshot(self.model)
        known = _opened(optuna, study, f"{self.name}-{self._digest(space)}")
        states = optuna.trial.TrialState
        over = partial(known.get_trials, deepcopy=False, states=(states.COMPLETE, states.PRUNED))
        first = {name: getattr(self.method, name) for name in space}
        if first not in [trial.params for trial in over()]:
            known.enqueue_trial(first)
        while (done := len(over())) < study.trials:
            seed = key(self.problem.seed, "trials", len(known.get_trials(deepcopy=False))) % 2**32
            known.sampler = optuna.samplers.TPESampler(seed=seed)
            trial = known.ask()
            restore(self.model, original)
            settings = _suggested(trial, space)
            said = _numbered(log, f"{self.name}, trial {done + 1} of {study.trials}")
            try:
                value = self._try(settings, trial, estimate, optuna, said)
            except BaseException:
                known.tell(trial, state=states.FAIL)
                raise
            known.tell(trial, value) if value is not None else known.tell(trial, state=states.PRUNED)
        restore(self.model, original)
        tuned = self._best(known, over(), space)
        write_text(study.folder / TUNED, to_toml(tuned.to_dict()))
        return tuned

    def _try(self, settings: dict[str, Any], trial: Any, estimate: GapEstimate, optuna: Any, log: Log) -> float | None:
        """Scrub once with these settings; return the estimated gap, or None if it was given up on the way."""
        begun, marks = time.perf_counter(), []

        def watch(event: Mapping[str, Any]) -> None:
            log(event)
            mark = event["phase"], event.get("epoch")
            if mark[1] and mark not in marks:  # an epoch is over, and another has begun
                marks.append(mark)
                trial.report(estimate.of(self.model), len(marks))
                if trial.should_prune():
                    raise optuna.TrialPruned

        try:
            replace(self.method, **settings).scrub(self.model, self.problem, watch)
            return estimate.of(self.model)
        except FailedError:
            return WORST
        except optuna.TrialPruned:
            return None
        finally:
            trial.set_user_attr("seconds", time.perf_counter() - begun)

    def _best(self, known: Any, over: list[Any], space: Mapping[str, Span]) -> Tuned:
        best = known.best_trial
        if best.value == WORST:
            raise FailedError(f"{self.name} diverged in every trial: leave its learning rate to the search.")
        found = {name: _rounded(value) for name, value in best.params.items()}
        seconds = sum(trial.user_attrs.get("seconds", 0.0) for trial in over)
        return Tuned(
            method=self.name,
            settings={**self.given, **found},
            trials=len(over),
            seconds=seconds,
            estimate=best.value,
        )

    def _digest(self, space: Mapping[str, Span]) -> str:
        """Hash all that trials depend on, so that a study has no others."""
        spans = {name: vars(span) for name, span in space.items()}
        content = [self.about, self.method.to_dict(), spans, self.problem.seed, self.problem.forget.ids.tolist()]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def _opened(optuna: Any, study: Study, name: str) -> Any:
    """Open the study of that name, or begin it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    where: Any = study.storage or str(study.folder / STUDY)
    try:
        study.folder.mkdir(parents=True, exist_ok=True)
        if "://" not in where:
            journal = imported("optuna.storages.journal", "tune")
            where = optuna.storages.JournalStorage(journal.JournalFileBackend(where))
        # Gaps may fall late, so only the worst quarter is given up.
        pruner = optuna.pruners.PercentilePruner(75.0, n_startup_trials=5, n_warmup_steps=2)
        return optuna.create_study(storage=where, study_name=name, pruner=pruner, load_if_exists=True)
    except Exception as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise RunError(f"the trials cannot be kept in {study.storage or where}: {said}") from None


def _suggested(trial: Any, space: Mapping[str, Span]) -> dict[str, Any]:
    """Draw settings."""
    for name, span in space.items():
        draw = trial.suggest_int if span.whole else trial.suggest_float
        draw(name, span.low, span.high, log=True)
    return {name: _rounded(value) for name, value in trial.params.items()}


def _rounded(value: float) -> float:
    """Keep as many digits as a person would type.

    >>> _rounded(0.0123456), _rounded(7)
    (0.0123, 7)
    """
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def _numbered(log: Log, trial: str) -> Log:
    """Return a log that says in which trial something happens."""

    def numbered(event: Mapping[str, Any]) -> None:
        log({**event, "phase": f"{trial}: {event['phase']}"})

    return numbered
