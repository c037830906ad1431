"""The denoising error: how wrong a U-Net is about the noise in a latent, given a prompt.

A record is a latent, its label the number of its prompt. So what forgets a class of a classifier forgets the images of
a prompt here, and methods need not know the difference. A wrong label is a wrong prompt: where a classifier is told
that the record is of another class, a U-Net is told to say for its prompt what it says for another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.problem import Problem, on_device
from ...data.records import Stored
from ...distributed import Batch, any_rank, broadcast, own_share
from ...errors import SettingError
from ...randomness import generator
from .extras import imported


@dataclass(frozen=True)
class Denoising:
    """A loss over latents and prompts.

    `prompts` are the text encodings, one per prompt, and `nothing` that of the empty prompt. For a prompt in `anchors`
    the loss is the distance, negated, between what the U-Net says for it and for its anchor: to make that loss grow is
    to make the model take the one for the other. For a label that `mistaken` made it is the distance to what the U-Net
    says for the wrong prompt. For every other prompt it is the plain denoising error.
    """

    scheduler: Any
    prompts: Tensor
    nothing: Tensor
    anchors: Mapping[int, Tensor] = field(default_factory=dict)

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        labels = batch.labels
        prompts, wrong = labels % len(self.prompts), labels // len(self.prompts) - 1
        latents, noisy, times, wanted = self._noised(model, batch)
        said = predicted(model, noisy, times, self.prompts[prompts].to(latents))
        taught = (wrong >= 0).to(latents.device)
        moved = torch.tensor([prompt in self.anchors for prompt in labels.tolist()], device=latents.device)
        if any_rank(bool((moved | taught).any())):
            towards = [self._towards(*pair).to(latents) for pair in zip(prompts.tolist(), wrong.tolist(), strict=True)]
            with torch.no_grad():
                other = predicted(model, noisy, times, torch.stack(towards))
            wanted = torch.where((moved | taught)[:, None, None, None], other, wanted)
        errors = F.mse_loss(said, wanted, reduction="none").flatten(1).mean(1)
        return torch.where(moved, -errors, errors).mean()

    def _towards(self, prompt: int, wrong: int) -> Tensor:
        """Return the text that a prompt is to be taken for: the wrong one, or else its anchor."""
        return self.prompts[wrong] if wrong >= 0 else self.anchors.get(prompt, self.nothing[0])

    def guided_error(self, guidance: float, model: nn.Module, batch: Batch) -> Tensor:
        """Compute the error of a prediction that is guided from the empty prompt towards the own one, and beyond.

        With a guidance of 0 it is the plain denoising error, for every prompt.
        """
        latents, noisy, times, wanted = self._noised(model, batch)
        said = predicted(model, noisy, times, self.prompts[batch.labels].to(latents))
        if guidance:
            nothing = self.nothing.to(latents).expand(len(latents), -1, -1)
            said = (1 + guidance) * said - guidance * predicted(model, noisy, times, nothing)
        return F.mse_loss(said, wanted)

    def _noised(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the latents, the latents with random noise in them, the times of that, and what to predict."""
        noise, times = self.drawn(batch)
        latents, noise = on_device(model, batch.inputs).contiguous(), on_device(model, noise)
        times = times.to(latents.device)
        return latents, self._mixed(latents, noise, times), times, self._wanted(latents, noise, times)

    def drawn(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Draw noise and times for the records of this process: those that they would get if one process had all."""
        latents = batch.inputs
        own = own_share(batch.total)
        draw = generator(int(broadcast(torch.randint(2**62, ()))), "noise")
        noise = torch.randn(batch.total, *latents.shape[1:], generator=draw)[own]
        times = torch.randint(len(self.scheduler.alphas_cumprod), (batch.total,), generator=draw)[own]
        if batch.count == 0:
            return torch.zeros_like(latents), torch.zeros_like(batch.labels)
        return noise.to(latents.dtype), times

    def stepper(self, steps: int) -> Any:
        """Return a scheduler that draws in so many steps, without random numbers of its own."""
        scheduler = imported("diffusers", "diffusion").DDIMScheduler.from_config(self.scheduler.config)
        scheduler.set_timesteps(steps)
        return scheduler

    def _mixed(self, signal: Tensor, noise: Tensor, times: Tensor) -> Tensor:
        """Mix √α of the signal and √(1 − α) of the noise, where α is how much of an image is left at a time."""
        left: Tensor = self.scheduler.alphas_cumprod.to(signal)[times][:, None, None, None]
        return left.sqrt() * signal + (1 - left).sqrt() * noise

    def _wanted(self, latents: Tensor, noise: Tensor, times: Tensor) -> Tensor:
        """Return what the U-Net should predict, in the terms that it was trained in."""
        kind = self.scheduler.config.prediction_type
        if kind == "epsilon":
            return noise
        if kind == "v_prediction":
            return self._mixed(noise, -latents, times)
        raise SettingError(f"the scheduler predicts '{kind}', but only epsilon and v_prediction are supported.")


class Latents(Stored):
    """Latents whose wrong labels stand for a prompt and another one that it is to be taken for, drawn from some."""

    def __init__(self, inputs: Tensor, labels: Tensor, others: Tensor, prompts: int, **more: Any) -> None:
        super().__init__(inputs, labels, **more)
        self.others, self.prompts = others, prompts

    def wrong_labels(self, ids: Tensor, draw: torch.Generator) -> Tensor:
        """Return for each of these records its own prompt, to be taken for another."""
        chosen = self.others[torch.randint(len(self.others), (len(ids),), generator=draw)]
        return mistaken(self.labels[ids], chosen, self.prompts)


def mistaken(prompts: Tensor, others: Tensor, count: int) -> Tensor:
    """Return the labels that stand for one prompt taken for another, out of so many prompts.

    >>> mistaken(torch.tensor([0, 2]), torch.tensor([1, 0]), 3)
    tensor([6, 5])
    """
    return prompts + count * (others + 1)


def predicted(model: nn.Module, noisy: Tensor, times: Tensor, text: Tensor) -> Tensor:
    """Return what the U-Net predicts from the noisy latents."""
    found: Tensor = model(noisy, times, encoder_hidden_states=text, return_dict=False)[0]
    return found


def of(problem: Problem) -> Denoising:
    """Return the denoising error of a problem; refuse one that is not about a diffusion model."""
    loss = getattr(problem.loss, "loss", problem.loss)
    if not isinstance(loss, Denoising):
        raise SettingError("this method erases concepts from a diffusion pipeline; the model here is a classifier.")
    return loss
