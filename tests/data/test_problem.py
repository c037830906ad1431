"""What a method sees: batches in an order that the seed decides, and parameters by pattern."""

from dataclasses import fields

import pytest
import torch
from torch import nn

import scissorhands as sh
from scissorhands.errors import ModelError, SettingError
from scissorhands.methods.modes import evaluating, frozen_norm_statistics, training
from scissorhands.methods.parameters import select, trainable


def test_a_problem_holds_no_test_data(split: sh.Split) -> None:
    problem = split.problem()
    held = [getattr(problem, f.name) for f in fields(problem)]
    assert not any(part is split.test for part in held)
    assert {id(p.records) for p in (problem.forget, problem.retain)} == {id(split.forget.records)}


def test_a_pass_visits_every_record_once_in_an_order_of_its_own(problem: sh.Problem) -> None:
    def labels(purpose: int) -> list[torch.Tensor]:
        return [x for x, _ in problem.batches(problem.retain, 7, "pass", purpose)]

    everything = problem.retain.records.fetch(problem.retain.ids)[0]
    first, again, other = (torch.cat(labels(i)) for i in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first.flatten(1).sum(1).sort().values, everything.flatten(1).sum(1).sort().values)


def test_no_batch_of_many_has_a_single_record(problem: sh.Problem) -> None:
    assert len(problem.retain) == 54
    assert [len(y) for _, y in problem.batches(problem.retain, 53)] == [54]
    assert [len(y) for _, y in problem.batches(problem.forget, 5)] == [6]
    assert problem.steps(problem.retain, 53) == 1


def test_augmentation_reaches_every_batch_and_is_seeded(split: sh.Split) -> None:
    problem = split.problem(augment=lambda x, draw: x + torch.rand(1, generator=draw))
    plain = split.problem()
    one, same = (torch.cat([x for x, _ in problem.batches(problem.retain, 20)]) for _ in range(2))
    raw = torch.cat([x for x, _ in plain.batches(plain.retain, 20)])
    assert torch.equal(one, same)
    assert not (one == raw).any()


def test_a_sample_is_a_share_of_the_part_and_never_empty(problem: sh.Problem) -> None:
    assert len(problem.sample(problem.retain, 0.5, "x")) == 27
    assert len(problem.sample(problem.retain, 1e-9, "x")) == 1
    assert set(problem.sample(problem.forget, 0.5, "x").ids.tolist()) < set(problem.forget.ids.tolist())


def test_where_selects_by_pattern_and_refuses_one_that_matches_nothing(mlp: nn.Module) -> None:
    assert list(select(mlp, "1.*, 4.bias")) == ["1.weight", "1.bias", "4.bias"]
    says = r"'parameters' is 'layer9\.\*', which matches no trainable parameter. One is '1.weight'"
    with pytest.raises(SettingError, match=says):
        select(mlp, "1.*,layer9.*")


def test_frozen_parameters_are_never_selected(mlp: nn.Module) -> None:
    mlp.get_parameter("1.weight").requires_grad_(False)
    assert "1.weight" not in select(mlp, "*")
    mlp.requires_grad_(False)
    with pytest.raises(ModelError, match="no trainable parameter"):
        trainable(mlp)


def test_modes_are_restored_module_by_module() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()).train()
    model[0].eval()
    with training(model):
        assert model[0].training
    with evaluating(model):
        assert not model[1].training
    assert (model[0].training, model[1].training) == (False, True)


def test_still_statistics_normalize_by_the_batch_and_leave_no_trace() -> None:
    model, twin = nn.BatchNorm1d(2).train(), nn.BatchNorm1d(2).train()
    x = torch.randn(8, 2) * 3 + 5
    before = {name: b.clone() for name, b in model.named_buffers()}
    with frozen_norm_statistics(model):
        still = model(x)
    assert torch.equal(still, twin(x))
    assert all(torch.equal(b, before[name]) for name, b in model.named_buffers())
    assert not torch.equal(twin.get_buffer("running_mean"), before["running_mean"])
    model.eval()
    with frozen_norm_statistics(model):
        assert torch.equal(model(x), nn.BatchNorm1d(2).eval()(x))
