"""Compares our support vector classifier of the membership attack with scikit-learn's: time, and equal decisions.

    python benchmarks/attack_cost.py [--quick]

Needs no data: the logits are made up so that confidence and accuracy are those of models trained on CIFAR-10. Prints a
table, in seconds of processor time on one thread, and as the last line one JSON object with the smallest speed-up, the
smallest share of equal decisions, and all rows. Where fewer than 99.9 % are equal, scikit-learn is run once more with a
tolerance of 1e-5 instead of its 1e-3, and the row says how many decisions of each agree with that.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from sklearn.svm import SVC
from torch import Tensor

from scissorhands.metrics.mia import confidence, correctness, entropy, modified_entropy, probability
from scissorhands.metrics.mia_svc import called_other

Parts = tuple[Tensor, Tensor, Tensor]
FEATURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "correctness": correctness,
    "confidence": confidence,
    "entropy": entropy,
    "modified entropy": modified_entropy,
    "probability": probability,
}


@dataclass(frozen=True)
class Case:
    """A kind of model: how much its logits vary, and how far the true one is above the rest, in mean and deviation."""

    classes: int
    noise: float
    members: tuple[float, float]
    others: tuple[float, float]

    def logits(self, count: int, lead: tuple[float, float], luck: torch.Generator) -> tuple[Tensor, Tensor]:
        """Made-up logits and labels."""
        labels = torch.randint(self.classes, (count,), generator=luck)
        logits = self.noise * torch.randn(count, self.classes, generator=luck)
        logits[torch.arange(count), labels] += lead[0] + lead[1] * torch.randn(count, generator=luck)
        return logits, labels


CASES = {
    "hardly overfitted": Case(10, 1.0, (1.35, 0.7), (1.3, 0.7)),
    "overfitted": Case(10, 6.0, (28.0, 4.0), (9.0, 9.0)),
    "100 classes": Case(100, 2.0, (8.0, 2.5), (4.0, 3.5)),
    "collapsed": Case(10, 0.05, (0.01, 0.0), (0.0, 0.0)),
}


def main() -> None:
    """Times both on every feature of every case."""
    parser = argparse.ArgumentParser(description="Compare our classifier with scikit-learn's.")
    parser.add_argument("--quick", action="store_true", help="a smaller size, within a minute")
    known, asked = (3000, 1500) if parser.parse_args().quick else (10_000, 5000)
    torch.set_num_threads(1)
    print(f"{known} members, {known} others, {asked} targets, one thread")
    print(f"{'feature':18}{'case':20}{'plain s':>9}{'ours s':>8}{'faster':>8}{'equal %':>9}")
    rows = []
    for case_name, case in CASES.items():
        luck = torch.Generator().manual_seed(0)
        half = asked // 2
        members, others = case.logits(known, case.members, luck), case.logits(known, case.others, luck)
        seen, unseen = case.logits(half, case.members, luck), case.logits(asked - half, case.others, luck)
        targets = torch.cat([seen[0], unseen[0]]), torch.cat([seen[1], unseen[1]])
        for name, feature in FEATURES.items():
            row = {"feature": name, "case": case_name}
            row |= compared((feature(*members), feature(*others), feature(*targets)))
            rows.append(row)
            print(line(row), flush=True)
    ratio, equal = min(row["ratio"] for row in rows), min(row["equal"] for row in rows)
    print(json.dumps({"ratio": ratio, "equal": equal, "rows": rows}))


def compared(parts: Parts) -> dict[str, Any]:
    """The seconds of both and the percentage of equal decisions, plain first: it also warms up scikit-learn."""
    plain, plain_seconds = timed(plainly, parts)
    ours, seconds = timed(lambda parts: called_other(*parts), parts)
    row = {"plain": plain_seconds, "ours": seconds, "ratio": plain_seconds / seconds, "equal": same(plain, ours)}
    if row["equal"] < 99.9:
        exact = plainly(parts, tolerance=1e-5)
        row |= {"exact_plain": same(exact, plain), "exact_ours": same(exact, ours)}
    return row


def plainly(parts: Parts, tolerance: float = 1e-3) -> Tensor:
    """The decisions of scikit-learn, for all that it is slow."""
    members, others, targets = (part.double().reshape(len(part), -1).numpy() for part in parts)
    attack = SVC(C=3, gamma="auto", kernel="rbf", tol=tolerance)
    attack.fit(np.concatenate([members, others]), [1] * len(members) + [0] * len(others))
    return torch.from_numpy(attack.predict(targets) == 0)


def timed(decide: Callable[[Parts], Tensor], parts: Parts) -> tuple[Tensor, float]:
    """What was decided, and how many seconds of processor time it took, which is the same on a busy machine."""
    start = time.process_time()
    decided = decide(parts)
    return decided, time.process_time() - start


def same(one: Tensor, other: Tensor) -> float:
    """The percentage of equal decisions."""
    return 100 * (one == other).double().mean().item()


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    text = f"{row['feature']:18}{row['case']:20}{row['plain']:9.2f}{row['ours']:8.2f}{row['ratio']:8.1f}"
    text += f"{row['equal']:9.2f}"
    if "exact_plain" in row:
        text += f"  with tolerance 1e-5: plain {row['exact_plain']:.2f}, ours {row['exact_ours']:.2f}"
    return text


if __name__ == "__main__":
    main()
