"""Model folders that a stranger may have sent: no code runs, no pickle is read, and nothing leads out of the folder."""

import json
import math
import os
import pickle
import shutil
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from helpers.commands import done
from helpers.misaligned import is_aligned, misalign
from scissorhands import runs
from scissorhands.data.records import Stored
from scissorhands.errors import ModelError
from scissorhands.runs.diffusion.judging import Judging
from scissorhands.runs.subject import load_classifier
from scissorhands.tasks.classification import huggingface, models
from scissorhands.tasks.classification.imageclassifier import ImageClassifier
from scissorhands.tasks.classification.models import Blueprint
from scissorhands.tasks.pretrained import is_inside

COMMIT, OLDER = "1" * 40, "2" * 40
PREPROCESSING = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 16, "width": 16}}


def vit(seed: int = 0) -> Any:
    """A very small vision transformer."""
    torch.manual_seed(seed)
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return ViTForImageClassification(ViTConfig(**tiny, image_size=16, patch_size=8, num_labels=3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as `save_pretrained` writes it, with its preprocessing."""
    vit().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING))
    return tmp_path / "model"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A folder whose weights are in several files, with an index."""
    vit().save_pretrained(tmp_path / "model", max_shard_size="2KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    return tmp_path / "model"


def change(path: Path, **values: Any) -> None:
    """Writes other values into a file of JSON."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused(folder: Path, says: str) -> None:
    """Raises unless the model is refused in one line, whether it is loaded as it is or to be trained."""
    records = Stored(torch.zeros(3, 3, 16, 16, dtype=torch.uint8), torch.arange(3), classes=tuple("abc"))
    ways: list[Callable[[], object]] = [lambda: models.load(folder), lambda: models.create(str(folder), records, {})]
    for load in ways:
        with pytest.raises(ModelError, match=says) as raised:
            load()
        assert "\n" not in str(raised.value)


# Code


CODE: dict[str, dict[str, Any]] = {
    "classes": {"auto_map": {"AutoModelForImageClassification": "own.Model"}},
    "classes of a part": {"backbone_config": {"auto_map": {"AutoConfig": "own.Config"}}},
    "classes in a list": {"parts": [{"auto_map": {"AutoConfig": "own.Config"}}]},
    "trust in itself": {"trust_remote_code": True},
    "a kernel on the hub": {"attn_implementation": "someone/kernel"},
    "a kernel on the hub by its inner name": {"_attn_implementation_internal": "someone/kernel@main:attend"},
    "another file of weights": {"transformers_weights": "adapter_model.bin"},
    "the weights of another model": {"use_pretrained_backbone": True, "backbone": "someone/model"},
    "quantized weights": {"quantization_config": {"quant_method": "mxfp4"}},
}


@pytest.mark.parametrize("what", CODE)
def test_a_configuration_that_names_code_or_other_weights_is_refused(what: str, folder: Path) -> None:
    change(folder / "config.json", **CODE[what])
    refused(folder, "which runs code or loads files that you did not name")


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json", "tokenizer_config.json"])
def test_every_configuration_in_the_folder_is_looked_at(name: str, folder: Path) -> None:
    (folder / name).write_text('{"auto_map": {"AutoProcessor": "own.Processor"}}')
    refused(folder, f"{name} has 'auto_map'")


def test_a_configuration_may_leave_such_entries_empty(folder: Path) -> None:
    change(folder / "config.json", auto_map={}, quantization_config=None, attn_implementation="eager")
    models.load(folder)


def test_an_adapter_of_another_model_is_refused(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/model"}')
    refused(folder, "is an adapter of another model: merge it")


# Pickles by way of an index


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def index(folder: Path, shard: Any) -> None:
    """Lets the index list this for the first weight."""
    path = folder / "model.safetensors.index.json"
    about = json.loads(path.read_text())
    about["weight_map"][next(iter(about["weight_map"]))] = shard
    path.write_text(json.dumps(about))


def test_weights_in_several_files_are_loaded(sharded: Path) -> None:
    found = models.load(sharded)[0].state_dict()
    assert all(torch.equal(found[f"model.{name}"], value) for name, value in vit().state_dict().items())


@pytest.mark.parametrize("shard", ["evil.bin", "../outside.safetensors", "/outside.safetensors", "", "..", 3, None])
def test_an_index_that_lists_anything_but_safetensors_beside_it_is_refused(
    shard: Any, sharded: Path, tmp_path: Path
) -> None:
    (sharded / "evil.bin").write_bytes(pickle.dumps(Trap(tmp_path / "mark")))
    save_file({"a": torch.zeros(1)}, tmp_path / "outside.safetensors")
    index(sharded, shard)
    refused(sharded, "which is not a safetensors file in that folder")
    assert not (tmp_path / "mark").exists()


def test_an_index_of_files_that_are_not_there_is_refused(sharded: Path) -> None:
    index(sharded, "absent.safetensors")
    refused(sharded, r"absent\.safetensors cannot be read")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}'])
def test_an_index_that_is_none_is_refused(text: str, sharded: Path) -> None:
    (sharded / "model.safetensors.index.json").write_text(text)
    refused(sharded, r"model\.safetensors\.index\.json ")


# Links, and files that are none


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "preprocessor_config.json"])
def test_a_fifo_is_refused_without_waiting_for_it(name: str, folder: Path) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, "is not a regular file")


@pytest.mark.parametrize("name", ["model.safetensors", "preprocessor_config.json"])
def test_a_link_that_leads_out_of_the_folder_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    refused(folder, f"{name} leads out of {folder}")


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "weights").mkdir()
    (folder / "model.safetensors").rename(folder / "weights" / "model.safetensors")
    (folder / "model.safetensors").symlink_to("weights/model.safetensors")
    models.load(folder)


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    models.load(tmp_path / "link")


def test_a_loop_of_links_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert is_inside(tmp_path / "b", tmp_path)
    assert not is_inside(tmp_path / "a" / ".." / ".." / "b", tmp_path)


def test_blobs_that_are_a_link_themselves_are_not_those_of_the_repository(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--owner--name" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").touch()
    (tmp_path / "models--owner--name" / "blobs").symlink_to(tmp_path / "secret")
    (snapshot / "file").symlink_to("../../blobs/file")
    assert not is_inside(snapshot / "file", snapshot)


# The hub


def cached(cache: Path, commit: str, seed: int) -> Path:
    """A snapshot of owner/name as the hub's cache holds it: links to files named by their hash."""
    repository = cache / "models--owner--name"
    snapshot = repository / "snapshots" / commit
    (repository / "blobs").mkdir(parents=True, exist_ok=True)
    vit(seed).save_pretrained(snapshot)
    for path in list(snapshot.iterdir()):
        blob = repository / "blobs" / f"{commit}-{path.name}"
        path.rename(blob)
        path.symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that has two versions of owner/name, while the hub is out of reach."""
    cache = tmp_path / "hub"
    cached(cache, COMMIT, 0)
    cached(cache, OLDER, 1)
    for name, commit in {"main": COMMIT, "v1": OLDER}.items():
        reference = cache / "models--owner--name" / "refs" / name
        reference.parent.mkdir(exist_ok=True)
        reference.write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return cache


@pytest.mark.parametrize(
    ("name", "commit", "seed"),
    [("owner/name", COMMIT, 0), ("owner/name@v1", OLDER, 1), (f"owner/name@{OLDER}", OLDER, 1)],
    ids=["no revision", "a tag", "a commit"],
)
def test_a_revision_on_the_hub_is_loaded_and_its_commit_recorded(name: str, commit: str, seed: int, hub: Path) -> None:
    subject = load_classifier(name)
    assert subject.blueprint.name == f"owner/name@{commit}"
    found = subject.model.state_dict()
    assert all(torch.equal(found[f"model.{key}"], value) for key, value in vit(seed).state_dict().items())


def test_a_model_to_be_trained_may_have_a_revision(hub: Path) -> None:
    records = Stored(torch.zeros(3, 3, 16, 16, dtype=torch.uint8), torch.arange(3), classes=tuple("abc"))
    model, blueprint = models.create("owner/name@v1", records, {})
    assert blueprint.name == f"owner/name@{OLDER}"
    assert torch.equal(model.state_dict()["model.classifier.weight"], vit(1).classifier.weight)


def test_a_run_says_from_which_commit_its_model_came(hub: Path, tmp_path: Path) -> None:
    done(f"train --model owner/name@v1 --data digits --set epochs=1 --set batch_size=512 -o {tmp_path / 'run'}")
    assert runs.read(tmp_path / "run").record["model"]["name"] == f"owner/name@{OLDER}"


def test_a_judgment_says_from_which_commit_its_classifier_came(hub: Path) -> None:
    panel = Judging(classifier="owner/name@v1").panel(torch.device("cpu"))
    assert panel.about() == {"classifier": f"owner/name@{OLDER}"}


def test_a_revision_that_is_not_there_is_refused(hub: Path) -> None:
    with pytest.raises(
        ModelError, match="there is no folder 'owner/name@v9' here, and 'owner/name@v9' cannot be loaded"
    ):
        models.load("owner/name@v9")


def test_a_revision_may_have_a_path_and_a_folder_a_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert huggingface.on_hub("owner/name@refs/pr/3") == ("owner/name", "refs/pr/3")
    (tmp_path / "owner" / "name@1").mkdir(parents=True)
    assert huggingface.on_hub("owner/name@1") is None


def test_what_the_hub_gave_is_checked_like_any_folder(hub: Path) -> None:
    (hub / "models--owner--name" / "snapshots" / COMMIT / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="is an adapter of another model"):
        models.load("owner/name")


# Preprocessing


NONSENSE: dict[str, Any] = {
    "a mean of the wrong length": {"image_mean": [0.5]},
    "a mean of nothing": {"image_mean": []},
    "a mean that is a word": {"image_mean": "x"},
    "a mean of words": {"image_mean": ["x", "y", "z"]},
    "a mean that is no number": {"image_mean": [0.5, 0.5, math.nan]},
    "a deviation of zero": {"image_std": [0.5, 0.0, 0.5]},
    "a negative size": {"size": {"height": -1, "width": 16}},
    "a size of zero": {"size": 0},
    "a size of words": {"size": "large"},
    "a size without width": {"size": {"height": 16}},
    "a size of three": {"size": [16, 16, 3]},
    "a size beyond all images": {"size": {"shortest_edge": 10**9}},
    "a share that makes the size explode": {"size": {"shortest_edge": 16}, "crop_pct": 1e-9},
    "a part that is a word": {"do_center_crop": True, "crop_size": "x"},
    "a factor that is a word": {"rescale_factor": "x"},
    "a factor of zero": {"rescale_factor": 0},
    "a factor without end": {"rescale_factor": math.inf},
    "a switch that is a word": {"do_resize": "no"},
    "a way to resize that is a list": {"resample": [2]},
}


@pytest.mark.parametrize("what", NONSENSE)
def test_preprocessing_that_makes_no_sense_is_refused(what: str, folder: Path) -> None:
    change(folder / "preprocessor_config.json", **NONSENSE[what])
    refused(folder, "the model's preprocessing ")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000], ids=lambda text: text[:2])
@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_preprocessing_that_cannot_be_read_is_refused(content: bytes, name: str, folder: Path) -> None:
    (folder / name).write_bytes(content)
    refused(folder, f"{name} cannot be read")


def test_preprocessing_inside_that_of_a_processor_goes_first(folder: Path) -> None:
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": {**PREPROCESSING, "size": 32}}))
    assert ImageClassifier.load(str(folder)).size == (32, 32)
    (folder / "processor_config.json").write_text('{"image_processor": 3}')
    refused(folder, "does not say how images are prepared")


def test_a_folder_without_preprocessing_has_none(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()
    assert ImageClassifier.load(str(folder)).preprocessing == {}


# Weights that are no numbers


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_hugging_face_model_with_a_weight_that_is_not_finite_is_refused(value: float, folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["vit.embeddings.cls_token"][0, 0, 3] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, "are damaged: '.*cls_token' holds NaN or infinity")


@pytest.mark.parametrize("name", ["fc2.weight", "normalize.mean"], ids=["weight", "buffer"])
def test_a_model_of_ours_with_a_value_that_is_not_finite_is_refused(name: str, tmp_path: Path) -> None:
    blueprint = Blueprint("small", {"classes": 3, "channels": 1, "width": 2})
    model: nn.Module = blueprint.build()
    model.state_dict()[name].view(-1)[0] = math.nan
    models.save(model, blueprint, tmp_path / "model")
    with pytest.raises(ModelError, match=f"are damaged: '{name}' holds NaN or infinity"):
        models.load(tmp_path / "model")


def test_a_pretrained_classifier_to_start_from_must_be_finite(folder: Path, tmp_path: Path) -> None:
    model = ImageClassifier.load(str(folder))
    bad = shutil.copytree(folder, tmp_path / "bad")
    weights = load_file(bad / "model.safetensors")
    weights["classifier.bias"][0] = math.nan
    save_file(weights, bad / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="holds NaN or infinity"):
        model.restart(str(bad))


# Where weights lie in memory


def test_weights_that_are_misaligned_in_their_file_are_copied(folder: Path) -> None:
    misalign(folder / "model.safetensors")
    assert is_aligned(models.load(folder)[0])


# What loads them


@pytest.mark.parametrize(("name", "unsafe"), [("transformers", "5.9.9"), ("diffusers", "0.42.0")])
def test_releases_that_run_the_code_of_a_folder_are_not_installed(name: str, unsafe: str) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    asked = map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["diffusion"]])
    (specifier,) = [one.specifier for one in asked if one.name == name]
    assert not specifier.contains(unsafe)
    assert specifier.contains(version(name))
