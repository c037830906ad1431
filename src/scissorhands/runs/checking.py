"""Check a run: its files against its seal, and its scores against the outputs that it keeps."""

from dataclasses import replace
from pathlib import Path

from ..errors import ReadError, RunError, ScissorhandsError
from ..evaluation.evaluate import judge, measure
from ..methods import METHODS
from ..methods.damage import damage, judged
from ..metrics import METRICS, Observations, Outputs
from .reader import own_reference, read, reference_unchanged, with_reference
from .result import Run
from .seals import OUTPUTS, SCORES


def checked(folder: Path) -> Run:
    """Return the run in a folder, after checking its files and its model, and computing its scores again."""
    run = read(folder)
    if (folder / "model").is_dir():
        run.require_model()
    _require_same_reference(run)
    _require_same_damage(run)
    return _recomputed(run)


def _require_same_reference(run: Run) -> None:
    """Refuse numbers of the reference that are not its own, where it is there and unchanged."""
    if not run.result.reference or own_reference(run) or not reference_unchanged(run):
        return
    there = read(run.folder / run.result.reference).result
    own = {**there.scores.values, "seconds": there.seconds}
    for name, value in {**run.result.scores.reference, "seconds": run.result.reference_seconds}.items():
        beside = name in METRICS and "retrained" in METRICS[name].needs  # of a reference that was compared, too
        if not beside and value != own.get(name):
            said = f"says {name} of its reference is {value}, and by {run.result.reference} it is {own.get(name)}"
            raise RunError(f"{run.folder / SCORES} {said}. Compare them again.")


def _require_same_damage(run: Run) -> None:
    """Refuse a scrubbed run whose recorded damage is not the one that follows from its scores."""
    if run.record["verb"] != "scrub":
        return
    suffix = "_before"
    before = {name.removesuffix(suffix): x for name, x in run.record.items() if name.endswith(suffix)}
    judged_on = METHODS[run.method].judged_on if run.method in METHODS else ("retain",)
    found = damage(judged(before, run.result.scores.counts, judged_on), run.result.scores.values)
    # Of somebody's own method only this is known: it must not make the retained data worse.
    holds = found == run.damage if run.method in METHODS else run.damage.startswith(found)
    if not holds:
        said = f"says of its damage '{run.damage}', and by its numbers it is '{found}'"
        raise RunError(f"{run.folder / 'run.toml'} {said}. Make the run again.")


def _require_same_counts(run: Run, observed: Observations) -> None:
    """Refuse numbers of records that are not those of the outputs."""
    for name, count in run.result.scores.counts.items():
        said_of = observed.get(name)
        if isinstance(said_of, Outputs) and len(said_of) != count:
            said = f"says that {count} records are '{name}', and by {OUTPUTS} it is {len(said_of)}"
            raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")


def _recomputed(run: Run) -> Run:
    """Refuse scores and a verdict that do not follow from the outputs, as far as those are there.

    A verdict that is missing, since somebody removed it or an evaluation was killed, is the one that follows.
    """
    compared = bool(run.result.reference) and not own_reference(run)
    known = not compared or reference_unchanged(run)
    stated, observed = run.result.scores, with_reference(run)
    _require_same_counts(run, observed)
    names = [name for name in stated.values if name in METRICS]
    try:
        found = measure(observed, names, {}, replace(stated, values={}, failed={}, verdict=None))
        if observed and known:
            found = judge(found, observed, run.record["split"].get("kind", "chosen"))
    except (ScissorhandsError, ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError) as error:
        raise ReadError(f"{run.folder / OUTPUTS} cannot be read: {error}") from None
    for name, reason in found.failed.items():
        said = f"says {name} is {stated.values[name]:.2f}, which does not follow from {OUTPUTS}: {reason}"
        raise RunError(f"{run.folder / SCORES} {said}")
    for name, value in found.values.items():
        # A support vector classifier is fitted, and on another machine a record at its boundary may fall otherwise.
        if not abs(stated.values[name] - value) <= (1.0 if name.startswith("mia") else 1e-3):
            said = f"says {name} is {stated.values[name]:.2f}, and by {OUTPUTS} it is {value:.2f}"
            raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")
    if stated.verdict and found.verdict and stated.verdict.call != found.verdict.call:
        said = f"has the verdict '{stated.verdict.call}', and by {OUTPUTS} it is '{found.verdict.call}'"
        raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")
    if stated.verdict or own_reference(run):
        return run
    return replace(run, result=replace(run.result, scores=replace(stated, verdict=found.verdict)))
