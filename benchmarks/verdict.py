"""How often the verdict is right: on retrained models, which have forgotten, and on originals, which have not.

    python benchmarks/verdict.py [--quick]

For each of 100 draws of what is forgotten it trains an original, two retrained models of different seeds, and a
reference model on half of the retained data, all on the digits inside scikit-learn. Three cases: digits of which a
fifth have a wrong label, so that something is learned by heart; a whole class; and digits as they are, of which hardly
any are learned by heart, so that there is hardly anything to find. Prints how often each verdict was given and, as the
last line, one JSON object whose `ratio` is the smallest share of retrained models called indistinguishable.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

import scissorhands as sh
from scissorhands.data.labels import Relabeled
from scissorhands.data.records import Part, Records
from scissorhands.data.split import held_out
from scissorhands.evaluation.evaluate import outputs
from scissorhands.evaluation.reference_models import Trainer
from scissorhands.methods.training import Training
from scissorhands.metrics import CALLS, verdict
from scissorhands.randomness import generator
from scissorhands.tasks.classification.models import create

HOLDOUT = 0.2
TRAINING = Training(epochs=30, lr=0.05, batch_size=64)
CASES = {
    "random 10 %, a fifth mislabeled": ("random:10%", 0.2),
    "class 3": ("class:3", 0.0),
    "random 10 %": ("random:10%", 0.0),
}
SAME = "indistinguishable within noise"


def main() -> None:
    """Prints a table per case, and the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 draws in place of 100")
    draws = 3 if parser.parse_args().quick else 100
    torch.set_num_threads(1)
    rows = [row for name, (forget, wrong) in CASES.items() for row in case(name, forget, wrong, draws)]
    print(f"\n{'case':34}{'model':12}{'reference':12}", *(f"{call:>32}" for call in CALLS))
    for row in rows:
        counts = (f"{row['calls'].get(call, 0):32}" for call in CALLS)
        print(f"{row['case']:34}{row['model']:12}{row['reference']:12}", *counts)
    shares = [row["calls"].get(SAME, 0) / draws for row in rows if row["model"] == "retrained"]
    print(json.dumps({"ratio": min(shares), "draws": draws, "rows": rows}))


def case(name: str, forget: str, wrong: float, draws: int) -> Iterator[dict[str, Any]]:
    """The verdicts on retrained and original models, with either kind of reference."""
    data = sh.Source.make({"name": "digits"}).load()
    train = mislabeled(data.train, wrong)
    splits = [
        sh.split(train, sh.Forget(forget), test=data.test, unseen=held_out(train, HOLDOUT, i).tolist(), seed=i)
        for i in range(draws)
    ]
    trainer = Trainer(create("small", data.train, {})[0], TRAINING)
    roles = {
        "original": [joined(split) for split in splits],
        "retrained": [split.retain for split in splits],
        "other seed": [split.retain for split in splits],
        "half data": [replace(s.retain, ids=some(s.retain.ids, len(s.retain) // 2, i)) for i, s in enumerate(splits)],
    }
    # All draws train on as many records; of the larger parts a few are left out.
    sizes = {role: min(map(len, parts)) for role, parts in roles.items()}
    observed: dict[str, list[Any]] = {}
    for number, (role, parts) in enumerate(roles.items()):
        same = [replace(part, ids=some(part.ids, sizes[role], i)) for i, part in enumerate(parts)]
        models = replace(trainer, seed=number).trained(same)
        observed[role] = [
            outputs(model, {k: v for k, v in split.parts().items() if k != "retain" or role != "half data"})
            for model, split in zip(models, splits, strict=True)
        ]
        print(f"{name}: trained {draws} models of the role '{role}'", flush=True)
    for model in ("retrained", "original"):
        for reference in ("other seed", "half data"):
            found = [
                verdict(ours, [theirs], split.kind).call
                for ours, theirs, split in zip(observed[model], observed[reference], splits, strict=True)
            ]
            yield {"case": name, "model": model, "reference": reference, "calls": dict(Counter(found))}


def mislabeled(records: Records, share: float) -> Records:
    """The records with a share of wrong labels; as they are where the share is 0."""
    if not share:
        return records
    draw = generator(0, "mislabeled")
    chosen = torch.rand(len(records), generator=draw) < share
    shift = torch.randint(1, len(records.classes), (len(records),), generator=draw)
    return Relabeled(records, torch.where(chosen, (records.labels + shift) % len(records.classes), records.labels))


def joined(split: sh.Split) -> Part:
    """What the original was trained on."""
    return replace(split.retain, ids=torch.cat([split.retain.ids, split.forget.ids]).sort().values)


def some(ids: torch.Tensor, count: int, seed: int) -> torch.Tensor:
    """A random choice of the ids."""
    return ids[torch.randperm(len(ids), generator=generator(seed, "some"))[:count]].sort().values


if __name__ == "__main__":
    main()
