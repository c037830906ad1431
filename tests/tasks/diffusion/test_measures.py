"""Measures of drawn images, each against an independent reference: scipy, Pillow, a loop, or a case done by hand."""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from scissorhands.errors import DataError, MissingError, ModelError
from scissorhands.tasks.diffusion import measures
from scissorhands.tasks.diffusion.measures import (
    Clip,
    Features,
    clip_from,
    clip_score,
    eight_bit,
    features_from,
    fid,
    fit,
    grid,
    recognized,
)

GAP = 4


def drawn(count: int, seed: int = 0, channels: int = 3, side: int = 8, most: int = 256) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(most, (count, channels, side, side), dtype=torch.uint8, generator=draw)


class Small(nn.Module):
    """Six features of an image, with dropout that evaluation mode turns off."""

    def __init__(self, channels: int = 3, side: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(channels * side * side, 6)

    def forward(self, images: Tensor) -> Tensor:
        return F.dropout(self.linear(images.flatten(1)), 0.5, self.training)


# eight bits


def test_floats_are_rounded_to_the_nearest_byte() -> None:
    bytes_ = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    assert torch.equal(eight_bit(bytes_ / 255), bytes_)
    assert torch.equal(eight_bit((bytes_ / 255).half()), bytes_)
    assert torch.equal(eight_bit(bytes_), bytes_)
    assert eight_bit(torch.full((1, 1, 1, 1), 0.999)).item() == 255


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_values_outside_0_and_1_are_refused(value: float) -> None:
    with pytest.raises(DataError, match=r"^images are bytes or floats from 0 to 1, and these have other values\.$"):
        eight_bit(torch.full((1, 3, 2, 2), value))


def test_whole_numbers_other_than_bytes_are_refused() -> None:
    with pytest.raises(DataError, match="bytes or floats"):
        eight_bit(torch.ones(1, 3, 2, 2, dtype=torch.int64))


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 4, 8, 8)])
def test_what_is_no_batch_of_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="these are " + " × ".join(map(str, shape))):
        eight_bit(torch.zeros(shape))


# recognized


