"""How near to a retrained model Scissorhands comes without any setting, beside other methods at their defaults.

    SCISSORHANDS_DATA=... python benchmarks/calibration.py      # writes results/calibration.json after each case

A small convolutional network with batch normalization learns 3,600 records of CIFAR-10, or the faces, by heart. It
forgets a tenth of the records, half of them, or a class; of the faces, a tenth of the records or of the people. The
defaults of Scissorhands were chosen on the digits and on seeds 0 and 1 of the CIFAR-10 cases. The seeds here are
others, and the faces played no part.
"""

import json
import statistics
import warnings
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.sources import Data, Source
from scissorhands.data.split import held_out
from scissorhands.methods import METHODS
from scissorhands.randomness import seeded

SEEDS = (2, 3, 4)
SOURCES = {
    "cifar10": Source(name="cifar10", limit=4000, augment="none"),
    "faces": Source(name="faces", augment="none"),
}
HOLDOUT = {"cifar10": 0.1, "faces": 0.2}
CASES = (
    ("cifar10", "random:10%"),
    ("faces", "random:10%"),
    ("faces", "classes:10%"),
    ("cifar10", "class:3"),
    ("cifar10", "random:50%"),
)
ROWS = {
    "finetune": METHODS["finetune"](),
    "gradtau": METHODS["gradtau"](),
    "scissorhands, as in the paper": METHODS["scissorhands"].make({"reading": "paper"}),
    "scissorhands": METHODS["scissorhands"](),
}
TRAINING = sh.Training(epochs=30, lr=0.05, batch_size=64)
METRICS = ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia", "auc")


class Network(nn.Module):
    """Four convolutions and a linear layer."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        sizes = ((channels, 16, 2), (16, 32, 2), (32, 64, 1), (64, 64, 2))
        layers = [
            layer
            for inside, outside, stride in sizes
            for layer in (
                nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(outside),
                nn.ReLU(),
            )
        ]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.fc = nn.Linear(256, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return one score per class."""
        scores: Tensor = self.fc(self.body(images.float() / 64 - 2))
        return scores


def measured(data: Data, holdout: float, forget: str, seed: int) -> dict[str, sh.Scores]:
    """Train, retrain twice, and scrub by each method."""
    unseen = held_out(data.train, holdout, seed).tolist()
    split = sh.split(data.train, sh.Forget(forget), test=data.test, unseen=unseen, seed=seed)
    problem = split.problem(seed=seed)
    images, _ = data.train.fetch(torch.arange(1))
    with seeded(seed, "model"):
        original = Network(images.shape[1], len(data.train.classes))
    trained = torch.cat([split.retain.ids, split.forget.ids]).sort().values
    TRAINING.fit(original, replace(problem, retain=replace(split.retain, ids=trained)))
    models = [deepcopy(original), deepcopy(original)]
    for number, model in enumerate(models):
        sh.Retrain(**TRAINING.to_dict()).scrub(model, replace(problem, seed=seed + 100 * number))
    reference = sh.evaluate(models[0], split)
    found = {"retrained": reference, "retrained again": sh.evaluate(models[1], split, against=reference)}
    found["original"] = sh.evaluate(original, split, against=reference)
    for name, method in ROWS.items():
        model = deepcopy(original)
        method.scrub(model, problem)
        found[name] = sh.evaluate(model, split, against=reference)
    return found


def row(scores: list[sh.Scores]) -> dict[str, dict[str, float]]:
    """Mean and sample standard deviation of each number over the seeds."""
    named = {name: [one[name] for one in scores] for name in METRICS}
    if scores[0].reference:
        named["avg_gap"] = [one.avg_gap for one in scores]
    return {
        name: {"mean": round(statistics.fmean(values), 3), "std": round(statistics.stdev(values), 3)}
        for name, values in named.items()
    }


def main() -> None:
    """Measure case by case, and write what there is after each."""
    warnings.simplefilter("ignore")
    cases: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, forget in CASES:
        data = SOURCES[name].load()
        found = [measured(data, HOLDOUT[name], forget, seed) for seed in SEEDS]
        cases[f"{name}, {forget}"] = {method: row([one[method] for one in found]) for method in found[0]}
        for method, values in cases[f"{name}, {forget}"].items():
            shown = "  ".join(f"{key} {value['mean']:.2f} ± {value['std']:.2f}" for key, value in values.items())
            print(f"{name}, {forget}: {method:30} {shown}", flush=True)
        about = {"command": "python benchmarks/calibration.py", "seeds": SEEDS, "training": TRAINING.to_dict()}
        path = Path(__file__).parents[1] / "results" / "calibration.json"
        content = {**about, "threads": torch.get_num_threads(), "cases": cases}
        path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
