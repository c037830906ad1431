"""Models: built, saved, loaded strictly, and never by code or pickles that a folder brought along."""

import json
import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoModelForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from scissorhands import Retrain, split
from scissorhands.data.forget import Forget
from scissorhands.data.records import Stored
from scissorhands.data.sources import Source
from scissorhands.errors import ModelError
from scissorhands.evaluation.predict import require_fit
from scissorhands.methods.modes import evaluating
from scissorhands.methods.reinit import reset
from scissorhands.runs.place import Place
from scissorhands.runs.scrub import scrub
from scissorhands.runs.subject import load_classifier
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.imageclassifier import ImageClassifier
from scissorhands.tasks.classification.models import Blueprint
from scissorhands.tasks.classification.networks import IMAGE_NETWORKS, Normalize
from scissorhands.tasks.classification.request import Request

CLASSES = tuple("abc")
PREPROCESSING = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.2, 0.25], "size": {"height": 16, "width": 16}}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets nobody look up an address."""

    def refuse(*args: Any, **_: Any) -> None:
        pytest.fail(f"it looked for {args[0]}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with a small network."""
    blueprint = Blueprint("small", {"classes": 3, "channels": 1, "width": 2})
    models.save(blueprint.build(), blueprint, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
def test_our_resnets_start_as_published_and_retraining_draws_them_alike(name: str) -> None:
    model = IMAGE_NETWORKS[name](classes=3, channels=3, width=16)
    for again in (False, True):
        if again:
            reset(model, seed=1)
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d):  # normal, with a variance of 2 / (outputs · height · width)
                weight, expected = layer.weight.detach(), (2 / (layer.out_channels * layer.kernel_size[0] ** 2)) ** 0.5
                assert layer.bias is None
                assert weight.std().item() == pytest.approx(expected, rel=0.15)
                assert weight.abs().max() > 2 * expected  # which a uniform draw never reaches
            if isinstance(layer, nn.BatchNorm2d):
                assert (layer.weight == 1).all()
                assert (layer.bias == 0).all()


def images(count: int = 6, channels: int = 1, size: int = 8) -> Tensor:
    """Some noise, as bytes."""
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8, generator=draw)


def records(channels: int = 1) -> Stored:
    """Six records of three classes."""
    return Stored(images(channels=channels), torch.arange(6) % 3, classes=CLASSES)


def scores(model: nn.Module, inputs: Tensor) -> Tensor:
    """What the model says in evaluation mode."""
    with evaluating(model), torch.no_grad():
        out: Tensor = model(inputs)
    return out


