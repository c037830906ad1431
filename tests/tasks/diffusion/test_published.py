"""Scissorhands, SalUn and ESD for diffusion as published: one step, done again by hand on random tensors."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from torch import Tensor, nn

import scissorhands as sh
from helpers.tinysd import BETAS
from scissorhands.data.records import Part, Stored
from scissorhands.distributed import Batch
from scissorhands.errors import SettingError
from scissorhands.methods.parameters import select
from scissorhands.randomness import generator, seeded
from scissorhands.tasks.diffusion.denoising import Denoising
from scissorhands.tasks.diffusion.esd import ErasedDiffusion
from scissorhands.tasks.diffusion.published import TWO_BLOCKS, PublishedScissorhands
from scissorhands.tasks.diffusion.salun import SalUnDiffusion

KEPT = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2, 0).double()
SEED, LR = 5, 0.01


class Net(nn.Module):
    """Takes what a U-Net takes; text and time bend what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.attn1 = nn.Linear(2, 2)
        self.attn2 = nn.Linear(3, 2)
        self.time = nn.Linear(1, 2)

    def forward(self, noisy: Tensor, times: Tensor, encoder_hidden_states: Tensor, return_dict: bool) -> tuple[Tensor]:
        when = times.to(noisy).expand(len(noisy))[:, None] / 1000
        bend = self.attn1(self.attn2(encoder_hidden_states.mean(1)) * (1 + self.time(when)))
        return (torch.tanh(self.conv(noisy) + bend[:, :, None, None]),)


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().double()


