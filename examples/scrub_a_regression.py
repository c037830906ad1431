"""Forgets patients of a table whose label is a number, and says by how far a network of your own is off afterwards.

python examples/scrub_a_regression.py
"""

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh


def main() -> None:
    """Train, forget forty patients, and judge the network by others that never saw them."""
    table = load_diabetes()  # how far the disease went in a year: from 25 to 346
    rows, labels = torch.tensor(20 * table.data).float(), torch.tensor(table.target).float()
    labels = (labels - labels.mean()) / labels.std()  # a network learns numbers near 0 more easily
    train, test = TensorDataset(rows[:300], labels[:300]), TensorDataset(rows[300:], labels[300:])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 1))
    how = sh.Training(epochs=60, lr=0.05, batch_size=32)  # by the mean squared error, since labels are floats
    how.fit(model, sh.split(train, [0], test=test).problem())

    chosen = torch.randperm(300)[:40]  # or the numbers of the patients who ask for it
    split = sh.split(train, chosen, test=test, unseen=0.5)
    sh.Scissorhands().scrub(model, split.problem())
    scores = sh.evaluate(model, split, level="standard", training=how, settings=sh.Evaluation(relearn=5))
    deviations = "standard deviations"
    print(f"test: off by {scores['test_mae']:.2f} {deviations}; forgotten: by {scores['forget_mae']:.2f}")
    print(f"AUC {scores['auc']:.2f}  {scores.verdict}")


if __name__ == "__main__":
    main()
