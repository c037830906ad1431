"""--level: say what a level of evaluation takes, and evaluate a run at it."""

from collections.abc import Mapping
from typing import Any

import click

from ..data.problem import Log
from ..distributed import rank
from ..evaluation.context import Evaluation, discard_shadows
from ..methods.training import Training
from ..metrics import Power, power
from ..runs import Run
from ..runs.audit import Audit
from .console import err
from .describe import duration
from .escape import plain
from .progress import progress


def parsed(
    level: str, settings: tuple[str, ...], training: tuple[str, ...], pictures: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the settings of an evaluation and of its training; refuse what is wrong, or goes with another level."""
    effort, lessons = Evaluation.parsed(settings), Training.parsed(training)
    Evaluation.make(effort)
    Training.make(lessons)
    if (effort or lessons) and level == "quick":
        raise click.UsageError(
            "settings of the evaluation and --train are about what a level above quick trains: add --level standard."
        )
    if pictures and level == "quick":
        raise click.UsageError("--pictures are drawn at a level above quick: add --level standard.")
    return effort, lessons


def foretold(log: Log, level: str, effort: Mapping[str, Any]) -> Log:
    """Return a log that also says what the verdict will be able to tell, before a scrub changes anything."""

    def told(event: Mapping[str, Any]) -> None:
        if "counts" in event:
            references = 0 if level == "quick" else Evaluation.make(effort).references
            err.print(plain(outlook(level, power(event["counts"], event["kind"], references))))
        log(event)

    return told


def outlook(level: str, known: Power) -> str:
    """Say what the verdict can tell at a level.

    >>> outlook("standard", Power(0.69, {}, True, ""))
    'verdict at level standard: can tell; it finds a memory of AUC 0.69 or more'
    """
    can = f"can tell; it finds a memory of AUC {known.smallest_auc:.2f} or more" if known.decides else known.helps
    return f"verdict at level {level}: {can}"


def deepened(audit: Audit, dry_run: bool) -> Run:
    """Return the run with the observations of the level, after saying what that takes here; a dry run only says it."""
    try:
        _show_plan(audit, dry_run)
        if dry_run:
            return audit.run
        with progress(f"level {audit.level}") as log:
            return audit.carry_out(log)
    finally:
        if rank() == 0:
            discard_shadows()


def _show_plan(audit: Audit, dry_run: bool) -> None:
    """Say what the level takes here; the quick level takes nothing, which only a dry run says."""
    if audit.level == "quick":
        if dry_run:
            err.print("level quick trains nothing.")
        return
    steps = audit.plan()
    total = duration(sum(step.seconds for step in steps))
    err.print(
        f"level {audit.level}: {f'about {total}, measured on a few steps here' if steps else 'all of it is there'}"
    )
    for step in steps:
        err.print(f"  {'about ' + duration(step.seconds):>16}  {plain(step.what)}")
