"""What Scissorhands without any setting does to networks that are not the paper's, beside the paper's setting.

    python benchmarks/defaults.py            # about half a minute; writes results/defaults.json

A newcomer's MLP and a small convolutional network are trained on digits with Adam, three seeds each, and made to forget
a tenth at random, half at random, and a class. `paper` is the paper's setting for CIFAR-10, in batches of 256. Nothing
was tuned on these numbers.
"""

import json
import statistics
import warnings
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.data.sources import Source
from scissorhands.evaluation.evaluate import accuracies

SEEDS = (0, 1, 2)
FORGET = ("random:10%", "random:50%", "class:3")
SETTINGS = {"default": {}, "paper": {"reading": "paper", "batch_size": 256}}


def mlp() -> nn.Module:
    """Two hidden layers, no normalization."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def convnet() -> nn.Module:
    """Two convolutions with batch normalization."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)),
    )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Digits as a user has them: floats from 0 to 1."""
    data = Source(name="digits").load()
    parts = (data.train, data.test)
    train, test = (TensorDataset(part.fetch(torch.arange(len(part)))[0] / 255, part.labels) for part in parts)
    return train, test


def trained(model: nn.Module, data: TensorDataset) -> nn.Module:
    """The model after 40 epochs of Adam."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    inputs, labels = data.tensors
    for _ in range(40):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval()


def summary(values: list[float]) -> dict[str, float]:
    """Mean and sample standard deviation."""
    return {"mean": round(statistics.fmean(values), 2), "std": round(statistics.stdev(values), 2)}


def main() -> None:
    """Runs all, prints a table, and writes it."""
    warnings.simplefilter("ignore")
    train, test = digits()
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for name, build in (("mlp", mlp), ("convnet", convnet)):
        for seed in SEEDS:
            torch.manual_seed(seed)
            original = trained(build(), train)
            for forget in FORGET:
                split = sh.split(train, sh.Forget(forget), test=test, seed=seed)
                parts = {part: records for part, records in split.parts().items() if part != "others"}
                for settings, values in {"original": None, **SETTINGS}.items():
                    model = deepcopy(original)
                    if values is not None:
                        sh.Scissorhands.make(values).scrub(model, split.problem(seed=seed))
                    for part, accuracy in accuracies(model, parts).items():
                        found.setdefault((name, forget, settings, part), []).append(accuracy)
    rows: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for (*row, part), seen in found.items():
        rows.setdefault(tuple(row), {})[part] = summary(seen)  # type: ignore[arg-type]
    for case, accuracy_on in rows.items():
        cells = (f"{part} {value['mean']:6.2f} ± {value['std']:5.2f}" for part, value in accuracy_on.items())
        print(f"{case[0]:8} {case[1]:10} {case[2]:10} ", "  ".join(cells))
    content = [
        {"network": network, "forget": forget, "settings": settings, "accuracy": parts}
        for (network, forget, settings), parts in rows.items()
    ]
    about = {"command": "python benchmarks/defaults.py", "seeds": SEEDS, "threads": torch.get_num_threads()}
    path = Path(__file__).parents[1] / "results" / "defaults.json"
    path.write_text(json.dumps({**about, "rows": content}, indent=1) + "\n")


if __name__ == "__main__":
    main()
