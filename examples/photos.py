"""Forgets 40 of 1,200 photos, which a list names by their files, without any setting.

python examples/photos.py
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import scissorhands as sh

CLASSES = {"beach": (200, 180, 120), "forest": (40, 120, 60), "street": (110, 110, 120)}


def main() -> None:
    """Draws the photos, trains, and forgets those that are on the list."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        draw(folder)
        data = sh.Source(name=str(folder)).load()
        torch.manual_seed(0)
        model = network()
        fit(model, *data.train.fetch(torch.arange(len(data.train))))

        split = sh.split(data.train, f"keys:{folder / 'delete.txt'}", test=data.test)
        before = sh.evaluate(model, split)
        sh.Scissorhands().scrub(model, split.problem())
        after = sh.evaluate(model, split)

    for name, scores in (("before", before), ("after", after)):
        accuracies = "  ".join(f"{part} {scores[f'{part}_accuracy']:6.2f}" for part in ("forget", "retain", "test"))
        print(f"{name:8}{accuracies}  AUC {scores['auc']:.3f}")


def draw(folder: Path) -> None:
    """Draw 400 photos of each class to train with and 100 to test with, and list 40 of the former for deletion."""
    chance = np.random.default_rng(0)
    for part, count in (("train", 400), ("test", 100)):
        for name, color in CLASSES.items():
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                photo = (np.array(color) + chance.normal(0, 90, (12, 12, 3)) + chance.normal(0, 35, 3)).clip(0, 255)
                Image.fromarray(photo.astype(np.uint8)).save(folder / part / name / f"{number}.png")
    listed = [f"train/{name}/{number}.png" for name in CLASSES for number in range(14)][:40]
    (folder / "delete.txt").write_text("\n".join(listed))


def network() -> nn.Module:
    """Your own network."""
    first = (nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(Scale(), *first, *second, nn.Flatten(), nn.Linear(288, len(CLASSES)))


class Scale(nn.Module):
    """Turns bytes into numbers around zero."""

    def forward(self, photos: torch.Tensor) -> torch.Tensor:
        return photos.float() / 128 - 1


def fit(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    """Your own training, whatever it is."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _ in range(20):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
