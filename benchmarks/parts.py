"""What each part of the calibrated repair is good for: Scissorhands without settings, less one part at a time.

    SCISSORHANDS_DATA=... python benchmarks/parts.py      # writes results/parts.json after each set of data

Networks learn 3,600 records of CIFAR-10, or the digits, by heart, and forget a tenth of them at random. Rows are the
default; the default without one of its parts; and with a trim, which it does without.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

import torch
from calibration import HOLDOUT, SEEDS, SOURCES, Network, row
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.sources import Data, Source
from scissorhands.data.split import held_out
from scissorhands.methods import calibration
from scissorhands.randomness import seeded
from scissorhands.tasks.classification.models import create

TRAINING = sh.Training(epochs=30, lr=0.05, batch_size=64)
Part = tuple[dict[str, Any], Callable[[], AbstractContextManager[Any]]]


def never_met() -> AbstractContextManager[Any]:
    """No test stops it: all epochs are made."""
    return patch.object(calibration.Targets, "are_met", lambda targets, model: False)


def no_cooling() -> AbstractContextManager[Any]:
    """The learning rate stays to the end."""
    return patch.object(calibration.Cooldown, "share_left", PropertyMock(return_value=1.0))


@contextmanager
def one_sided() -> Iterator[None]:
    """Margins are pushed down to their targets, and never up."""
    measure = calibration.Targets.measure

    def lowered(targets: calibration.Targets, model: nn.Module) -> tuple[Tensor, Tensor]:
        found, wanted = measure(targets, model)
        return found, wanted.minimum(found)

    with patch.object(calibration.Targets, "measure", lowered):
        yield


PARTS: dict[str, Part] = {
    "default": ({}, nullcontext),
    "without the forget loss": ({"balance": 0.0, "project": False}, nullcontext),
    "without the projection": ({"project": False}, nullcontext),
    "without the test": ({}, never_met),
    "without cooling": ({}, no_cooling),
    "from one side": ({}, one_sided),
    "with a trim of 3 %": ({"trim": 0.03}, nullcontext),
}


def cases() -> Iterator[tuple[str, Data, float, Callable[[Data], nn.Module]]]:
    """The data, what is held out of it, and the network that learns it."""
    yield "cifar10", SOURCES["cifar10"].load(), HOLDOUT["cifar10"], lambda _: Network(3, 10)
    yield "digits", Source(name="digits").load(), 0.2, lambda data: create("small", data.train, {})[0]


def measured(data: Data, holdout: float, build: Callable[[Data], nn.Module], seed: int) -> dict[str, sh.Scores]:
    """Train, retrain, and scrub without one part at a time."""
    unseen = held_out(data.train, holdout, seed).tolist()
    split = sh.split(data.train, sh.Forget("random:10%"), test=data.test, unseen=unseen, seed=seed)
    problem = split.problem(seed=seed)
    with seeded(seed, "model"):
        original = build(data)
    trained = torch.cat([split.retain.ids, split.forget.ids]).sort().values
    TRAINING.fit(original, replace(problem, retain=replace(split.retain, ids=trained)))
    retrained = deepcopy(original)
    sh.Retrain(**TRAINING.to_dict()).scrub(retrained, problem)
    reference = sh.evaluate(retrained, split)
    found = {"retrained": reference, "original": sh.evaluate(original, split, against=reference)}
    for name, (settings, without) in PARTS.items():
        model = deepcopy(original)
        with without():
            sh.Scissorhands.make(settings).scrub(model, problem)
        found[name] = sh.evaluate(model, split, against=reference)
    return found


def main() -> None:
    """Measure set by set, and write what there is after each."""
    warnings.simplefilter("ignore")
    rows: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, data, holdout, build in cases():
        found = [measured(data, holdout, build, seed) for seed in SEEDS]
        rows[name] = {part: row([one[part] for one in found]) for part in found[0]}
        for part, values in rows[name].items():
            shown = "  ".join(f"{key} {value['mean']:.2f} ± {value['std']:.2f}" for key, value in values.items())
            print(f"{name}: {part:24} {shown}", flush=True)
        about = {"command": "python benchmarks/parts.py", "seeds": SEEDS, "training": TRAINING.to_dict()}
        path = Path(__file__).parents[1] / "results" / "parts.json"
        content = {**about, "threads": torch.get_num_threads(), "cases": rows}
        path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
