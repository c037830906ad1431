"""What commands print: results, tables, progress, warnings."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid
from rich.text import Text

from ..bench.plan import Plan
from ..data.problem import Log, ignore
from ..methods.damage import advice
from ..metrics import METRICS
from ..report import table
from ..runs import Run
from .describe import shown as typed
from .escape import one_line, plain
from .exit_codes import exit_if_damaged

out = Console(highlight=False, emoji=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def say_json(value: Any) -> None:
    """Print a value as JSON, which has no infinity and no NaN: they become null."""

    def finite(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {name: finite(inner) for name, inner in one.items()}
        if isinstance(one, list | tuple):
            return [finite(inner) for inner in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    if not out.quiet:
        click.echo(json.dumps(finite(value), indent=2))


@contextmanager
def progress() -> Iterator[Log]:
    """Give a log that moves a bar in a terminal, and is quiet where the output is piped."""
    if not err.is_terminal:
        yield ignore
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def log(event: Mapping[str, Any]) -> None:
            if "steps" not in event:
                return
            phase = event["phase"]
            if phase not in tasks or event["step"] <= bar.tasks[tasks[phase]].completed:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[phase] = bar.add_task(phase, total=event["steps"])
            loss = f" {event['loss']:8.4f}" if "loss" in event else ""
            bar.update(tasks[phase], completed=event["step"], description=f"{phase}{loss}")

        yield log


def show_made(run: Run, as_json: bool) -> None:
    """Show a run that was just made, and end with exit code 3 if it damaged its model."""
    show(run, as_json)
    exit_if_damaged(run)


def show(run: Run, as_json: bool) -> None:
    """Show a run, a line per number, beside what a retrained model has or would have."""
    if run.damage:
        err.print(f"[bold yellow]warning:[/] {plain(advice(run.damage))}")
    for sentence in table.stale([run]):
        err.print(f"[bold yellow]warning:[/] {plain(sentence)}")
    if as_json:
        say_json({"run": str(run.folder), "damage": run.damage, **run.result.to_dict()})
    elif "forget_error_before" in run.record:
        _show_errors(run)
    else:
        _show_scores(run)


def _show_scores(run: Run) -> None:
    """Show the scores of a classifier, and the verdict."""
    row = table.tabulate([run]).rows[0]
    scores = run.result.scores
    grid = Grid(plain(run.method), "", "retrained", box=None, pad_edge=False, header_style="bold")
    for name in table.tabulate([run]).names():
        known = scores.reference.get(name)
        expected = METRICS[name].retrained if known is None else f"{known:.{METRICS[name].digits}f}"
        cell = row.cell(name)
        beside = row.failed[name] if cell == "failed" else expected
        grid.add_row(table.TITLES[name], cell, Text(one_line(beside), style="dim"))
    grid.columns[1].justify = "right"
    _wide(200 if not out.is_terminal else out.width).print(grid)
    for name, reason in scores.failed.items():
        if name not in METRICS:
            err.print(f"{plain(name)} failed: {plain(reason)}")
    if scores.verdict:
        call, reason = one_line(scores.verdict.call), one_line(scores.verdict.reason)
        out.print(Text.assemble((call, "bold"), f": {reason}"))


def _show_errors(run: Run) -> None:
    """Show what erasing did to the loss, on the images of the concept and on the others."""
    grid = Grid(plain(run.method), "before", "after", box=None, pad_edge=False, header_style="bold")
    for name, title in (("forget", "loss on the concept"), ("retain", "loss on the rest")):
        values = run.record[f"{name}_error_before"], run.result.scores[f"{name}_error"]
        grid.add_row(title, *(f"{value:.4f}" for value in values))
    _wide(out.width).print(grid)
    out.print(f"{plain(run.folder)} is the pipeline; look at what it draws: scissorhands sample.")


def show_table(shown: table.Table, as_json: bool) -> None:
    """Show a table of runs: warnings of damage first, then a line per method, then what has failed."""
    for sentence in shown.damage():
        err.print(f"[bold yellow]warning:[/] damaged: {plain(sentence)}")
    if as_json:
        say_json(shown.to_dict())
        return
    names = shown.names(table.MAIN)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("method", no_wrap=True)
    for name in names:
        grid.add_column(table.TITLES[name], justify="right", no_wrap=True)
    if judged := shown.judged():
        grid.add_column("verdict", no_wrap=True)
    for row in shown.all_rows():
        grid.add_row(
            plain(row.method), *(row.cell(name) for name in names), *([plain(row.verdict())] if judged else [])
        )
    needed = Measurement.get(out, out.options.update(width=10_000), grid).maximum
    _wide(max(out.width, needed)).print(grid)  # a narrow terminal folds it, and hides nothing
    for row in shown.rows:
        for name in names:
            if row.cell(name) == "failed":
                err.print(f"{plain(row.method)}: {table.TITLES[name]} failed: {plain(row.failed[name])}")
    for note in shown.notes():
        out.print(plain(note))


def show_bench(shown: table.Table, folder: Path, as_json: bool) -> None:
    """Show the table of a bench, and where its page is."""
    show_table(shown, as_json)
    err.print(f"wrote {plain(folder / 'report.html')} and {plain(folder / 'table.json')}")


def show_plan(planned: Plan, as_json: bool) -> None:
    """Show what a recipe would run: settings with their sources, the runs, the time, and what is missing."""
    if as_json:
        say_json(vars(planned))
        return
    show_rows(planned.settings, as_json)
    for name in planned.runs:
        out.print(plain(name))
    out.print(f"{plain(planned.title)}: {planned.count}. Nothing was run or written.")
    if planned.seconds is not None:
        out.print(f"All steps take about {_duration(planned.seconds)} on this machine; scoring comes on top.")
    else:
        out.print("How long it takes is unknown.")
    for one in planned.missing:
        out.print(f"missing: {plain(one)}")


def _duration(seconds: float) -> str:
    """Return a time as a person says it.

    >>> _duration(40), _duration(100), _duration(7260), _duration(200000)
    ('1 min', '2 min', '2.0 h', '2.3 days')
    """
    if seconds < 3600:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86400 else f"{seconds / 86400:.1f} days"


def show_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Show rows that have the same columns."""
    if as_json:
        say_json(rows)
        return
    grid = Grid(*rows[0], box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(plain(typed(value)) for value in row.values()))
    _wide(200 if not out.is_terminal else out.width).print(grid)


def _wide(width: int) -> Console:
    """Return the output, that many characters wide."""
    return Console(highlight=False, emoji=False, width=width, quiet=out.quiet)
