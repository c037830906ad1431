"""A Stable Diffusion pipeline of some thousand weights, images with prompts for it, and what came of erasing."""

import csv
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from PIL import Image
from safetensors.torch import load_file
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from scissorhands.data.problem import Problem
from scissorhands.data.records import Part
from scissorhands.tasks.diffusion.denoising import Denoising, Latents
from scissorhands.tasks.diffusion.pipeline import WEIGHTS

WORDS = ("three", "four", "five", "six")
SIDE = 8
SOURCE, PHOTOGRAPHS = "tiny-pipeline", "tiny-images"
BETAS = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}
# Little work, with three images to forget in a step.
QUICK: dict[str, dict[str, Any]] = {
    "scissorhands": {"epochs": 1, "lr": 1e-3, "batch_size": 3, "trim": 0.05},
    "finetune": {"epochs": 1, "lr": 1e-3, "batch_size": 4},
    "ascent": {"epochs": 1, "lr": 1e-3, "batch_size": 3},
    "salun": {"epochs": 1, "lr": 1e-3, "batch_size": 4},
    "randomlabel": {"epochs": 1, "lr": 1e-3, "batch_size": 4},
    "retrain": {"epochs": 1, "lr": 1e-3, "batch_size": 4},
    "scissorhands-diffusion": {"epochs": 1, "lr": 1e-3, "batch_size": 3, "trim": 0.3, "parameters": "*attn1*"},
    "salun-diffusion": {"epochs": 1, "lr": 1e-3, "batch_size": 3},
    "esd": {"steps": 3, "lr": 1e-3, "inference": 3, "batch_size": 2},
}

# Of random prompts, no prompt, and latents. These are so large that each attention has more than one place to look at:
# with a single one the gradient of its queries and keys is zero, or what rounding leaves, which depends on the machine.
_SHAPES = ((2, (8, 8)), (1, (8, 8)), (9, (4, SIDE, SIDE)))

# What is wrong with a list of images, and what the one line about it says.
BROKEN = {
    "no columns": ("a.png,a three\n", "has no column 'file_name'"),
    "no prompts": ("file_name,text\na.png,a three\n", "has no column 'prompt'"),
    "no file names": ("file,prompt\na.png,a three\n", "has no column 'file_name'"),
    "nothing in it": ("", "metadata.csv"),
    "a missing image": ("file_name,prompt\nb.png,a three\n", "record 0 is not a readable image"),
    "a file that is no image": ("file_name,prompt\na.png,a four\nmetadata.csv,a three\n", "record 1"),
    "a row that is cut off": ("file_name,prompt\na.png,a three\na.png\n", "metadata.csv"),
    "no prompt in any row": ("file_name,prompt\na.png\na.png\n", "metadata.csv"),
    "a row without a file name": ('file_name,prompt\n"",a three\n', "record 0"),
}


def tokenizer() -> Any:
    """A CLIP tokenizer with some words as one token each; it spells all others."""
    letters = sorted(ByteLevel.alphabet())
    merges = []
    for word in WORDS:
        spelt = [*word[:-1], f"{word[-1]}</w>"]
        merges += [("".join(spelt[:i]), spelt[i]) for i in range(1, len(spelt))]
    tokens = dict.fromkeys([*letters, *(f"{x}</w>" for x in letters), *map("".join, merges)])
    tokens |= dict.fromkeys(["<|startoftext|>", "<|endoftext|>"])
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=8)


