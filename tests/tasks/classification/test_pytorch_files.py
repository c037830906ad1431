"""Weights in PyTorch files: found, fitted strictly, written back as they came, and never by running code."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.commands import cli, done
from scissorhands.data.sources import Source
from scissorhands.errors import ModelError
from scissorhands.tasks.classification import models

CODE = """
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 10))

class Bytes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = net()

    def forward(self, images):
        return self.layers(images / 255)
"""


def net() -> nn.Module:
    """The network of the user."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 10))


def named(prefix: str = "") -> dict[str, Tensor]:
    """The weights of the network, with something before each name."""
    return {prefix + name: value for name, value in net().state_dict().items()}


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Path]:
    """Saves something with PyTorch, beside the code of the network."""
    (tmp_path / "own_nets.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)

    def save(content: Any) -> Path:
        torch.save(content, tmp_path / "net.pt")
        return tmp_path / "net.pt"

    return save


def stepped() -> dict[str, Any]:
    """The state of an optimizer that made a step."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(2, 1, 8, 8)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


FORMS: dict[str, Callable[[], Any]] = {
    "alone": named,
    "trained in parallel": lambda: named("module."),
    "compiled": lambda: named("module._orig_mod."),
    "of a checkpoint": lambda: {
        "epoch": 3,
        "state_dict": named("module."),
        "optimizer": stepped(),
        "best": torch.tensor(3.0),
        "settings": {"lr": 0.1, "steps": [1, 2]},
    },
    "beside others": lambda: {"teacher": {"weight": torch.zeros(3)}, "model": named()},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_state_dict_is_found_and_written_back_as_it_came(
    form: str, saved: Callable[[Any], Path], tmp_path: Path
) -> None:
    content = FORMS[form]()
    model, blueprint = models.load(saved(content), factory="own_nets:net")
    assert all(torch.equal(value, net().state_dict()[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    models.save(model, blueprint, tmp_path / "model")
    again, same = models.load(tmp_path / "model", factory="own_nets:net")
    assert same == blueprint
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    written = torch.load(tmp_path / "model" / "net.pt", weights_only=True)
    weights = [one.get("state_dict", one.get("model", one)) for one in (content, written)]
    assert list(weights[0]) == list(weights[1])


def test_a_checkpoint_keeps_its_plain_values_and_loses_what_the_optimizer_remembers(
    saved: Callable[[Any], Path], tmp_path: Path
) -> None:
    models.save(*models.load(saved(FORMS["of a checkpoint"]()), factory="own_nets:net"), tmp_path / "model")
    written = torch.load(tmp_path / "model" / "net.pt", weights_only=True)
    assert all(name.startswith("module.") for name in written.pop("state_dict"))
    assert written == {"epoch": 3, "settings": {"lr": 0.1, "steps": [1, 2]}}


class Own:
    """An object of the user's own."""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (lambda: net(), r"could run the code 'torch\.nn\.\S+', so it is refused\. Save the state dict alone"),
        (lambda: {"model": named(), "args": Own()}, r"could run the code '\S+Own'"),
        (lambda: {"model": named(), "then": functools.partial(print, "x")}, r"could run the code 'functools\.partial'"),
        (lambda: {"model": named(), "ema": named("module.")}, "under model, ema: save those that you mean"),
        (lambda: {"epoch": 3}, "holds no state dict"),
        (lambda: [1, 2], "holds no state dict"),
        (lambda: {**named(), "4.weight": torch.zeros(2)}, r"do not fit the model; unexpected: 4\.weight"),
        (lambda: {"net": {"0.weight": named()["0.weight"]}}, r"under 'net' do not fit the model; missing: 0\.bias, "),
        (
            lambda: {**named(), "0.bias": torch.zeros(3)},
            r"size mismatch for 0\.bias: \[3\] in the file, \[2\] in the model",
        ),
        (lambda: {**named(), "0.bias": torch.full((2,), torch.nan)}, r"are damaged: '0\.bias' holds NaN"),
    ],
    ids=["a module", "an object", "a function", "two", "none", "a list", "unexpected", "missing", "shape", "NaN"],
)
def test_files_without_fitting_weights_are_refused_in_one_line(
    content: Callable[[], Any], says: str, saved: Callable[[Any], Path]
) -> None:
    with pytest.raises(ModelError, match=says) as raised:
        models.load(saved(content()), factory="own_nets:net")
    assert "\n" not in str(raised.value)


