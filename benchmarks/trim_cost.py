"""What trimming costs: one pass over the sample, the cut-off, and new weights, against one plain pass over the sample.

python benchmarks/trim_cost.py [--quick]
"""

import copy

from timing import median, problem, quick, report, seconds

import scissorhands as sh
from scissorhands.methods.modes import evaluating
from scissorhands.methods.parameters import trainable
from scissorhands.methods.saliency import gradients
from scissorhands.tasks.classification.networks import ResNet, resnet18


def main() -> None:
    """Prints a row per width, and the ratio of the last."""
    widths = (16,) if quick(__doc__) else (16, 64)
    print(f"{'width':>6}{'pass s':>10}{'trim s':>10}{'ratio':>8}")
    rows = []
    for width in widths:
        case = problem(retain=256, forget=4 * 256)
        model = resnet18(10, 3, width)
        method = sh.Scissorhands(reading="paper", epochs=0)
        times: dict[str, list[float]] = {"plain": [], "trim": []}
        for _ in range(4):
            times["plain"].append(seconds(plain, model, case))
            times["trim"].append(seconds(method.scrub, copy.deepcopy(model), case))
        found = {name: median(values[1:]) for name, values in times.items()}
        rows.append({"width": width, **found, "ratio": found["trim"] / found["plain"]})
        print(f"{width:6}{found['plain']:10.3f}{found['trim']:10.3f}{rows[-1]['ratio']:8.3f}")
    report(rows[-1]["ratio"], "at most 1.3", rows=rows)


def plain(model: ResNet, case: sh.Problem) -> None:
    """One pass over the sample: forward and backward, nothing else."""
    with evaluating(model):
        for batch in case.forget.batches(256):
            gradients(case.loss(model, batch), trainable(model))


if __name__ == "__main__":
    main()