def change_config(folder: Path, **changes: Any) -> None:
    """Writes other values into a config.json."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


# Our networks


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_every_network_comes_back_as_it_was_saved(name: str, tmp_path: Path) -> None:
    model, blueprint = models.create(name, records(), {"width": 2})
    models.save(model, blueprint, tmp_path / "model")
    loaded, same = models.load(tmp_path / "model")
    assert same == blueprint == Blueprint(name, {"classes": 3, "channels": 1, "width": 2}, records().classes)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(loaded.state_dict()[key], value) for key, value in model.state_dict().items())
    assert torch.equal(scores(loaded, images()), scores(model, images()))


def test_a_model_folder_holds_a_config_and_safetensors_alone(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert load_file(folder / "model.safetensors").keys() == models.load(folder)[0].state_dict().keys()


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
@pytest.mark.parametrize(("width", "channels", "size"), [(1, 1, 8), (3, 3, 9), (4, 3, 32)])
def test_a_resnet_of_any_width_gives_one_score_per_class(name: str, width: int, channels: int, size: int) -> None:
    model = Blueprint(name, {"classes": 7, "channels": channels, "width": width}).build()
    assert scores(model, images(2, channels, size)).shape == (2, 7)


@pytest.mark.parametrize(("name", "parameters"), [("resnet18", 11_173_962), ("resnet34", 21_282_122)])
def test_a_resnet_has_as_many_parameters_as_the_usual_one_for_cifar(name: str, parameters: int) -> None:
    with torch.device("meta"):
        model = IMAGE_NETWORKS[name](classes=10, channels=3)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("size", [4, 8, 15])
def test_the_small_network_takes_images_of_any_size(size: int) -> None:
    model = Blueprint("small", {"classes": 3, "channels": 1, "width": 2}).build()
    assert scores(model, images(size=size)).shape == (6, 3)


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_bytes_and_the_same_images_as_shares_of_one_get_the_same_scores(name: str) -> None:
    model = Blueprint(name, {"classes": 3, "channels": 1, "width": 2}).build()
    torch.testing.assert_close(scores(model, images()), scores(model, images().float() / 255))


def test_measured_images_come_out_with_mean_0_and_deviation_1() -> None:
    seen = images(50, channels=3) // torch.tensor([1, 2, 5], dtype=torch.uint8)[:, None, None]
    normalize = Normalize([0.5] * 3, [0.25] * 3)
    normalize.measure(seen)
    flat = normalize(seen).transpose(0, 1).flatten(1)
    torch.testing.assert_close(flat.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(flat.std(1), torch.ones(3), atol=1e-5, rtol=0)


def test_measuring_blank_images_does_not_divide_by_zero() -> None:
    normalize = Normalize([0.5], [0.25])
    normalize.measure(torch.full((4, 1, 8, 8), 51, dtype=torch.uint8))
    torch.testing.assert_close(normalize.mean.flatten(), torch.tensor([0.2]))
    assert normalize(images()).abs().max() <= 1000


def test_a_new_network_has_measured_its_data_and_keeps_that_when_saved(tmp_path: Path) -> None:
    model, blueprint = models.create("small", records(), {})
    models.save(model, blueprint, tmp_path / "model")
    loaded = models.load(tmp_path / "model")[0].state_dict()
    unit = images().double() / 255
    torch.testing.assert_close(loaded["normalize.mean"].flatten(), unit.mean().float()[None])
    torch.testing.assert_close(loaded["normalize.std"].flatten(), unit.std().float()[None])


def test_a_misspelt_network_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ModelError, match=r"no model 'resnet81'\. Did you mean 'resnet18'\?"):
        models.create("resnet81", records(), {})


def test_an_argument_that_a_network_does_not_take_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'small' cannot be built with .*'depth': 3}: TypeError: .*'depth'"):
        models.create("small", records(), {"depth": 3})


@pytest.mark.parametrize("width", ["wide", -1, 0, 2.0, True, None])
def test_a_width_that_is_no_whole_number_from_1_is_refused(width: Any) -> None:
    with pytest.raises(
        ModelError, match=rf"'small' are whole numbers from 1 to 1048576, not .*\"width\": {json.dumps(width)}}}\.$"
    ):
        models.create("small", records(), {"width": width})


# Strict loading


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fc2.bias": None}, r"do not fit its config.json; missing: fc2\.bias\."),
        ({"extra": torch.zeros(1)}, r"do not fit its config.json; unexpected: extra\."),
        ({"fc2.bias": torch.zeros(4)}, r"do not fit its config.json: size mismatch for fc2\.bias"),
    ],
    ids=["missing", "unexpected", "of another shape"],
)
def test_weights_that_do_not_fit_are_refused(change: dict[str, Tensor | None], says: str, folder: Path) -> None:
    weights = {**load_file(folder / "model.safetensors"), **change}
    save_file({name: w for name, w in weights.items() if w is not None}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=says) as raised:
        models.load(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"garbage " * 20, b"\x08\0\0\0\0\0\0\0[1, 2]  "])
def test_weights_that_are_no_safetensors_are_refused(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors is not a readable safetensors file"):
        models.load(folder)


def test_weights_cut_short_are_refused(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1])
    with pytest.raises(ModelError, match="is not a readable safetensors file"):
        models.load(folder)


@pytest.mark.parametrize("length", [0x0480, 0x0580])
def test_safetensors_are_not_taken_for_the_pickle_that_the_length_of_their_header_looks_like(
    length: int, folder: Path
) -> None:
    path, weights = folder / "model.safetensors", load_file(folder / "model.safetensors")
    save_file(weights, path, metadata={"padding": ""})
    shortest = int.from_bytes(path.read_bytes()[:8], "little")
    save_file(weights, path, metadata={"padding": "x" * (length - shortest)})
    assert path.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05")
    loaded = models.load(folder)[0].state_dict()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_under_the_name_of_safetensors_is_refused_unread(protocol: int, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap(tmp_path / "mark"), protocol))
    with pytest.raises(ModelError, match="is a pickle under another name"):
        models.load(folder)
    assert not (tmp_path / "mark").exists()


def test_a_file_of_torch_save_under_the_name_of_safetensors_is_refused_unread(folder: Path, tmp_path: Path) -> None:
    torch.save(Trap(tmp_path / "mark"), folder / "model.safetensors")
    with pytest.raises(ModelError, match="is a pickle under another name"):
        models.load(folder)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "model.pkl"])
def test_a_folder_with_a_pickle_only_is_refused_unread(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Trap(tmp_path / "mark")))
    with pytest.raises(ModelError, match=rf"has no model\.safetensors; {name} is a pickle.*convert it to safetensors"):
        models.load(folder)
    assert not (tmp_path / "mark").exists()


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors\.$"):
        models.load(folder)


def test_a_folder_without_a_config_is_refused(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"is not a model folder: it has no config\.json"):
        models.load(folder)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[]", "is not a JSON object"),
        (b"{}", "names no known 'model'"),
        (b'{"model": 3}', "names no known 'model'"),
        (b'{"model": "small", "arguments": [3]}', "names no known 'model'"),
        (b'{"model": "smal"}', r"asks for the model 'smal'\. Did you mean 'small'\?"),
        (b'{"model": "small"}', "cannot be built with {}"),
    ],
)
def test_a_config_that_describes_no_model_is_refused(content: bytes, says: str, folder: Path) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=says):
        models.load(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no model folder '.*absent'"):
        models.load(tmp_path / "absent")


# Code of the user's own


@pytest.fixture
def built_by_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder whose model is built by the user's own function."""
    (tmp_path / "own_networks.py").write_text(
        "import torch\n"
        "def tied(size):\n"
        "    first, second = torch.nn.Linear(size, size), torch.nn.Linear(size, size)\n"
        "    second.weight = first.weight\n"
        "    return torch.nn.Sequential(first, second)\n"
        "def text():\n"
        "    return 'a network'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model, blueprint = models.create("own_networks:tied", records(), {"size": 3})
    models.save(model, blueprint, tmp_path / "model")
    return tmp_path / "model"


def test_a_model_built_by_code_is_loaded_where_that_code_is_named(built_by_code: Path) -> None:
    model, blueprint = models.load(built_by_code, factory="own_networks:tied")
    assert blueprint == Blueprint("own_networks:tied", {"size": 3}, records().classes)
    first, second = model.get_parameter("0.weight"), model.get_parameter("1.weight")
    assert first is second
    assert torch.equal(first, load_file(built_by_code / "model.safetensors")["0.weight"])


@pytest.mark.parametrize("factory", [None, "own_networks:text"])
def test_a_model_built_by_code_is_refused_where_that_code_is_not_named(factory: str, built_by_code: Path) -> None:
    with pytest.raises(ModelError, match=r"If you trust it, name it: --factory own_networks:tied$"):
        models.load(built_by_code, factory=factory)


@pytest.mark.parametrize("factory", [None, "own_networks:tied"])
def test_code_that_a_config_names_is_not_run(factory: str | None, folder: Path, tmp_path: Path) -> None:
    change_config(folder, model="os:system", arguments={"command": f"touch {tmp_path / 'mark'}"})
    with pytest.raises(ModelError, match="is built by the code 'os:system'"):
        models.load(folder, factory=factory)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "no_such_module:net",
            "'no_such_module:net' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("own_networks:net", "'own_networks:net' cannot be imported: AttributeError: .* has no attribute 'net'"),
        ("own_networks:tied", "'own_networks:tied' cannot be built with {}: TypeError: .*'size'"),
        ("own_networks:text", r"'own_networks:text' returned a str, not a torch\.nn\.Module"),
        (
            "own_networks:torch",
            "'own_networks:torch' cannot be built with {}: TypeError: 'module' object is not callable",
        ),
    ],
)
def test_code_that_builds_no_model_is_refused(name: str, says: str, built_by_code: Path) -> None:
    with pytest.raises(ModelError, match=says):
        models.create(name, records(), {})


