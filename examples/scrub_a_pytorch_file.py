"""Forgets records with the weights in a .pt file, of a plain network that takes floats from 0 to 1.

python examples/scrub_a_pytorch_file.py
"""

from tempfile import TemporaryDirectory

import torch
from torch import nn

import scissorhands as sh


def net() -> nn.Module:
    """Your network; --factory on the command line."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def main() -> None:
    """Trains and saves, as you did; then one call makes the file forget, and another judges it."""
    with TemporaryDirectory() as folder:
        torch.save(trained().state_dict(), f"{folder}/net.pt")

        run = sh.scrub(
            f"{folder}/net.pt",
            "random:10%",
            f"{folder}/scrubbed",
            factory="scrub_a_pytorch_file:net",
            data="digits",
            data_set=("mean=0",),  # floats from 0 to 1
            settings={"optimizer": "adam"},
        )
        training = {"epochs": 10, "lr": 0.005, "batch_size": 64, "optimizer": "adam"}
        run = run.evaluate(factory="scrub_a_pytorch_file:net", training=training)
        print(run, run.result.scores.verdict, *sorted(path.name for path in run.model.iterdir()))


def trained() -> nn.Module:
    """Your own training, whatever it is."""
    torch.manual_seed(0)
    train, model = sh.Source(mean="0").load().train, net()
    inputs, labels = train.fetch(torch.arange(len(train)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    main()
