"""How often the verdict is right about 40 forgotten of 1,200 records, on models of which it is known what they are.

    python benchmarks/verdict.py [--quick] [--first N] [--case NAME] [--outputs FOLDER]

100 draws of what is held out and forgotten from the digits inside scikit-learn, in seven cases (CASES). For each draw
it trains an original, two retrained models and four reference models on half of the retained records, all of one hidden
layer, as many at a time as there are draws. An original learns all its records by heart. A damaged model is a retrained
one whose weights were blurred until it was right about 10 or 18 % fewer of the retained records.

Each model is judged as it is at level quick (beside the original's outputs), at level standard (beside the four),
against the second retrained model, and against all five. The last line is one JSON object with the counts, and Wilson's
95 % intervals of the share of retrained models called indistinguishable, of originals called under-forgotten, and of
damaged ones called damaged. With --outputs what the models said is kept there, and is not computed again.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import scissorhands as sh
from scissorhands.data.records import Part, Records, Stored
from scissorhands.data.split import held_out
from scissorhands.evaluation.observations import from_tensors, to_tensors
from scissorhands.files import read_tensors, write_tensors
from scissorhands.metrics import CALLS, Observations, Outputs, verdict
from scissorhands.randomness import generator

HOLDOUT = 237 / 1437  # which leaves 1,200 records to train on
HIDDEN, EPOCHS, BATCH_SIZE, LR = 128, 60, 64, 0.1
REFERENCES = 4
LOST = (10, 18)  # percent of the retained records that damaged models get wrong besides
SAME, UNDER, DAMAGED = "indistinguishable within noise", "under-forgotten", "damaged"
RIGHT = {"retrain": SAME, "original": UNDER, **{f"{lost} % lost": DAMAGED for lost in LOST}}

Weights = list[Tensor]


@dataclass(frozen=True)
class Case:
    """Digits to learn: what is forgotten, how much noise is on the images, and the share of wrong labels.

    `listed` records are drawn at random, but the verdict is told that somebody chose them, as in a deletion request.
    `alike` ones are one image and the 39 that are nearest to it; `three classes` are 40 images of three digits, and the
    test images are of another making, with so much noise on them.
    """

    forget: str = "random:40"
    noise: float = 0.0
    wrong: float = 0.0
    listed: bool = False
    test_noise: float | None = None


CASES = {
    "noisy images": Case(noise=1.0),
    "noisy images, listed": Case(noise=1.0, listed=True),
    "noisy images, alike": Case("alike", noise=1.0),
    "noisy images of three classes": Case("three classes", noise=1.0, test_noise=1.4),
    "a fifth of the labels wrong": Case(wrong=0.2),
    "as they are": Case(),
    "all of class 3, noisy images": Case("class:3", noise=1.0),
}


def main() -> None:
    """Prints a table, and the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 draws in place of 100")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--case", choices=CASES, help="one of the cases, in place of all")
    parser.add_argument("--outputs", type=Path, help="a folder in which outputs are kept")
    asked = parser.parse_args()
    draws = range(asked.first, asked.first + (3 if asked.quick else 100))
    torch.set_num_threads(1)
    cases = {asked.case: CASES[asked.case]} if asked.case else CASES
    rows = [row for name, case in cases.items() for row in judged(name, case, draws, asked.outputs)]
    print(f"\n{'case':30}{'model':14}{'level':11}", *(f"{call:>32}" for call in CALLS))
    for row in rows:
        counts = (f"{row['calls'].get(call, 0):32}" for call in CALLS)
        print(f"{row['case']:30}{row['model']:14}{row['level']:11}", *counts)
    print(json.dumps({"first": asked.first, "draws": len(draws), "rows": rows}))


