"""Mixed precision: layers compute in bfloat16, while weights, answers and scores are in full."""

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.nursery import Nursery
from scissorhands import runs
from scissorhands.errors import SettingError
from scissorhands.methods.precision import computing_in
from scissorhands.runs.place import Place

# Some processors promise bfloat16 instructions that they do not have; this keeps oneDNN to those that they do have.
SAFE = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


class Spy(nn.Module):
    """Says what it is given, in the precision that layers compute in, and remembers that."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seen: list[torch.dtype] = []

    def forward(self, inputs: Tensor, pair: bool = False) -> Any:
        half = torch.is_autocast_enabled("cpu")
        self.seen.append(torch.get_autocast_dtype("cpu") if half else torch.float32)
        said = (inputs * self.weight).to(self.seen[-1])
        return (said, said) if pair else said


def test_layers_compute_in_half_and_answers_are_in_full() -> None:
    model, inputs = Spy(), torch.ones(2, 3)
    with computing_in("bfloat16", model):
        assert model(inputs).dtype == torch.float32
        assert {one.dtype for one in model(inputs, pair=True)} == {torch.float32}
        assert not torch.is_autocast_enabled("cpu")  # losses and steps are in full
    model(inputs)
    assert model.seen == [torch.bfloat16, torch.bfloat16, torch.float32]


def test_full_precision_changes_nothing() -> None:
    model = Spy()
    with computing_in("full", model):
        model(torch.ones(2))
    assert model.seen == [torch.float32]


def test_a_model_that_fails_leaves_half_precision() -> None:
    model = Spy()
    with computing_in("bfloat16", model), pytest.raises(TypeError):
        model(None)
    assert model.seen == [torch.bfloat16]
    assert not torch.is_autocast_enabled("cpu")


def test_a_copy_of_the_model_computes_with_its_own_weights() -> None:
    model = Spy()
    with computing_in("bfloat16", model):
        other = copy.deepcopy(model)
        other.weight.data.fill_(5)
        assert other(torch.ones(1)).item() == 5
        assert model(torch.ones(1)).item() == 1


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="'precision' must be one of full, bfloat16"):
        Place(tmp_path / "run", precision="bfloat")


def test_a_model_trains_and_forgets_in_half_precision(nursery: Nursery, tmp_path: Path) -> None:
    def command(words: str) -> None:
        done = nursery.run(words, tmp_path, **SAFE)
        assert done.code == 0, done.err

    small = "--set epochs=3 --set lr=0.05 --set batch_size=64"
    command(f"train --model small {small} --precision bfloat16 -o half")
    command(f"train --model small {small} -o full")
    half, full = (runs.read(tmp_path / name) for name in ("half", "full"))
    assert tomllib.loads((tmp_path / "half" / "run.toml").read_text())["precision"] == "bfloat16"
    assert half.result.values() != full.result.values()
    assert half.result.values()["test_accuracy"] > 60
    assert abs(half.result.values()["test_accuracy"] - full.result.values()["test_accuracy"]) < 15
    forget = "--forget class:3 --set epochs=3 --set lr=0.003 --set batch_size=64"
    command(f"scrub half {forget} --precision bfloat16 -o forgot")
    scores = runs.read(tmp_path / "forgot").result.values()
    assert scores["forget_accuracy"] < 10
    assert scores["test_accuracy"] > 60
