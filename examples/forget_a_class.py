"""Forgets a class with a network and a data set of your own: nothing here but PyTorch and three calls.

python examples/forget_a_class.py
"""

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh


def main() -> None:
    """Trains, forgets all threes, and compares with a network that never saw one."""
    digits = load_digits()
    inputs, labels = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
    train, test = TensorDataset(inputs[:1400], labels[:1400]), TensorDataset(inputs[1400:], labels[1400:])

    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    fit(model, train)

    split = sh.split(train, sh.Forget("class:3"), test=test, seed=0)
    retrained = copy.deepcopy(model)
    sh.Retrain(epochs=30, lr=0.05, batch_size=64).scrub(retrained, split.problem())

    before = sh.evaluate(model, split, against=retrained)
    sh.Scissorhands().scrub(model, split.problem())
    after = sh.evaluate(model, split, against=retrained)

    for name, scores in (("before", before), ("after", after)):
        forgotten, tested = scores["forget_accuracy"], scores["test_accuracy"]
        print(f"{name:8}forget {forgotten:6.2f}  test {tested:6.2f}  gap {scores.avg_gap:6.2f}")


def fit(model: nn.Module, train: TensorDataset) -> None:
    """Your own training, whatever it is."""
    inputs, labels = train.tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