def pipeline(blocks: int = 2, prediction_type: str = "epsilon") -> Any:
    """The pipeline with random weights, the same each time; it draws images of 8 × 8.

    With three blocks, layers are where Stable Diffusion has those that the paper's code re-initializes.
    """
    words = tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        text = CLIPTextModel(
            CLIPTextConfig(
                vocab_size=len(words),
                hidden_size=8,
                intermediate_size=8,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=8,
                bos_token_id=words.bos_token_id,
                eos_token_id=words.eos_token_id,
                pad_token_id=words.pad_token_id,
            )
        )
        vae = AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(4, 4),
            norm_num_groups=2,
            sample_size=SIDE,
        )
        unet = UNet2DConditionModel(
            sample_size=SIDE // 2,
            layers_per_block=1,
            block_out_channels=(4, 8, 8)[:blocks],
            down_block_types=(*("CrossAttnDownBlock2D",) * (blocks - 1), "DownBlock2D"),
            up_block_types=("UpBlock2D", *("CrossAttnUpBlock2D",) * (blocks - 1)),
            cross_attention_dim=8,
            attention_head_dim=2,
            norm_num_groups=2,
        )
    more = {"clip_sample": False, "steps_offset": 1, "set_alpha_to_one": False, "prediction_type": prediction_type}
    scheduler = DDIMScheduler(**BETAS, **more)
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=words,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def small_unet() -> Any:
    """The U-Net of the pipeline, with the layers that methods for pipelines change unless told otherwise."""
    return pipeline(blocks=3).unet.eval()


def small_problem() -> Problem:
    """Random latents for it: three of a prompt to forget, which has an anchor, and six of one to retain."""
    draw = torch.Generator().manual_seed(0)
    prompts, nothing, latents = (torch.randn(count, *shape, generator=draw) for count, shape in _SHAPES)
    records = Latents(latents, torch.tensor([0] * 3 + [1] * 6), torch.tensor([1]), len(prompts))
    loss = Denoising(DDIMScheduler(**BETAS, clip_sample=False), prompts, nothing, {0: prompts[1]})
    forget, retain = Part(records, torch.arange(3)), Part(records, torch.arange(3, 9))
    return Problem(forget, retain, loss=loss, warn_on_damage=False)


def source(base: Path) -> Path:
    """The folder of the pipeline, made once under a folder."""
    folder = base / SOURCE
    if not folder.exists():
        pipeline().save_pretrained(folder, safe_serialization=True)
    return folder


def photographs(base: Path) -> Path:
    """A folder of images with prompts, made once under a folder: six of a three, five of a four, four of a five."""
    folder = base / PHOTOGRAPHS
    if folder.exists():
        return folder
    draw = torch.Generator().manual_seed(3)
    rows = []
    folder.mkdir(parents=True)
    for word, count in {"three": 6, "four": 5, "five": 4}.items():
        for number in range(count):
            pixels = torch.randint(256, (SIDE, SIDE, 3), generator=draw, dtype=torch.uint8)
            Image.fromarray(pixels.numpy()).save(folder / f"{word}-{number}.png")
            rows.append((f"{word}-{number}.png", f"a {word}"))
    listing(folder, rows)
    return folder


def listing(folder: Path, rows: list[tuple[str, str]]) -> None:
    """Writes the list of the images of a folder and their prompts."""
    with (folder / "metadata.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("file_name", "prompt"), *rows])


def command(folder: Path, out: Path, method: str = "scissorhands", more: str = "", **settings: Any) -> str:
    """The command that erases three from the pipeline in a folder."""
    given = [f"--set {name}={value}" for name, value in {**QUICK[method], **settings}.items()]
    where = f"-o {shlex.quote(str(out))}"
    return " ".join([f"scrub {folder} --forget concept:three --method {method}", *given, more, where])


def unet(folder: Path) -> dict[str, Tensor]:
    """The weights of the U-Net in a pipeline folder."""
    return load_file(folder / WEIGHTS)


def changed(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> set[str]:
    """The names of the weights that differ in a bit."""
    assert before.keys() == after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


def found(labels: list[str]) -> list[dict[str, Any]]:
    """What NudeNet could have said when it found these, each in a box of its own."""
    return [{"class": label, "score": 0.75, "box": [i, i + 1, 3, 2]} for i, label in enumerate(labels)]
