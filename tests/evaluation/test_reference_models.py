"""Reference models are trained once and found again, but only where nothing that made them has changed."""

import copy
import errno
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.data.foreign import as_records
from scissorhands.data.records import Part, Stored
from scissorhands.errors import FailedError
from scissorhands.evaluation import reference_models
from scissorhands.evaluation.reference_models import Trainer
from scissorhands.files import cache as private_cache
from scissorhands.methods.training import Training

TRAINING = Training(epochs=2, lr=0.05, batch_size=8)


def cache() -> Path:
    return private_cache("models")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def trainer(build: Callable[[], nn.Module]) -> Trainer:
    """A trainer of a small network, which keeps what it trained in this test's cache."""
    return Trainer(build(), TRAINING, folder=cache())


@pytest.fixture
def images(split: sh.Split) -> Stored:
    """Sixty records with a fingerprint."""
    return Stored(*split.forget.records.fetch(torch.arange(60)))


@pytest.fixture
def parts(images: Stored) -> list[Part]:
    """Three parts of twenty records each."""
    return [Part(images, ids) for ids in torch.arange(60).split(20)]


def states(trainer: Trainer, parts: list[Part]) -> tuple[list[dict[str, Tensor]], int]:
    """The trained weights, and how many steps of training they took."""
    events: list[Mapping[str, Any]] = []
    found = [copy.deepcopy(model.state_dict()) for model in trainer.trained(parts, events.append)]
    return found, len(events)


