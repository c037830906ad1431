"""The demonstration: a small network forgets a digit, three times over, beside a retrained one."""

import json
from pathlib import Path

from . import jobs, report, runs
from .forget import Forget
from .jobs import Place, Request, Subject
from .problem import Log, ignore
from .runs import Run
from .sources import Source
from .table import Table, tabulate
from .train import Training

SEEDS = (0, 1, 2)
FORGET = "class:3"
HOLDOUT = 0.2
TRAINING = Training(epochs=30, lr=0.05, batch_size=64)

# Chosen on the held-out digits, on another class and other seeds: benchmarks/choose_demo_settings.py
METHODS: dict[str, dict[str, float | int | str]] = {
    "retrain": {},
    "scissorhands": {"trim": 0.01, "lr": 0.05, "balance": 0.0, "guard": "epoch", "epochs": 10, "batch_size": 64},
    "finetune": {"lr": 0.15, "epochs": 10, "batch_size": 64},
}


def demo(folder: Path, overwrite: bool, device: str, log: Log = ignore) -> Table:
    """Runs it all and writes the runs, table.json and report.html; the folder is complete or not there."""
    with runs.writing(folder, overwrite) as work:
        found = [run for seed in SEEDS for run in _seed(work, seed, device, log)]
        table = tabulate(found)
        runs.write_file(work / "table.json", json.dumps(table.to_dict(), indent=2) + "\n")
        runs.write_file(work / "report.html", report.page(table, found, "Scissorhands: forgetting a digit"))
    return table


def _seed(work: Path, seed: int, device: str, log: Log) -> list[Run]:
    """Original, reference and methods for one seed, each compared with the reference."""

    def place(name: str) -> Place:
        return Place(work / f"seed-{seed}" / name, seed=seed, device=device)

    request = Request(Forget(FORGET))
    trained = jobs.train("small", {}, Source(name="digits"), TRAINING, HOLDOUT, place("trained"), log=log)
    original = jobs.score(Subject.load(str(trained.folder), None), request, place("original"))
    made = [
        jobs.scrub(Subject.load(str(trained.folder), None), request, name, values, place(name), log)
        for name, values in METHODS.items()
    ]
    return [jobs.compare(run, made[0]) for run in (original, *made)]
