"""What each difference between the paper and its published code does to the numbers, on a network that memorizes.

    SCISSORHANDS_DATA=... python benchmarks/readings.py      # writes results/readings.json after each seed

A thin ResNet-18 learns the first 4,000 records of CIFAR-10 by heart and forgets a tenth of them at random, with the
published settings for that case (trim 3 %, λ 0.05, learning rate 5e-3, ten epochs; layers 3, 4 and the head), in
batches of 64. Rows: Algorithm 1; the published reading; the published reading without one of its differences; and
Algorithm 1 with the margin alone. Nothing was tuned.
"""

import json
import statistics
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

import scissorhands as sh
from scissorhands.data.sources import Source
from scissorhands.data.split import held_out
from scissorhands.methods.scissorhands import READINGS, Reading
from scissorhands.randomness import seeded
from scissorhands.tasks.classification.models import create

SEEDS = (0, 1, 2)
RECORDS = 4000
TRAINING = sh.Training(epochs=30, batch_size=64)
SETTINGS = {"parameters": "*layer3*, *layer4*, *fc*", "trim": 0.03, "balance": 0.05, "lr": 5e-3, "batch_size": 64}
METRICS = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia")


def readings() -> Iterator[tuple[str, Reading]]:
    """The rows, by name."""
    published = READINGS["published"]
    yield "paper", Reading()
    yield "paper, with the margin", Reading(margin=published.margin)
    yield "published", published
    for f in fields(Reading):
        if getattr(published, f.name) != f.default:
            as_in_the_paper: dict[str, Any] = {f.name: f.default}
            yield f"published, without {f.name}", replace(published, **as_in_the_paper)
    yield "published, every 10th step", published


@contextmanager
def read_as(reading: Reading) -> Iterator[None]:
    """Let the published reading be another one inside the block."""
    kept = READINGS["published"]
    READINGS["published"] = reading
    try:
        yield
    finally:
        READINGS["published"] = kept


def measured(seed: int) -> dict[str, dict[str, float]]:
    """Train and retrain once, then scrub by each reading."""
    data = Source(name="cifar10", limit=RECORDS, augment="none").load()
    unseen = held_out(data.train, 0.1, seed).tolist()
    split = sh.split(data.train, sh.Forget("random:10%"), test=data.test, unseen=unseen, seed=seed)
    problem = split.problem(seed=seed)
    with seeded(seed, "model"):
        original, _ = create("resnet18", data.train, {"width": 8})
    trained = torch.cat([split.retain.ids, split.forget.ids]).sort().values
    TRAINING.fit(original, replace(problem, retain=replace(split.retain, ids=trained)))
    retrained = deepcopy(original)
    sh.Retrain(**TRAINING.to_dict()).scrub(retrained, problem)
    reference = sh.evaluate(retrained, split)
    found = {"retrained": reference, "original": sh.evaluate(original, split, against=reference)}
    for name, reading in readings():
        model, every = deepcopy(original), 10 if "every" in name else 1
        with read_as(reading):
            try:
                sh.Scissorhands.make({"reading": "published", "every": every, **SETTINGS}).scrub(model, problem)
                found[name] = sh.evaluate(model, split, against=reference)
            except sh.ScissorhandsError as diverged:
                print(f"{name:40} {diverged}", flush=True)
                continue
        print(f"{name:40}", {k: round(v, 2) for k, v in shown(found[name]).items()}, flush=True)
    return {name: shown(scores) for name, scores in found.items()}


def shown(scores: sh.Scores) -> dict[str, float]:
    """The numbers of a row."""
    values = {name: scores[name] for name in METRICS}
    return values | ({"avg_gap": scores.avg_gap} if scores.reference else {})


def summary(values: list[float]) -> dict[str, float | None]:
    """Mean and sample standard deviation over the seeds that did not diverge."""
    std = round(statistics.stdev(values), 2) if len(values) > 1 else None
    return {"seeds": len(values), "mean": round(statistics.fmean(values), 2), "std": std}


def main() -> None:
    """Measure seed by seed, and write what there is after each."""
    warnings.simplefilter("ignore")
    runs: list[dict[str, dict[str, float]]] = []
    for seed in SEEDS:
        runs.append(measured(seed))
        rows = {
            name: {metric: summary([run[name][metric] for run in runs if name in run]) for metric in values}
            for name, values in {name: values for run in runs for name, values in run.items()}.items()
        }
        about = {"command": "python benchmarks/readings.py", "seeds": SEEDS[: len(runs)], "settings": SETTINGS}
        path = Path(__file__).parents[1] / "results" / "readings.json"
        content = {**about, "records": RECORDS, "training": TRAINING.to_dict(), "threads": torch.get_num_threads()}
        path.write_text(json.dumps({**content, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
