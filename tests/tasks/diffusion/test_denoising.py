"""The denoising error and the target of ESD against direct computations, on a network small enough to differentiate."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler, EulerDiscreteScheduler, PNDMScheduler
from torch import Tensor, nn

import scissorhands as sh
from helpers.tinysd import BETAS
from scissorhands.data.records import Part, Stored
from scissorhands.distributed import Batch
from scissorhands.errors import ScissorhandsError, SettingError
from scissorhands.methods.optimizer import Optimizer
from scissorhands.randomness import generator, seeded
from scissorhands.tasks.diffusion.denoising import Denoising, mistaken, of, predicted
from scissorhands.tasks.diffusion.esd import ErasedDiffusion

KINDS = ("epsilon", "v_prediction")


class Net(nn.Module):
    """Takes what a U-Net takes; a mean over the text and the time bend what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.attn2 = nn.Linear(3, 2)
        self.time = nn.Linear(1, 2)

    def forward(
        self, noisy: Tensor, times: Tensor, encoder_hidden_states: Tensor, return_dict: bool = True
    ) -> tuple[Tensor]:
        assert not return_dict
        when = times.to(noisy).expand(len(noisy))[:, None] / 1000
        bend = self.attn2(encoder_hidden_states.mean(1)) * (1 + self.time(when))
        return (torch.tanh(self.conv(noisy) + bend[:, :, None, None]),)


@pytest.fixture
def net() -> nn.Module:
    """The same network each time, in float64."""
    torch.manual_seed(0)
    return Net().double()


