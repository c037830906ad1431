"""Make a model forget, whatever kind of model it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .. import runs, tasks
from ..data.problem import Log, ignore
from ..distributed import any_rank, local_state, on_rank_0
from ..errors import FailedError
from ..tasks import PreparedProblem, Read, each_time
from . import Result, Run
from .place import Place, about, restore_thread_count, run_inputs
from .seals import model_files
from .subject import load
from .work import run_with_checkpoints


def scrub(
    source: str,
    request: Any,
    method: str,
    values: Mapping[str, Any],
    place: Place,
    factory: str | None = None,
    read: Read = each_time,
    log: Log = ignore,
    tuning: Mapping[str, Any] | None = None,
) -> Run:
    """Make a model forget, and write the scrubbed model with its scores; `tuning` is what the settings cost."""
    kind = tasks.method(method, tasks.asked_of(source, request), source)
    kind.make(values)  # what is wrong with a setting shows before anything is loaded
    restore_thread_count(place)
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite, place.resume) as work:
        task = load(source, factory, device, read)
        chosen = kind.make({**task.defaults(kind), **values})
        costs = {"tuning": dict(tuning)} if tuning else {}
        posed = task.pose(request, place.seed, device, lambda path: runs.from_there(path, place.folder), log)
        begun = runs.begin(
            work, run_inputs("scrub", {**_inputs(source, posed, method, chosen.to_dict()), **costs}, place)
        )
        if split := posed.record["split"].get("kind"):  # a pipeline has none, and no verdict
            log({"counts": dict(posed.counts), "kind": split})
        before, observed_before = task.before(posed)
        cost = run_with_checkpoints(
            lambda case, keep: chosen.scrub(posed.model, case, keep), posed.model, posed.problem, work, place, log
        )
        _require_finite(posed, method)
        scores, observed = task.measure(posed, method, observed_before)
        task.save(posed, work)
        record = {
            **about("scrub", place, begun, posed.record["split"]["forget"]),
            **{f"{name}_before": value for name, value in before.items()},
            "damage": task.damage(kind, before, scores),
            **posed.record,
            "method": {"name": method, **chosen.to_dict()},
            **costs,
            "source_files": on_rank_0(lambda: model_files(Path(source))),
        }
        runs.write_record(work, record, posed.ids, posed.keys, posed.inventory)
        if observed:
            runs.write_outputs(work, observed)
        tried, seconds = (costs.get("tuning", {}).get(name) for name in ("trials", "seconds"))
        result = Result(scores, cost.seconds, cost.memory_mib, tried=tried, tuning_seconds=seconds)
        runs.write_result(work, result)
    return runs.read(place.folder)


def _inputs(source: str, posed: PreparedProblem, method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that the run depends on, as begun.toml has it."""
    return {
        "model": str(Path(source).absolute()) if Path(source).exists() else source,
        **posed.inputs,
        "method": method,
        "settings": settings,
        "weights": posed.weights,
        "manifest": posed.manifest,
    }


def _require_finite(posed: PreparedProblem, method: str) -> None:
    """Refuse weights that are not finite."""
    if any_rank(not all(bool(torch.isfinite(x).all()) for x in local_state(posed.model).values())):
        raise FailedError(f"{method} diverged: it left NaN or infinite weights, so nothing was written.")