def randoms(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TEXT, NOTHING, ANCHOR = randoms(2, 2, 3, seed=1), randoms(1, 2, 3, seed=2), randoms(2, 3, seed=4)


def problem(anchor: bool = False) -> sh.Problem:
    """Three latents of the first prompt to forget, five of the second to retain."""
    scheduler = DDIMScheduler(**BETAS, clip_sample=False)
    loss = Denoising(scheduler, TEXT, NOTHING, {0: ANCHOR} if anchor else {})
    records = Stored(randoms(8, 2, 4, 4, seed=3), torch.tensor([0, 0, 0, 1, 1, 1, 1, 1]))
    forget, retain = Part(records, torch.arange(3)), Part(records, torch.arange(3, 8))
    return sh.Problem(forget, retain, loss=loss, seed=SEED, warn_on_damage=False)


def batches(posed: sh.Problem) -> tuple[Batch, Batch]:
    """The first batches to forget and to retain: a pass is over the former."""
    first = next(posed.batches(posed.forget, 3, "retain", 0))
    return first, next(posed.batches(posed.retain, 3, "forget", 0, 0))


def noised(latents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Noisy latents, their times and the noise, of the next random numbers."""
    draw = generator(int(torch.randint(2**62, ())), "noise")
    noise = torch.randn(latents.shape, generator=draw).double()
    times = torch.randint(1000, (len(latents),), generator=draw)
    left = KEPT[times][:, None, None, None]
    return left.sqrt() * latents + (1 - left).sqrt() * noise, times, noise


def says(net: nn.Module, noisy: Tensor, times: Tensor, text: Tensor) -> Tensor:
    found: Tensor = net(noisy, times, text.expand(len(noisy), -1, -1), False)[0]
    return found


def mse(net: nn.Module, batch: Batch, text: Tensor) -> Tensor:
    """The plain denoising error."""
    noisy, times, noise = noised(batch.inputs)
    return (says(net, noisy, times, text) - noise).square().mean()


def distance(net: nn.Module, batch: Batch) -> Tensor:
    """How far apart the predictions for the prompt to forget and for the anchor are; the latter stands still."""
    noisy, times, _ = noised(batch.inputs)
    return (says(net, noisy, times, TEXT[0]) - says(net, noisy, times, ANCHOR).detach()).square().mean()


def adam(net: nn.Module, loss: Tensor, mask: Mapping[str, Tensor] | None = None) -> None:
    """One step of Adam, where the mask is on."""
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)
    loss.backward()
    for name, weight in net.named_parameters():
        weight.grad = weight.grad * mask[name] if mask else weight.grad  # type: ignore[operator]
    optimizer.step()


def assert_same(net: nn.Module, other: nn.Module) -> None:
    for found, expected in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("anchor", [True, False], ids=["nudity", "class"])
def test_scissorhands_descends_on_the_published_objective(anchor: bool, net: nn.Module) -> None:
    """For nudity loss_r + λ·‖ε(x|forget) − ε(x|anchor)‖², for a class loss_r − λ·loss_f, and no projection."""
    posed, own = problem(anchor), copy.deepcopy(net)
    method = PublishedScissorhands(trim=0.0, parameters="*", balance=0.3, epochs=1, lr=LR, batch_size=3)
    method.scrub(net, posed)
    forget, retain = batches(posed)
    with seeded(SEED, "repair", 0):
        loss = mse(own, retain, TEXT[1])
        loss = loss + 0.3 * distance(own, forget) if anchor else loss - 0.3 * mse(own, forget, TEXT[0])
    adam(own, loss)
    assert_same(net, own)


@pytest.mark.parametrize("guidance", [0.0, 7.5])
def test_scissorhands_ranks_all_weights_and_redraws_those_in_its_scope(guidance: float, net: nn.Module) -> None:
    posed, own = problem(anchor=True), copy.deepcopy(net)
    more: dict[str, Any] = {"batches": 2, "saliency_guidance": guidance, "batch_size": 2, "init": "zero"}
    PublishedScissorhands(trim=0.4, parameters="*attn*", epochs=0, **more).scrub(net, posed)
    draw, weights = generator(SEED, "trim"), dict(own.named_parameters())
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for _ in range(2):
        ids = torch.randperm(3, generator=draw)[:2]
        with seeded(int(torch.randint(2**31, (), generator=draw)), "saliency"):
            noisy, times, noise = noised(posed.forget.records.fetch(ids)[0])
            guided = (1 + guidance) * says(own, noisy, times, TEXT[0]) - guidance * says(own, noisy, times, NOTHING[0])
            slopes = torch.autograd.grad((guided - noise).square().mean(), list(weights.values()))
        for name, slope in zip(weights, slopes, strict=True):
            sums[name] += slope.abs()
    scores = {name: (sums[name] * weight).abs() for name, weight in weights.items()}
    every = torch.cat([score.flatten() for score in scores.values()])
    threshold = every.sort(descending=True).values[round(0.4 * len(every)) - 1]
    redrawn = 0
    for name, weight in net.named_parameters():
        marked = (scores[name] >= threshold) & ("attn" in name)
        assert torch.equal(weight, torch.where(marked, 0.0, weights[name])), name
        redrawn += int(marked.sum())
    assert 0 < redrawn < sum(weights[name].numel() for name in weights if "attn" in name)
    assert (scores["conv.weight"] >= threshold).any()  # ranked, and left alone


def test_salun_takes_the_salient_weights_to_the_anchor_and_alpha_of_the_retain_loss(net: nn.Module) -> None:
    posed, own = problem(anchor=True), copy.deepcopy(net)
    SalUnDiffusion(salient=0.5, alpha=0.3, epochs=1, lr=LR, batch_size=3).scrub(net, posed)
    weights = dict(own.named_parameters())
    with seeded(SEED, "saliency"):
        noisy, times, noise = noised(posed.forget.records.fetch(torch.arange(3))[0])
        guided = 8.5 * says(own, noisy, times, TEXT[0]) - 7.5 * says(own, noisy, times, NOTHING[0])
        slopes = torch.autograd.grad((guided - noise).square().mean(), list(weights.values()))
    every = torch.cat([slope.abs().flatten() for slope in slopes])
    threshold = every.sort(descending=True).values[round(0.5 * len(every)) - 1]
    mask = {name: slope.abs() >= threshold for name, slope in zip(weights, slopes, strict=True)}
    forget, retain = batches(posed)
    with seeded(SEED, "relabel", 0):
        kept = mse(own, retain, TEXT[1])
        loss = distance(own, forget) + 0.3 * kept
    before = copy.deepcopy(own)
    adam(own, loss, mask)
    assert_same(net, own)
    for name, weight in net.named_parameters():
        assert torch.equal(weight[~mask[name]], before.get_parameter(name)[~mask[name]])


def test_salun_needs_something_to_take_the_concept_for(net: nn.Module) -> None:
    with pytest.raises(SettingError, match="--anchor PROMPT"):
        SalUnDiffusion().scrub(net, problem())


def test_esd_steps_towards_the_original_guided_away_from_the_concept(net: nn.Module) -> None:
    posed, own = problem(), copy.deepcopy(net)
    posed = replace(posed, seed=8)
    ErasedDiffusion(steps=1, lr=LR, inference=5, guidance=3.0, strength=1.0).scrub(net, posed)
    draw = generator(8, "half drawn", 0)
    torch.randint(1, (1,), generator=draw)  # the one prompt
    latents = torch.randn(1, 2, 4, 4, generator=draw).double()
    stop = int(torch.randint(5, (1,), generator=draw))
    with torch.no_grad():
        for t in (800, 600, 400, 200, 0)[:stop]:
            plain, asked = (says(own, latents, torch.tensor(t), text) for text in (NOTHING[0], TEXT[0]))
            noise = plain + 3 * (asked - plain)
            clean = (latents - (1 - KEPT[t]).sqrt() * noise) / KEPT[t].sqrt()
            latents = KEPT[t - 200].sqrt() * clean + (1 - KEPT[t - 200]).sqrt() * noise
        time = torch.randint(200 * (4 - stop), 200 * (5 - stop), (), generator=draw)
        plain, asked = (says(own, latents, time, text) for text in (NOTHING[0], TEXT[0]))
    assert stop > 0
    mask = {name: torch.tensor("attn2" not in name) for name, _ in own.named_parameters()}
    adam(own, (says(own, latents, time, TEXT[0]) - (plain - (asked - plain))).square().mean(), mask)
    assert_same(net, own)


OTHER: dict[type[sh.Method], dict[str, Any]] = {
    PublishedScissorhands: {
        "trim": 0.2,
        "parameters": "*attn2*",
        "batches": 1,
        "saliency_guidance": 7.5,
        "init": "truncated",
        "balance": 0.5,
        "epochs": 1,
        "optimizer": "sgd",
        "lr": 0.02,
        "batch_size": 3,
        "momentum": 0.5,
        "weight_decay": 0.3,
    },
    SalUnDiffusion: {
        "salient": 0.2,
        "saliency_guidance": 0.0,
        "alpha": 0.5,
        "epochs": 1,
        "optimizer": "sgd",
        "lr": 0.02,
        "batch_size": 3,
        "momentum": 0.5,
    },
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, values in OTHER.items() for name in values])
def test_every_setting_makes_a_difference(kind: type[sh.Method], name: str, net: nn.Module) -> None:
    assert OTHER[kind].keys() == kind().to_dict().keys()
    usual: dict[str, Any] = {"epochs": 2, "lr": LR, "batch_size": 2}
    usual |= {"trim": 0.4, "parameters": "*", "batches": 2} if kind is PublishedScissorhands else {}
    one, other = copy.deepcopy(net), copy.deepcopy(net)
    kind.make(usual).scrub(one, problem(anchor=True))
    kind.make(usual | {name: OTHER[kind][name]}).scrub(other, problem(anchor=True))
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.fixture(scope="module")
def unet() -> Any:
    """The U-Net of Stable Diffusion v1.4, without its weights."""
    with torch.device("meta"):
        return UNet2DConditionModel(sample_size=64, cross_attention_dim=768)


def test_the_scopes_name_the_layers_of_stable_diffusion(unet: Any) -> None:
    """Published in the names of CompVis: all but out., attn2 and time_embed; attn1 of output_blocks 4 and 7."""
    names = [name for name, _ in unet.named_parameters()]
    assert sum(p.numel() for p in unet.parameters()) == 859_520_964
    output = ("conv_norm_out.weight", "conv_norm_out.bias", "conv_out.weight", "conv_out.bias")
    embedding = [f"time_embedding.linear_{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")]
    left_out = {*output, *embedding, *(name for name in names if ".attn2." in name)}
    assert len(left_out) == 8 + 16 * 5
    assert set(select(unet, ErasedDiffusion().parameters)) == {*names} - left_out
    assert {name for name in names if "time_emb_proj" in name} <= {*select(unet, ErasedDiffusion().parameters)}
    chosen = select(unet, TWO_BLOCKS)
    assert sorted({name.partition(".transformer")[0] for name in chosen}) == [
        "up_blocks.1.attentions.1",
        "up_blocks.2.attentions.1",
    ]
    assert sum(p.numel() for p in chosen.values()) == 4 * 1280**2 + 1280 + 4 * 640**2 + 640
