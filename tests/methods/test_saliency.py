"""Saliency against finite differences, and the top share against torch.topk."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data.problem import cross_entropy
from scissorhands.data.records import Part
from scissorhands.distributed import Batch
from scissorhands.errors import ModelError
from scissorhands.methods import saliency
from scissorhands.methods.saliency import SALIENCY, connection, top_share, train_mode_saliency


def double(model: nn.Module, batch: Batch) -> Tensor:
    return cross_entropy(model, replace(batch, inputs=batch.inputs.double()))


def mean_loss(model: nn.Module, part: Part) -> float:
    return double(model, Batch.of(*part.records.fetch(part.ids))).item()


def test_connection_sensitivity_equals_finite_differences(mlp: nn.Module, problem: sh.Problem) -> None:
    problem = replace(problem, loss=double)
    parameters = dict(mlp.named_parameters())
    scores = connection(mlp, problem, parameters, problem.forget, 4)  # 4 does not divide 6: batches are weighted
    delta = 1e-6
    for name, parameter in parameters.items():
        for place in (0, parameter.numel() // 2, parameter.numel() - 1):
            flat = parameter.data.view(-1)
            kept = flat[place].item()
            flat[place] = kept * (1 - delta)
            less = mean_loss(mlp, problem.forget)
            flat[place] = kept * (1 + delta)
            more = mean_loss(mlp, problem.forget)
            flat[place] = kept
            expected = abs(more - less) / (2 * delta)
            assert scores[name].view(-1)[place].item() == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_the_score_does_not_depend_on_the_batch_size(mlp: nn.Module, problem: sh.Problem) -> None:
    problem = replace(problem, loss=double)
    parameters = dict(mlp.named_parameters())
    one, all_at_once = (connection(mlp, problem, parameters, problem.forget, size) for size in (1, 100))
    for name in parameters:
        torch.testing.assert_close(one[name], all_at_once[name])


def test_fisher_is_the_mean_of_squared_gradients(mlp: nn.Module, problem: sh.Problem) -> None:
    problem = replace(problem, loss=double)
    parameters = dict(mlp.named_parameters())
    scores = SALIENCY["fisher"](mlp, problem, parameters, problem.forget, 4)
    expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for i in problem.forget.ids:
        mlp.zero_grad()
        double(mlp, Batch.of(*problem.forget.records.fetch(i[None]))).backward()
        for name, parameter in parameters.items():
            assert parameter.grad is not None
            expected[name] += parameter.grad**2 / len(problem.forget)
    for name in parameters:
        torch.testing.assert_close(scores[name], expected[name])


def test_the_published_form_adds_absolute_gradients_of_batches(mlp: nn.Module, problem: sh.Problem) -> None:
    problem = replace(problem, loss=double)
    parameters = dict(mlp.named_parameters())
    for module in mlp.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # it scores in training mode
    one_batch = train_mode_saliency(mlp, problem, parameters, problem.forget, 100)
    many = train_mode_saliency(mlp, problem, parameters, problem.forget, 2)
    mean = connection(mlp, problem, parameters, problem.forget, 100)
    for name in parameters:
        torch.testing.assert_close(one_batch[name], mean[name])
        assert (many[name] >= len(problem.forget) / 2 * mean[name] - 1e-12).all()


@pytest.mark.parametrize("name", SALIENCY)
def test_scoring_changes_nothing_in_the_model(name: str, mlp: nn.Module, problem: sh.Problem) -> None:
    mlp.train()
    before = {key: value.clone() for key, value in mlp.state_dict().items()}
    scores = SALIENCY[name](mlp, replace(problem, loss=double), dict(mlp.named_parameters()), problem.forget, 4)
    assert all((s >= 0).all() for s in scores.values())
    assert mlp.training
    assert all(torch.equal(before[key], value) for key, value in mlp.state_dict().items())


def as_topk(scores: dict[str, Tensor], share: float) -> Tensor:
    together = torch.cat([s.reshape(-1).double() for s in scores.values()])
    return together.topk(round(share * len(together))).values.sort().values


def marked(scores: dict[str, Tensor], share: float) -> Tensor:
    masks = dict(top_share(scores, share))
    assert all(masks[name].shape == scores[name].shape for name in scores)
    return torch.cat([scores[name][masks[name]].double() for name in scores]).sort().values


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", [[(1000,)], [(7, 5), (3,), (1,), (100, 9)]])
@pytest.mark.parametrize("chunk", [100, 1000])
def test_the_top_share_equals_topk(
    share: float, dtype: torch.dtype, shapes: list[tuple[int, ...]], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saliency, "_CHUNK", chunk)
    draw = torch.Generator().manual_seed(0)
    scores = {str(i): torch.randn(s, generator=draw, dtype=dtype).abs() for i, s in enumerate(shapes)}
    assert torch.equal(marked(scores, share), as_topk(scores, share))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 1e-45, 1e-38, 0.5, 1.0, 1.5, 3e38]), min_size=1), min_size=1, max_size=4),
    st.floats(0, 1),
)
def test_the_top_share_equals_topk_with_ties_and_extremes(values: list[list[float]], share: float) -> None:
    scores = {str(i): torch.tensor(v) for i, v in enumerate(values)}
    assert torch.equal(marked(scores, share), as_topk(scores, share))


def test_among_equal_scores_the_first_are_marked() -> None:
    masks = dict(top_share({"a": torch.ones(3), "b": torch.ones(2, 2)}, 5 / 7))
    assert masks["a"].all()
    assert masks["b"].tolist() == [[True, True], [False, False]]


def test_scores_of_mixed_types_are_compared_by_value() -> None:
    masks = dict(top_share({"a": torch.tensor([1.0]), "b": torch.tensor([2.0], dtype=torch.float64)}, 0.5))
    assert (masks["a"].item(), masks["b"].item()) == (False, True)


def test_a_score_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        dict(top_share({"a": torch.tensor([1.0, float("nan")])}, 0.5))
