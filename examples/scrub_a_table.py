"""Forgets patients of a table with a network of your own, and says whether that can be told.

python examples/scrub_a_table.py
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh


def main() -> None:
    """Trains, forgets fifty patients, and judges the network by a few others that never saw them."""
    table = load_breast_cancer()
    rows, labels = torch.tensor(table.data, dtype=torch.float32), torch.tensor(table.target)
    rows = (rows - rows.mean(0)) / rows.std(0)
    train, test = TensorDataset(rows[:300], labels[:300]), TensorDataset(rows[300:], labels[300:])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 2))
    sh.Training(epochs=20, lr=0.05, batch_size=32).fit(model, sh.split(train, [0], test=test).problem())

    chosen = torch.randperm(300)[:40]  # or the numbers of the patients who ask for it
    split = sh.split(train, chosen, test=test, unseen=0.5)
    sh.Scissorhands().scrub(model, split.problem())
    how = sh.Training(epochs=20, lr=0.05, batch_size=32)  # as it was trained
    scores = sh.evaluate(model, split, level="standard", training=how, settings=sh.Evaluation(relearn=5))
    print(f"test {scores['test_accuracy']:.1f} %  AUC {scores['auc']:.2f}  {scores.verdict}")


if __name__ == "__main__":
    main()
