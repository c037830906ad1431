"""What new users did, and what harm it did: label orders, damaging settings, a damaging run that was resumed."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

from helpers.commands import Answer, cli, done
from helpers.nursery import Fault, Nursery
from scissorhands import runs
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.models import Blueprint

NAMES = ("airplane", "frog", "ship", "truck")  # as folders are sorted
ORDER = ("truck", "ship", "frog", "airplane")  # as the model knows them
WRECK = "--method ascent --set lr=0.05 --set epochs=3 --set batch_size=64"


def folders(place: Path) -> Path:
    """Images of four kinds that are easy to tell apart, a folder for each."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 30), ("test", 10)):
        for number, name in enumerate(NAMES):
            (place / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 60, (8, 8, 3), dtype=np.uint8)
                pixels[2 * number : 2 * number + 2] += 150
                Image.fromarray(pixels).save(place / split / name / f"{i}.png")
    return place


def classifier(place: Path, order: tuple[str, ...], data: Path) -> Path:
    """A Hugging Face classifier that knows the four kinds, in this order."""
    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        id2label=dict(enumerate(order)),
        label2id={name: number for number, name in enumerate(order)},
    )
    model = ResNetForImageClassification(config)
    files = [(file, order.index(file.parent.name)) for file in sorted((data / "train").glob("*/*.png"))]
    inputs = torch.stack([torch.from_numpy(np.array(Image.open(f))).permute(2, 0, 1).float() / 255 for f, _ in files])
    labels = torch.tensor([label for _, label in files])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pixel_values=inputs).logits, labels).backward()
        optimizer.step()
    model.save_pretrained(place)
    (place / "preprocessor_config.json").write_text(json.dumps({"do_resize": False, "do_normalize": False}))
    return place


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("models") / "ordered", ORDER, data)


def scrub(model: Path, data: Path, *more: str) -> Answer:
    return cli(f"scrub {model} --data {data} --method finetune --set epochs=1 --set lr=0.001", *more)


def test_a_model_that_numbers_classes_in_another_order_is_matched_by_name(
    model: Path, data: Path, tmp_path: Path
) -> None:
    answer = scrub(model, data, "--forget", "class:truck", "-o", str(tmp_path / "out"))
    assert answer.code == 0, answer.err
    run = runs.read(tmp_path / "out")
    assert run.record["retain_accuracy_before"] > 95
    assert run.record["forget_accuracy_before"] > 95
    assert run.result.scores.counts["forget"] == 30
    kept = json.loads((tmp_path / "out" / "model" / "config.json").read_text())["id2label"]
    assert kept == {str(number): name for number, name in enumerate(ORDER)}
    deeper = done(f"evaluate {tmp_path / 'out'} --level standard --set references=1 --train epochs=1 --json")
    assert json.loads(deeper.out)["values"]["retain_accuracy"] > 95


def test_a_number_that_means_two_classes_is_refused(model: Path, data: Path, tmp_path: Path) -> None:
    answer = scrub(model, data, "--forget", "class:3", "-o", str(tmp_path / "out"))
    assert (answer.code, list(tmp_path.iterdir())) == (2, [])
    assert "say its name. Known: airplane, frog, ship, truck." in answer.err


def test_class_names_that_differ_are_refused_until_they_are_matched(data: Path, tmp_path: Path) -> None:
    other = classifier(tmp_path / "other", ORDER, data)
    config = json.loads((other / "config.json").read_text())
    config["id2label"]["0"] = "lorry"
    config["label2id"] = {"lorry": 0, "ship": 1, "frog": 2, "airplane": 3}
    (other / "config.json").write_text(json.dumps(config))
    asked = ("--forget", "class:frog", "-o", str(tmp_path / "out"))
    answer = scrub(other, data, *asked)
    assert answer.code == 2
    assert "the model has no class 'truck', as the data has. Its classes: lorry, ship, frog, airplane." in answer.err
    assert not (tmp_path / "out").exists()
    assert "no class 'lory'" in scrub(other, data, *asked, "--labels", "truck=lory").err
    assert scrub(other, data, *asked, "--labels", "truck=lorry").code == 0
    assert runs.read(tmp_path / "out").record["retain_accuracy_before"] > 95
    truck = ("--forget", "class:truck", "--labels", "truck=lorry", "-o", str(tmp_path / "again"))
    assert scrub(other, data, *truck).code in (0, 3)  # a class is forgotten by the name that the data give it
    assert runs.read(tmp_path / "again").record["forget_accuracy_before"] > 95


def test_lists_of_class_names_that_contradict_each_other_are_refused(data: Path, tmp_path: Path) -> None:
    other = classifier(tmp_path / "other", ORDER, data)
    config = json.loads((other / "config.json").read_text())
    config["label2id"] = {name: number for number, name in enumerate(sorted(ORDER))}
    (other / "config.json").write_text(json.dumps(config))
    answer = scrub(other, data, "--forget", "class:frog", "-o", str(tmp_path / "out"))
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "by 'label2id' class 0 is 'airplane', and 'id2label' calls that 'truck'" in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("labels", ["position", "airplane=truck,truck=airplane,ship=frog,frog=ship"])
def test_a_model_that_only_guesses_is_refused_before_it_is_changed(
    labels: str, model: Path, data: Path, tmp_path: Path
) -> None:
    answer = scrub(model, data, "--forget", "class:frog", "--labels", labels, "-o", str(tmp_path / "out"))
    assert (answer.code, list(tmp_path.iterdir())) == (2, [])
    assert "no more often than by a guess, before anything was changed" in answer.err
    again = ("--forget", "class:frog", "--labels", labels, "--untrained", "-o", str(tmp_path / "out"))
    assert scrub(model, data, *again).code in (0, 3)


