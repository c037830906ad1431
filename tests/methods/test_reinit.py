"""Weights drawn again: the marked ones, from the right distribution, whatever else is drawn."""

import math

import pytest
import torch
from torch import nn

from scissorhands.data.sources import Source
from scissorhands.errors import ModelError
from scissorhands.methods.reinit import INITS, reinitialize, reset, without_norms
from scissorhands.tasks.classification.models import create


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(400, 100), nn.LayerNorm(100), nn.Linear(100, 5))


@pytest.mark.parametrize("init", INITS)
def test_only_marked_weights_change(init: str) -> None:
    model = net()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    mask = torch.zeros(100, 400, dtype=torch.bool)
    mask[:, ::2] = True
    assert reinitialize(model, [("0.weight", mask)], init, seed=0) == {"0.weight": 20000}
    after = dict(model.named_parameters())
    assert torch.equal(after["0.weight"][~mask], before["0.weight"][~mask])
    assert (after["0.weight"][mask] != before["0.weight"][mask]).float().mean() > 0.99
    assert all(torch.equal(after[name], before[name]) for name in before if name != "0.weight")


@pytest.mark.parametrize("init", INITS)
def test_a_draw_depends_on_the_seed_and_the_name_alone(init: str) -> None:
    every = {name: torch.ones_like(p, dtype=torch.bool) for name, p in net().named_parameters()}
    alone, together, other = net(), net(), net()
    reinitialize(alone, [("2.weight", every["2.weight"])], init, seed=0)
    reinitialize(together, [("0.weight", every["0.weight"]), ("2.weight", every["2.weight"])], init, seed=0)
    reinitialize(other, [("2.weight", every["2.weight"])], init, seed=1)
    weight = "2.weight"
    assert torch.equal(alone.get_parameter(weight), together.get_parameter(weight))
    assert torch.equal(alone.get_parameter(weight), other.get_parameter(weight)) is (init in ("zero", "one"))


def test_distributions_are_what_they_say() -> None:
    model = net()
    bound = 1 / math.sqrt(400)
    spread = bound / math.sqrt(3)
    moments = {"uniform": spread, "normal": spread, "zero": 0.0, "layer": spread}
    for init, deviation in moments.items():
        reinitialize(model, [("0.weight", torch.ones(100, 400, dtype=torch.bool))], init, seed=0)
        weight = model.get_parameter("0.weight")
        assert weight.mean().item() == pytest.approx(0, abs=1e-3)
        assert weight.std().item() == pytest.approx(deviation, rel=0.02)
    reinitialize(model, [("0.weight", torch.ones(100, 400, dtype=torch.bool))], "uniform", seed=0)
    assert model.get_parameter("0.weight").abs().max().item() <= bound
    reinitialize(model, [("0.bias", torch.ones(100, dtype=torch.bool))], "uniform", seed=0)
    assert 0.9 * bound < model.get_parameter("0.bias").abs().max().item() <= bound
    reinitialize(model, [("0.weight", torch.ones(100, 400, dtype=torch.bool))], "one", seed=0)
    assert (model.get_parameter("0.weight") == 1).all()


def test_kaiming_is_that_of_pytorch_and_zero_for_a_bias() -> None:
    model, reference = net(), torch.empty(100, 400)
    nn.init.kaiming_uniform_(reference, a=0, generator=torch.Generator().manual_seed(1))
    every = [("0.weight", torch.ones(100, 400, dtype=torch.bool)), ("0.bias", torch.ones(100, dtype=torch.bool))]
    reinitialize(model, every, "kaiming", seed=0)
    weight = model.get_parameter("0.weight")
    assert weight.std().item() == pytest.approx(reference.std().item(), rel=0.02)
    assert 0.999 * math.sqrt(6 / 400) < weight.abs().max().item() <= math.sqrt(6 / 400)
    assert (model.get_parameter("0.bias") == 0).all()


def test_truncated_is_that_of_pytorch_and_zero_for_a_bias() -> None:
    model, reference = net(), torch.empty(100, 400)
    nn.init.trunc_normal_(reference, std=0.02, generator=torch.Generator().manual_seed(1))
    every = [("0.weight", torch.ones(100, 400, dtype=torch.bool)), ("0.bias", torch.ones(100, dtype=torch.bool))]
    reinitialize(model, every, "truncated", seed=0)
    ours, theirs = (w.flatten().sort().values for w in (model.get_parameter("0.weight"), reference))
    torch.testing.assert_close(ours[::400], theirs[::400], rtol=0.1, atol=2e-3)  # quantiles
    assert (model.get_parameter("0.bias") == 0).all()


def test_norm_layers_are_told_by_their_type() -> None:
    model = nn.Module()
    model.bn_but_really_linear = nn.Linear(2, 2)
    model.plain = nn.Sequential(nn.BatchNorm1d(2), nn.GroupNorm(1, 2), nn.RMSNorm(2), nn.InstanceNorm1d(2, affine=True))
    kept = without_norms(model, dict(model.named_parameters()))
    assert set(kept) == {"bn_but_really_linear.weight", "bn_but_really_linear.bias"}
    with pytest.raises(ModelError, match="normalization"):
        without_norms(model.plain, dict(model.plain.named_parameters()))


@pytest.mark.parametrize("network", ["small", "resnet18", "resnet34"])
def test_resetting_draws_every_weight_and_keeps_what_the_data_told(network: str) -> None:
    model, _ = create(network, Source(name="digits").load().train, {"width": 2})
    statistics = model.get_buffer("normalize.mean").clone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.fill_(7.0)
    reset(model, seed=0)
    assert not any((p == 7).any() for p in model.parameters())
    assert not any((b == 7).any() for name, b in model.named_buffers() if "running" in name)
    assert torch.equal(model.get_buffer("normalize.mean"), statistics)


def test_resetting_reaches_attention_and_leaves_the_global_generator_alone() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16)
    state = torch.random.get_rng_state()
    before = model.self_attn.in_proj_weight.detach().clone()
    reset(model, seed=0)
    assert not torch.equal(before, model.self_attn.in_proj_weight)
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_layer_that_cannot_be_drawn_anew_is_named() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

    with pytest.raises(ModelError, match=r"inside \(Own\).*reset_parameters"):
        reset(nn.ModuleDict({"inside": Own()}), seed=0)
