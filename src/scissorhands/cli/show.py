"""What commands print: results, tables, warnings."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from .. import tasks
from ..bench.plan import Plan
from ..methods.damage import advice
from ..metrics import METRICS
from ..report import table
from ..report.compare import Comparison
from ..runs import Run
from .console import err, out, say_json
from .describe import duration
from .describe import shown as typed
from .escape import one_line, plain
from .exit_codes import exit_if_damaged


def show_made(run: Run, as_json: bool) -> None:
    """Show a run that was just made, and end with exit code 3 if it damaged its model."""
    show(run, as_json)
    if not as_json:
        _show_next(run)
    exit_if_damaged(run)


def _show_next(run: Run) -> None:
    """Show how long it took, where the model is, and what to do next."""
    folder, task = shlex.quote(str(run.folder)), tasks.find(str(run.folder))
    out.print(plain(f"begun {run.record['begun']}, finished {run.record['finished']}"))
    if (run.folder / "model").is_dir():
        out.print(f"model  {plain(run.folder / 'model')}")
    steps = [f"scissorhands report {folder}"]
    if run.record["verb"] == "train":
        steps = [f"scissorhands scrub {folder} --forget … -o …"]
    elif "standard" in task.levels:
        steps.insert(0, f"scissorhands evaluate {folder} --level standard")
    for number, step in enumerate(steps):
        out.print(f"{'     ' if number else 'next '}  {plain(step)}")


def show(run: Run, as_json: bool) -> None:
    """Show a run, a line per number, beside what a retrained model has or would have."""
    if run.damage:
        err.print(f"[bold yellow]warning:[/] {plain(advice(run.damage))}")
    for sentence in table.stale([run]):
        err.print(f"[bold yellow]warning:[/] {plain(sentence)}")
    if as_json:
        say_json({"run": str(run.folder), "damage": run.damage, **run.result.to_dict()})
        return
    _show_scores(run)
    task = tasks.find(str(run.folder))
    if task.next_step:
        out.print(f"{plain(run.folder)} is the {task.noun}; {task.next_step}.")


def _show_scores(run: Run) -> None:
    """Show the scores, beside those before and those of a retrained model where they are known, and the verdict."""
    scores, rows = run.result.scores, [*_task_rows(run), *_metric_rows(run)]
    grid = Grid(plain(run.method), box=None, pad_edge=False, header_style="bold")
    kept = [number for number in (1, 2, 3) if any(row[number] for row in rows)]
    for number in kept:
        grid.add_column(("", "before", "after" if 1 in kept else "", "retrained")[number])
        grid.columns[-1].justify = "right" if number < 3 else "left"
    for row in rows:
        cells = (Text(one_line(row[number]), style="dim" if number == 3 else "") for number in kept)
        grid.add_row(row[0], *cells)
    _wide(200 if not out.is_terminal else out.width).print(grid)
    for name, reason in scores.failed.items():
        if name not in METRICS:
            err.print(f"{plain(name)} failed: {plain(reason)}")
    if scores.verdict:
        call, reason = one_line(scores.verdict.call), one_line(scores.verdict.reason)
        out.print(Text.assemble((call, "bold"), f": {reason}"))


def _task_rows(run: Run) -> Iterator[tuple[str, str, str, str]]:
    """Yield the scores that are not in the table of metrics: title, before, after."""
    titles = {name: title for task in tasks.TASKS for name, title in task.titles.items()}
    for name, value in run.result.scores.values.items():
        if name not in METRICS:
            yield titles.get(name, plain(name)), _before(run, name), _shown(name, value), ""


def _metric_rows(run: Run) -> Iterator[tuple[str, str, str, str]]:
    """Yield the scores that are: title, before, after, and what a retrained model has or would have."""
    shown = table.tabulate([run])
    row, reference = shown.rows[0], run.result.scores.reference
    for name in shown.names():
        cell = row.cell(name)
        expected = _shown(name, reference[name]) if name in reference else METRICS[name].retrained
        yield table.TITLES[name], _before(run, name), cell, row.failed[name] if cell == "failed" else expected


def _before(run: Run, name: str) -> str:
    """Return what a score was before the method, if the run says so."""
    value = run.record.get(f"{name}_before")
    return "" if value is None else _shown(name, value)


def _shown(name: str, value: float) -> str:
    return f"{value:.{METRICS[name].decimals(value) if name in METRICS else 4}f}"


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


def show_comparison(found: Comparison, first: str, second: str) -> None:
    """Show what differs between two runs, or sets of runs: settings, then scores with intervals."""
    names = [plain(first), plain(second)]
    settings = Grid("setting", *names, box=None, pad_edge=False, header_style="bold")
    for name, values in found.settings.items():
        settings.add_row(name, *(plain(typed(value)) for value in values))
    scores = Grid("score", *names, "difference", "95 %", "apart", box=None, pad_edge=False, header_style="bold")
    for one in found.scores:
        digits = METRICS[one.metric].decimals(one.first)
        shown = [f"{value:.{digits}f}" for value in (one.first, one.second)]
        bounds = "" if one.low is None else f"{one.low:+.{digits}f} to {one.high:+.{digits}f}"
        scores.add_row(METRICS[one.metric].title, *shown, f"{one.difference:+.{digits}f}", bounds, one.apart)
    wide = _wide(200 if not out.is_terminal else out.width)
    if found.settings:
        wide.print(settings)
        out.print()
    wide.print(scores)
    rests = f"{found.pairs} paired runs" if found.pairs > 1 else "the records of the two runs"
    out.print(f"Intervals rest on {rests}. Where they hold 0, the two cannot be told apart.")


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
        out.print(f"All steps take about {duration(planned.seconds)} on this machine; scoring comes on top.")
    else:
        out.print("How long it takes is unknown.")
    for one in planned.missing:
        out.print(f"missing: {plain(one)}")


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
