"""Forgets 400 of 4,000 gray images with an MLP of your own, without any setting.

python examples/gray_images.py
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh

CLASSES, SIDE = 8, 12


def main() -> None:
    """Trains until the images are known by heart, then forgets a tenth of them."""
    train, test = images(4000, seed=1), images(1000, seed=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    fit(model, train)

    split = sh.split(train, "random:10%", test=test)
    before = sh.evaluate(model, split)
    sh.Scissorhands(optimizer="adam").scrub(model, split.problem())  # Adam trained it
    after = sh.evaluate(model, split)

    for name, scores in (("before", before), ("after", after)):
        accuracies = "  ".join(f"{part} {scores[f'{part}_accuracy']:6.2f}" for part in ("forget", "retain", "test"))
        print(f"{name:8}{accuracies}  AUC {scores['auc']:.3f}")


def images(count: int, seed: int) -> TensorDataset:
    """Draw images of classes that overlap: what is learned by heart does not help with others."""
    draw = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(count) % CLASSES
    return TensorDataset(patterns[labels] + 5 * torch.randn(count, 1, SIDE, SIDE, generator=draw), labels)


def fit(model: nn.Module, train: TensorDataset) -> None:
    """Your own training, whatever it is."""
    inputs, labels = train.tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(15):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
