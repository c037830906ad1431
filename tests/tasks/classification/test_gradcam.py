"""Grad-CAM against the same computed by hand, and the pictures made of it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from scissorhands.data.records import Part, Stored
from scissorhands.errors import DataError, ModelError
from scissorhands.tasks.classification import gradcam
from scissorhands.tasks.classification.gradcam import looked_at, pictures, sheet
from scissorhands.tasks.classification.imageclassifier import ImageClassifier
from scissorhands.tasks.classification.networks import Block, SmallNet, resnet18, small

GAP = 6


class Backwards(nn.Module):
    """Two convolutions, registered the other way round than they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Conv2d(4, 5, 3, padding=1)
        self.first = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(5 * 16, 3)

    def maps(self, images: Tensor) -> Tensor:
        maps: Tensor = self.second(self.relu(self.first(images)))
        return maps

    def scores(self, maps: Tensor) -> Tensor:
        scores: Tensor = self.out(self.drop(self.relu(maps.clone()).flatten(1)))
        return scores

    def forward(self, images: Tensor) -> Tensor:
        return self.scores(self.maps(images))


def tiny(classes: int = 3, channels: int = 1) -> SmallNet:
    torch.manual_seed(0)
    return small(classes, channels, width=4)


@pytest.fixture
def model() -> Backwards:
    torch.manual_seed(0)
    return Backwards().double().eval()


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.rand(6, 1, 8, 8, generator=draw, dtype=torch.float64), torch.arange(6) % 3


def by_hand(maps: Tensor, scores: Callable[[Tensor], Tensor], label: int, size: tuple[int, int]) -> Tensor:
    """The Grad-CAM of one example, from the output of the convolution and what the model makes of it."""
    maps = maps.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(scores(maps)[0, label], maps)
    weighted = sum(gradient[0, c].mean() * maps[0, c] for c in range(maps.shape[1]))
    assert isinstance(weighted, Tensor)
    large = F.interpolate(weighted.detach().clamp_min(0)[None, None], size, mode="bilinear", align_corners=False)[0, 0]
    return large / large.max() if large.max() > 0 else large


def test_maps_equal_grad_cam_by_hand(model: Backwards, batch: tuple[Tensor, Tensor]) -> None:
    inputs, labels = batch
    maps = looked_at(model, inputs, labels)
    assert maps.shape == (6, 8, 8)
    assert not maps.requires_grad
    assert maps.amax(dim=(1, 2)).max() == 1
    for image, label, found in zip(inputs, labels, maps, strict=True):
        expected = by_hand(model.maps(image[None]), model.scores, int(label), (8, 8))
        torch.testing.assert_close(found, expected)


def test_a_map_depends_on_the_label(model: Backwards, batch: tuple[Tensor, Tensor]) -> None:
    inputs, labels = batch
    assert not torch.equal(looked_at(model, inputs, labels), looked_at(model, inputs, (labels + 1) % 3))


def test_a_map_does_not_depend_on_the_mode(model: Backwards, batch: tuple[Tensor, Tensor]) -> None:
    assert torch.equal(looked_at(model.eval(), *batch), looked_at(model.train(), *batch))


def test_a_map_does_not_depend_on_the_rest_of_the_batch(model: Backwards, batch: tuple[Tensor, Tensor]) -> None:
    inputs, labels = batch
    torch.testing.assert_close(looked_at(model, inputs, labels)[2:3], looked_at(model, inputs[2:3], labels[2:3]))


