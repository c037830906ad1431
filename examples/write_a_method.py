"""A method of your own, in one file outside the package: it adds noise to the weights, then repairs.

    cd examples && scissorhands scrub MODEL --forget class:3 --method write_a_method:Noise --set noise=0.05 -o RUN

It runs under torchrun, too: there each process holds a part of every weight, and `add_` takes that into account.

Without a model at hand, `python examples/write_a_method.py` trains one first.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import scissorhands as sh
from scissorhands.data.problem import Log, ignore
from scissorhands.distributed import add_
from scissorhands.methods.descent import descend
from scissorhands.methods.parameters import trainable
from scissorhands.randomness import generator
from scissorhands.settings import at_least_one, count, non_negative, positive, setting


@dataclass(frozen=True, kw_only=True)
class Noise(sh.Method):
    """Shakes every weight, then trains on the retained data."""

    noise: float = setting(0.02, non_negative, "deviation of the noise")
    epochs: int = setting(5, count, "passes over the retained data")
    lr: float = setting(0.02, positive, "learning rate")
    batch_size: int = setting(64, at_least_one, "records in a step")

    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        """Changes the model, in place."""
        for name, parameter in trainable(model).items():
            draw = torch.randn(parameter.shape, generator=generator(problem.seed, "noise", name))
            add_(parameter, self.noise * draw)
        descend(
            model,
            problem,
            problem.retain,
            phase="repair",
            epochs=self.epochs,
            lr=self.lr,
            batch_size=self.batch_size,
            momentum=0.9,
            weight_decay=0.0,
            log=log,
        )


def main() -> None:
    """Runs the commands above on a small network for digits."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        trained, noisy = f"{folder}/trained", f"{folder}/noisy"
        for line in (
            [
                "train",
                "--model",
                "small",
                "--set",
                "epochs=5",
                "--set",
                "lr=0.05",
                "--set",
                "batch_size=64",
                "-o",
                trained,
            ],
            ["scrub", trained, "--forget", "class:3", "--method", "write_a_method:Noise", "-o", noisy],
            ["report", noisy, "-o", f"{folder}/report.html"],
        ):
            print("scissorhands", *line)
            subprocess.run([sys.executable, "-m", "scissorhands", *line], check=True, cwd=here)


if __name__ == "__main__":
    main()
