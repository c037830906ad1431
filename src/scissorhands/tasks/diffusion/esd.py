"""Erased Stable Diffusion (ESD-u)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.problem import Log, Problem, ignore, on_device
from ...data.records import Batch
from ...distributed import broadcast, local_state, marked, mean_over_ranks, own_share, rank_key
from ...methods.boundary import exchanged
from ...methods.descent import Descent, finite
from ...methods.method import Method
from ...methods.modes import evaluating
from ...methods.parameters import select
from ...methods.saliency import gradients
from ...randomness import generator, seeded
from ...settings import at_least_one, below_one, count, non_negative, patterns, positive, setting
from .denoising import Denoising, of, predicted


@dataclass(frozen=True, kw_only=True)
class ErasedDiffusion(Method):
    """Teaches the model to be guided away from the concept wherever its prompt asks for it. It needs no images."""

    paper: ClassVar[str] = "Gandikota et al., ICCV 2023"
    copies: ClassVar[int] = 6

    where: str = setting("*,-*attn2*", patterns, "which parameters may change: all but cross-attention is ESD-u")
    steps: int = setting(1000, count, "steps of training")
    lr: float = setting(1e-5, positive, "learning rate")
    strength: float = setting(1.0, positive, "how far to go away from the concept")
    guidance: float = setting(3.0, non_negative, "guidance with which latents are drawn, up to a random time")
    inference: int = setting(50, at_least_one, "steps in which an image would be drawn")
    batch_size: int = setting(1, at_least_one, "latents in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(0.0, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        denoising, parameters = of(problem), select(model, self.where)
        original = {name: value.clone() for name, value in local_state(model).items()}
        settings = {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
        descent = Descent(parameters.values(), **settings, kind=problem.optimizer)
        loop = problem.progress.loop("erase", model, descent)
        for _ in loop.epochs(1):
            with evaluating(model), seeded(problem.seed, "erase", *rank_key()):
                for step in loop.rest(range(self.steps)):
                    latents, time, text = self._half_drawn(model, problem, denoising)
                    with exchanged(model, original), torch.no_grad():
                        target = self._guided_away(model, denoising, latents, time, text)

                    def error(model: nn.Module, batch: Batch, time: Tensor = time, text: Tensor = text) -> Tensor:
                        return F.mse_loss(predicted(model, batch[0], time, text), batch[1])

                    loss = mean_over_ranks(error)(model, (latents, target))
                    descent.step(gradients(loss, parameters))
                    log({"phase": "erase", "epoch": 0, "step": step + 1, "steps": self.steps, "loss": finite(loss)})

    def _half_drawn(self, model: nn.Module, problem: Problem, denoising: Denoising) -> tuple[Tensor, Tensor, Tensor]:
        """Latents on the way to an image of the concept, as the model draws it now, at a random time of the way."""
        draw = generator(int(broadcast(torch.randint(2**62, ()))), "half drawn")
        share = own_share(self.batch_size)
        own = share if share.start < share.stop else slice(0, 1)  # a process without any computes all the same
        prompts = problem.forget.labels.unique()
        chosen = prompts[torch.randint(len(prompts), (self.batch_size,), generator=draw)][own]
        shape = problem.forget.records.fetch(problem.forget.ids[:1])[0].shape[1:]
        latents = on_device(model, torch.randn(self.batch_size, *shape, generator=draw)[own])
        text = denoising.prompts[chosen].to(latents)
        scheduler = denoising.stepper(self.inference)
        stop = int(torch.randint(self.inference, (1,), generator=draw))
        with torch.no_grad():
            for time in scheduler.timesteps[:stop]:
                plain, asked = self._both(model, denoising, latents, time, text)
                latents = scheduler.step(plain + self.guidance * (asked - plain), time, latents).prev_sample
        if share.start == share.stop:
            marked(latents)
        return latents, scheduler.timesteps[stop].to(latents.device), text

    def _guided_away(
        self, model: nn.Module, denoising: Denoising, latents: Tensor, time: Tensor, text: Tensor
    ) -> Tensor:
        """What the original would say if it were guided away from the concept."""
        plain, asked = self._both(model, denoising, latents, time, text)
        return plain - self.strength * (asked - plain)

    def _both(
        self, model: nn.Module, denoising: Denoising, latents: Tensor, time: Tensor, text: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the model says without a prompt and with it."""
        nothing = denoising.nothing.to(latents).expand(len(latents), -1, -1)
        found = predicted(model, torch.cat([latents, latents]), time, torch.cat([nothing, text]))
        plain, asked = found.chunk(2)
        return plain, asked