class LeftHalf(nn.Module):
    """Scores how bright the left half is, and is blind to the right half."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 2, 1, bias=False)
        nn.init.ones_(self.convolution.weight)

    def forward(self, images: Tensor) -> Tensor:
        seen = images.clone()
        seen[..., images.shape[-1] // 2 :] = 0
        return self.convolution(seen).sum(dim=(2, 3))  # type: ignore[no-any-return]


def test_a_model_that_sees_only_the_left_half_looks_at_the_left_half() -> None:
    maps = looked_at(LeftHalf(), torch.rand(3, 1, 8, 8) + 0.1, torch.tensor([0, 1, 0]))
    assert (maps[:, :, :4] > 0).all()
    assert (maps[:, :, 4:] == 0).all()


def test_a_trained_model_looks_at_where_the_label_is_shown() -> None:
    draw = torch.Generator().manual_seed(0)
    inputs, labels = 0.1 * torch.rand(64, 1, 8, 8, generator=draw), torch.arange(64) % 2
    inputs[labels == 1, :, 2:6, 1:3] += 0.8  # a bar on the left; the other class has none
    model = tiny(classes=2)
    step = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        step.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        step.step()
    assert (model(inputs).argmax(1) == labels).all()
    maps = looked_at(model, inputs[labels == 1], labels[labels == 1])
    assert maps[:, :, :4].sum() > 4 * maps[:, :, 4:].sum()


def test_a_map_of_zeros_stays_zeros() -> None:
    maps = looked_at(LeftHalf(), torch.zeros(2, 1, 8, 8), torch.tensor([0, 1]))
    assert (maps == 0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_model_looks_nowhere(value: float, model: Backwards, batch: tuple[Tensor, Tensor]) -> None:
    nn.init.constant_(model.second.weight, value)
    assert (looked_at(model, *batch) == 0).all()


def test_bytes_and_floats_give_the_same_map() -> None:
    model = tiny(channels=3)
    images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
    labels = torch.tensor([0, 1, 2, 0])
    maps = looked_at(model, images, labels)
    assert maps.max() == 1
    torch.testing.assert_close(maps, looked_at(model, images / 255, labels))


def test_a_frozen_model_gives_the_same_map(batch: tuple[Tensor, Tensor]) -> None:
    model = tiny()
    images = (batch[0] * 255).to(torch.uint8)
    maps = looked_at(model, images, batch[1])
    model.requires_grad_(False)
    assert torch.equal(maps, looked_at(model, images, batch[1]))
    with torch.no_grad():
        assert torch.equal(maps, looked_at(model, images, batch[1]))
    assert not any(p.requires_grad for p in model.parameters())


def test_looking_changes_nothing_in_the_model(model: Backwards, batch: tuple[Tensor, Tensor]) -> None:
    model.train()
    model.first.eval()
    model.first.requires_grad_(False)
    model.out.weight.grad = torch.full_like(model.out.weight, 7.0)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, labels = batch[0].clone(), batch[1]
    looked_at(model, inputs, labels)
    assert [m.training for m in (model, model.second, model.first, model.drop)] == [True, True, False, True]
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["out.weight"]
    assert model.out.weight.grad.unique().tolist() == [7.0]
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["first.weight", "first.bias"]
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())
    assert torch.equal(inputs, batch[0])
    assert not inputs.requires_grad
    assert hooks(model) == 0


def hooks(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


def test_no_hook_stays_where_the_model_fails(model: Backwards) -> None:
    model.train()
    with pytest.raises(RuntimeError):
        looked_at(model, torch.rand(2, 1, 20, 20), torch.tensor([0, 1]))
    assert hooks(model) == 0
    assert model.training


def test_a_convolution_that_sees_the_image_whole_is_passed_over() -> None:
    """The last stage of a ResNet makes one place of an image of 8 × 8, and the stage before it four."""
    torch.manual_seed(0)
    model = resnet18(classes=3, channels=1, width=4).eval()
    image, label = torch.rand(1, 1, 8, 8), 1
    entry = model.layer2(model.layer1(F.relu(model.bn1(model.conv1(model.normalize(image))))))
    first, last = model.layer3
    assert isinstance(last, Block)
    around = first(entry)
    maps = last.conv2(F.relu(last.bn1(last.conv1(around))))
    assert maps.shape[-2:] == (2, 2)

    def scores(maps: Tensor) -> Tensor:
        out: Tensor = model.fc(model.layer4(F.relu(last.bn2(maps) + around.detach())).mean(dim=(2, 3)))
        return out

    expected = by_hand(maps, scores, label, (8, 8))
    torch.testing.assert_close(looked_at(model, image, torch.tensor([label]))[0], expected)


def test_a_convolution_that_is_called_again_counts_where_it_is_called_last() -> None:
    torch.manual_seed(0)
    again, between = nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1)
    head = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(64, 3))
    image = torch.rand(1, 1, 8, 8)
    expected = by_hand(again(between(again(image))), head, 2, (8, 8))
    assert expected.max() == 1
    found = looked_at(nn.Sequential(again, between, again, head), image, torch.tensor([2]))
    torch.testing.assert_close(found[0], expected)


def test_a_model_without_a_convolution_is_refused(mlp: nn.Module) -> None:
    with pytest.raises(ModelError, match=r"^Grad-CAM needs a convolution, and this model has none\.$"):
        looked_at(mlp, torch.rand(2, 1, 4, 4), torch.tensor([0, 1]))


def test_convolutions_without_a_map_are_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 4), nn.Conv2d(4, 2, 1), nn.Flatten())
    with pytest.raises(ModelError, match="whose output is a map"):
        looked_at(model, torch.rand(2, 1, 4, 4), torch.tensor([0, 1]))


def test_a_vision_transformer_is_refused() -> None:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=3, **sizes)
    model = ImageClassifier(ViTForImageClassification(config), {})
    with pytest.raises(ModelError, match="only cut the image into patches"):
        looked_at(model, torch.rand(2, 1, 8, 8), torch.tensor([0, 1]))


@pytest.mark.parametrize(("height", "width", "scale"), [(8, 8, 14), (28, 28, 4), (32, 40, 4), (224, 224, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_sheet_has_a_row_of_three_cells_per_example(height: int, width: int, scale: int, channels: int) -> None:
    maps = torch.rand(2, height, width)
    picture = sheet(torch.rand(2, channels, height, width), maps, maps)
    assert picture.mode == "RGB"
    assert picture.size == (3 * scale * width + 2 * GAP, 2 * scale * height + GAP)


def cell(picture: Image.Image, row: int, column: int, side: int = 112) -> Tensor:
    top, left = row * (side + GAP), column * (side + GAP)
    return torch.from_numpy(np.array(picture))[top : top + side, left : left + side]


def test_a_row_is_the_image_then_before_then_after() -> None:
    images = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    before, after = torch.zeros(2, 8, 8), torch.zeros(2, 8, 8)
    before[1, 0, 0] = after[1, 7, 7] = 1
    picture = sheet(images, before, after)
    large = images.repeat_interleave(14, 2).repeat_interleave(14, 3).permute(0, 2, 3, 1)
    for row in range(2):
        assert torch.equal(cell(picture, row, 0), large[row])
    assert torch.equal(cell(picture, 0, 1), cell(picture, 0, 2))
    differs = (cell(picture, 1, 1) != cell(picture, 1, 2)).any(dim=2)
    assert differs.sum() == 2 * 14 * 14
    hotter = cell(picture, 1, 1).sum(dim=2) - cell(picture, 1, 2).sum(dim=2, dtype=torch.int64)
    assert (hotter[:14, :14] > 0).all()
    assert (hotter[-14:, -14:] < 0).all()


def test_gaps_are_white() -> None:
    pixels = np.array(sheet(torch.zeros(2, 1, 8, 8), torch.zeros(2, 8, 8), torch.zeros(2, 8, 8)))
    assert (pixels[112 : 112 + GAP] == 255).all()
    assert (pixels[:, 112 : 112 + GAP] == 255).all()


def test_bytes_and_floats_give_the_same_sheet() -> None:
    images, maps = torch.randint(256, (2, 1, 8, 8), dtype=torch.uint8), torch.rand(2, 8, 8)
    assert sheet(images, maps, maps).tobytes() == sheet(images / 255, maps, maps).tobytes()


def test_the_hotter_the_brighter() -> None:
    heat = torch.linspace(0, 1, 64).reshape(1, 8, 8)
    colors = cell(sheet(torch.zeros(1, 1, 8, 8), heat, heat), 0, 1)[::14, ::14].float()
    luminance = colors @ torch.tensor([0.2126, 0.7152, 0.0722])
    assert (luminance.flatten().diff() > 0).all()


def test_inputs_that_are_no_images_have_no_sheet() -> None:
    with pytest.raises(DataError, match="of shape 5×8×8"):
        sheet(torch.zeros(2, 5, 8, 8), torch.zeros(2, 8, 8), torch.zeros(2, 8, 8))


@pytest.fixture
def parts() -> dict[str, Part]:
    draw = torch.Generator().manual_seed(2)
    images = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8, generator=draw)
    records = Stored(images, torch.arange(40) % 3)
    return {
        "forget": Part(records, torch.tensor([7, 3])),
        "retain": Part(records, torch.arange(10, 40)),
        "audit": Part(records, torch.arange(0)),
    }


@pytest.fixture
def pair() -> tuple[nn.Module, nn.Module]:
    before, after = tiny(), tiny()
    nn.init.normal_(after.conv2.weight)
    return before, after


def test_a_part_is_shown_by_examples_evenly_spaced(
    parts: dict[str, Part], pair: tuple[nn.Module, nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradcam, "_EXAMPLES", 3)
    before, after = pair
    made = pictures(before, after, parts)
    assert list(made) == ["forget", "retain"]  # nothing is to be seen of a part without records
    for name, ids in {"forget": [7, 3], "retain": [10, 20, 30]}.items():
        inputs, labels = parts[name].records.fetch(torch.tensor(ids))
        expected = sheet(inputs, looked_at(before, inputs, labels), looked_at(after, inputs, labels))
        assert made[name].tobytes() == expected.tobytes()


def test_pictures_are_the_same_each_time(parts: dict[str, Part], pair: tuple[nn.Module, nn.Module]) -> None:
    before, after = pair
    first = pictures(before, after, parts)
    torch.manual_seed(5)
    again = pictures(before.train(), after, parts)
    assert {name: p.tobytes() for name, p in first.items()} == {name: p.tobytes() for name, p in again.items()}
