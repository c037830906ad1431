"""What a guarded step costs: against one plain step on the retain batch plus one on the forget batch.

    python benchmarks/step_cost.py [--quick]

The limit is two forward and two backward passes. Both sides are the code that users run, timed by the log; they take
turns, so that a busy moment hits both.
"""

from typing import Any

from timing import median, problem, quick, report, step_times

import scissorhands as sh
from scissorhands.data.problem import Log
from scissorhands.data.records import Part
from scissorhands.methods.training import Training
from scissorhands.tasks.classification.networks import resnet18

SETTINGS: dict[str, Any] = {"epochs": 1, "lr": 1e-4, "momentum": 0.9, "weight_decay": 5e-4}


def main() -> None:
    """Prints a row per width, and the ratio of the last."""
    widths = {16: 1.10} if quick(__doc__) else {16: 1.10, 64: 1.05}
    print(f"{'width':>6}{'retain s':>10}{'forget s':>10}{'guarded s':>11}{'ratio':>8}{'limit':>7}")
    rows = []
    for width, limit in widths.items():
        row = {"width": width, "batch": 256, **measured(width, rounds=3, steps=3)}
        rows.append(row | {"limit": limit})
        print(
            f"{width:6}{row['retain']:10.3f}{row['forget']:10.3f}{row['guarded']:11.3f}{row['ratio']:8.3f}{limit:7.2f}"
        )
    report(rows[-1]["ratio"], f"at most {rows[-1]['limit']} at width {rows[-1]['width']}", rows=rows)


def measured(width: int, rounds: int, steps: int) -> dict[str, float]:
    """The median seconds of a step of each kind."""
    case = problem(retain=256 * steps, forget=256 * steps)
    model = resnet18(10, 3, width)

    def plain(part: Part) -> list[float]:
        def work(log: Log) -> None:
            Training(schedule="constant", batch_size=256, **SETTINGS).fit(model, case, log, part=part, phase="plain")

        return step_times(work, "plain")

    def guarded(log: Log) -> None:
        sh.Scissorhands(reading="paper", trim=0.0, sample=1e-9, batch_size=256, **SETTINGS).scrub(model, case, log)

    times: dict[str, list[float]] = {"retain": [], "forget": [], "guarded": []}
    for _ in range(rounds):
        times["retain"] += plain(case.retain)
        times["guarded"] += step_times(guarded, "repair")
        times["forget"] += plain(case.forget)
    found = {name: median(values) for name, values in times.items()}
    return found | {"ratio": found["guarded"] / (found["retain"] + found["forget"])}


if __name__ == "__main__":
    main()
