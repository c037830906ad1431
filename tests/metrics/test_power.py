"""What is said beforehand about the power of the tests holds when they are made."""

import math

import pytest
import torch
from scipy.stats import norm

from scissorhands.metrics import power
from scissorhands.metrics.power import DEVIATIONS, PER_TEST, fewest, needed, smallest_auc, smallest_loss


def found(forget: int, others: int, area: float, models: int = 2000) -> float:
    """In how many of these models a memory of this AUC stands out, by ranks."""
    draw = torch.Generator().manual_seed(0)
    memory = norm.ppf(area).item() * 2**0.5  # scores of both kinds are normal
    some = torch.randn(models, forget, generator=draw) + memory
    rest = torch.randn(models, others, generator=draw).sort(1).values
    areas = torch.searchsorted(rest, some).double().mean(1) / others
    error = math.sqrt((forget + others + 1) / (12 * forget * others))
    return (areas - 0.5 > DEVIATIONS * error).double().mean().item()


def test_a_test_errs_as_often_as_it_says() -> None:
    assert norm.sf(DEVIATIONS) == pytest.approx(PER_TEST, rel=0.01)
    assert found(40, 120, 0.5, models=20_000) < 1.5 * PER_TEST


@pytest.mark.parametrize(("forget", "others"), [(40, 120), (40, 477), (200, 60), (1000, 1000)])
def test_the_smallest_memory_is_found_in_four_of_five_models(forget: int, others: int) -> None:
    assert found(forget, others, smallest_auc(forget, others)) == pytest.approx(0.8, abs=0.04)


def test_what_is_needed_is_enough_and_one_record_less_is_not() -> None:
    assert needed(40, 20, 0.75).startswith("With 20 unseen records it takes 199 forgotten ones; with 40")
    assert smallest_auc(199, 20) <= 0.75 < smallest_auc(198, 20)
    assert smallest_auc(40, 38) <= 0.75 < smallest_auc(40, 37)
    assert "no number of forgotten ones is enough" in needed(40, 5, 0.75)
    assert fewest(lambda count: count >= 1) == 1


def test_more_records_show_more() -> None:
    assert [round(smallest_auc(count, 400), 2) for count in (5, 20, 40, 400)] == [0.96, 0.76, 0.69, 0.58]
    assert smallest_loss(10_000) < smallest_loss(1000) < smallest_loss(100)
    assert smallest_loss(0) == smallest_auc(0, 10) == 1.0


def test_a_split_is_told_what_it_can_decide_and_what_would_help() -> None:
    counts = {"forget": 40, "others": 477, "retain": 1160, "audit": 120, "test": 357}
    told = power(counts, references=4)
    assert told.decides
    assert not told.helps
    assert list(told.smallest_loss) == ["retain", "audit", "test"]
    assert told.to_dict()["smallest_loss"] == dict(told.smallest_loss)
    alone = power(counts)
    assert not alone.decides
    assert alone.helps.startswith("Reference models would help: level standard trains some. Without them: ")
    assert power({**counts, "forget": 100}).decides
    assert power(counts, kind="chosen").helps.startswith("It takes reference models: level standard trains some")
    assert power({"forget": 3, "others": 400}).helps.startswith("With 400 unseen records it takes ")
