"""What a search may change of each method."""

from dataclasses import replace

import pytest

import scissorhands as sh
from scissorhands.errors import SettingError
from scissorhands.methods import METHODS
from scissorhands.methods.search import search_space


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_every_value_that_is_searched(name: str) -> None:
    method = METHODS[name]()
    space = search_space(method)
    assert 1 <= len(space) <= 4
    for setting, span in space.items():
        assert span.low < getattr(method, setting) < span.high or span.high == 1
        for value in (span.low, span.high):
            assert getattr(replace(method, **{setting: value}), setting) == value


def test_learning_rate_and_epochs_are_searched_around_what_they_are() -> None:
    space = search_space(sh.FineTune(lr=0.02, epochs=8))
    assert (space["lr"].low, space["lr"].high) == pytest.approx((0.002, 0.2))
    assert (space["epochs"].low, space["epochs"].high, space["epochs"].whole) == (4, 16, True)


def test_a_share_is_searched_up_to_all() -> None:
    assert search_space(sh.SalUn(salient=0.5))["salient"].high == 1


def test_what_is_given_or_zero_stays() -> None:
    assert set(search_space(sh.L1Sparse(), given=["lr", "batch_size"])) == {"gamma", "epochs"}
    assert set(search_space(sh.L1Sparse(gamma=0.0), given=["lr"])) == {"epochs"}


def test_a_method_without_anything_to_search_is_refused() -> None:
    with pytest.raises(SettingError, match="FineTune has no setting left to search"):
        search_space(sh.FineTune(), given=["lr", "epochs"])
