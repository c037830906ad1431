"""What a newcomer brings: handwritten digits as floats, and an MLP that was trained on them with Adam."""

from functools import cache

import torch
from torch import nn
from torch.utils.data import TensorDataset

from scissorhands.data.sources import Source


@cache
def digits() -> tuple[TensorDataset, TensorDataset]:
    """Training and test data."""
    data = Source(name="digits").load()
    parts = (data.train, data.test)
    train, test = (TensorDataset(part.fetch(torch.arange(len(part)))[0] / 255, part.labels) for part in parts)
    return train, test


def mlp() -> nn.Module:
    """The trained model, a new one each time."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    inputs, labels = digits()[0].tensors
    for _ in range(20):
        for batch in torch.randperm(len(labels)).split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval()
