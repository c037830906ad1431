"""The untrained parts of the small pipeline: tokenizer, autoencoder, text encoder and U-Net."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..classification.huggingface import hush
from .extras import imported

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PROMPTS = tuple(f"a handwritten {word}" for word in WORDS)
SIDE = 16
TIMES = 1000  # steps from a picture to noise
_START, _END = "<|startoftext|>", "<|endoftext|>"


@dataclass(frozen=True)
class Plan:
    """How large the parts of the pipeline are, and how they are trained."""

    vae: tuple[int, ...] = (16, 32, 32)  # channels at 16 × 16, 8 × 8 and 4 × 4 pixels, the size of the latents
    unet: tuple[int, ...] = (64, 64)
    text: int = 64
    vae_epochs: int = 16
    unet_epochs: int = 60
    batch_size: int = 64
    lr: float = 2e-3
    empty: float = 0.1  # share of the records whose prompt is left out
    average: float = 0.995  # weight of the past in the running average of the weights
    divergence: float = 2.5e-5  # weight of the latents' distance from a normal distribution


def tokenizer() -> Any:
    """Build a CLIP tokenizer with one token per word of the prompts; it spells all other words by letter."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    merges = [merge for word in ("handwritten", *WORDS) for merge in _merges(word)]
    tokens = dict.fromkeys([*letters, *(f"{x}</w>" for x in letters), *map("".join, merges), _START, _END])
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = {token: number for number, token in enumerate(tokens)}
        Path(folder, "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        Path(folder, "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, merges)]), encoding="utf-8")
        return CLIPTokenizer.from_pretrained(folder, model_max_length=16)


def _merges(word: str) -> list[tuple[str, str]]:
    """Return the steps that put a word together from its letters, from left to right.

    >>> _merges("one")
    [('o', 'n'), ('on', 'e</w>')]
    """
    letters = [*word[:-1], f"{word[-1]}</w>"]
    return [("".join(letters[:i]), letters[i]) for i in range(1, len(letters))]


def untrained(plan: Plan) -> Any:
    """Build the pipeline with fresh weights."""
    diffusers, words = _diffusers(), tokenizer()
    return diffusers.StableDiffusionPipeline(
        vae=_vae(plan),
        text_encoder=_text_encoder(plan, words),
        tokenizer=words,
        unet=_unet(plan),
        scheduler=diffusers.DDIMScheduler(
            num_train_timesteps=TIMES,
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            clip_sample=False,
            set_alpha_to_one=False,
            steps_offset=1,
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _diffusers() -> Any:
    """Import the package, and keep it from printing."""
    hush()
    logging = imported("diffusers.utils.logging", "diffusion")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return imported("diffusers", "diffusion")


def _vae(plan: Plan) -> Any:
    return _diffusers().AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * len(plan.vae),
        up_block_types=("UpDecoderBlock2D",) * len(plan.vae),
        block_out_channels=plan.vae,
        norm_num_groups=min(8, *plan.vae),
        sample_size=SIDE,
    )


def _text_encoder(plan: Plan, words: Any) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(words),
            hidden_size=plan.text,
            intermediate_size=2 * plan.text,
            projection_dim=plan.text,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=words.model_max_length,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
        )
    )


def _unet(plan: Plan) -> Any:
    return _diffusers().UNet2DConditionModel(
        sample_size=SIDE >> (len(plan.vae) - 1),
        layers_per_block=1,
        block_out_channels=plan.unet,
        down_block_types=("CrossAttnDownBlock2D",) * len(plan.unet),
        up_block_types=("CrossAttnUpBlock2D",) * len(plan.unet),
        cross_attention_dim=plan.text,
        attention_head_dim=2,
        norm_num_groups=min(8, *plan.unet),
    )