def test_a_model_that_takes_two_classes_for_each_other_is_refused_before_it_is_changed(
    model: Path, data: Path, tmp_path: Path
) -> None:
    swapped = ("--labels", "ship=frog,frog=ship")
    answer = scrub(model, data, "--forget", "random:10%", *swapped, "-o", str(tmp_path / "out"))
    assert (answer.code, list(tmp_path.iterdir())) == (2, [])
    assert "the model takes most records of class" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_folders_that_we_wrote_know_their_classes(data: Path, tmp_path: Path) -> None:
    train = "train --model small --model-set width=4 --set epochs=12 --set batch_size=16"
    done(f"{train} --data {data} -o {tmp_path}/own")
    config = tmp_path / "own" / "model" / "config.json"
    assert json.loads(config.read_text())["classes"] == list(NAMES)
    loaded, blueprint = models.load(tmp_path / "own" / "model")
    turned = Blueprint(blueprint.name, blueprint.arguments, ("frog", "airplane", "ship", "truck"))
    with torch.no_grad():
        for parameter in list(loaded.parameters())[-2:]:  # the last layer
            parameter.copy_(parameter[[1, 0, 2, 3]])
    models.save(loaded, turned, tmp_path / "turned")
    done(f"scrub {tmp_path}/turned --data {data} --forget class:ship {WRECK} -o {tmp_path}/out")
    assert runs.read(tmp_path / "out").record["retain_accuracy_before"] > 80


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("damage") / "trained"
    done(f"train --model small --model-set width=8 --set epochs=6 --set lr=0.05 --set batch_size=64 -o {place}")
    return place


def test_a_scrub_that_damages_says_so_on_every_surface(trained: Path, tmp_path: Path) -> None:
    answer = cli(f"scrub {trained} --forget random:10% {WRECK} -o {tmp_path}/out")
    assert answer.code == 3
    assert "\nwarning: accuracy on the retained data fell from 9" in answer.err
    assert "the model is damaged. Try a lower trim, or more epochs." in answer.err
    assert runs.read(tmp_path / "out").record["damage"].startswith("accuracy on the retained data fell from 9")
    again = cli(f"scrub {trained} --forget random:10% {WRECK} --overwrite --json -o {tmp_path}/out")
    assert again.code == 3
    assert json.loads(again.out)["damage"].startswith("accuracy on the retained data fell")
    shown = cli(f"evaluate {tmp_path}/out")
    assert shown.err.startswith("warning: accuracy on the retained data fell from 9")
    told = cli(f"report {tmp_path}/out -o {tmp_path}/report.html")
    assert "accuracy on the retained data fell from 9" in told.err
    assert "accuracy on the retained data fell from 9" in (tmp_path / "report.html").read_text()


def test_a_damaging_scrub_that_is_resumed_says_so_too(nursery: Nursery, trained: Path, tmp_path: Path) -> None:
    wreck = f"scrub {trained} --forget random:10% {WRECK} --checkpoint 0 -o out"
    assert nursery.run(wreck, tmp_path, Fault("save", 3, "kill")).code == -signal.SIGKILL
    resumed = nursery.run("scrub --resume out", tmp_path)
    assert resumed.code == 3
    assert "\nwarning: accuracy on the retained data fell from 9" in resumed.err
    assert runs.read(tmp_path / "out").damage


def test_the_defaults_of_the_command_line_do_no_damage(tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    done(f"train --model small --data digits --set epochs=30 --set lr=0.05 --set batch_size=64 -o {trained}")
    for forget in ("random:10%", "class:3"):
        answer = cli(f"scrub {trained} --forget {forget} -o {tmp_path}/{forget[:5]}")
        assert answer.code == 0
        assert "warning" not in answer.err


@pytest.mark.parametrize(
    ("example", "least"),
    [("gray_images", 10), ("vision_transformer", 0), ("photos", 0)],
)
def test_what_newcomers_bring_is_forgotten_without_harm_or_settings(
    example: str, least: float, nursery: Nursery
) -> None:
    """`least` is by how many points the accuracy on forgotten records has to fall: they were known by heart."""
    done = nursery.script(Path(__file__).parents[1] / "examples" / f"{example}.py")
    assert (done.code, "Warning" in done.err) == (0, False), done.err
    before, after = (
        {name: float(value) for name, value in re.findall(r"(\w+) +(\d+\.\d+)", line)}
        for line in done.out.splitlines()[-2:]
    )
    assert after["retain"] >= before["retain"] - 3
    assert after["test"] >= before["test"] - 5
    assert after["forget"] <= before["forget"] - least
    assert abs(after["AUC"] - 0.5) <= abs(before["AUC"] - 0.5) + 0.05  # of 40 records it is known to about that
