"""The small problem of all tests, without the measurements of damage."""

from dataclasses import replace

import pytest

import scissorhands as sh


@pytest.fixture
def problem(split: sh.Split) -> sh.Problem:
    """The problem of the split; what a method promises does not depend on who looks at the model before and after."""
    return replace(split.problem(seed=0), warn_on_damage=False)
