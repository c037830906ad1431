"""Erased Stable Diffusion (ESD-u)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...methods import (
    Batch,
    Descent,
    Log,
    Method,
    Problem,
    at_least_one,
    below_one,
    count,
    evaluating,
    generator,
    ignore,
    non_negative,
    on_device,
    optimizers,
    patterns,
    positive,
    select,
    setting,
    snapshot,
    swapped,
)
from .denoising import Denoising, of, predicted

NOXATTN = "*,-*attn2*,-time_embedding.*,-conv_norm_out.*,-conv_out.*"  # as published, in the names of diffusers


@dataclass(frozen=True, kw_only=True)
class ErasedDiffusion(Method):
    """Teaches the model to be guided away from the concept wherever its prompt asks for it. It needs no images."""

    paper: ClassVar[str] = "Gandikota et al., ICCV 2023"
    copies: ClassVar[int] = 6

    parameters: str = setting(
        NOXATTN, patterns, "which parameters may change: for ESD-u all but cross-attention, time embedding and output"
    )
    steps: int = setting(1000, count, "steps of training")
    optimizer: str = setting("adam", optimizers, "what takes the steps")
    lr: float = setting(1e-5, positive, "learning rate")
    strength: float = setting(1.0, positive, "how far to go away from the concept")
    guidance: float = setting(3.0, non_negative, "guidance with which latents are drawn, up to a random time")
    inference: int = setting(50, at_least_one, "steps in which an image would be drawn")
    batch_size: int = setting(1, at_least_one, "latents in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(0.0, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        denoising, original = of(problem), snapshot(model)
        descent = Descent(model, problem, self, "erase", log, parameters=select(model, self.parameters), train=False)
        for _ in descent.epochs(1):
            for step in descent.steps(range(self.steps)):
                with evaluating(model), torch.no_grad():
                    batch, time = self._half_drawn(model, problem, denoising, step)
                    with swapped(model, original):
                        target = self._guided_away(model, denoising, batch, time)
                descent.step(descent.gradient(batch, partial(distance, denoising, time, target)))

    def _half_drawn(self, model: nn.Module, problem: Problem, denoising: Denoising, step: int) -> tuple[Batch, Tensor]:
        """Draw latents of the concept with the model as it is, up to a random time of the way."""
        draw = generator(problem.seed, "half drawn", step)
        prompts = problem.forget.labels.unique()
        chosen = prompts[torch.randint(len(prompts), (self.batch_size,), generator=draw)]
        shape = problem.forget.records.fetch(problem.forget.ids[:1])[0].shape[1:]
        batch = Batch.of(torch.randn(self.batch_size, *shape, generator=draw), chosen)
        latents = on_device(model, batch.inputs)
        scheduler = denoising.stepper(self.inference)
        stop = int(torch.randint(self.inference, (1,), generator=draw))
        for time in scheduler.timesteps[:stop]:
            plain, asked = self._both(model, denoising, replace(batch, inputs=latents), time)
            latents = scheduler.step(plain + self.guidance * (asked - plain), time, latents).prev_sample
        return replace(batch, inputs=latents), self._time(denoising, stop, draw).to(latents.device)

    def _time(self, denoising: Denoising, stop: int, draw: torch.Generator) -> Tensor:
        """Draw one of the times between this step of drawing and the one before it, as published."""
        times = len(denoising.scheduler.alphas_cumprod)
        left = self.inference - 1 - stop
        first, last = (round(step * times / self.inference) for step in (left, left + 1))
        return torch.randint(first, last, (), generator=draw)

    def _guided_away(self, model: nn.Module, denoising: Denoising, batch: Batch, time: Tensor) -> Tensor:
        """Return what the original would predict if it were guided away from the concept."""
        plain, asked = self._both(model, denoising, batch, time)
        return plain - self.strength * (asked - plain)

    def _both(self, model: nn.Module, denoising: Denoising, batch: Batch, time: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the model predicts without a prompt and with it."""
        latents = batch.inputs
        nothing = denoising.nothing.to(latents).expand(len(latents), -1, -1)
        text = torch.cat([nothing, denoising.prompts[batch.labels].to(latents)])
        plain, asked = predicted(model, torch.cat([latents, latents]), time, text).chunk(2)
        return plain, asked


def distance(denoising: Denoising, time: Tensor, target: Tensor, model: nn.Module, batch: Batch) -> Tensor:
    """Compute the mean squared distance between what the model predicts for a prompt and the target."""
    text = denoising.prompts[batch.labels].to(batch.inputs)
    return F.mse_loss(predicted(model, batch.inputs, time, text), target)
