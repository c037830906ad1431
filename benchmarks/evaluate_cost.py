"""What the quick level costs: against one bare forward pass over the same data.

python benchmarks/evaluate_cost.py [--quick]
"""

import torch
from timing import median, quick, report, seconds

import scissorhands as sh
from scissorhands.data.problem import on_device
from scissorhands.data.records import Stored
from scissorhands.methods.modes import evaluating
from scissorhands.tasks.classification.networks import ResNet, resnet18


def main() -> None:
    """Prints both times, and what the metrics add."""
    width, train, test = (8, 4000, 1000) if quick(__doc__) else (16, 50_000, 10_000)
    draw = torch.Generator().manual_seed(0)
    split = sh.split(made(train, draw), sh.Forget("random:10%"), test=made(test, draw))
    model = resnet18(10, 3, width)
    bare, whole = [], []
    for _ in range(3):
        bare.append(seconds(forward, model, split))
        whole.append(seconds(sh.evaluate, model, split))
    print(f"width {width}, {train} + {test} images: forward {median(bare):.2f} s, quick level {median(whole):.2f} s")
    report(median(whole) / median(bare), "no limit", width=width, train=train, test=test)


def made(count: int, draw: torch.Generator) -> Stored:
    """Random images in ten classes."""
    images = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=draw)
    return Stored(images, torch.randint(10, (count,), generator=draw), classes=tuple("0123456789"))


def forward(model: ResNet, split: sh.Split) -> None:
    """Every record through the model, once."""
    with evaluating(model), torch.inference_mode():
        for part in (split.forget, split.retain, split.audit, split.test):
            for inputs, _ in part.batches(512) if part else ():
                model(on_device(model, inputs))


if __name__ == "__main__":
    main()
