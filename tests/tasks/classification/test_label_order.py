"""A Hugging Face classifier that numbers its classes otherwise than the folders of images do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTForImageClassification

from helpers.commands import cli, done
from scissorhands import runs

COLORS = {"blue": (40, 60, 200), "green": (40, 200, 60), "red": (200, 60, 40)}
ORDER = ["red", "blue", "green"]  # of the model


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images by color, and a very small vision transformer that was trained on them."""
    home = tmp_path_factory.mktemp("colors")
    draw = np.random.default_rng(0)
    for split, count in (("train", 24), ("test", 8)):
        for name, color in COLORS.items():
            (home / "images" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.clip(np.array(color) + draw.normal(0, 30, (8, 8, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(home / "images" / split / name / f"{number}.png")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ViTConfig(**size, image_size=8, patch_size=4, num_labels=3)
    ViTForImageClassification(config).save_pretrained(home / "start")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(home / "cache"))
        settings = "--set optimizer=adamw --set lr=0.005 --set epochs=6 --set batch_size=24"
        done(f"train --model '{home / 'start'}' --data '{home / 'images'}' {settings} -o '{home / 'run'}'")
    shutil.copytree(home / "run" / "model", home / "vit")
    order = [sorted(COLORS).index(name) for name in ORDER]
    weights = load_file(home / "vit" / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name][order].contiguous()
    save_file(weights, home / "vit" / "model.safetensors", metadata={"format": "pt"})
    name_classes(home / "vit", ORDER)
    return home


def name_classes(folder: Path, names: list[str]) -> None:
    """Writes the names of the classes into a config.json."""
    config = json.loads((folder / "config.json").read_text())
    named = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
    (folder / "config.json").write_text(json.dumps({**config, **named}))


def test_a_vit_that_numbers_its_classes_otherwise_is_scrubbed(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(trained / "cache"))
    done("scrub vit --data images --forget class:red --method randomlabel --set epochs=3 --set lr=0.05 -o out")
    run = runs.read(trained / "out")
    forgotten = (trained / "out" / "forget.txt").read_text().splitlines()
    assert len(forgotten) == 24
    assert all("\ttrain/red/" in line for line in forgotten)
    assert run.record["forget_accuracy_before"] > 90
    assert run.record["test_accuracy_before"] > 90
    config = json.loads((trained / "out" / "model" / "config.json").read_text())
    assert [config["id2label"][str(number)] for number in range(3)] == ORDER
    with torch.no_grad():
        model = ViTForImageClassification.from_pretrained(trained / "out" / "model").eval()
        blue = torch.tensor(COLORS["blue"])[None, :, None, None].expand(1, 3, 8, 8) / 255
        assert ORDER[int(model(pixel_values=blue).logits.argmax())] == "blue"


def test_a_vit_whose_classes_have_other_names_is_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    shutil.copytree(trained / "vit", tmp_path / "other")
    name_classes(tmp_path / "other", ["rouge", "blue", "green"])
    command = f"scrub '{tmp_path / 'other'}' --data images --forget class:red --method finetune -o '{tmp_path / 'out'}'"
    answer = cli(command)
    assert answer.code == 2
    assert "the model has no class 'red', as the data has. Its classes: rouge, blue, green." in answer.err
    assert not (tmp_path / "out").exists()
    done(f"{command} --labels red=rouge --set epochs=1")
