"""Read a run folder: the run, the outputs behind its scores, and whether its reference is still the same."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ..errors import ReadError, RunError
from ..evaluation.observations import from_tensors
from ..files import read_metadata, read_tensors, read_toml
from ..metrics import METRICS
from .layout import is_run
from .pending import again, resumable
from .result import Result, Run
from .seals import OUTPUTS, SCORES, read_scores, require_record, require_unchanged, tensors_seal


def read(folder: Path) -> Run:
    """Read the run in a folder."""
    if not folder.is_dir() and resumable(folder):
        raise RunError(f"{folder} is not finished. Go on with '{again(folder)}'.")
    if not folder.is_dir():
        raise RunError(f"there is no run folder '{folder}'.")
    if not is_run(folder):
        raise RunError(f"{folder} is not a run folder: it has no run.toml.")
    if not (folder / SCORES).exists():
        raise RunError(f"{folder} has no scores.json: the run did not finish. Run it again with --overwrite.")
    record, stored = read_toml(folder / "run.toml"), read_scores(folder)
    require_record(record, folder / "run.toml")
    require_unchanged(folder, stored)
    try:
        run = Run(folder, record, Result.from_dict(stored))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"{folder} cannot be read as a run: {type(error).__name__}: {error}") from None
    if record["verb"] == "scrub":
        _require_forgotten(run)
    return run


def _require_forgotten(run: Run) -> None:
    """Refuse a scrubbed run that does not list what it forgot: the next scrub of it would retain those records."""
    divided, counts = run.record["split"], run.result.scores.counts
    if not divided["manifest"] or divided["manifest"] != run.result.scores.manifest:
        said = f"'{divided['manifest']}' in run.toml and '{run.result.scores.manifest}' in {SCORES}"
        raise RunError(f"{run.folder} forgot something, and its manifest is {said}. Restore it, or make the run again.")
    listed = len({*run.ids("forget")})
    for stated in (divided.get("forget_records", listed), counts.get("forget", listed)):
        if stated != listed or not listed:
            said = f"forgot {stated or 'some'} records, and its forget.txt lists {listed}"
            raise RunError(f"{run.folder} {said}. Restore it, or make the run again.")


def scores_hash(folder: Path) -> str:
    """Hash what a run is worth by itself; comparing it with a reference, even with itself, does not change that."""
    result = read(folder).result
    beside = {name for name, metric in METRICS.items() if "retrained" in metric.needs}
    values = {name: value for name, value in result.scores.values.items() if name not in beside}
    own = [result.scores.manifest, values, dict(result.scores.counts), result.seconds]
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


def read_outputs(folder: Path) -> dict[str, Any]:
    """Read the outputs behind a run's scores; empty where none was kept. Refuse it where it was edited."""
    path = folder / OUTPUTS
    if not path.exists():
        return {}
    tensors = read_tensors(path)
    if read_metadata(path).get("seal") != tensors_seal(tensors):
        raise RunError(f"{path} was changed after it was written. Make the run again.")
    try:
        return from_tensors(tensors)
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise ReadError(f"{path} cannot be read: {error}") from None


def with_reference(run: Run) -> dict[str, Any]:
    """Read the outputs behind a run's scores, with those of the retrained model that it was compared with.

    A reference that has changed since may have forgotten something else, so it is left out.
    """
    observed, there = read_outputs(run.folder), run.folder / run.result.reference
    compared = observed and run.result.reference and not own_reference(run)
    if compared and reference_unchanged(run) and (retrained := read_outputs(there)):
        observed["retrained"] = retrained
    return observed


def own_reference(run: Run) -> bool:
    return bool(run.result.reference) and (run.folder / run.result.reference).resolve() == run.folder.resolve()


def reference_unchanged(run: Run) -> bool:
    """Return whether the reference is as it was when the run was compared with it."""
    there = run.folder / run.result.reference
    try:
        return is_run(there) and scores_hash(there) == run.result.reference_hash
    except RunError:
        return False
