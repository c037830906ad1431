"""What a command says while it works."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from scissorhands import SalUn, Scissorhands, Split
from scissorhands.cli.progress import Progress
from scissorhands.methods import FineTune, Method

STEPS, SECONDS = 10, 2.0  # of an epoch; of a step


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Shown:
    """A command's progress, on a terminal or not."""

    def __init__(self, terminal: bool = False) -> None:
        self.clock, self.file = Clock(), io.StringIO()
        console = Console(file=self.file, force_terminal=terminal, width=100, emoji=False, highlight=False)
        self.log = Progress(console, "finetune, seed 0", self.clock)

    def epochs(self, epochs: int = 2, **losses: float) -> None:
        """Log the steps of some epochs."""
        for step in range(1, epochs * STEPS + 1):
            self.clock.now += SECONDS
            where = {"phase": "repair", "epoch": (step - 1) // STEPS, "epochs": epochs}
            self.log({**where, "step": step, "steps": epochs * STEPS, "loss": 1.0, **losses})

    def run(self, name: str, seconds: float, before: bool = False) -> None:
        """Log a run of a bench that takes so long."""
        self.log({"run": name})
        self.clock.now += seconds
        scores = {"forget_accuracy": 12.5, "retain_accuracy": 99.0}
        ended = {"before": before, "seconds": seconds, "damage": "", "scores": scores}
        self.log({"finished": name, **ended})

    def lines(self) -> list[str]:
        self.log.flush()
        return self.file.getvalue().splitlines()


def test_without_a_terminal_there_is_a_line_per_epoch_with_losses_by_name_and_the_time_that_is_left() -> None:
    shown = Shown()
    shown.epochs(retain=0.5, forget=2.0)
    assert shown.lines() == [
        "finetune, seed 0: repair epoch 1 of 2, loss on retain 0.5000, on forget 2.0000, 20 s left",
        "finetune, seed 0: repair epoch 2 of 2, loss on retain 0.5000, on forget 2.0000",
    ]


def test_epochs_of_less_than_a_second_share_a_line_but_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SECONDS", 0.04)
    shown = Shown()
    shown.epochs(10)
    said = [line.partition("epoch ")[2].partition(",")[0] for line in shown.lines()]
    assert said == ["1 of 10", "4 of 10", "7 of 10", "10 of 10"]


def test_work_without_epochs_says_how_far_it_is_twice_a_minute() -> None:
    shown = Shown()
    for step in range(1, 61):
        shown.clock.now += SECONDS
        shown.log({"phase": "draw", "epoch": 0, "step": step, "steps": 60})
    assert [line.partition("draw ")[2].partition(",")[0] for line in shown.lines()] == [
        *("1 of 60", "16 of 60", "31 of 60", "46 of 60", "60 of 60")
    ]


def test_a_bench_says_which_run_of_how_many_and_each_leaves_its_line() -> None:
    shown = Shown()
    shown.log({"runs": ["seed-0/retrain", "seed-0/finetune", "seed-1/retrain", "seed-1/finetune"]})
    shown.run("seed-0/retrain", 90, before=True)
    shown.run("seed-0/finetune", 60)
    shown.log({"run": "seed-1/retrain"})
    shown.epochs(1, retain=0.5)
    there, made, epoch = shown.lines()
    assert there == "run 1 of 4 seed-0/retrain: was there already, Acc forget 12.50, Acc retain 99.00"
    assert made == "run 2 of 4 seed-0/finetune: 60 s, Acc forget 12.50, Acc retain 99.00"
    assert epoch.startswith("run 3 of 4 seed-1/retrain: repair epoch 1 of 1, loss on retain 0.5000, all done about ")


def test_the_rest_of_a_bench_takes_as_long_as_runs_of_the_same_methods_took() -> None:
    shown = Shown()
    shown.log({"runs": ["0/retrain", "0/finetune", "1/retrain", "1/finetune"]})
    left = shown.log._forecast.left
    assert left() is None
    shown.run("0/retrain", 300)
    shown.run("0/finetune", 20)
    shown.log({"run": "1/retrain"})
    assert left() == 320
    shown.clock.now += 100
    assert left() == 220
    shown.clock.now += 1000  # longer than the last time: then only what comes after it is known
    assert left() == 20


def test_in_a_terminal_a_line_moves_and_nothing_of_it_is_left() -> None:
    shown = Shown(terminal=True)
    shown.epochs(retain=0.5, forget=2.0)
    shown.log._bar.refresh()  # type: ignore[union-attr]
    moving = shown.file.getvalue()
    assert "repair epoch 2 of 2, loss on retain 0.5000, on forget 2.0000" in moving
    assert "20/20" in moving
    shown.log.stop()
    assert shown.file.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (FineTune(epochs=1), {"retain"}),
        (SalUn(epochs=1, order="sequential"), {"retain", "forget"}),
        (Scissorhands(epochs=1, reading="paper"), {"retain", "forget"}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_method_logs_its_losses_by_what_they_are_on(split: Split, mlp: Any, method: Method, names: set[str]) -> None:
    events: list[Mapping[str, Any]] = []
    method.scrub(mlp.float(), split.problem(), events.append)
    steps = [event for event in events if "steps" in event]
    assert {name for event in steps for name in ("retain", "forget") if name in event} == names
    assert all(event["loss"] in [event.get("retain"), event.get("forget")] for event in steps)
    assert {event["epochs"] for event in steps} == {1}
