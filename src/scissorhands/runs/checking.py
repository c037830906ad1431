"""Check a run: its files against its seal, and its scores against the evidence that it keeps."""

from dataclasses import replace
from pathlib import Path

from ..errors import ReadError, RunError, ScissorhandsError
from ..evaluation.evaluate import judge, measure
from ..metrics import METRICS
from .reader import own_reference, read, read_evidence, reference_unchanged, with_reference
from .result import Run
from .seals import EVIDENCE, SCORES


def checked(folder: Path) -> Run:
    """Return the run in a folder, after checking its files and its model, and computing its scores again."""
    run = read(folder)
    if (folder / "model").is_dir():
        run.require_model()
    _require_recomputed(run)
    return run


def _require_recomputed(run: Run) -> None:
    """Refuse scores and a verdict that do not follow from the evidence, as far as that is there."""
    compared = bool(run.result.reference) and not own_reference(run)
    known = not compared or reference_unchanged(run)
    stated, evidence = run.result.scores, with_reference(run) if known else read_evidence(run.folder)
    names = [name for name in stated.values if name in METRICS]
    try:
        found = measure(evidence, names, {}, replace(stated, values={}, failed={}, verdict=None))
        if evidence and known:
            found = judge(found, evidence, run.record["split"].get("kind", "chosen"))
    except (ScissorhandsError, ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError) as error:
        raise ReadError(f"{run.folder / EVIDENCE} cannot be read: {error}") from None
    for name, reason in found.failed.items():
        said = f"says {name} is {stated.values[name]:.2f}, which does not follow from {EVIDENCE}: {reason}"
        raise RunError(f"{run.folder / SCORES} {said}")
    for name, value in found.values.items():
        # A support vector classifier is fitted, and on another machine a record at its boundary may fall otherwise.
        if not abs(stated.values[name] - value) <= (1.0 if name.startswith("mia") else 1e-3):
            said = f"says {name} is {stated.values[name]:.2f}, and by {EVIDENCE} it is {value:.2f}"
            raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")
    if stated.verdict and found.verdict and stated.verdict.call != found.verdict.call:
        said = f"has the verdict '{stated.verdict.call}', and by {EVIDENCE} it is '{found.verdict.call}'"
        raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")