@pytest.mark.parametrize("batch_size", [1, 4, 256])
def test_recognition_equals_a_loop_over_images(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_PREDICTED", batch_size)
    model, images = Small(), drawn(11)
    labels = torch.arange(11) % 6
    model.eval()
    expected = [int(model(image[None] / 255).argmax()) == label for image, label in zip(images, labels, strict=True)]
    assert any(expected)
    found = recognized(images, labels, model.train())
    assert found.dtype == torch.bool
    assert found.tolist() == expected
    assert model.training
    assert torch.equal(found, recognized(images / 255, labels, model))


def test_recognition_follows_the_precision_of_the_classifier() -> None:
    labels = torch.zeros(4, dtype=torch.int64)
    assert torch.equal(recognized(drawn(4), labels, Small().double()), recognized(drawn(4), labels, Small()))


def test_recognition_needs_a_label_per_image() -> None:
    with pytest.raises(DataError, match=r"^there are 3 images and 2 labels\.$"):
        recognized(drawn(3), torch.tensor([0, 1]), Small())


# the Fréchet distance


def frechet(one: Any, other: Any) -> float:
    """The distance by its definition, with the square root of a matrix."""
    means, covariances = [x.mean(axis=0) for x in (one, other)], [np.cov(x, rowvar=False) for x in (one, other)]
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    return float(((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root))


@pytest.fixture
def torchmetrics() -> None:
    pytest.importorskip("torchmetrics")


@pytest.mark.usefixtures("torchmetrics")
@pytest.mark.parametrize("batch_size", [7, 64])
def test_fid_equals_the_definition(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_FEATURES", batch_size)
    model = Small()
    features = Features("small", model)
    real, fake = drawn(40, seed=1), drawn(30, seed=2, most=200)
    with torch.no_grad():
        rows = [model.eval()(images / 255).double().numpy() for images in (real, fake)]
    expected = frechet(*rows)
    assert expected > 1e-3
    found = fid(real, fake, features)
    assert found == pytest.approx(expected, rel=1e-6)
    assert fid(real / 255, fake / 255, features) == pytest.approx(found, rel=1e-9)
    assert fid(fake, real, features) == pytest.approx(found, rel=1e-9)


@pytest.mark.usefixtures("torchmetrics")
def test_fid_of_the_same_images_is_0() -> None:
    images = drawn(20)
    assert fid(images, images.flip(0), Features("small", Small())) == pytest.approx(0, abs=1e-6)


@pytest.mark.usefixtures("torchmetrics")
def test_fid_leaves_the_network_as_it_was() -> None:
    model = Small().train()
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    fid(drawn(10), drawn(10, seed=3), Features("small", model))
    assert model.training
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())


@pytest.mark.usefixtures("torchmetrics")
@pytest.mark.parametrize(
    ("real", "fake", "message"),
    [
        (6, 9, r"^a distance over 6 features needs at least 7 real images, and there are 6\.$"),
        (9, 6, r"^a distance over 6 features needs at least 7 drawn images, and there are 6\.$"),
        (1, 9, r"^a Fréchet distance needs at least 2 real images, and there are 1\.$"),
        (9, 0, r"^a Fréchet distance needs at least 2 drawn images, and there are 0\.$"),
    ],
)
def test_too_few_images_are_refused(real: int, fake: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fid(drawn(real), drawn(fake), Features("small", Small()))


def test_a_missing_torchmetrics_gives_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchmetrics"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(MissingError, match=r"^'torchmetrics.*' is not installed\. .*pip install 'scissorhands\[diff"):
        fid(drawn(9), drawn(9), Features("small", Small()))


# features


def test_features_get_images_of_their_size_and_range() -> None:
    seen: list[Tensor] = []

    class Eye(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images)
            return images.flatten(1)

    images = drawn(2, side=16)
    found = Features("eye", Eye(), size=8, low=-1.0, high=127 / 128)(images)
    assert found.dtype == torch.float64
    small = F.interpolate(images.float(), (8, 8), mode="bilinear", antialias=True)
    torch.testing.assert_close(seen[0], (small - 128) / 128)
    Features("eye", Eye())(images)
    torch.testing.assert_close(seen[1], images / 255)


def test_features_that_are_no_rows_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^the features 'maps' should be images × features, and are 2 × 3 × 8 × 8\.$"):
        Features("maps", nn.Identity())(drawn(2))


def test_features_that_cannot_take_the_images_say_so() -> None:
    with pytest.raises(ModelError, match=r"^the features 'small' cannot be computed from images of 3 × 4 × 4: "):
        Features("small", Small())(drawn(2, side=4))


class Colored(nn.Module):
    """Refuses gray images."""

    def forward(self, images: Tensor) -> Tensor:
        assert images.shape[1] == 3, "three channels"
        return images.flatten(1)


def test_torchscript_that_cannot_take_the_images_says_so_in_one_line() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        module = torch.jit.script(Colored())
    assert Features("colored", module)(drawn(2)).shape == (2, 192)
    says = r"'colored' cannot be computed from images of 1 × 8 × 8: .*three channels"
    with pytest.raises(ModelError, match=says) as caught:
        Features("colored", module)(drawn(2, channels=1))
    assert "\n" not in str(caught.value)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A small network as a TorchScript file."""
    path = tmp_path / "net" / "small.pt"
    path.parent.mkdir()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        torch.jit.save(torch.jit.trace(Small().eval(), torch.zeros(2, 3, 8, 8)), path)
    return path


def test_features_of_a_torchscript_file_are_those_of_the_network(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_SIZE": 8, "_LOW": 0.0, "_HIGH": 1.0}.items():
        monkeypatch.setattr(measures, name, value)
    features, expected = features_from(script), Features("small", Small(), size=8)
    torch.testing.assert_close(features(drawn(5)), expected(drawn(5)))
    assert features.name.startswith("small.pt ")
    assert features.name == features_from(script).name


def test_images_are_prepared_as_inception_expects_them(script: Path) -> None:
    features = features_from(script)
    assert (features.size, features.low, features.high) == (299, -1.0, 127 / 128)


def test_a_folder_stands_for_its_only_torchscript_file(script: Path) -> None:
    assert features_from(script.parent).name == features_from(script).name
    (script.parent / "other.pt").write_bytes(script.read_bytes())
    with pytest.raises(ModelError, match=r"should have one file \*\.pt, and has 2\. It has: other\.pt, small\.pt\.$"):
        features_from(script.parent)


def test_a_folder_without_torchscript_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"should have one file \*\.pt, and has 0\.$"):
        features_from(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^there is no file or folder '.*nowhere\.pt'\.$"):
        features_from(tmp_path / "nowhere.pt")


def test_a_file_that_is_no_torchscript_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.pt").write_bytes(b"no archive")
    with pytest.raises(ModelError, match=r"bad\.pt cannot be loaded as TorchScript: "):
        features_from(tmp_path / "bad.pt")


# CLIP


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP model with random weights that reads letters, and images of 16 × 16."""
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

    folder = tmp_path_factory.mktemp("clips") / "tiny-clip"
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {word: number for number, word in enumerate(words)}
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {"vocab_size": len(words), "max_position_embeddings": 12, "bos_token_id": 0, "eos_token_id": 1, **sizes}
    vision = {"image_size": 16, "patch_size": 8, **sizes}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    CLIPModel(config).save_pretrained(folder)
    CLIPTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}, '
        '"crop_size": {"height": 16, "width": 16}, "do_resize": true, "do_center_crop": true, "do_rescale": true, '
        '"do_normalize": true, "resample": 3, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}'
    )
    return folder


@pytest.fixture(scope="module")
def clip(clip_folder: Path) -> Clip:
    return clip_from(clip_folder)


def prepared(image: Tensor) -> Tensor:
    """One image as the folder's preprocessing describes it, by Pillow."""
    picture = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((16, 16), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4])
    return ((pixels - mean[:, None, None]) / std[:, None, None])[None]


