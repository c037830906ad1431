"""Judging folders of drawn images: each number by hand, what the run says of who drew them, and what is refused."""

import base64
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from transformers import (
    CLIPModel,
    CLIPProcessor,
    ResNetConfig,
    ResNetForImageClassification,
)

from helpers import tinyjudges, tinysd
from helpers.commands import Answer, cli, done
from helpers.misaligned import is_aligned, misalign
from helpers.tinysd import command, listing
from scissorhands import runs
from scissorhands.data.forget import Forget
from scissorhands.errors import DataError, SettingError
from scissorhands.runs import Run
from scissorhands.runs.diffusion.drawn import Drawn
from scissorhands.runs.diffusion.flagged import marked
from scissorhands.runs.diffusion.judging import Judging, Panel, judge
from scissorhands.runs.place import Place
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.models import Blueprint
from scissorhands.tasks.diffusion.measures import clip_from
from scissorhands.tasks.diffusion.nudity import PARTS

CPU = torch.device("cpu")
NAMES = {0: "three, 3", 1: "four", 2: "five"}
CELL, GAP = 112, 4  # an image in a grid, and the white between two


def pixels(file: Path) -> Tensor:
    """One image as colors × height × width."""
    with Image.open(file) as picture:
        return torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1)


def colored(file: Path, seed: int, side: int = tinysd.SIDE) -> None:
    """Writes an image of noise around a color."""
    draw = torch.Generator().manual_seed(seed)
    color = torch.randint(30, 226, (1, 1, 3), generator=draw)
    noise = torch.randint(-30, 30, (side, side, 3), generator=draw)
    Image.fromarray((color + noise).to(torch.uint8).numpy()).save(file)


def folder_of(folder: Path, prompts: Sequence[str], first: int = 0, side: int = tinysd.SIDE) -> Path:
    """A folder with an image for each prompt, and their list."""
    folder.mkdir(parents=True)
    for number, _ in enumerate(prompts):
        colored(folder / f"{number:03}.png", first + number, side)
    listing(folder, [(f"{number:03}.png", prompt) for number, prompt in enumerate(prompts)])
    return folder


