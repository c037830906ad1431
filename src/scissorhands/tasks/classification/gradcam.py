"""Where a model looks: Grad-CAM maps of examples, and pictures of them before and after scrubbing."""

import math
from collections.abc import Mapping

import torch
from PIL import Image
from torch import Tensor, nn

from ...data.problem import on_device
from ...data.records import Part
from ...distributed import Inputs
from ...errors import DataError, ModelError
from ...methods.modes import evaluating
from .networks import unit

_CELL = 112  # the least height and width of a cell in a sheet, in pixels
_GAP = 6  # the white between cells
_EXAMPLES = 6  # of each part, at most

# From cold to hot, each brighter than the one before it: black, purple, red, orange, yellow.
_COLORS = torch.tensor([[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]]) / 255


def looked_at(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Compute where the model looks for the label: one map from 0 to 1 per input, of the input's height and width.

    Each map is divided by its own maximum, so maps say where and not how much. A map of zeros says that nowhere in
    the input speaks for the label.
    """
    from captum.attr import LayerAttribution, LayerGradCam  # slow to import

    if labels.is_floating_point():
        raise ModelError("Grad-CAM shows where a model looks for a class, and the labels are numbers to predict.")
    inputs = on_device(model, inputs)
    with evaluating(model):
        camera = LayerGradCam(model, _last_convolution(model, inputs))
        maps = camera.attribute(inputs, labels.to(inputs.device), relu_attributions=True).detach()
    maps = LayerAttribution.interpolate(maps, tuple(inputs.shape[-2:]), "bilinear").squeeze(1)
    scaled: Tensor = (maps / maps.amax(dim=(1, 2), keepdim=True)).nan_to_num(0.0)  # 0 / 0 is to be 0
    return scaled


@torch.no_grad()
def _last_convolution(model: nn.Module, inputs: Tensor) -> nn.Conv2d:
    """Find the last convolution that is called, of those whose output has more than one place.

    One that only cuts the image into patches does not count: a transformer begins with it, and looks later.
    """
    maps: dict[nn.Conv2d, int] = {}

    def note(module: nn.Conv2d, _: tuple[Tensor, ...], output: Tensor) -> None:
        maps.pop(module, None)  # a convolution that is called again moves to the end
        maps[module] = output.shape[-2:].numel()

    hooks = [module.register_forward_hook(note) for module in model.modules() if isinstance(module, nn.Conv2d)]
    try:
        model(inputs[:1])
    finally:
        for hook in hooks:
            hook.remove()
    if not maps:
        raise ModelError("Grad-CAM needs a convolution, and this model has none.")
    useful = [module for module, places in maps.items() if places > 1 and not _cuts_patches(module)]
    if not useful:
        raise ModelError(
            "Grad-CAM needs a convolution whose output is a map, and those of this model only cut the image into "
            "patches or return a single place."
        )
    return useful[-1]


def _cuts_patches(convolution: nn.Conv2d) -> bool:
    return convolution.stride == convolution.kernel_size != (1, 1)


def sheet(inputs: Tensor, before: Tensor, after: Tensor) -> Image.Image:
    """Draw the examples as rows of one picture: the image, where the model looked before, and where it looks after."""
    columns = [as_images(inputs), overlaid(inputs, before), overlaid(inputs, after)]
    width, height = columns[0][0].size
    size = (len(columns) * (width + _GAP) - _GAP, len(inputs) * (height + _GAP) - _GAP)
    page = Image.new("RGB", size, "white")
    for column, images in enumerate(columns):
        for row, image in enumerate(images):
            page.paste(image, (column * (width + _GAP), row * (height + _GAP)))
    return page


def as_images(inputs: Tensor) -> list[Image.Image]:
    """Return each example as an image, enlarged if it is small."""
    return _enlarged(_colors(inputs))


def overlaid(inputs: Tensor, maps: Tensor) -> list[Image.Image]:
    """Return each example in gray under its map in color, enlarged if it is small."""
    return _enlarged(0.3 * _colors(inputs).mean(dim=1, keepdim=True) + 0.7 * _colored(maps.cpu().float()))


def _colors(inputs: Inputs) -> Tensor:
    """Return images from 0 to 1 with three channels; raise if the inputs are no images."""
    if not isinstance(inputs, Tensor):
        raise DataError("a picture needs images, and these inputs are texts or other values by name.")
    if inputs.dim() != 4 or inputs.shape[1] not in (1, 3):
        shape = "×".join(map(str, inputs.shape[1:]))
        raise DataError(f"a picture needs images with 1 or 3 channels, and these inputs are of shape {shape}.")
    return unit(inputs.cpu(), torch.float32).clamp(0, 1).expand(-1, 3, -1, -1)


def _enlarged(images: Tensor) -> list[Image.Image]:
    scale = math.ceil(_CELL / min(images.shape[-2:]))
    pixels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    pixels = pixels.repeat_interleave(scale, dim=1).repeat_interleave(scale, dim=2)
    return [Image.fromarray(one.numpy()) for one in pixels]


def _colored(maps: Tensor) -> Tensor:
    """Turn maps from 0 to 1 into colors, batch × 3 × height × width.

    >>> (_colored(torch.tensor([[[0.0, 0.5, 1.0]]])) * 255).round().int().squeeze().T.tolist()
    [[0, 0, 4], [188, 55, 84], [252, 255, 164]]
    """
    place = maps * (len(_COLORS) - 1)
    below = place.long().clamp(0, len(_COLORS) - 2)
    colors = torch.lerp(_COLORS[below], _COLORS[below + 1], (place - below)[..., None])
    return colors.permute(0, 3, 1, 2)


def pictures(before: nn.Module, after: nn.Module, parts: Mapping[str, Part]) -> dict[str, Image.Image]:
    """Draw one sheet per part of the data: some of its examples, evenly spaced, each with its own label."""
    return {name: _picture(before, after, part) for name, part in parts.items() if len(part)}


def _picture(before: nn.Module, after: nn.Module, part: Part) -> Image.Image:
    inputs, labels = examples(part, _EXAMPLES)
    _colors(inputs)
    return sheet(inputs, looked_at(before, inputs, labels), looked_at(after, inputs, labels))


def examples(part: Part, count: int) -> tuple[Tensor, Tensor]:
    """Fetch up to `count` examples, evenly spaced, with their labels."""
    count = min(count, len(part))
    return part.records.fetch(part.ids[torch.arange(count) * len(part) // count])