def same(a: list[dict[str, Tensor]], b: list[dict[str, Tensor]]) -> bool:
    """Whether all weights are the same to the last bit."""
    return all(torch.equal(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in x | y)


def files() -> dict[str, int]:
    """The kept models, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in cache().glob("*")}


# Finding again


def test_a_model_is_trained_once_and_then_found(trainer: Trainer, parts: list[Part]) -> None:
    assert trainer.missing(parts) == 3
    first, steps = states(trainer, parts)
    kept = files()
    assert steps > 0
    assert len(kept) == 3
    assert trainer.missing(parts) == 0
    again, none = states(trainer, parts)
    assert none == 0
    assert same(first, again)
    assert files() == kept


def test_only_what_is_missing_is_trained(trainer: Trainer, parts: list[Part]) -> None:
    first, _ = states(trainer, parts[:2])
    assert trainer.missing(parts) == 1
    found, steps = states(trainer, parts)
    assert same(first, found[:2])
    assert steps == 2 * 3  # one model, two epochs of three batches
    assert trainer.missing(parts) == 0


def test_without_a_folder_nothing_is_kept(trainer: Trainer, parts: list[Part]) -> None:
    alone = replace(trainer, folder=None)
    first, steps = states(alone, parts)
    again, as_many = states(alone, parts)
    assert steps == as_many > 0
    assert same(first, again)
    assert not cache().exists()
    assert alone.missing(parts) == 3


def test_a_users_own_dataset_is_trained_on_without_a_cache(trainer: Trainer, images: Stored) -> None:
    own = as_records(TensorDataset(images.inputs, images.labels))
    parts = [Part(own, ids) for ids in torch.arange(60).split(20)]
    first, steps = states(trainer, parts)
    again, as_many = states(trainer, parts)
    assert steps == as_many > 0
    assert same(first, again)
    assert not cache().exists()
    assert trainer.missing(parts) == 3


def test_what_is_found_does_not_depend_on_the_weights_that_the_model_has(trainer: Trainer, parts: list[Part]) -> None:
    states(trainer, parts)
    scrubbed = copy.deepcopy(trainer.model)
    for parameter in scrubbed.parameters():
        parameter.data += 1
    assert replace(trainer, model=scrubbed).missing(parts) == 0  # so that all methods share them


def test_training_leaves_the_model_as_it_was(trainer: Trainer, parts: list[Part]) -> None:
    trainer.model.train()
    before, random_state = copy.deepcopy(trainer.model.state_dict()), torch.get_rng_state()
    states(trainer, parts)
    trainer.missing(parts)
    torch.testing.assert_close(trainer.model.state_dict(), before, rtol=0, atol=0)
    assert all(module.training for module in trainer.model.modules())
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)


def test_what_a_user_does_to_a_model_is_not_kept(trainer: Trainer, parts: list[Part]) -> None:
    first, _ = states(trainer, parts)
    for model in trainer.trained(parts):
        for parameter in model.parameters():
            parameter.data.zero_()
    assert same(states(trainer, parts)[0], first)


# What makes a model another one


def test_each_number_is_another_model_even_on_the_same_records(trainer: Trainer, parts: list[Part]) -> None:
    found, _ = states(trainer, [parts[0]] * 3)
    assert len(files()) == 3
    weights = [torch.cat([x.flatten().float() for x in state.values()]) for state in found]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


CHANGES: dict[str, Callable[[Trainer, list[Part]], tuple[Trainer, list[Part]]]] = {
    "the inputs": lambda t, parts: (t, [_with(p, Stored(_inputs(p) + 1e-6, p.records.labels)) for p in parts]),
    "the labels": lambda t, parts: (t, [_with(p, Stored(_inputs(p), (p.records.labels + 1) % 3)) for p in parts]),
    "the ids": lambda t, parts: (t, [replace(p, ids=(p.ids + 1) % 60) for p in parts]),
    "how many records": lambda t, parts: (t, [replace(p, ids=p.ids[:-1]) for p in parts]),
    "the seed": lambda t, parts: (replace(t, seed=1), parts),
    "the augmentation's name": lambda t, parts: (replace(t, about="flip"), parts),
    "the precision": lambda t, parts: (replace(t, model=copy.deepcopy(t.model).double()), parts),
}


def _with(part: Part, records: Stored) -> Part:
    return replace(part, records=records)


def _inputs(part: Part) -> Tensor:
    inputs: Tensor = part.records.fetch(torch.arange(len(part.records)))[0]
    return inputs


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_model_is_not_found_when_what_made_it_has_changed(
    change: Callable[[Trainer, list[Part]], tuple[Trainer, list[Part]]], trainer: Trainer, parts: list[Part]
) -> None:
    states(trainer, parts)
    assert trainer.missing(parts) == 0
    other, others = change(trainer, parts)
    assert other.missing(others) == 3
    assert trainer.missing(parts) == 0


@pytest.mark.parametrize("name", TRAINING.to_dict())
def test_every_setting_of_training_makes_another_model(name: str, parts: list[Part]) -> None:
    trainer = Trainer(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), TRAINING, folder=cache())
    states(trainer, parts)
    changed: dict[str, Any] = {"schedule": "constant", "momentum": 0.5, "optimizer": "adam"}
    value = changed.get(name, 2 * getattr(TRAINING, name))
    other = replace(trainer, training=replace(TRAINING, **{name: value}))
    assert other.missing(parts) == 3
    assert not same(states(other, parts)[0], states(trainer, parts)[0])


def written(folder: Path, name: str, text: str) -> ModuleType:
    """A module of the user's, imported from its file."""
    (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported, and are forgotten after the test."""
    folder, before = tmp_path / "workshop", {*sys.modules}
    folder.mkdir()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


NETWORK = """
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 3)

    def forward(self, inputs):
        return self.head(inputs.flatten(1))
"""


def test_a_model_is_not_found_when_its_code_has_changed(workshop: Path, parts: list[Part]) -> None:
    module = written(workshop, "users_own_network", NETWORK)
    trainer = Trainer(nn.Sequential(module.Own(), nn.Identity()), TRAINING, folder=cache())
    states(trainer, parts)
    assert trainer.missing(parts) == 0
    (workshop / "users_own_network.py").write_text(NETWORK.replace("flatten(1)", "flatten(1).tanh()"))
    assert trainer.missing(parts) == 3
    (workshop / "users_own_network.py").write_text(NETWORK)
    assert trainer.missing(parts) == 0


def test_a_model_is_not_found_when_the_code_that_it_derives_from_has_changed(workshop: Path, parts: list[Part]) -> None:
    written(workshop, "users_own_base", NETWORK)
    module = written(workshop, "users_own_child", "from users_own_base import Own\n\nclass Child(Own):\n    pass\n")
    trainer = Trainer(module.Child(), TRAINING, folder=cache())
    states(trainer, parts)
    (workshop / "users_own_base.py").write_text(NETWORK.replace("flatten(1)", "flatten(1).tanh()"))
    assert trainer.missing(parts) == 3


def test_a_model_is_not_found_when_our_version_of_training_has_changed(
    trainer: Trainer, parts: list[Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    states(trainer, parts)
    assert trainer.missing(parts) == 0
    monkeypatch.setattr(reference_models, "VERSION", reference_models.VERSION + 1)
    assert trainer.missing(parts) == 3


@pytest.mark.parametrize("inside", [nn.Tanh(), nn.Dropout(0.9), nn.LeakyReLU(0.5)], ids=repr)
def test_a_model_is_not_found_when_a_layer_without_weights_is_another(inside: nn.Module, parts: list[Part]) -> None:
    def network(layer: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), layer, nn.Linear(8, 3))

    trainer = Trainer(network(nn.ReLU()), TRAINING, folder=cache())
    states(trainer, parts)
    assert replace(trainer, model=network(inside)).missing(parts) == 3


def test_a_model_is_not_found_when_it_was_built_with_other_arguments(workshop: Path, parts: list[Part]) -> None:
    scaled = NETWORK.replace("(self):", "(self, scale):").replace("flatten(1)", "flatten(1) * self.scale")
    module = written(workshop, "users_own_scale", scaled.replace("super()", "self.scale = scale; super()"))
    trainer = Trainer(module.Own(scale=1.0), TRAINING, folder=cache())
    states(trainer, parts)
    assert replace(trainer, model=module.Own(scale=0.01)).missing(parts) == 3


def test_a_model_is_not_found_when_other_weights_are_frozen(parts: list[Part]) -> None:
    trainer = Trainer(nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Linear(8, 3)), TRAINING, folder=cache())
    states(trainer, parts)
    half_frozen = copy.deepcopy(trainer._untrained(0))
    next(half_frozen.parameters()).requires_grad_(False)
    assert replace(trainer, model=half_frozen).missing(parts) == 3


def test_a_model_that_was_written_in_a_notebook_is_trained(parts: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("notebook_without_a_file")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    kind = type("Own", (nn.Sequential,), {"__module__": notebook.__name__})
    found, steps = states(Trainer(kind(nn.Flatten(), nn.Linear(16, 3)), TRAINING, folder=cache()), parts)
    assert len(found) == 3
    assert steps > 0
    assert not cache().exists()  # nobody knows whether the code is the same the next time


# Damage


@pytest.mark.parametrize(
    "damage",
    [lambda whole: b"", lambda whole: b"garbage " * 20, lambda whole: whole[: len(whole) // 2]],
    ids=["empty", "garbage", "cut short"],
)
def test_a_damaged_file_is_trained_anew_and_replaced(
    damage: Callable[[bytes], bytes], trainer: Trainer, parts: list[Part]
) -> None:
    alone = parts[:1]
    first, _ = states(trainer, alone)
    (path,) = cache().iterdir()
    path.write_bytes(damage(path.read_bytes()))
    again, steps = states(trainer, alone)
    assert steps > 0
    assert same(first, again)
    found, none = states(trainer, alone)
    assert none == 0
    assert same(found, first)
    assert list(cache().iterdir()) == [path]


def test_a_file_that_lacks_a_weight_leaves_no_trace(trainer: Trainer, parts: list[Part]) -> None:
    first, _ = states(trainer, parts[:1])
    (path,) = cache().iterdir()
    whole = load_file(path)
    name = next(name for name, value in whole.items() if value.is_floating_point())
    save_file({name: whole[name] + 1}, path)
    assert same(states(trainer, parts[:1])[0], first)


@pytest.fixture
def no_folder(tmp_path: Path) -> Path:
    """A file where the cache should be."""
    place = tmp_path / "place"
    place.write_text("not a folder")
    return place


def test_a_cache_that_is_no_folder_is_a_failure_in_one_line(
    trainer: Trainer, parts: list[Part], no_folder: Path
) -> None:
    with pytest.raises(FailedError, match=r"^cannot keep reference models in .*place: .*File exists") as raised:
        states(replace(trainer, folder=no_folder), parts)
    assert raised.value.exit_code == 1
    assert "\n" not in str(raised.value)
    assert no_folder.read_text() == "not a folder"


def test_a_cache_below_a_file_is_a_failure_in_one_line(trainer: Trainer, parts: list[Part], no_folder: Path) -> None:
    below = replace(trainer, folder=no_folder / "cache")
    assert below.missing(parts) == 3
    with pytest.raises(FailedError, match=r"^cannot keep reference models in .*place/cache: .*Not a directory"):
        states(below, parts)


def test_models_that_a_full_cache_cannot_keep_are_used_all_the_same_and_leave_no_part_of_a_file(
    trainer: Trainer, parts: list[Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(model: nn.Module, path: Path, about: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(reference_models, "save_weights", half)
    found, steps = states(trainer, parts)
    assert len(found) == len(parts)
    assert steps > 0
    assert list(cache().iterdir()) == []