def cosine(clip: Clip, image: Tensor, ids: list[int]) -> float:
    """The cosine of one image and one text, from the parts of the model."""
    model = clip.model
    with torch.no_grad():
        seen = model.visual_projection(model.vision_model(pixel_values=prepared(image)).pooler_output)[0].numpy()
        states = model.text_model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        read = model.text_projection(states[ids.index(1)]).numpy()
    return float(seen @ read / np.linalg.norm(seen) / np.linalg.norm(read))


def ids(word: str) -> list[int]:
    """A word as numbers: begin, letters, the last of which ends the word, end."""
    numbers = [ord(letter) - ord("a") + 2 for letter in word]
    return [0, *numbers[:-1], numbers[-1] + 26, 1]


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_the_clip_score_equals_cosines_one_by_one(clip: Clip, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_CLIP", batch_size)
    images, words = drawn(5, side=20), ["cat", "aeroplane", "a", "dog", "fish"]
    cosines = [cosine(clip, image, ids(word)) for image, word in zip(images, words, strict=True)]
    expected = 100 * np.mean([max(value, 0.0) for value in cosines])
    assert expected > 0
    assert clip_score(images, words, clip) == pytest.approx(expected, rel=1e-4)


def test_bytes_and_floats_have_the_same_clip_score(clip: Clip) -> None:
    images, words = drawn(3, side=20), ["cat", "dog", "fish"]
    assert clip_score(images / 255, words, clip) == clip_score(images, words, clip)


def test_a_long_prompt_is_cut_and_keeps_its_end_mark(clip: Clip) -> None:
    images = drawn(1, side=20)
    kept = [0, *([2] * 10), 1]  # of twelve places one is for the beginning and one for the end
    expected = 100 * max(cosine(clip, images[0], kept), 0.0)
    assert clip_score(images, ["a" * 40], clip) == pytest.approx(expected, abs=1e-3)


def test_gray_images_have_a_clip_score(clip: Clip) -> None:
    gray = drawn(2, channels=1, side=20)
    assert clip_score(gray, ["cat", "dog"], clip) == clip_score(gray.expand(-1, 3, -1, -1), ["cat", "dog"], clip)


def test_a_cosine_below_0_counts_as_0() -> None:
    images, texts = torch.randn(20, 4), torch.randn(20, 4)
    expected = [
        100 * max(0.0, float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
        for a, b in zip(images.double().numpy(), texts.double().numpy(), strict=True)
    ]
    assert 0.0 in expected
    np.testing.assert_allclose(fit(images, texts).numpy(), expected, rtol=1e-9)


def test_a_clip_model_is_named_by_its_folder_and_weights(clip: Clip, clip_folder: Path) -> None:
    assert clip.name.startswith("tiny-clip ")
    assert clip_from(clip_folder).name == clip.name


@pytest.mark.parametrize("count", [0, 2])
def test_a_clip_score_needs_a_prompt_per_image(clip: Clip, count: int) -> None:
    with pytest.raises(DataError, match=f"as many prompts as images: {count} images, 0 prompts"):
        clip_score(drawn(count), [], clip)


def test_a_missing_clip_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^there is no CLIP folder '.*nowhere'\.$"):
        clip_from(tmp_path / "nowhere")


def test_a_folder_that_is_no_clip_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be loaded as a CLIP model: ") as caught:
        clip_from(tmp_path)
    assert "\n" not in str(caught.value)


# the grid


def pixels(picture: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(picture))


def test_a_grid_has_a_row_per_name_and_its_images_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_CELL", 16)
    rows = {"before": drawn(3, seed=1), "after": drawn(3, seed=2)}
    picture = grid(rows)
    assert picture.mode == "RGB"
    assert picture.size == (3 * 16 + 2 * GAP, 2 * 16 + GAP)
    for top, row in enumerate(rows.values()):
        for left, image in enumerate(row):
            y, x = top * (16 + GAP), left * (16 + GAP)
            large = np.kron(image.permute(1, 2, 0).numpy(), np.ones((2, 2, 1), np.uint8))
            assert torch.equal(pixels(picture)[y : y + 16, x : x + 16], torch.from_numpy(large))


def test_the_rest_of_a_grid_is_white(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_CELL", 8)
    picture = pixels(grid({"before": drawn(2, most=1), "after": drawn(1, most=1)}))
    black = torch.zeros(8 + GAP + 8, 8 + GAP + 8, dtype=torch.bool)
    black[:8, :8] = black[:8, 8 + GAP :] = black[8 + GAP :, :8] = True
    assert torch.equal((picture == 0).all(dim=2), black)
    assert (picture[~black] == 255).all()


@pytest.mark.parametrize(("side", "scale"), [(8, 14), (32, 4), (64, 2), (256, 1)])
def test_small_images_are_made_large_enough_to_see(side: int, scale: int) -> None:
    assert grid({"a": drawn(1, side=side)}).size == (side * scale, side * scale)


def test_gray_bytes_and_floats_make_the_same_grid() -> None:
    gray = drawn(2, channels=1)
    assert grid({"a": gray}).tobytes() == grid({"a": gray / 255}).tobytes()


def test_images_of_two_sizes_have_no_grid() -> None:
    with pytest.raises(DataError, match=r"one size\. These are: before 8 × 8, after 4 × 4\.$"):
        grid({"before": drawn(1), "after": drawn(1, side=4)})


def test_no_images_have_no_grid() -> None:
    with pytest.raises(DataError, match=r"These are: none\.$"):
        grid({"before": drawn(0)})
