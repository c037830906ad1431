"""What data costs: the share of a training step that is spent on fetching and augmenting its batch.

python benchmarks/data_cost.py [--quick]
"""

import time
from typing import Any

from timing import problem, quick, report

from scissorhands.data.images import augmentation
from scissorhands.methods.training import Training
from scissorhands.tasks.classification.networks import resnet18


def main() -> None:
    """Trains for an epoch, and adds up the time inside the batches."""
    width, records = (8, 256 * 12) if quick(__doc__) else (16, 256 * 40)
    case = problem(records, 1, augmentation("crop,flip"))
    waited = 0.0
    batches = type(case).batches

    def timed(self: Any, *arguments: Any) -> Any:
        nonlocal waited
        found = batches(self, *arguments)
        while True:
            start = time.perf_counter()
            batch = next(found, None)
            waited += time.perf_counter() - start
            if batch is None:
                return
            yield batch

    type(case).batches = timed  # type: ignore[method-assign,assignment]
    start = time.perf_counter()
    Training(epochs=1).fit(resnet18(10, 3, width), case)
    whole = time.perf_counter() - start
    print(f"width {width}, {records} images, cropped and flipped: {waited:.2f} s of {whole:.2f} s")
    report(waited / whole, "at most 0.03", width=width, records=records)


if __name__ == "__main__":
    main()
