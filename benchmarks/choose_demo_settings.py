"""Chooses the demo's settings without its test data: on another class, on other seeds, scored on held-out digits.

Scissorhands is not among them: the demo runs it without settings.

    python benchmarks/choose_demo_settings.py

Prints the Avg. Gap of every candidate, best first, and as the last line one JSON object with the chosen settings.
"""

import copy
import itertools
import json
import statistics
from dataclasses import replace
from typing import Any

import torch

import scissorhands as sh
from scissorhands.bench.classification import DEMO
from scissorhands.bench.recipe import Recipe
from scissorhands.data.split import held_out
from scissorhands.randomness import seeded
from scissorhands.tasks.classification.models import create

SEEDS = (10, 11, 12)
FORGET = "class:8"

GRIDS: dict[type[sh.Method], dict[str, tuple[Any, ...]]] = {
    sh.FineTune: {"lr": (0.01, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2)},
    sh.GradientAscent: {"lr": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), "epochs": (5, 10)},
    sh.InfluenceUnlearning: {"alpha": (0.3, 1.0, 3.0, 10.0), "damping": (1e-3, 1e-2, 0.1), "samples": (128,)},
    sh.BoundaryShrink: {"lr": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)},
    sh.BoundaryExpand: {"lr": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)},
    sh.L1Sparse: {"gamma": (1e-5, 1e-4, 1e-3), "lr": (0.02, 0.05, 0.1, 0.15)},
    sh.SalUn: {"lr": (0.01, 0.02, 0.05, 0.1), "salient": (0.2, 0.5, 0.8), "labels": ("fixed",)},
    sh.RandomLabel: {"lr": (0.01, 0.02, 0.05, 0.1), "order": ("sequential",), "labels": ("fixed",)},
}


def main() -> None:
    """Trains originals and oracles once, then tries every candidate on them."""
    recipe = Recipe.read(DEMO)
    data = recipe.data.load()
    unseen = held_out(data.train, recipe.holdout, recipe.split_seed).tolist()
    split = sh.split(data.train, sh.Forget(FORGET), test=data.test, unseen=unseen)
    assert split.audit
    split = replace(split, test=split.audit, others=split.audit, audit=None)  # the test data is out of reach
    cases = []
    for seed in SEEDS:
        problem = split.problem(seed=seed)
        with seeded(seed, "model"):
            model, _ = create("small", data.train, {})
        trained = torch.cat([split.retain.ids, split.forget.ids]).sort().values
        recipe.training.fit(model, replace(problem, retain=replace(split.retain, ids=trained)))
        oracle = copy.deepcopy(model)
        sh.Retrain(**recipe.training.to_dict()).scrub(oracle, problem)
        cases.append((model, problem, sh.evaluate(oracle, split)))

    chosen = {}
    for kind, grid in GRIDS.items():
        tried = []
        for values in itertools.product(*grid.values()):
            settings = dict(zip(grid, values, strict=True))
            method = kind.make({"batch_size": 64, **settings})
            tried.append((gap(method, cases, split), settings))
        tried.sort(key=lambda row: row[0])
        for mean, settings in tried:
            print(f"{kind.__name__:14}{mean:8.2f}  {settings}")
        chosen[kind.__name__] = {"avg_gap": tried[0][0], **tried[0][1]}
    print(json.dumps(chosen))


def gap(method: sh.Method, cases: list[Any], split: sh.Split) -> float:
    """The mean Avg. Gap over the cases; a method that diverges has the largest gap there is."""
    found = []
    for model, problem, reference in cases:
        scrubbed = copy.deepcopy(model)
        try:
            method.scrub(scrubbed, problem)
            found.append(sh.evaluate(scrubbed, split, against=reference).avg_gap)
        except sh.ScissorhandsError:
            found.append(100.0)
    return statistics.fmean(found)


if __name__ == "__main__":
    main()