def judged(name: str, case: Case, draws: range, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Yields how often each verdict was given, by model and by what it is judged beside."""
    kind, observed = said(name, case, draws, folder)
    halves = [f"half {i}" for i in range(REFERENCES)]
    levels = {"quick": [], "standard": halves, "retrained": ["another"], "both": ["another", *halves]}
    for model, right in RIGHT.items():
        for level, beside in levels.items():
            calls = Counter(call(one, model, beside, kind) for one in observed)
            low, high = wilson(calls[right], len(draws))
            share = {"right": calls[right] / len(draws), "low": round(low, 3), "high": round(high, 3)}
            yield {"case": name, "model": model, "level": level, **share, "calls": dict(calls)}


def call(one: Mapping[str, Observations], model: str, beside: Sequence[str], kind: str) -> str:
    """The verdict on a model: beside the original, and beside reference models, which half saw what is retained."""
    references = [
        {part: x for part, x in one[role].items() if part != "retain" or role == "another"} for role in beside
    ]
    return verdict({**one[model], "before": one["original"]}, references, kind).call


def wilson(found: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share, z = found / count, 1.96
    middle, width = share + z**2 / (2 * count), z * (share * (1 - share) / count + (z / (2 * count)) ** 2) ** 0.5
    return (middle - width) / (1 + z**2 / count), (middle + width) / (1 + z**2 / count)


def said(name: str, case: Case, draws: range, folder: Path | None) -> tuple[str, list[dict[str, Observations]]]:
    """What the models of each draw say about each part of their split, by role."""
    train, test = digits(case)
    held = [held_out(train, HOLDOUT, i) for i in draws]
    chosen = {"alike": alike, "three classes": of_three_classes}.get(case.forget)
    asked = [chosen(train, ids, i) if chosen else case.forget for i, ids in zip(draws, held, strict=True)]
    splits = [
        sh.split(train, what, test=test, unseen=ids.tolist(), seed=i)
        for i, what, ids in zip(draws, asked, held, strict=True)
    ]
    kind = "chosen" if case.listed else splits[0].kind
    models = f"{case.forget} {case.noise} {case.test_noise} {case.wrong} {draws.start}-{draws.stop}"
    file = folder / f"{models}.safetensors" if folder else None
    if file and file.exists():
        return kind, list(from_tensors(read_tensors(file))["draws"])
    observed: list[dict[str, Observations]] = [{} for _ in draws]
    for number, (role, parts) in enumerate(roles(splits).items()):
        weights = trained(parts, draws.start + number)
        told = {role: weights}
        if role == "retrain":
            told |= {f"{lost} % lost": blurred(weights, splits, lost) for lost in LOST}
        for one, each in told.items():
            for i, split in enumerate(splits):
                observed[i][one] = {k: answers([x[i] for x in each], part) for k, part in split.parts().items()}
        print(f"{name}: trained {len(draws)} models of the role '{role}'", flush=True)
    if folder and file:
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(file, to_tensors({"draws": observed}))
    return kind, observed


def digits(case: Case) -> tuple[Records, Records]:
    """The digits, with noise on them and wrong labels."""
    data, chance = sh.Source.make({"name": "digits"}).load(), generator(0, "noise")
    mean, deviation = 0.3, 0.38
    found = []
    other = case.test_noise is not None
    for part, noise in (
        (data.train, case.noise),
        (data.test, case.noise if case.test_noise is None else case.test_noise),
    ):
        images = part.fetch(torch.arange(len(part)))[0].flatten(1) / 255
        images = (images - mean) / deviation + noise * torch.randn(images.shape, generator=chance)
        shift = torch.randint(1, 10, (len(part),), generator=chance)
        shift[torch.rand(len(part), generator=chance) >= case.wrong] = 0
        found.append(Stored(images, (part.labels + shift) % 10, drawn_from="" if other else "digits"))
    return found[0], found[1]


def alike(records: Records, held: Tensor, seed: int) -> Tensor:
    """One record that was trained on, and the 39 that are nearest to it."""
    images = records.fetch(torch.arange(len(records)))[0]
    first = int(torch.randint(len(records), (1,), generator=generator(seed, "alike")))
    distances = (images - images[first]).norm(dim=1).index_fill(0, held, torch.inf)
    nearest: Tensor = distances.topk(40, largest=False).indices
    return nearest


def of_three_classes(records: Records, held: Tensor, seed: int) -> Tensor:
    """40 records of three classes that were trained on."""
    chance = generator(seed, "three classes")
    some = torch.randperm(10, generator=chance)[:3]
    alike = torch.isin(records.labels, some).index_fill(0, held, False).nonzero().flatten()
    return alike[torch.randperm(len(alike), generator=chance)[:40]]


def roles(splits: Sequence[sh.Split]) -> dict[str, list[Part]]:
    """What each model is trained on; of one role all on as many records."""
    found = {
        "original": [replace(s.retain, ids=torch.cat([s.retain.ids, s.forget.ids])) for s in splits],
        "retrain": [s.retain for s in splits],
        "another": [s.retain for s in splits],
    }
    for i in range(REFERENCES):
        found[f"half {i}"] = [some(s.retain, len(s.retain) // 2, f"half {i}") for s in splits]
    return {role: [some(part, min(map(len, parts)), role) for part in parts] for role, parts in found.items()}


def some(part: Part, count: int, purpose: str) -> Part:
    """A random choice of the records, another for each purpose."""
    chance = generator(int(part.ids.sum()), purpose)
    return replace(part, ids=part.ids[torch.randperm(len(part), generator=chance)[:count]])


def trained(parts: Sequence[Part], seed: int) -> Weights:
    """One network per part, all trained at once: every tensor of weights has a row for each."""
    inputs, labels = (
        torch.stack(found) for found in zip(*(part.records.fetch(part.ids) for part in parts), strict=True)
    )
    chance, (models, count, width) = generator(seed, "weights"), inputs.shape
    weights = [
        torch.randn(models, width, HIDDEN, generator=chance) * (2 / width) ** 0.5,
        torch.zeros(models, 1, HIDDEN),
        torch.randn(models, HIDDEN, 10, generator=chance) * (2 / HIDDEN) ** 0.5,
        torch.zeros(models, 1, 10),
    ]
    descent = torch.optim.SGD([x.requires_grad_() for x in weights], LR, momentum=0.9)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(descent, EPOCHS * -(-count // BATCH_SIZE))
    for _ in range(EPOCHS):
        for ids in torch.rand(models, count, generator=chance).argsort(1).split(BATCH_SIZE, 1):
            batch = inputs.gather(1, ids[:, :, None].expand(-1, -1, width))
            loss = F.cross_entropy(logits(weights, batch).flatten(0, 1), labels.gather(1, ids).flatten())
            descent.zero_grad()
            (models * loss).backward()  # each model's own mean
            descent.step()
            rate.step()
    return [x.detach() for x in weights]


def blurred(weights: Weights, splits: Sequence[sh.Split], lost: float) -> Weights:
    """The networks with so much noise on their weights that they are right about fewer retained records."""
    chance = generator(int(lost), "blur")
    noise = [x.std((1, 2), keepdim=True) * torch.randn(x.shape, generator=chance) for x in weights]
    parts = [split.retain.records.fetch(split.retain.ids) for split in splits]

    def right(scale: Tensor) -> Tensor:
        worse = [x + scale[:, None, None] * more for x, more in zip(weights, noise, strict=True)]
        return torch.stack(
            [
                (logits([x[i] for x in worse], inputs).argmax(1) == labels).double().mean()
                for i, (inputs, labels) in enumerate(parts)
            ]
        )

    low, high = torch.zeros(len(parts)), torch.full((len(parts),), 4.0)
    wanted = right(low) - lost / 100
    for _ in range(12):
        middle = (low + high) / 2
        enough = right(middle) <= wanted
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return [x + high[:, None, None] * more for x, more in zip(weights, noise, strict=True)]


def logits(weights: Weights, inputs: Tensor) -> Tensor:
    """What networks of one hidden layer say: one, or several at once."""
    into, bias, out, last = weights
    return (inputs @ into + bias).relu() @ out + last


def answers(weights: Weights, part: Part) -> Outputs:
    """What one network says about a part."""
    inputs, labels = part.records.fetch(part.ids)
    return Outputs(logits(weights, inputs), labels)


if __name__ == "__main__":
    main()