def randoms(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scheduler(kind: str = "epsilon", **more: Any) -> Any:
    return DDIMScheduler(**BETAS, prediction_type=kind, clip_sample=False, **more)


def denoising(kind: str = "epsilon", anchors: Mapping[int, Tensor] | None = None) -> Denoising:
    """The error over three prompts of two tokens each."""
    return Denoising(scheduler(kind), randoms(3, 2, 3, seed=1), randoms(1, 2, 3, seed=2), anchors or {})


BATCH = Batch.of(randoms(6, 2, 4, 4, seed=3), torch.tensor([0, 1, 2, 0, 1, 0]))
ANCHORS = {0: randoms(2, 3, seed=4)}


def said(loss: Denoising, net: nn.Module, batch: Batch, seed: int = 7) -> Tensor:
    """The loss, with the noise that this seed gives."""
    torch.manual_seed(seed)
    return loss(net, batch)


def parts(loss: Denoising, net: nn.Module, seed: int = 7) -> list[tuple[Tensor, Tensor]]:
    """For each record of the batch what the network says and what is true, by the formulas of the papers."""
    latents, prompts = BATCH
    torch.manual_seed(seed)
    noise, times = loss.drawn(BATCH)
    found = []
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float32) ** 2
    kept = torch.cumprod(1 - betas, 0).double()
    for x, e, t, p in zip(latents, noise, times, prompts, strict=True):
        signal, share = kept[t].sqrt(), (1 - kept[t]).sqrt()
        noisy = (signal * x + share * e)[None]
        output = net(noisy, t[None], encoder_hidden_states=loss.prompts[p][None], return_dict=False)[0][0]
        if int(p) in loss.anchors:
            towards = loss.anchors[int(p)][None]
            target = net(noisy, t[None], encoder_hidden_states=towards, return_dict=False)[0][0].detach()
        else:
            target = e if loss.scheduler.config.prediction_type == "epsilon" else signal * e - share * x
        found.append((output, target))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_mean_squared_error_of_what_the_scheduler_predicts(kind: str, net: nn.Module) -> None:
    loss = denoising(kind)
    expected = torch.stack([(output - target).square().mean() for output, target in parts(loss, net)]).mean()
    torch.testing.assert_close(said(loss, net, BATCH), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forgotten_prompt_with_an_anchor_counts_minus_the_distance_to_it(kind: str, net: nn.Module) -> None:
    """The batch is mixed: three records have the anchored prompt, three another."""
    loss = denoising(kind, ANCHORS)
    signs = [-1.0 if int(p) in ANCHORS else 1.0 for p in BATCH.labels]
    errors = [(output - target).square().mean() for output, target in parts(loss, net)]
    expected = torch.stack([sign * error for sign, error in zip(signs, errors, strict=True)]).mean()
    torch.testing.assert_close(said(loss, net, BATCH), expected, rtol=1e-5, atol=1e-7)
    assert set(signs) == {1.0, -1.0}


@pytest.mark.parametrize("anchors", [None, ANCHORS])
def test_a_mistaken_prompt_counts_the_distance_to_the_wrong_one(
    anchors: Mapping[int, Tensor] | None, net: nn.Module
) -> None:
    """Two records are mistaken, whatever their anchor; the others count as ever."""
    loss, (latents, prompts) = denoising(anchors=anchors), BATCH
    labels = prompts.clone()
    labels[[0, 1]] = mistaken(prompts[[0, 1]], torch.tensor([2, 0]), 3)
    torch.manual_seed(7)
    noise, times = loss.drawn(BATCH)
    noisy = loss.scheduler.add_noise(latents, noise, times)
    said_for = [
        predicted(net, noisy, times, loss.prompts[number].expand(len(latents), -1, -1)).detach() for number in range(3)
    ]
    errors = [(output - target).square().mean() for output, target in parts(loss, net)]
    signs = [-1.0 if int(p) in loss.anchors else 1.0 for p in prompts]
    for record, wrong in ((0, 2), (1, 0)):
        errors[record] = (said_for[int(prompts[record])][record] - said_for[wrong][record]).square().mean()
        signs[record] = 1.0
    expected = torch.stack([sign * error for sign, error in zip(signs, errors, strict=True)]).mean()
    torch.testing.assert_close(said(loss, net, replace(BATCH, labels=labels)), expected, rtol=1e-5, atol=1e-7)


def test_what_is_said_for_the_wrong_prompt_is_not_moved(net: nn.Module) -> None:
    """The gradient is that of the distance to a constant: only what is said for the prompt itself moves."""
    loss, count = denoising(), 3
    labels = mistaken(BATCH.labels, (BATCH.labels + 1) % count, count)
    slopes = torch.autograd.grad(said(loss, net, replace(BATCH, labels=labels)), list(net.parameters()))
    still = copy.deepcopy(net).requires_grad_(False)
    torch.manual_seed(7)
    noise, times = loss.drawn(BATCH)
    noisy = loss.scheduler.add_noise(BATCH.inputs, noise, times)
    target = predicted(still, noisy, times, loss.prompts[(BATCH.labels + 1) % count])
    error = (predicted(net, noisy, times, loss.prompts[BATCH.labels]) - target).square().mean()
    for slope, expected in zip(slopes, torch.autograd.grad(error, list(net.parameters())), strict=True):
        torch.testing.assert_close(slope, expected, rtol=1e-5, atol=1e-7)


def test_a_batch_of_anchored_prompts_alone_has_a_loss_below_zero_and_is_at_most_zero_at_the_anchor(
    net: nn.Module,
) -> None:
    batch = Batch.of(BATCH.inputs[:3], torch.zeros(3, dtype=torch.int64))
    assert said(denoising(anchors=ANCHORS), net, batch) < 0
    itself = denoising()
    assert said(replace(itself, anchors={0: itself.prompts[0]}), net, batch) == 0


def test_an_anchor_changes_nothing_for_other_prompts(net: nn.Module) -> None:
    batch = Batch.of(BATCH.inputs[:3], torch.tensor([1, 2, 1]))
    assert torch.equal(said(denoising(anchors=ANCHORS), net, batch), said(denoising(), net, batch))


def test_the_prediction_for_the_anchor_carries_no_gradient(net: nn.Module) -> None:
    loss = denoising(anchors=ANCHORS)
    expected = -torch.stack(
        [(o - t).square().mean() for (o, t), p in zip(parts(loss, net), BATCH.labels, strict=True) if int(p) == 0]
    ).sum() / len(BATCH.labels)
    others = [(o - t).square().mean() for (o, t), p in zip(parts(loss, net), BATCH.labels, strict=True) if int(p) != 0]
    expected = expected + torch.stack(others).sum() / len(BATCH.labels)
    weights = list(net.parameters())
    found = torch.autograd.grad(said(loss, net, BATCH), weights)
    for a, b in zip(found, torch.autograd.grad(expected, weights), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_its_gradient_is_that_of_finite_differences(kind: str, net: nn.Module) -> None:
    loss, step = denoising(kind), 1e-5
    slopes = torch.autograd.grad(said(loss, net, BATCH), list(net.parameters()))
    for weight, slope in zip(net.parameters(), slopes, strict=True):
        for place in range(weight.numel()):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    weight.view(-1)[place] += sign * step
                    values.append(said(loss, net, BATCH).item())
                    weight.view(-1)[place] -= sign * step
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope.view(-1)[place].item(), abs=1e-8)


def test_the_gradient_towards_an_anchor_is_that_of_finite_differences(net: nn.Module) -> None:
    """The network that is asked for the anchor stays as it was, since what it says is the target."""
    loss, step = denoising(anchors=ANCHORS), 1e-5
    slopes = torch.autograd.grad(said(loss, net, BATCH), list(net.parameters()))
    moved = copy.deepcopy(net)
    targets = [target for _, target in parts(loss, net)]
    signs = [-1.0 if int(p) in ANCHORS else 1.0 for p in BATCH.labels]

    def value() -> float:
        outputs = [output for output, _ in parts(loss, moved)]
        pairs = zip(outputs, targets, signs, strict=True)
        return sum(s * (o - t).square().mean().item() for o, t, s in pairs) / len(signs)

    for weight, slope in zip(moved.parameters(), slopes, strict=True):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                weight.view(-1)[0] += sign * step
                values.append(value())
                weight.view(-1)[0] -= sign * step
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope.view(-1)[0].item(), abs=1e-6)


