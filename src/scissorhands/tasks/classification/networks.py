"""Our own small networks. Each normalizes its inputs itself: raw images (bytes, or floats from 0 to 1), or rows."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Normalize(nn.Module):
    """Turns raw images into what the network was trained on. It has no weights, only what the data told it."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])

    def measure(self, images: Tensor) -> None:
        """Take mean and deviation of each channel from these images, in place."""
        flat = unit(images, torch.float64).transpose(0, 1).flatten(1)
        self.mean.copy_(flat.mean(1)[:, None, None])
        self.std.copy_(flat.std(1).clamp_min(1e-3)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Normalize the images to mean 0 and deviation 1."""
        return (unit(images, self.mean.dtype) - self.mean) / self.std


class Standardize(Normalize):
    """Gives each column of rows of numbers mean 0 and deviation 1."""

    def __init__(self, features: int) -> None:
        nn.Module.__init__(self)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))

    def measure(self, rows: Tensor) -> None:
        """Take mean and deviation of each column from these rows, in place; one that does not vary is left as it is."""
        std, mean = torch.std_mean(rows.double(), 0)
        self.mean.copy_(mean)
        self.std.copy_(std.where(std > 0, 1))


class Regressor(nn.Module):
    """A network of ours that predicts a number: its only output, in the unit of the labels."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("std", torch.ones(1))

    def measure(self, labels: Tensor) -> None:
        """Take mean and deviation of the output from these labels, in place."""
        std, mean = torch.std_mean(labels.double(), correction=0)
        self.mean.fill_(mean)
        self.std.fill_(std.clamp_min(1e-12))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return one number per record."""
        out: Tensor = self.network(inputs) * self.std + self.mean
        return out


def unit(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert images, bytes or floats, to floats from 0 to 1."""
    return images.to(dtype) / 255 if images.dtype == torch.uint8 else images.to(dtype)


class Conv(nn.Conv2d):
    """A convolution without bias, drawn from a normal distribution by its fan-out (He et al., 2015)."""

    def __init__(self, inside: int, outside: int, size: int, stride: int = 1) -> None:
        super().__init__(inside, outside, size, stride, padding=size // 2, bias=False)

    def reset_parameters(self) -> None:
        """Draw the weights, in place; retraining draws them in the same way."""
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv(inside, outside, 3, stride)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = Conv(outside, outside, 3)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(Conv(inside, outside, 1, stride), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network with the stem for small images: one 3 × 3 convolution, no pooling.

    With a `stride` of 2 in the stem, everything after it has a quarter of the pixels, and costs a quarter.
    """

    def __init__(self, depths: list[int], classes: int, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.normalize = Normalize([0.5] * channels, [0.25] * channels)
        self.conv1 = Conv(channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _stage(width, width, depths[0], stride=1)
        self.layer2 = _stage(width, 2 * width, depths[1], stride=2)
        self.layer3 = _stage(2 * width, 4 * width, depths[2], stride=2)
        self.layer4 = _stage(4 * width, 8 * width, depths[3], stride=2)
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return one score per class."""
        images = self.normalize(images).contiguous(memory_format=torch.channels_last)  # a fifth faster, on any device
        x = F.relu(self.bn1(self.conv1(images)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


def _stage(inside: int, outside: int, depth: int, stride: int) -> nn.Sequential:
    return nn.Sequential(Block(inside, outside, stride), *(Block(outside, outside, 1) for _ in range(depth - 1)))


class SmallNet(nn.Module):
    """Two convolutions and two linear layers: enough for digits, and small enough to retrain while one waits."""

    def __init__(self, classes: int, channels: int, width: int) -> None:
        super().__init__()
        self.normalize = Normalize([0.5] * channels, [0.25] * channels)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.fc1 = nn.Linear(2 * width * 16, 4 * width)
        self.fc2 = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return one score per class."""
        x = F.relu(self.conv2(F.relu(self.conv1(self.normalize(images)))))
        if x.shape[2:] != (4, 4):  # pooling of what has that size already would change no bit, and is slow
            x = F.adaptive_avg_pool2d(x, 4)
        out: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return out


class MLP(nn.Module):
    """Layers of `width` for rows of numbers, such as those of a table."""

    def __init__(self, classes: int, features: int, width: int, depth: int) -> None:
        super().__init__()
        sizes = [features, *[width] * depth]
        self.normalize = Standardize(features)
        self.hidden = nn.ModuleList(nn.Linear(inside, outside) for inside, outside in pairwise(sizes))
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Return one score per class."""
        x = self.normalize(rows)
        for layer in self.hidden:
            x = F.relu(layer(x))
        out: Tensor = self.head(x)
        return out


def resnet18(classes: int, channels: int, width: int = 64, stride: int = 1) -> ResNet:
    """Build a ResNet of 18 layers, as in the paper."""
    return ResNet([2, 2, 2, 2], classes, channels, width, stride)


def resnet34(classes: int, channels: int, width: int = 64, stride: int = 1) -> ResNet:
    """Build a ResNet of 34 layers."""
    return ResNet([3, 4, 6, 3], classes, channels, width, stride)


def small(classes: int, channels: int, width: int = 16) -> SmallNet:
    """Build the small network for digits."""
    return SmallNet(classes, channels, width)


def mlp(classes: int, features: int, width: int = 64, depth: int = 2) -> MLP:
    """Build the network for rows of numbers, with so many layers before the last."""
    return MLP(classes, features, width, depth)


IMAGE_NETWORKS: dict[str, Callable[..., nn.Module]] = {"small": small, "resnet18": resnet18, "resnet34": resnet34}
TABLE_NETWORKS: dict[str, Callable[..., nn.Module]] = {"mlp": mlp}
NETWORKS = {**IMAGE_NETWORKS, **TABLE_NETWORKS}


def network(name: str, arguments: Mapping[str, Any]) -> nn.Module:
    """Build a network of ours, which predicts a number unless it is told the number of classes."""
    if "classes" in arguments:
        return NETWORKS[name](**arguments)
    return Regressor(NETWORKS[name](classes=1, **arguments))
