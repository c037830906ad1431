"""The checks that others run on their own methods: they pass what is sound, and say what is not."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import scissorhands as sh
from helpers import tinysd
from scissorhands import tasks
from scissorhands.errors import SettingError
from scissorhands.methods import METHODS, Log, Problem, ignore
from scissorhands.testing import (
    CHECKS,
    check_method,
    mlp,
    resumes_to_the_same_bits,
    small_problem,
)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_the_table_resumes_to_the_same_bits(name: str) -> None:
    resumes_to_the_same_bits(METHODS[name], mlp, small_problem())


def test_a_sound_method_passes() -> None:
    check_method(sh.FineTune)


@pytest.mark.parametrize("name", [name for name in tasks.methods() if name not in METHODS])
def test_every_method_for_pipelines_alone_keeps_every_promise(name: str) -> None:
    check_method(tasks.method(name), build=tinysd.small_unet, problem=tinysd.small_problem)


def test_a_method_without_the_model_that_it_needs_says_so() -> None:
    with pytest.raises(SettingError, match="this method erases concepts from a diffusion pipeline"):
        check_method(tasks.method("esd"))


@dataclass(frozen=True, kw_only=True)
class Drawing(sh.FineTune):
    """Draws from PyTorch's global generator."""

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))


def test_a_method_that_breaks_a_promise_is_told_which() -> None:
    with pytest.raises(AssertionError, match="Drawing on the mlp: is decided by the seed: the same seed gave another"):
        check_method(Drawing)


def test_every_check_has_a_name_that_is_a_sentence() -> None:
    assert all(" " in name for name in CHECKS)