def test_noise_is_drawn_anew_each_time_and_is_the_same_from_the_same_state() -> None:
    loss, latents = denoising(), BATCH.inputs
    torch.manual_seed(0)
    first, second = (
        loss.drawn(BATCH),
        loss.drawn(BATCH),
    )
    torch.manual_seed(0)
    again = loss.drawn(BATCH)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], second[0])
    assert first[0].dtype == latents.dtype
    assert first[0].shape == latents.shape


def test_noise_is_normal_and_times_are_even() -> None:
    torch.manual_seed(0)
    noise, times = denoising().drawn(Batch.of(torch.zeros(20_000, 1, 2, 2), torch.zeros(20_000, dtype=torch.int64)))
    assert noise.mean().abs() < 0.02
    assert noise.std().item() == pytest.approx(1, abs=0.02)
    assert (int(times.min()), int(times.max())) == (0, 999)
    assert times.double().mean().item() == pytest.approx(499.5, abs=10)


def test_another_kind_of_prediction_is_refused(net: nn.Module) -> None:
    with pytest.raises(SettingError, match="predicts 'sample'"):
        said(Denoising(scheduler("sample"), randoms(3, 2, 3, seed=1), randoms(1, 2, 3, seed=2)), net, BATCH)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scheduler_of_the_first_stable_diffusion_gives_the_same(kind: str, net: nn.Module) -> None:
    """PNDM, which those folders name, has the same noise at the same time."""
    other = replace(denoising(kind), scheduler=PNDMScheduler(**BETAS, prediction_type=kind))
    torch.testing.assert_close(said(other, net, BATCH), said(denoising(kind), net, BATCH))


@pytest.mark.parametrize("drawn", [False, True])
def test_a_scheduler_that_scales_noise_otherwise_gives_the_same_or_is_refused(drawn: bool, net: nn.Module) -> None:
    """Euler's adds noise to a latent that it does not shrink, which the U-Net has never seen."""
    with warnings.catch_warnings(action="ignore"):
        euler = EulerDiscreteScheduler(**BETAS)
        if drawn:
            euler.set_timesteps(5)
    torch.manual_seed(7)
    try:
        found = replace(denoising(), scheduler=euler)(net, BATCH)
    except ScissorhandsError:
        return
    torch.testing.assert_close(found, said(denoising(), net, BATCH))


# Problems


def posed(loss: Any = None) -> sh.Problem:
    """Six latents, those of the first prompt to be forgotten."""
    records = Stored(*BATCH)
    forget, retain = (Part(records, ids) for ids in (torch.tensor([0, 3, 5]), torch.tensor([1, 2, 4])))
    return sh.Problem(forget, retain, loss=loss or denoising(), seed=5)


def test_the_denoising_error_of_a_problem_is_found_also_inside_another_loss() -> None:
    loss = denoising()
    assert of(posed(loss)) is loss

    class Around:
        def __init__(self) -> None:
            self.loss = loss

        def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
            return self.loss(model, batch)

    assert of(posed(Around())) is loss


def test_a_problem_of_a_classifier_is_refused(problem: sh.Problem) -> None:
    with pytest.raises(SettingError, match="the model here is a classifier"):
        of(problem)


def test_esd_refuses_a_classifier_and_leaves_it_alone(mlp: nn.Module, problem: sh.Problem) -> None:
    before = copy.deepcopy(mlp.state_dict())
    with pytest.raises(SettingError, match="the model here is a classifier"):
        ErasedDiffusion().scrub(mlp, problem)
    assert all(torch.equal(value, before[name]) for name, value in mlp.state_dict().items())


# ESD


def test_the_target_is_what_the_model_says_guided_away_from_the_prompt(net: nn.Module) -> None:
    loss, latents, time = denoising(), BATCH.inputs[:2], torch.tensor(300)
    text = loss.prompts[[0, 1]]
    plain = predicted(net, latents, time, loss.nothing.expand(2, -1, -1))
    asked = predicted(net, latents, time, text)
    found = ErasedDiffusion(strength=1.7)._guided_away(net, loss, Batch.of(latents, torch.tensor([0, 1])), time)
    torch.testing.assert_close(found, plain - 1.7 * (asked - plain))