# Whether model and data fit


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), "the model has 2 outputs, but the data has 3 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), "the model has 5 outputs, but the data has 3 classes"),
        (nn.Conv2d(1, 3, 1), r"one row of scores per record, not a tensor of shape \(2, 3, 8, 8\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(7, 3)), r"the model cannot take inputs of shape 1×8×8: mat1 and mat2"),
        (nn.Conv2d(3, 3, 1), "the model cannot take inputs of shape 1×8×8"),
        (nn.LSTM(8, 3), "one row of scores per record, not tuple"),
    ],
    ids=["too few", "too many", "not a row", "another size", "other channels", "not a tensor"],
)
def test_a_model_that_does_not_fit_the_data_is_refused(model: nn.Module, says: str) -> None:
    inputs = images().float() if not isinstance(model, nn.LSTM) else images().float()[:, 0]
    data = Stored(inputs, torch.arange(6) % 3, classes=CLASSES)
    with pytest.raises(ModelError, match=says) as raised:
        require_fit(model, data)
    assert "\n" not in str(raised.value)


def test_a_model_that_fits_is_left_as_it_was() -> None:
    model, _ = models.create("resnet18", records(), {"width": 1})
    before = {name: value.clone() for name, value in model.state_dict().items()}
    require_fit(model, records())
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_labels_without_names_need_outputs_for_the_highest() -> None:
    data = Stored(images().float(), torch.tensor([0, 0, 0, 0, 0, 4]))
    require_fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 9)), data)
    with pytest.raises(ModelError, match="has 4 outputs, but the data has labels up to 4"):
        require_fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), data)


