"""A method of your own, in one file outside the package: it adds noise to the weights, then repairs.

    cd examples && scissorhands scrub MODEL --forget class:3 --method write_a_method:Noise --set noise=0.05 -o RUN

It runs under torchrun and resumes bit for bit, and knows of neither: `python examples/write_a_method.py` checks that,
and all else that a method promises.
"""

from dataclasses import dataclass

import torch
from torch import nn

from scissorhands.methods import (
    Descent,
    Log,
    Method,
    Problem,
    add_,
    at_least_one,
    count,
    generator,
    ignore,
    non_negative,
    positive,
    setting,
    trainable,
)
from scissorhands.testing import check_method


@dataclass(frozen=True, kw_only=True)
class Noise(Method):
    """Shakes every weight, then trains on the retained data."""

    noise: float = setting(0.02, non_negative, "deviation of the noise")
    epochs: int = setting(5, count, "passes over the retained data")
    lr: float = setting(0.02, positive, "learning rate")
    batch_size: int = setting(64, at_least_one, "records in a step")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        """Changes the model, in place."""
        for name, parameter in trainable(model).items():
            add_(parameter, self.noise * torch.randn(parameter.shape, generator=generator(problem.seed, "noise", name)))
        descent = Descent(model, problem, self, "repair", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.retain):
                descent.step(descent.gradient(batch))


if __name__ == "__main__":
    from write_a_method import Noise as Importable  # torchrun's processes find it by the name of its module

    check_method(Importable, processes=2)
    print("Noise keeps every promise of a method.")
