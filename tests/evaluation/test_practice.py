"""Practice: other records than those to forget, and a gap that is known without a retrained model."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.records import Part, Stored
from scissorhands.errors import DataError
from scissorhands.evaluation.practice import WORST, GapEstimate, practice


def _part(surenesses: list[float], label: int = 0) -> Part:
    """Records whose input is how much surer a model is of class 0 than of class 1; as images, in a column."""
    inputs = torch.tensor([[sure, 0.0] for sure in surenesses])
    return Part(Stored(inputs, torch.full((len(inputs),), label)), torch.arange(len(inputs)))


class _Says(nn.Module):
    """Says what the input is, times its one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.weight


def _posed(forget: list[float]) -> sh.Problem:
    unseen = _part([3.0, 2.0, 1.0, -1.0])
    return sh.Problem(_part(forget), _part([5.0, 5.0]), unseen)


def test_the_records_of_practice_are_retained_ones_and_no_others(split: sh.Split) -> None:
    problem = split.problem()
    other = practice(problem)
    ids = {*other.forget.ids.tolist(), *other.retain.ids.tolist()}
    assert ids == {*problem.retain.ids.tolist()}
    assert len(other.forget) + len(other.retain) == len(ids)
    assert len(other.forget) == round(len(problem.retain) * len(problem.forget) / 60)
    assert other.calibration is not None
    assert problem.calibration is not None
    assert other.calibration.ids.tolist() == problem.calibration.ids.tolist()


def test_where_a_class_is_forgotten_another_one_is_practiced_on(split: sh.Split) -> None:
    train = split.retain.records
    problem = sh.split(train, sh.Forget("class:1"), test=split.test.records).problem()
    other = practice(problem)
    (label,) = set(other.forget.labels.tolist())
    assert label in (0, 2)
    assert len(other.forget) == 20
    assert {*other.retain.labels.tolist()} == {0, 2} - {label}
    assert other.calibration is not None
    assert {*other.calibration.labels.tolist()} == {0, 2} - {label}


def test_with_two_classes_none_is_left_to_practice_on() -> None:
    train = Stored(torch.randn(20, 2), torch.arange(20) % 2)
    problem = sh.split(train, sh.Forget("class:1"), test=train).problem()
    with pytest.raises(DataError, match="too few are retained to practice on"):
        practice(problem)


def test_forgotten_records_that_are_known_as_well_as_unseen_ones_have_no_gap() -> None:
    model = _Says()
    assert GapEstimate(model, _posed([3.0, 2.0, 1.0, -1.0])).of(model) == 0


def test_forgotten_records_that_stand_out_have_a_gap() -> None:
    model = _Says()
    # Accuracy 100 where unseen records have 75, and the attack always right: (0 + 0 + 25 + 100) / 4.
    assert GapEstimate(model, _posed([9.0, 8.0])).of(model) == pytest.approx(125 / 4)
    # Avoided as surely: accuracy 0 where unseen records have 75, and the attack always wrong.
    assert GapEstimate(model, _posed([-9.0, -8.0])).of(model) == pytest.approx(175 / 4)


def test_what_is_lost_of_the_rest_is_a_gap() -> None:
    model = _Says()
    estimate = GapEstimate(model, _posed([3.0, 2.0, 1.0, -1.0]))
    with torch.no_grad():
        model.weight.mul_(-1)  # right where it was wrong, and the other way round
    assert estimate.of(model) == pytest.approx((100 + 50 + 0 + 0) / 4)


def test_a_class_that_is_forgotten_whole_should_not_be_known() -> None:
    model = _Says()
    problem = replace(_posed([0.0]), forget=_part([-4.0, -4.0, -4.0, 4.0], label=1))
    assert GapEstimate(model, problem).of(model) == pytest.approx((0 + 0 + 75) / 3)


def test_a_model_that_diverged_has_the_largest_gap() -> None:
    model = _Says()
    estimate = GapEstimate(model, _posed([1.0]))
    with torch.no_grad():
        model.weight.fill_(torch.nan)
    assert estimate.of(model) == WORST
