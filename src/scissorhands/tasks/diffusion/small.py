"""A small text-to-image pipeline that is trained in minutes: ten prompts, ten handwritten digits.

It is a StableDiffusionPipeline of the same parts and files as a large one, so that what works on it works on those.
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import files
from ...cost import measured
from ...data.problem import Log, Loss, Problem, ignore
from ...data.records import Part, Stored
from ...data.sources import Source
from ...distributed import Batch
from ...errors import FailedError
from ...evaluation.reference_models import Trainer
from ...files import read_json, require_kinds
from ...methods.descent import Descent, scheduled
from ...methods.training import Training
from ...randomness import seeded
from ...settings import REQUIRED, Settings, at_least_one, below_one, non_negative, one_of, positive, setting
from ..classification.models import create
from ..classification.networks import unit
from .extras import imported
from .small_parts import PROMPTS, SIDE, TIMES, Plan, untrained

_WARM_UP = 100  # optimizer steps until the learning rate is reached
_COST = "cost.json"
JUDGING = Training(epochs=30, lr=0.05, batch_size=64)  # how the judge is trained


def pictures() -> tuple[Stored, Stored]:
    """Load the training and test records of `digits`, in color, 16 × 16 pixels; a label is the number of a prompt."""
    data = Source(name="digits").load()
    train, test = (_enlarged(*records.fetch(torch.arange(len(records)))) for records in (data.train, data.test))
    return train, test


def _enlarged(images: Tensor, labels: Tensor) -> Stored:
    large = F.interpolate(images.float(), SIDE, mode="bilinear", align_corners=False).round().to(torch.uint8)
    return Stored(large.repeat(1, 3, 1, 1), labels, classes=PROMPTS)


def trained(seed: int, log: Log = ignore, plan: Plan | None = None) -> Any:
    """Train a StableDiffusionPipeline from scratch to draw a digit for its prompt."""
    plan = plan or Plan()
    train, _ = pictures()
    with seeded(seed, "pipeline"):
        pipeline = untrained(plan)
    pipeline.set_progress_bar_config(disable=True)
    _fit_vae(pipeline, train, plan, seed, log)
    _fit_unet(pipeline, _latents(pipeline, train), plan, seed, log)
    return pipeline


def _fit_vae(pipeline: Any, train: Stored, plan: Plan, seed: int, log: Log) -> None:
    """Train the autoencoder, in place, and set the factor that gives its latents a deviation of 1."""
    vae = pipeline.vae

    def loss(networks: nn.Module, batch: Batch) -> Tensor:
        images = _signed(batch.inputs)
        found = vae.encode(images).latent_dist
        divergence: Tensor = found.kl().mean()
        return F.mse_loss(vae.decode(found.sample()).sample, images) + plan.divergence * divergence

    _fit(nn.ModuleList([vae]), train, loss, "vae", plan.vae_epochs, plan, seed, log)
    vae.register_to_config(scaling_factor=1.0)
    vae.register_to_config(scaling_factor=1 / _latents(pipeline, train).inputs.std().item())


def _fit_unet(pipeline: Any, latents: Stored, plan: Plan, seed: int, log: Log) -> None:
    """Train the U-Net and the text encoder to predict the noise in a latent, in place."""
    unet, text, words, scheduler = pipeline.unet, pipeline.text_encoder, pipeline.tokenizer, pipeline.scheduler
    ids = words([*PROMPTS, ""], padding="max_length", return_tensors="pt").input_ids

    def loss(networks: nn.Module, batch: Batch) -> Tensor:
        clean, digits = batch
        prompts = torch.where(torch.rand(len(digits)) < plan.empty, len(PROMPTS), digits)
        noise, times = torch.randn_like(clean), _times(len(clean))
        noisy = scheduler.add_noise(clean, noise, times)
        return F.mse_loss(unet(noisy, times, text(ids)[0][prompts]).sample, noise)

    _fit(nn.ModuleList([unet, text]), latents, loss, "unet", plan.unet_epochs, plan, seed, log)


def _times(count: int) -> Tensor:
    """Draw random times that are spread evenly, which makes the loss of a batch less random."""
    return ((torch.rand(()) + torch.arange(count) / count) % 1 * TIMES).long().clamp_max(TIMES - 1)


def _latents(pipeline: Any, records: Stored) -> Stored:
    """Encode the images with the autoencoder, as the U-Net sees them."""
    vae = pipeline.vae
    with torch.no_grad():
        found = vae.encode(_signed(records.inputs)).latent_dist.mean * vae.config.scaling_factor
    return Stored(found, records.labels, classes=PROMPTS)


def _signed(images: Tensor) -> Tensor:
    """Convert images to floats from -1 to 1, for the autoencoder."""
    return unit(images, torch.float32) * 2 - 1


@dataclass(frozen=True, kw_only=True)
class _AdamW(Settings):
    """How the networks are trained."""

    lr: float = setting(REQUIRED, positive, "learning rate")
    batch_size: int = setting(REQUIRED, at_least_one, "images in a step")
    momentum: float = setting(0.9, below_one, "first beta")
    beta2: float = setting(0.99, below_one, "second beta")
    weight_decay: float = setting(1e-4, non_negative, "pull of every weight towards zero")
    optimizer: str = setting("adamw", one_of("adamw"), "what takes the steps")


def _fit(
    networks: nn.ModuleList, records: Stored, loss: Loss, phase: str, epochs: int, plan: Plan, seed: int, log: Log
) -> None:
    """Minimize the loss, and leave the running average of the weights, in place."""
    weights = list(networks.parameters())
    average = [weight.detach().clone() for weight in weights]
    everything = Part(records, torch.arange(len(records)))
    nothing = Part(records, everything.ids[:0])
    problem = Problem(nothing, everything, loss=loss, seed=seed)
    settings = _AdamW(lr=plan.lr, batch_size=plan.batch_size)
    steps = epochs * problem.steps(everything, plan.batch_size)
    descent = Descent(networks, problem, settings, phase, log)
    for _ in descent.epochs(epochs):
        for batch in descent.batches(everything):
            warm_up = min(1, (descent.global_step + 1) / _WARM_UP)
            descent.step(descent.gradient(batch), scheduled(plan.lr, "cosine", descent.global_step, steps) * warm_up)
            new = 1 - min(plan.average, (descent.global_step + 1) / (descent.global_step + 11))
            for mean, weight in zip(average, weights, strict=True):
                mean.lerp_(weight.detach(), new)
    for weight, mean in zip(weights, average, strict=True):
        weight.data.copy_(mean)
    networks.eval()


def original(seed: int, log: Log = ignore, folder: Path | None = None, plan: Plan | None = None) -> Path:
    """Return the folder of the pipeline, which is trained once and kept in `folder`, by default the cache."""
    plan = plan or Plan()
    place = (folder or files.cache("diffusion")) / f"digits-{_key(seed, plan)}"
    if place.exists():
        return place
    part = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        part.mkdir(parents=True, exist_ok=True)
        with measured(torch.device("cpu")) as cost:
            pipeline = trained(seed, log, plan)
        pipeline.save_pretrained(part, safe_serialization=True)
        (part / _COST).write_text(json.dumps({"seconds": cost.seconds}) + "\n", encoding="utf-8")
        part.rename(place)
    except OSError as error:
        if not place.exists():  # else another process was faster
            raise FailedError(f"cannot keep the pipeline in {place}: {error.strerror}.") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place


def seconds(folder: Path) -> float:
    """Return how many seconds the pipeline in a folder of ours took to train."""
    found = read_json(folder / _COST, dict)
    require_kinds(folder / _COST, found, {"seconds": int | float})
    return float(found["seconds"])


def _key(seed: int, plan: Plan) -> str:
    """Compute a hash of the seed, the plan, the packages, the pictures and the code here."""
    versions = [imported(name, "diffusion").__version__ for name in ("torch", "diffusers", "transformers")]
    digest = hashlib.sha256(json.dumps([seed, asdict(plan), versions]).encode())
    digest.update(pictures()[0].fingerprint.encode())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:32]


def judge(log: Log = ignore) -> nn.Module:
    """Return a classifier of the pictures by their digit; it is trained once and kept in the cache."""
    train, _ = pictures()
    with seeded(0, "judge"):
        network, _ = create("small", train, {"width": 32})
    trainer = Trainer(network, JUDGING, folder=files.cache("diffusion"))
    (found,) = trainer.trained([Part(train, torch.arange(len(train)))], log)
    return found.eval()