@pytest.mark.parametrize("kind", KINDS)
def test_esd_trains_towards_what_the_original_says_guided_away(kind: str, net: nn.Module) -> None:
    """Three steps, done again by hand: latents half drawn by the model as it is, targets of the model as it was."""
    method = ErasedDiffusion(
        parameters="*",
        steps=3,
        lr=0.3,
        inference=4,
        guidance=2.5,
        strength=1.5,
        batch_size=2,
        momentum=0.0,
        optimizer="sgd",
    )
    problem, loss = posed(denoising(kind)), denoising(kind)
    original, own = copy.deepcopy(net), copy.deepcopy(net)
    kept = loss.scheduler.alphas_cumprod.double()
    losses = []
    with seeded(5, "erase"):
        for step in range(3):
            draw = generator(5, "half drawn", step)
            text = loss.prompts[torch.zeros(2, dtype=torch.int64)]  # there is one prompt to forget
            torch.randint(1, (2,), generator=draw)
            latents = torch.randn(2, 2, 4, 4, generator=draw).double()
            times, stop = list(range(750, -1, -250)), int(torch.randint(4, (1,), generator=draw))
            with torch.no_grad():
                for time in times[:stop]:
                    latents = stepped(kind, kept, guided(own, loss, latents, time, text, 2.5), latents, time)
                at = int(torch.randint(times[stop], times[stop] + 250, (), generator=draw))
                target = guided(original, loss, latents, at, text, -1.5)
            error = (predicted(own, latents, torch.tensor(at), text) - target).square().mean()
            losses.append(error.item())
            for weight, slope in zip(own.parameters(), torch.autograd.grad(error, list(own.parameters())), strict=True):
                weight.data -= 0.3 * slope
    events: list[Mapping[str, Any]] = []
    method.scrub(net, problem, events.append)
    assert [event["loss"] for event in events] == pytest.approx(losses, rel=1e-5)
    for found, expected in zip(net.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def guided(net: nn.Module, loss: Denoising, latents: Tensor, time: int, text: Tensor, guidance: float) -> Tensor:
    """What the network says, guided by so much towards the text."""
    plain = predicted(net, latents, torch.tensor(time), loss.nothing.expand(len(latents), -1, -1))
    return plain + guidance * (predicted(net, latents, torch.tensor(time), text) - plain)


def stepped(kind: str, kept: Tensor, output: Tensor, latents: Tensor, time: int) -> Tensor:
    """A step of DDIM, one of four."""
    now, then = kept[time], kept[time - 250] if time >= 250 else torch.tensor(1.0, dtype=torch.float64)
    if kind == "epsilon":
        noise, clean = output, (latents - (1 - now).sqrt() * output) / now.sqrt()
    else:
        noise = now.sqrt() * output + (1 - now).sqrt() * latents
        clean = now.sqrt() * latents - (1 - now).sqrt() * output
    return then.sqrt() * clean + (1 - then).sqrt() * noise


def test_esd_leaves_cross_attention_to_the_bit_unless_told_otherwise(net: nn.Module) -> None:
    before = copy.deepcopy(net.state_dict())
    settings: dict[str, Any] = {"steps": 2, "lr": 0.1, "inference": 2}
    ErasedDiffusion(**settings, weight_decay=0.1).scrub(net, posed())
    changed = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"conv.weight", "conv.bias", "time.weight", "time.bias"}
    ErasedDiffusion(**settings, parameters="*attn2*").scrub(net, posed())
    assert not torch.equal(net.get_parameter("attn2.weight"), before["attn2.weight"])


def test_esd_draws_in_the_steps_that_it_is_told_and_not_in_random_ones() -> None:
    found = denoising().stepper(4)
    assert found.timesteps.tolist() == [750, 500, 250, 0]
    assert isinstance(found, DDIMScheduler)


# Steps


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_step_moves_each_weight_by_its_own_slope_however_that_lies_in_memory(kind: str) -> None:
    """The slope of a convolution over latents comes channels last, and the weight does not."""
    weight, slope = (randoms(4, 3, 3, 3, seed=seed).float() for seed in (1, 2))
    one, other = weight.clone(), weight.clone()
    for moved, along in ((one, slope.clone()), (other, slope.clone(memory_format=torch.channels_last))):
        Optimizer([moved], lr=0.1, momentum=0.9, weight_decay=0.0, kind=kind).step([along], 0.1)
    torch.testing.assert_close(other, one)