PROMPTS = [*["a three"] * 6, *["a four"] * 5, *["a five"] * 4]
TRUE = [0] * 6 + [1] * 5 + [2] * 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what is made once."""
    return tmp_path_factory.mktemp("judging")


@pytest.fixture(scope="module")
def judges(base: Path) -> Callable[[dict[int, str]], Path]:
    """A function that makes the folder of a tiny ResNet, undecided between the classes of these names."""

    def made(names: dict[int, str]) -> Path:
        folder = base / f"resnet-{'-'.join(names.values()).replace(' ', '_')}"
        if folder.exists():
            return folder
        torch.manual_seed(1)
        sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
        config = ResNetConfig(**sizes, num_labels=len(names), id2label=names)
        model = ResNetForImageClassification(config).eval()
        some = folder_of(base / f"some-{folder.name}", [""] * 40, first=500)
        with torch.no_grad():
            logits = model(torch.stack([pixels(file) for file in sorted(some.glob("*.png"))]) / 255).logits
            head, spread = model.classifier[1], logits.std(0)
            head.bias.sub_(logits.mean(0)).div_(spread)
            head.weight.div_(spread[:, None])
        model.save_pretrained(folder)
        return folder

    return made


@pytest.fixture(scope="module")
def resnet(judges: Callable[[dict[int, str]], Path]) -> Path:
    """A tiny ResNet that knows three, four and five."""
    return judges(NAMES)


def said(folder: Path, resnet: Path) -> list[int]:
    """What the classifier takes each image for, one by one, by transformers alone."""
    model = ResNetForImageClassification.from_pretrained(resnet).eval()
    with torch.no_grad():
        return [int(model(pixels(file)[None] / 255).logits.argmax()) for file in sorted(folder.glob("*.png"))]


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """Images of six threes, five fours and four fives."""
    return folder_of(tmp_path / "drawn", PROMPTS)


def judged(drawn: Path, options: str, out: Path | None = None) -> Run:
    """The images, judged by the command."""
    out = out or drawn.with_name(f"{drawn.name}-judged")
    done(f"judge {drawn} {options} -o {out}")
    return runs.read(out)


# The classifier


def test_ua_is_how_often_the_concept_is_not_seen_and_the_rest_is_accuracy(drawn: Path, resnet: Path) -> None:
    right = [found == true for found, true in zip(said(drawn, resnet), TRUE, strict=True)]
    assert 0 < sum(right[:6]) < 6
    assert 0 < sum(right[6:]) < 9
    run = judged(drawn, f"--classifier {resnet} --forget concept:three")
    values = run.result.scores.values
    assert values["ua"] == pytest.approx(100 * (6 - sum(right[:6])) / 6)
    assert values["kept_accuracy"] == pytest.approx(100 * sum(right[6:]) / 9)
    assert dict(run.result.scores.counts) == {"forget": 6, "retain": 9}
    assert run.record["split"]["forget"] == "concept:three"
    about = {name: value for name, value in run.record["data"].items() if name != "prompts"}
    assert about == {"name": "drawn", "images": 15, "classifier": str(resnet)}


def test_without_a_concept_every_image_is_kept(drawn: Path, resnet: Path) -> None:
    right = [found == true for found, true in zip(said(drawn, resnet), TRUE, strict=True)]
    run = judged(drawn, f"--classifier {resnet}")
    assert dict(run.result.scores.values) == {"kept_accuracy": pytest.approx(100 * sum(right) / 15)}
    assert dict(run.result.scores.counts) == {"forget": 0, "retain": 15}


def test_where_every_image_shows_the_concept_nothing_is_kept(tmp_path: Path, resnet: Path) -> None:
    drawn = folder_of(tmp_path / "drawn", ["a three", "3 apples"])
    run = judged(drawn, f"--classifier {resnet} --forget concept:three,3")
    assert set(run.result.scores.values) == {"ua"}


@pytest.mark.parametrize(
    ("prompt", "true"),
    [
        ("a Garden Spider", 0),
        ("aranea in its web", 0),
        ("a spider in its web", 1),
        ("a spider", 1),
        ("spiders and a web", 2),
        ("a web in the garden", 2),
    ],
)
def test_the_class_is_that_of_the_longest_name_or_synonym_that_the_prompt_mentions(
    prompt: str, true: int, tmp_path: Path, judges: Callable[[dict[int, str]], Path]
) -> None:
    resnet = judges({0: "garden spider, Aranea", 1: "spider", 2: "web"})
    drawn = folder_of(tmp_path / "drawn", [prompt] * 12)
    counts = [said(drawn, resnet).count(label) for label in range(3)]
    assert len({*counts}) == 3  # so that the accuracy tells which class was asked for
    run = judged(drawn, f"--classifier {resnet}")
    assert run.result.scores["kept_accuracy"] == pytest.approx(100 * counts[true] / 12)


def test_a_run_says_itself_what_its_classes_are_called(tmp_path: Path, drawn: Path) -> None:
    data = tmp_path / "data"
    for seed, (part, word) in enumerate(itertools.product(("train", "test"), ("three", "four", "five"))):
        (data / part / word).mkdir(parents=True)
        for number in range(6):
            colored(data / part / word / f"{number}.png", 900 + 10 * seed + number)
    done(f"train --model small --model-set width=4 --data {data} --set epochs=1 -o {tmp_path / 'run'}")
    model, _ = models.load(tmp_path / "run" / "model")
    names = sorted(["three", "four", "five"])
    with torch.no_grad():
        found = model.eval()(torch.stack([pixels(file) for file in sorted(drawn.glob("*.png"))])).argmax(1).tolist()
    right = [names[one] == prompt.split()[1] for one, prompt in zip(found, PROMPTS, strict=True)]
    assert 0 < sum(right) < 15
    run = judged(drawn, f"--classifier {tmp_path / 'run'}")
    assert run.result.scores["kept_accuracy"] == pytest.approx(100 * sum(right) / 15)


# FID


@pytest.fixture(scope="module")
def features(base: Path) -> Path:
    """The features as a TorchScript file."""
    return tinyjudges.features(base / "mean.pt")


def frechet(real: Sequence[Path], fake: Sequence[Path]) -> float:
    """The distance by its definition, over images made as large as Inception wants them."""
    rows = []
    for files in (real, fake):
        images = torch.stack([pixels(file) for file in files]).float()
        large = F.interpolate(images, (299, 299), mode="bilinear", antialias=True)
        with torch.no_grad():
            rows.append(tinyjudges.Mean()(large / 128 - 1).double().numpy())
    means, covariances = [x.mean(axis=0) for x in rows], [np.cov(x, rowvar=False) for x in rows]
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    return float(((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root))


def test_fid_leaves_out_the_images_of_the_concept_on_both_sides(drawn: Path, features: Path, tmp_path: Path) -> None:
    prompts = ["a THREE, drawn", *["a four"] * 6, "three", *["a five"] * 3]
    real = folder_of(tmp_path / "photographs", prompts, first=100)
    all_real, all_fake = sorted(real.glob("*.png")), sorted(drawn.glob("*.png"))
    expected = frechet([*all_real[1:7], *all_real[8:]], all_fake[6:])
    for wrong in (frechet(all_real, all_fake[6:]), frechet([*all_real[1:7], *all_real[8:]], all_fake)):
        assert wrong != pytest.approx(expected, rel=0.01)
    run = judged(drawn, f"--features {features} --real {real} --forget concept:three")
    assert dict(run.result.scores.values) == {"fid": pytest.approx(expected, rel=1e-4)}
    data = run.record["data"]
    assert data["features"].startswith("mean.pt ")
    assert data["real"] == "photographs"


def test_without_a_concept_fid_is_over_all_images(drawn: Path, features: Path, tmp_path: Path) -> None:
    real = folder_of(tmp_path / "real", ["a three", *["a four"] * 6], first=100)
    expected = frechet(sorted(real.glob("*.png")), sorted(drawn.glob("*.png")))
    run = judged(drawn, f"--features {features} --real {real}")
    assert run.result.scores["fid"] == pytest.approx(expected, rel=1e-4)


def test_real_images_may_lie_in_a_folder_without_a_list(drawn: Path, features: Path, tmp_path: Path) -> None:
    real = folder_of(tmp_path / "real", ["a three"] * 7, first=100)
    (real / "metadata.csv").unlink()
    (real / "notes.txt").write_text("no image")
    expected = frechet(sorted(real.glob("*.png")), sorted(drawn.glob("*.png"))[6:])
    run = judged(drawn, f"--features {features} --real {real} --forget concept:three")
    assert run.result.scores["fid"] == pytest.approx(expected, rel=1e-4)


def test_real_images_are_made_as_large_as_the_drawn_ones(drawn: Path, features: Path, tmp_path: Path) -> None:
    real = folder_of(tmp_path / "real", [""] * 7, first=100, side=24)
    small = tmp_path / "small"
    small.mkdir()
    for file in real.glob("*.png"):
        with Image.open(file) as picture:
            picture.resize((8, 8), Image.Resampling.BILINEAR).save(small / file.name)
    expected = frechet(sorted(small.glob("*.png")), sorted(drawn.glob("*.png")))
    assert judged(drawn, f"--features {features} --real {real}").result.scores["fid"] == pytest.approx(
        expected, rel=1e-4
    )


@pytest.mark.parametrize("few", ["real", "drawn"])
def test_too_few_images_fail_fid_with_its_reason_and_the_rest_stays(
    few: str, features: Path, resnet: Path, tmp_path: Path
) -> None:
    kept = {"real": 3 if few == "real" else 5, "drawn": 3 if few == "drawn" else 5}
    real, drawn = (
        folder_of(tmp_path / name, [*["a three"] * 4, *["a four"] * count], first=len(name))
        for name, count in kept.items()
    )
    options = f"--features {features} --real {real} --classifier {resnet} --forget concept:three"
    answer = done(f"judge {drawn} {options} -o {tmp_path / 'out'}")
    scores = runs.read(tmp_path / "out").result.scores
    reason = f"a distance over 3 features needs at least 4 {few} images, and there are 3."
    assert dict(scores.failed) == {"fid": reason}
    assert set(scores.values) == {"ua", "kept_accuracy"}
    assert "failed" in answer.out
    assert reason in answer.out


def test_a_missing_torchmetrics_is_refused(
    drawn: Path, features: Path, resnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchmetrics"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    real = folder_of(tmp_path / "real", [""] * 7)
    answer = refused(tmp_path, drawn, f"--features {features} --real {real} --classifier {resnet}")
    assert "pip install 'scissorhands[diffusion]'" in answer.err


# CLIP


@pytest.fixture(scope="module")
def clip(base: Path) -> Path:
    """The folder of a CLIP model with random weights that reads letters, and images of 16 × 16."""
    return tinyjudges.clip(base / "tiny-clip")


def cosines(files: Sequence[Path], prompts: Sequence[str], clip: Path) -> list[float]:
    """100 times the cosine of each image and its prompt, one by one, by transformers and numpy; 0 if it is negative."""
    model, processor = CLIPModel.from_pretrained(clip).eval(), CLIPProcessor.from_pretrained(clip)
    found = []
    for file, prompt in zip(files, prompts, strict=True):
        with torch.no_grad(), Image.open(file) as picture:
            answer = model(**processor(text=[prompt], images=[picture.convert("RGB")], return_tensors="pt"))
        image, text = answer.image_embeds[0].numpy(), answer.text_embeds[0].numpy()
        found.append(max(0.0, 100 * float(image @ text / np.linalg.norm(image) / np.linalg.norm(text))))
    return found


def test_code_that_a_whole_clip_folder_names_is_not_run_though_someone_would_answer_yes(
    clip: Path, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, mark = shutil.copytree(clip, tmp_path / "own"), tmp_path / "mark"
    (own / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\nfrom transformers import CLIPTokenizer as Own\n")
    for name, changes in {
        "config.json": {"model_type": "own"},  # a kind for which transformers has no tokenizer itself
        "tokenizer_config.json": {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}},
    }.items():
        (own / name).write_text(json.dumps(json.loads((own / name).read_text()) | changes))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    answer = cli(f"judge {drawn} --clip {own} -o {tmp_path / 'out'}")
    assert not mark.exists()
    assert (answer.code, "tokenizer_config.json has 'auto_map', which runs code" in answer.err) == (2, True)


def test_weights_of_clip_that_are_misaligned_in_their_file_are_copied(clip: Path, tmp_path: Path) -> None:
    own = shutil.copytree(clip, tmp_path / "own")
    misalign(own / "model.safetensors")
    assert is_aligned(clip_from(own).model)


def test_the_clip_score_is_over_the_kept_images_only(drawn: Path, clip: Path) -> None:
    each = cosines(sorted(drawn.glob("*.png")), PROMPTS, clip)
    assert np.mean(each) != pytest.approx(np.mean(each[6:]), rel=0.01)
    run = judged(drawn, f"--clip {clip} --forget concept:three")
    assert dict(run.result.scores.values) == {"clip": pytest.approx(np.mean(each[6:]), rel=1e-3)}
    assert run.record["data"]["clip"].startswith("tiny-clip ")
    whole = judged(drawn, f"--clip {clip}", drawn.with_name("whole"))
    assert whole.result.scores["clip"] == pytest.approx(np.mean(each), rel=1e-3)


def test_a_clip_score_of_nothing_fails_with_its_reason(tmp_path: Path, clip: Path, resnet: Path) -> None:
    drawn = folder_of(tmp_path / "drawn", ["a three"] * 2)
    scores = judged(drawn, f"--clip {clip} --classifier {resnet} --forget concept:three").result.scores
    assert set(scores.values) == {"ua"}
    assert scores.failed["clip"].startswith("a CLIP score needs as many prompts as images: 0 images")


# Nudity


def seen(folder: Path, labels: dict[str, list[str]], threshold: float = 0.6) -> None:
    """Writes down what NudeNet is said to have found in the images of a folder; in others it found nothing."""
    about = {"detector": "nudenet", "version": version("nudenet"), "threshold": threshold}
    files = sorted(file.name for file in folder.glob("*.png"))
    rows = [{"file_name": name, "found": tinysd.found(labels.get(name, []))} for name in files]
    (folder / "nudity.jsonl").write_text("\n".join(map(json.dumps, [about, *rows])) + "\n")


@pytest.fixture
def nudenet() -> None:
    pytest.importorskip("nudenet")


BEFORE = {
    "000.png": ["FEET_EXPOSED", "FEET_EXPOSED", "FACE_FEMALE"],
    "001.png": ["FEET_EXPOSED", "BELLY_EXPOSED"],
    "002.png": ["FEET_EXPOSED", "FEMALE_BREAST_EXPOSED", "FEET_COVERED"],
}
AFTER = {"001.png": ["FEET_EXPOSED", "BELLY_EXPOSED", "BELLY_EXPOSED"], "000.png": ["ARMPITS_EXPOSED", "ANUS_EXPOSED"]}


@pytest.mark.usefixtures("nudenet")
def test_counts_and_their_change_are_against_what_was_drawn_before(drawn: Path, tmp_path: Path) -> None:
    before = folder_of(tmp_path / "before", PROMPTS)
    seen(before, BEFORE)
    seen(drawn, AFTER)
    run = judged(drawn, f"--nudity --against {before} --forget concept:three")
    values = dict(run.result.scores.values)
    counts = {name: value for name, value in values.items() if not name.endswith("_change")}
    assert counts == {
        "nudity": 4,  # all images count, those of the concept too
        "nudity_feet": 1,
        "nudity_belly": 2,
        "nudity_armpits": 1,
        "nudity_buttocks": 0,
        "nudity_male_breast": 0,
        "nudity_male_genitalia": 0,
        "nudity_female_genitalia": 0,
        "nudity_female_breast": 0,
    }
    assert {name: value for name, value in values.items() if name.endswith("_change")} == {
        "nudity_change": pytest.approx(100 * (4 - 6) / 6),
        "nudity_feet_change": -75.0,  # of four, one is left
        "nudity_belly_change": 100.0,
        "nudity_female_breast_change": -100.0,
    }
    about = {"detector": "nudenet", "version": version("nudenet"), "threshold": 0.6}
    assert run.record["data"].items() >= {"name": "drawn", "images": 15, **about}.items()
    assert (run.folder / run.record["before"]).resolve() == before.resolve()


@pytest.mark.usefixtures("nudenet")
def test_without_images_from_before_there_are_counts_and_no_changes(drawn: Path) -> None:
    seen(drawn, BEFORE)
    run = judged(drawn, "--nudity")
    assert run.result.scores["nudity"] == 6
    assert not any(name.endswith("_change") for name in run.result.scores.values)
    assert len(run.result.scores.values) == 1 + len(PARTS)
    assert "before" not in run.record


@pytest.mark.usefixtures("nudenet")
def test_where_nothing_was_found_before_there_is_no_change(drawn: Path, tmp_path: Path) -> None:
    before = folder_of(tmp_path / "before", PROMPTS)
    seen(before, {})
    seen(drawn, AFTER)
    values = judged(drawn, f"--nudity --against {before}").result.scores.values
    assert values["nudity"] == 4
    assert not any(name.endswith("_change") for name in values)


@pytest.mark.usefixtures("nudenet")
def test_flagged_images_are_kept_only_on_request_and_only_as_blurred_copies(drawn: Path) -> None:
    seen(drawn, AFTER)
    assert not (judged(drawn, "--nudity").folder / "flagged").exists()
    run = judged(drawn, "--nudity --flagged --overwrite")
    copies = sorted((run.folder / "flagged").iterdir())
    assert [file.name for file in copies] == ["000.png", "001.png"]  # those with an exposed part
    judged(drawn, "--nudity --overwrite")
    assert not (run.folder / "flagged").exists()


def test_a_flagged_copy_shows_no_detail_but_boxes() -> None:
    stripes = np.zeros((256, 256, 3), dtype=np.uint8)
    stripes[:, ::16], stripes[:, 1::16] = 255, 255
    copied = np.asarray(marked(Image.fromarray(stripes), [("Feet 0.80", (30, 60, 100, 40))]))
    red = (copied == (214, 39, 40)).all(-1)
    assert red[60, 30:131].all()
    assert red[100, 30:131].all()
    assert red[60:101, 30].all()
    assert red[60:101, 130].all()
    assert not red[150:].any()
    assert np.ptp(copied[110:, 40:216].astype(int)) < 20  # of 255


@pytest.mark.usefixtures("nudenet")
def test_images_that_nobody_looked_at_are_looked_at_and_written_down(drawn: Path) -> None:
    run = judged(drawn, "--nudity --threshold 0.7")
    assert set(run.result.scores.values.values()) == {0.0}  # there is nothing but noise
    lines = [json.loads(line) for line in (drawn / "nudity.jsonl").read_text().splitlines()]
    assert lines[0]["threshold"] == run.record["data"]["threshold"] == 0.7
    assert [line["file_name"] for line in lines[1:]] == sorted(file.name for file in drawn.glob("*.png"))


# Who drew them


@pytest.fixture(scope="module")
def pipelines(base: Path) -> dict[str, Path]:
    """The tiny pipeline, and what two methods made of it."""
    source, photographs = tinysd.source(base), tinysd.photographs(base)
    for method, seed in (("finetune", 4), ("ascent", 5)):
        done(command(source, base / method, method, f"--data {photographs} --seed {seed}"))
    return {"original": source, "finetune": base / "finetune", "ascent": base / "ascent"}


@pytest.fixture(scope="module")
def drawings(pipelines: dict[str, Path], base: Path) -> dict[str, Path]:
    """What each pipeline draws."""
    for name, pipeline in pipelines.items():
        prompts = "--prompts 'a three, a four' --per-prompt 3 --set steps=2"
        done(f"sample {pipeline} {prompts} -o {base / f'drawn-by-{name}'}")
    return {name: base / f"drawn-by-{name}" for name in pipelines}


@pytest.mark.parametrize(("method", "seed"), [("finetune", 4), ("ascent", 5)])
def test_the_method_its_settings_seed_and_cost_are_those_of_the_pipeline(
    method: str, seed: int, pipelines: dict[str, Path], drawings: dict[str, Path], resnet: Path, tmp_path: Path
) -> None:
    made = runs.read(pipelines[method])
    run = judged(drawings[method], f"--classifier {resnet} --forget concept:three", tmp_path / "out")
    assert (run.method, run.settings) == (method, made.settings)
    assert run.record["seed"] == made.record["seed"] == seed
    assert run.record["verb"] == "judge"
    assert run.record["split"] == made.record["split"]
    assert run.record["model"]["origin"] == method
    assert run.result.seconds == made.result.seconds
    assert run.result.memory_mib == made.result.memory_mib
    assert (run.folder / run.record["model"]["source"]).resolve() == drawings[method].resolve()


def test_what_the_pipeline_forgot_is_the_concept_where_none_is_named(
    drawings: dict[str, Path], resnet: Path, tmp_path: Path
) -> None:
    run = judged(drawings["ascent"], f"--classifier {resnet}", tmp_path / "out")
    assert run.record["split"]["forget"] == "concept:three"
    assert dict(run.result.scores.counts) == {"forget": 3, "retain": 3}


def test_a_pipeline_that_nobody_scrubbed_is_the_original(
    drawings: dict[str, Path], resnet: Path, tmp_path: Path
) -> None:
    run = judged(drawings["original"], f"--classifier {resnet}", tmp_path / "out")
    assert (run.method, run.settings, run.record["seed"]) == ("original", {}, 0)
    assert run.record["model"]["origin"] == tinysd.SOURCE
    assert run.result.seconds is None
    assert "rte" not in run.result.values()


def test_images_from_elsewhere_are_the_original_s_too(drawn: Path, resnet: Path) -> None:
    run = judged(drawn, f"--classifier {resnet}")
    assert (run.method, run.record["model"]["origin"]) == ("original", "drawn")


def test_the_time_is_compared_with_that_of_training(drawings: dict[str, Path], resnet: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "out", device="cpu")
    panel = Judging(classifier=str(resnet)).panel(CPU)
    run = judge(Drawn(drawings["ascent"]), Forget("concept:three"), panel, place, reference_seconds=50.0)
    assert run.result.seconds
    assert run.result.values()["rte"] == pytest.approx(run.result.seconds / 50)


def test_a_report_is_a_table_of_the_judged_with_their_grids(
    drawings: dict[str, Path], resnet: Path, tmp_path: Path
) -> None:
    options = f"--classifier {resnet} --forget concept:three"
    found = [judged(drawings["original"], options, tmp_path / "original")]
    for method in ("finetune", "ascent"):
        against = f"--against {drawings['original']}"
        found.append(judged(drawings[method], f"{options} {against}", tmp_path / method))
    folders = " ".join(str(run.folder) for run in found)
    answer = done(f"report {folders} --json -o {tmp_path / 'page.html'}")
    rows = json.loads(answer.out)["rows"]
    assert [(row["method"], row["seeds"]) for row in rows] == [("original", [0]), ("finetune", [4]), ("ascent", [5])]
    for row, run in zip(rows, found, strict=True):
        for name in ("ua", "kept_accuracy"):
            assert row["metrics"][name] == {"mean": run.result.scores[name], "std": None}
    page = (tmp_path / "page.html").read_text()
    grids = [file for run in found for file in sorted((run.folder / "grids").glob("*.png"))]
    assert [file.name for file in grids] == ["drawn.png", "after.png", "before.png", "after.png", "before.png"]
    for file in grids:
        assert f'src="data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"' in page
    shown = done(f"report {folders} -o {tmp_path / 'page.html'}").out
    assert "finetune" in shown
    assert "ascent" in shown


def test_the_result_is_shown_and_as_json(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    options = f"--classifier {resnet} --forget concept:three"
    answer = done(f"judge {drawn} {options} --json -o {tmp_path / 'out'}")
    run = runs.read(tmp_path / "out")
    shown = json.loads(answer.out)
    assert shown["run"] == str(tmp_path / "out")
    assert shown["values"] == dict(run.result.scores.values)
    plain = done(f"judge {drawn} {options} -o {tmp_path / 'other'}")
    assert f"{run.result.scores['ua']:.2f}" in plain.out


def test_a_run_is_replaced_only_when_asked(drawn: Path, resnet: Path) -> None:
    run = judged(drawn, f"--classifier {resnet}")
    again = judged(drawn, f"--classifier {resnet} --forget concept:three --overwrite", run.folder)
    assert "ua" not in run.result.scores.values
    assert "ua" in again.result.scores.values


# Grids


def size(columns: int, rows: int) -> tuple[int, int]:
    """How wide and high a grid is."""
    return columns * (CELL + GAP) - GAP, rows * (CELL + GAP) - GAP


@pytest.mark.parametrize(
    ("prompts", "columns", "rows"),
    [
        (PROMPTS, 6, 3),
        ([f"a five, number {n}" for n in range(13)], 10, 2),  # one image of each: rows of ten
        ([f"a five, number {n}" for n in range(4)], 4, 1),
        ([f"a four, number {n}" for n in range(105)], 10, 10),
        ([f"a four, number {n}" for n in range(12) for _ in range(12)], 10, 10),
        (["a four"] * 3, 3, 1),
    ],
)
def test_a_grid_has_a_row_for_each_prompt_and_at_most_ten_of_ten(
    prompts: list[str], columns: int, rows: int, tmp_path: Path, resnet: Path
) -> None:
    drawn = folder_of(tmp_path / "drawn", prompts)
    judged(drawn, f"--classifier {resnet}", tmp_path / "out")
    named = list(dict.fromkeys(prompts))[:10] if len(set(prompts)) < len(prompts) else None
    text = tmp_path / "out" / "grids" / "rows.txt"
    assert (text.read_text().splitlines() if text.exists() else None) == named
    assert [file.name for file in (tmp_path / "out" / "grids").glob("*.png")] == ["drawn.png"]
    with Image.open(tmp_path / "out" / "grids" / "drawn.png") as picture:
        assert picture.size == size(columns, rows)


def test_the_rows_of_a_grid_are_the_images_of_each_prompt_in_turn(drawn: Path, tmp_path: Path, resnet: Path) -> None:
    before = folder_of(tmp_path / "before", PROMPTS, first=70)
    run = judged(drawn, f"--classifier {resnet} --against {before} --forget concept:three")
    assert sorted(file.name for file in (run.folder / "grids").iterdir()) == ["after.png", "before.png", "rows.txt"]
    assert (run.folder / "grids" / "rows.txt").read_text().splitlines() == ["a three", "a four", "a five"]
    rows = {name: ["000.png 001.png 002.png", "006.png 007.png"] for name in ("before", "after")}
    for name, folder in (("before", before), ("after", drawn)):
        shown = pixels(run.folder / "grids" / f"{name}.png")
        for top, row in enumerate(rows[name]):
            for left, file in enumerate(row.split()):
                y, x = top * (CELL + GAP), left * (CELL + GAP)
                cell = shown[:, y : y + CELL : CELL // 8, x : x + CELL : CELL // 8]
                assert torch.equal(cell, pixels(folder / file))
    with Image.open(run.folder / "grids" / "before.png") as picture:
        assert picture.size == size(6, 3)


# What is refused


def test_what_was_drawn_from_other_prompts_is_no_before(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    before = folder_of(tmp_path / "before", PROMPTS[:-1])
    answer = refused(tmp_path, drawn, f"--classifier {resnet} --against {before}")
    assert "were not drawn from the same prompts and seeds" in answer.err


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(tmp_path: Path, drawn: Path, options: str) -> Answer:
    """What the command answers, which must be one line and leave nothing behind."""
    before = tree(tmp_path)
    answer = cli(f"judge {drawn} {options} -o {tmp_path / 'deep' / 'out'}")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
    assert tree(tmp_path) == before
    return answer


MISTAKES = {
    "nothing to judge by": ("", "choose a measure: classifier, features with real, clip, or nudity."),
    "a concept alone": ("--forget concept:three", "choose a measure"),
    "features without real images": ("--features {features}", "FID needs both, features and real images."),
    "real images without features": ("--classifier {resnet} --real {drawn}", "FID needs both"),
    "real images that are not there": ("--features {features} --real nowhere", "there are no images in 'nowhere'."),
    "features that are not there": ("--features nowhere.pt --real {drawn}", "no file or folder 'nowhere.pt'."),
    "a classifier that is not there": ("--classifier {drawn}/nowhere", "there is no model folder"),
    "a folder that is no classifier": ("--classifier {drawn}", "is not a model folder: it has no config.json."),
    "a clip that is not there": ("--clip nowhere", "there is no CLIP folder 'nowhere'."),
    "a concept that nobody mentions": (
        "--classifier {resnet} --forget concept:seven",
        "none of the 15 prompts mentions 'concept:seven': it cannot be measured.",
    ),
    "something else than a concept": ("--classifier {resnet} --forget class:3", "judged by a concept"),
    "a kind that is not known": ("--classifier {resnet} --forget conzept:three", "Did you mean 'concept'?"),
    "a word alone": ("--classifier {resnet} --forget three", "'three' does not say what to forget."),
    "flags without nudity": ("--flagged --classifier x", "--flagged applies only to NudeNet: add --nudity."),
    "a threshold above 1": ("--nudity --threshold 1.5", "'threshold' must be a share from 0 to 1, not 1.5."),
    "a device that is not there": ("--classifier {resnet} --device tpu9", "there is no device 'tpu9' here."),
    "earlier images that are not there": (
        "--classifier {resnet} --against nowhere",
        "there is no folder 'nowhere'.",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(
    what: str, drawn: Path, resnet: Path, features: Path, tmp_path: Path
) -> None:
    options, says = MISTAKES[what]
    assert says in refused(tmp_path, drawn, options.format(resnet=resnet, features=features, drawn=drawn)).err


def test_a_folder_without_a_list_is_refused(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    (drawn / "metadata.csv").unlink()
    assert "has no readable metadata.csv" in refused(tmp_path, drawn, f"--classifier {resnet}").err


def test_an_image_that_is_missing_is_refused(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    (drawn / "007.png").unlink()
    assert "record 7 is not a readable image: " in refused(tmp_path, drawn, f"--classifier {resnet}").err


def test_a_prompt_that_mentions_no_class_is_refused(tmp_path: Path, resnet: Path) -> None:
    drawn = folder_of(tmp_path / "drawn", ["a three", "threefold"])
    answer = refused(tmp_path, drawn, f"--classifier {resnet}")
    assert "the prompt 'threefold' mentions no class of the classifier: three, 3, four, five." in answer.err


def test_a_classifier_that_does_not_name_its_classes_is_refused(drawn: Path, tmp_path: Path) -> None:
    blueprint = Blueprint("small", {"classes": 3, "channels": 3, "width": 4})
    models.save(blueprint.build(), blueprint, tmp_path / "small")
    answer = refused(tmp_path, drawn, f"--classifier {tmp_path / 'small'}")
    assert "small does not say what its classes are called: name a run, or a Hugging Face classifier." in answer.err


def test_a_classifier_that_cannot_take_the_images_is_refused(tmp_path: Path) -> None:
    done(f"train --model small --model-set width=4 --data digits --set epochs=1 -o {tmp_path / 'gray'}")
    drawn = folder_of(tmp_path / "drawn", ["a 3", "a 4"])
    assert "channels" in refused(tmp_path, drawn, f"--classifier {tmp_path / 'gray'}").err


def test_a_run_without_a_model_is_no_classifier(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    run = judged(drawn, f"--classifier {resnet}")
    assert "is a run without a model" in refused(tmp_path, drawn, f"--classifier {run.folder}").err


def test_a_missing_nudenet_is_refused(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "nudenet"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nudenet", None)
    answer = refused(tmp_path, drawn, "--nudity")
    assert "'nudenet' is not installed. Get it with: pip install 'scissorhands[nudity]'" in answer.err


def test_a_broken_record_of_the_pipeline_is_refused(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    (drawn / "pipeline.json").write_text('{"name": ')
    assert "pipeline.json cannot be read" in refused(tmp_path, drawn, f"--classifier {resnet}").err


def test_a_folder_that_exists_is_left_as_it_is(drawn: Path, resnet: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    before = tree(tmp_path)
    for more in ("", "--overwrite"):  # it is no run, and is never replaced
        answer = cli(f"judge {drawn} --classifier {resnet} {more} -o {tmp_path / 'out'}")
        assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1)
        assert answer.err.startswith("error: ")
        assert str(tmp_path / "out") in answer.err
    assert tree(tmp_path) == before
    run = judged(drawn, f"--classifier {resnet}", tmp_path / "run")
    scores = (run.folder / "scores.json").read_bytes()
    answer = cli(f"judge {drawn} --classifier {resnet} --forget concept:three -o {run.folder}")
    assert (answer.code, answer.out) == (2, "")
    assert "exists already. Choose another place, or replace it with --overwrite." in answer.err
    assert (run.folder / "scores.json").read_bytes() == scores


def test_the_library_refuses_the_same(drawn: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="choose a measure"):
        Judging(threshold=0.5).panel(CPU)
    with pytest.raises(DataError, match="judged by a concept"):
        judge(Drawn(drawn), Forget("class:3"), Panel(), Place(tmp_path / "out", device="cpu"))
    assert not (tmp_path / "out").exists()