def test_code_in_a_pickle_is_not_run(saved: Callable[[Any], Path], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "mark",)

    with pytest.raises(ModelError, match="could run the code"):
        models.load(saved({"model": Trap()}), factory="own_nets:net")
    assert not (tmp_path / "mark").exists()


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"garbage")
    for path, says in ((tmp_path / "net.pt", "cannot be read as a file of weights"), (tmp_path / "x.pt", "No such")):
        with pytest.raises(ModelError, match=says):
            models.load(path, factory="torch.nn:Identity")
    with pytest.raises(ModelError, match="holds weights alone: name the code"):
        models.load(tmp_path / "net.pt")


@pytest.mark.parametrize("name", ["../net.pt", "net.txt", 3, None])
def test_a_folder_that_names_another_file_is_refused(name: Any, saved: Callable[[Any], Path], tmp_path: Path) -> None:
    models.save(*models.load(saved(named()), factory="own_nets:net"), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"net.pt"', json.dumps(name)))
    with pytest.raises(ModelError, match="'checkpoint' is"):
        models.load(tmp_path / "model", factory="own_nets:net")


def test_a_pytorch_file_is_scrubbed_twice_on_the_command_line(
    saved: Callable[[Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(named("module.layers."))
    quick = "--factory own_nets:Bytes --method finetune --set epochs=1 --untrained"
    monkeypatch.chdir(tmp_path)
    done(f"scrub net.pt --data digits --forget class:3 {quick} -o first")
    done(f"scrub first --forget class:4 {quick} -o second")
    written = torch.load("second/model/net.pt", weights_only=True)
    assert list(written) == list(named("module.layers."))
    assert not torch.equal(written["module.layers.3.weight"], named()["3.weight"])
    answer = cli(f"scrub second/model/net.pt --data digits --forget class:5 {quick} -o third")
    assert answer.code == 2
    assert "name the run, second" in answer.err


def test_a_model_that_takes_floats_is_given_them_where_it_is_said_how(
    saved: Callable[[Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(named())
    monkeypatch.chdir(tmp_path)
    quick = "--factory own_nets:net --method finetune --set epochs=1 --untrained"
    command = f"scrub net.pt --data digits --forget class:3 {quick} -o out"
    answer = cli(command)
    assert answer.code == 2
    assert "they are bytes, and it takes floats. Say how images were scaled" in answer.err
    for wrong in ("std=0", "mean=1,2", "mean=a", "std=nan"):
        assert "must be one number" in cli(f"{command} --data-set {wrong}").err
    assert not Path("out").exists()
    done(f"{command} --data-set mean=0.5 --data-set std=0.25")
    data = Source(mean="0.5", std="0.25").load()
    given, raw = data.test.fetch(torch.arange(3))[0], Source().load().test.fetch(torch.arange(3))[0]
    assert isinstance(raw, Tensor)
    torch.testing.assert_close(given, (raw / 255 - 0.5) / 0.25)
    assert data.train.fingerprint != Source(mean="0.5").load().train.fingerprint
    done(f"scrub out --forget class:4 {quick} -o second")  # which reads the data in the same way


def test_a_copy_of_the_model_is_saved_where_it_is_wanted(
    saved: Callable[[Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(named())
    monkeypatch.chdir(tmp_path)
    still = "--factory own_nets:net --untrained --method finetune --set epochs=1 --set lr=1e-9"
    command = f"scrub net.pt --data digits --data-set mean=0 --forget class:3 {still}"
    for path in ("copy.pt", "copy"):
        assert cli(f"{command} --save {path} -o 'run of {path}'").code == 0
    assert Path("copy.pt").read_bytes() == Path("run of copy.pt/model/net.pt").read_bytes()
    assert sorted(path.name for path in Path("copy").iterdir()) == ["config.json", "net.pt"]
    assert "copy exists, and is not replaced" in cli(f"{command} --save copy -o other").err
    assert not Path("other").exists()
    done("train --model small --model-set width=4 --data digits --set epochs=3 --set batch_size=64 -o run")
    assert cli("scrub run --forget class:3 --method ascent --set lr=0.01 --save wild -o damaged").code == 3
    assert not Path("wild").exists()