# Hugging Face


def vit(**changes: Any) -> Any:
    """A very small vision transformer."""
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    return ViTForImageClassification(
        ViTConfig(**{**tiny, "image_size": 16, "patch_size": 8, "num_labels": 10, **changes})
    )


def resnet() -> Any:
    """A very small residual network with batch norm."""
    config = ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=10)
    torch.manual_seed(0)
    return ResNetForImageClassification(config)


@pytest.fixture(params=[vit, resnet], ids=["vit", "resnet"])
def pretrained(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder as `save_pretrained` writes it, with its preprocessing."""
    request.param().save_pretrained(tmp_path / "pretrained")
    (tmp_path / "pretrained" / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING))
    return tmp_path / "pretrained"


def by_hand(folder: Path, raw: Tensor) -> Tensor:
    """What the classifier in a folder says of gray bytes: scaled, resized, normalized, as its folder asks."""
    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    color = (raw.float() / 255).repeat(1, 3, 1, 1)
    resized = F.interpolate(color, (16, 16), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(PREPROCESSING[name])[:, None, None] for name in ("image_mean", "image_std"))
    with torch.no_grad():
        logits: Tensor = model(pixel_values=(resized - mean) / std).logits
    return logits


def test_a_hugging_face_classifier_says_what_it_says_by_hand(pretrained: Path) -> None:
    model, blueprint = models.load(pretrained)
    assert blueprint == Blueprint(str(pretrained), classes=tuple(f"LABEL_{i}" for i in range(10)))
    torch.testing.assert_close(scores(model, images()), by_hand(pretrained, images()), atol=1e-5, rtol=1e-5)


def test_a_hugging_face_classifier_is_scrubbed_saved_and_loaded_by_transformers(
    pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(Forget("class:3"), Source(name="digits"), untrained=True)
    before, saved, save = by_hand(pretrained, images()), list[nn.Module](), models.save

    def watched(model: nn.Module, *more: Any) -> None:
        saved.append(model)
        save(model, *more)

    monkeypatch.setattr(models, "save", watched)
    scrub(str(pretrained), request, "scissorhands", {"epochs": 1, "batch_size": 512}, Place(tmp_path / "out"))
    scrubbed = tmp_path / "out" / "model"
    loaded, info = AutoModelForImageClassification.from_pretrained(scrubbed, output_loading_info=True)
    assert type(loaded).__name__ in (pretrained / "config.json").read_text()
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert json.loads((scrubbed / "preprocessor_config.json").read_text()) == PREPROCESSING
    after = by_hand(scrubbed, images())
    assert not torch.allclose(after, before)
    torch.testing.assert_close(scores(saved[0], images()), after, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scores(load_classifier(str(tmp_path / "out")).model, images()), after)


def test_a_hugging_face_classifier_is_drawn_anew_to_be_retrained(tmp_path: Path) -> None:
    classifier = ImageClassifier(vit(), PREPROCESSING)
    before = {name: p.clone() for name, p in classifier.named_parameters()}
    classifier.reset_parameters()
    changed = {name for name, p in classifier.named_parameters() if not torch.equal(p, before[name])}
    assert {name for name, p in before.items() if p.dim() == 2} <= changed


def test_a_hugging_face_classifier_without_preprocessing_takes_images_as_shares_of_one(tmp_path: Path) -> None:
    original = vit(num_channels=1, image_size=8, patch_size=4)
    original.save_pretrained(tmp_path / "pretrained")
    model, _ = models.load(tmp_path / "pretrained")
    with torch.no_grad():
        wanted = original.eval()(pixel_values=images().float() / 255).logits
    torch.testing.assert_close(scores(model, images()), wanted)


def gray_vit() -> Any:
    """A very small vision transformer for gray images of 16 × 16."""
    return vit(num_channels=1).eval()


def unit_images(height: int, width: int) -> Tensor:
    """Some noise from 0 to 1."""
    return torch.rand(2, 1, height, width, generator=torch.Generator().manual_seed(0))


def require_same(model: Any, preprocessing: dict[str, Any], given: Tensor, wanted: Tensor) -> None:
    """Whether the classifier makes of the images what the bare model is to be given."""
    with torch.no_grad():
        expected = model(pixel_values=wanted).logits
    torch.testing.assert_close(scores(ImageClassifier(model, preprocessing), given), expected)


@pytest.mark.parametrize("size", [{"height": 16, "width": 16}, [16, 16], 16], ids=["sides", "list", "number"])
def test_a_hugging_face_classifier_resizes_both_sides_to_the_size_of_its_folder(size: Any) -> None:
    tall = unit_images(32, 16)
    require_same(gray_vit(), {"size": size}, tall, F.interpolate(tall, (16, 16), mode="bilinear", antialias=True))


def test_a_hugging_face_classifier_resizes_the_shorter_side_and_cuts_out_the_middle() -> None:
    preprocessing = {
        "size": {"shortest_edge": 20},
        "do_center_crop": True,
        "crop_size": {"height": 16, "width": 16},
    }
    given = unit_images(30, 10)
    resized = F.interpolate(given, (60, 20), mode="bilinear", antialias=True)
    require_same(gray_vit(), preprocessing, given, resized[:, :, 22:38, 2:18])
    require_same(gray_vit(), preprocessing, resized, resized[:, :, 22:38, 2:18])


def test_a_hugging_face_classifier_cuts_the_share_that_its_folder_asks_for_out_of_the_middle() -> None:
    given = unit_images(30, 10)
    resized = F.interpolate(given, (60, 20), mode="bilinear", antialias=True)
    preprocessing = {"size": {"shortest_edge": 16}, "crop_pct": 0.8}
    require_same(gray_vit(), preprocessing, given, resized[:, :, 22:38, 2:18])


def test_a_hugging_face_classifier_cuts_and_resizes_nothing_that_its_folder_switches_off() -> None:
    preprocessing = {"do_resize": False, "size": 8, "do_center_crop": False, "crop_size": 8}
    given = unit_images(16, 16)
    require_same(gray_vit(), preprocessing, given, given)


@pytest.mark.parametrize(("resample", "mode"), [(2, "bilinear"), (3, "bicubic")])
def test_a_hugging_face_classifier_resizes_in_the_way_of_its_folder(resample: int, mode: str) -> None:
    given = unit_images(8, 8)
    wanted = F.interpolate(given, (16, 16), mode=mode, antialias=True)
    require_same(gray_vit(), {"size": 16, "resample": resample}, given, wanted)


@pytest.mark.parametrize("resample", [0, 1, 4, 5])
def test_a_way_to_resize_that_is_not_known_is_refused(resample: int) -> None:
    with pytest.raises(ModelError, match=f"preprocessing asks for resample = {resample}; known are "):
        ImageClassifier(gray_vit(), {"size": 16, "resample": resample})


@pytest.mark.parametrize(
    ("preprocessing", "times", "minus"),
    [
        ({"do_normalize": False, "image_mean": [0.5], "image_std": [0.25]}, 1.0, 0.0),
        ({"image_mean": [0.5], "image_std": [0.25]}, 4.0, 2.0),
        ({"rescale_factor": 1 / 127.5, "image_mean": [1.0], "image_std": [1.0]}, 2.0, 1.0),
        ({"rescale_factor": 1 / 127.5, "do_normalize": False}, 2.0, 0.0),
        ({"do_rescale": False, "image_mean": [127.5], "image_std": [51.0]}, 5.0, 2.5),
        ({"do_rescale": False, "do_normalize": False, "rescale_factor": 0.5}, 255.0, 0.0),
    ],
    ids=["not normalized", "normalized", "rescaled", "rescaled alone", "not rescaled", "neither"],
)
@pytest.mark.parametrize("kind", ["bytes", "shares of one"])
def test_a_hugging_face_classifier_rescales_and_normalizes_as_its_folder_asks(
    preprocessing: dict[str, Any], times: float, minus: float, kind: str
) -> None:
    raw = images(size=16)
    unit = raw.float() / 255
    require_same(gray_vit(), {"size": 16, **preprocessing}, raw if kind == "bytes" else unit, unit * times - minus)


def test_a_pretrained_classifier_gets_a_head_for_the_data_it_is_to_be_trained_on(pretrained: Path) -> None:
    model, _ = models.create(str(pretrained), records(), {})
    assert scores(model, images()).shape == (6, 3)
    original = models.load(pretrained)[0].state_dict()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, original[name])}
    assert changed
    assert all(name.startswith("model.classifier.") for name in changed)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"classifier.bias": None}, r"do not fit its config\.json; missing: classifier\.bias\."),
        ({"extra": torch.zeros(1)}, r"do not fit its config\.json; unexpected: extra\."),
        (
            {"classifier.bias": torch.zeros(11)},
            r"do not fit its config\.json; of another shape: classifier\.bias\.",
        ),
    ],
    ids=["missing", "unexpected", "of another shape"],
)
def test_hugging_face_weights_that_do_not_fit_are_refused(
    change: dict[str, Tensor | None], says: str, tmp_path: Path
) -> None:
    vit().save_pretrained(tmp_path / "pretrained")
    path = tmp_path / "pretrained" / "model.safetensors"
    weights = {**load_file(path), **change}
    save_file({name: w for name, w in weights.items() if w is not None}, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=says) as raised:
        models.load(tmp_path / "pretrained")
    assert "\n" not in str(raised.value)


def test_a_hugging_face_folder_with_a_pickle_only_is_refused_unread(tmp_path: Path) -> None:
    vit().save_pretrained(tmp_path / "pretrained")
    (tmp_path / "pretrained" / "model.safetensors").unlink()
    (tmp_path / "pretrained" / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "mark")))
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is a pickle"):
        models.load(tmp_path / "pretrained")
    with pytest.raises(ModelError, match="cannot be loaded as a Hugging Face image classifier"):
        models.create(str(tmp_path / "pretrained"), records(), {})
    assert not (tmp_path / "mark").exists()


def test_code_in_a_hugging_face_folder_is_not_run_though_someone_would_answer_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    vit().save_pretrained(tmp_path / "pretrained")
    (tmp_path / "pretrained" / "own.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\n")
    change_config(tmp_path / "pretrained", model_type="own", auto_map={"AutoConfig": "own.Config"})
    with pytest.raises(ModelError, match="has 'auto_map', which runs code"):
        models.load(tmp_path / "pretrained")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("kind", ["bert", "no-such-thing"])
def test_a_hugging_face_folder_of_another_kind_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    vit().save_pretrained(tmp_path / "pretrained")
    change_config(tmp_path / "pretrained", model_type=kind)
    with pytest.raises(ModelError, match="cannot be loaded as a Hugging Face image classifier") as raised:
        models.load(tmp_path / "pretrained")
    assert "\n" not in str(raised.value)


def test_retraining_can_start_from_a_pretrained_classifier(pretrained: Path) -> None:
    model = ImageClassifier.load(str(pretrained))
    original = {name: p.detach().clone() for name, p in model.named_parameters()}
    problem = split(records(), Forget("random:1"), test=records(), unseen=0.0).problem()
    still: dict[str, Any] = {"epochs": 1, "lr": 1e-30, "momentum": 0.0, "weight_decay": 0.0}
    Retrain(**still).scrub(model, problem)
    assert not any(torch.equal(p, original[name]) for name, p in model.named_parameters() if p.dim() > 1)
    Retrain(start=str(pretrained), **still).scrub(model, problem)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p, original[name])


def test_only_a_hugging_face_classifier_can_start_from_one(pretrained: Path) -> None:
    problem = split(records(), Forget("random:1"), test=records(), unseen=0.0).problem()
    network = Blueprint("small", {"classes": 3, "channels": 1, "width": 2}).build()
    with pytest.raises(ModelError, match="only a Hugging Face classifier can start from"):
        Retrain(start=str(pretrained), epochs=1).scrub(network, problem)
