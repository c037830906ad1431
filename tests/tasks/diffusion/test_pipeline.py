"""Pipelines, CLIP models and pictures that a stranger may have sent: what they name is not run, read or written."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from helpers import tinysd
from helpers.commands import cli, done
from helpers.misaligned import is_aligned, misalign
from helpers.tinysd import command
from scissorhands.errors import DataError, ModelError, ReadError, WriteError
from scissorhands.runs.diffusion import judging
from scissorhands.runs.diffusion.drawn import MAKER, Drawn
from scissorhands.runs.diffusion.judging import Panel
from scissorhands.runs.place import Place
from scissorhands.tasks.diffusion import drawing, nudity, pictures
from scissorhands.tasks.diffusion import pipeline as pipelines
from scissorhands.tasks.diffusion.measures import clip_from
from scissorhands.tasks.diffusion.pictures import Pictures

CPU = torch.device("cpu")
INDEX = "model_index.json"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny pipeline and its images."""
    return tmp_path_factory.getbasetemp()


@pytest.fixture
def own(base: Path, tmp_path: Path) -> Path:
    """A copy of the tiny pipeline, to be spoilt."""
    return shutil.copytree(tinysd.source(base), tmp_path / "own")


def change(path: Path, **values: Any) -> None:
    """Writes other values into a file of JSON."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused(folder: Path, says: str) -> None:
    """Raises unless the pipeline is refused in one line, loaded or copied."""
    for work in (lambda: pipelines.load(folder, CPU), lambda: pipelines.require(folder)):
        with pytest.raises(ModelError, match=says) as raised:
            work()
        assert "\n" not in str(raised.value)


# Code


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"_class_name": ["own", "StableDiffusionPipeline"]}, "only a StableDiffusionPipeline can be scrubbed"),
        ({"custom_pipeline": "own"}, "has 'custom_pipeline', which runs code"),
        ({"scheduler": ["own", "Scheduler"]}, "names code of its own for 'scheduler', 'own'"),
        ({"unet": ["os", "system"]}, "names code of its own for 'unet', 'os'"),
        ({"unet": "UNet2DConditionModel"}, "does not name the class of 'unet'"),
        ({"unet": [["a"], "b"]}, "does not name the class of 'unet'"),
        ({"payload": ["diffusers", "UNet2DModel"]}, "'payload', which is not part of a StableDiffusionPipeline"),
        ({"../payload": ["diffusers", "UNet2DModel"]}, "'../payload', which is not part of a StableDiffusionPipeline"),
        ({"/etc": ["diffusers", "UNet2DModel"]}, "'/etc', which is not part of a StableDiffusionPipeline"),
    ],
)
def test_an_index_that_names_code_or_parts_of_no_pipeline_is_refused(
    values: dict[str, Any], says: str, own: Path
) -> None:
    change(own / INDEX, **values)
    refused(own, says)


def test_a_scheduler_that_diffusers_does_not_have_is_refused(own: Path) -> None:
    change(own / INDEX, scheduler=["diffusers", "DiffusionPipeline"])
    with pytest.raises(ModelError, match="scheduler is a DiffusionPipeline, which diffusers does not have"):
        pipelines.load(own, CPU)


def test_code_in_a_part_is_refused_and_not_run(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    (own / "scheduler" / "diffusers.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\n")
    refused(own, "scheduler holds code, which is not run")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("file", ["text_encoder/config.json", "tokenizer/tokenizer_config.json"])
def test_the_configuration_of_a_part_that_names_code_is_refused(file: str, own: Path) -> None:
    change(own / file, auto_map={"AutoTokenizer": ["own.Tokenizer", None]})
    refused(own, f"{file} has 'auto_map'")


@pytest.mark.parametrize("part", ["unet", "vae"])
def test_an_index_of_weights_that_lists_a_pickle_is_refused(part: str, own: Path) -> None:
    (own / part / "evil.bin").write_bytes(b"")
    about = {"metadata": {}, "weight_map": {"conv_in.weight": "evil.bin"}}
    (own / part / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(about))
    refused(own, "lists 'evil.bin', which is not a safetensors file in that folder")


def test_a_part_that_is_not_used_is_not_loaded(own: Path) -> None:
    change(own / INDEX, image_encoder=["transformers", "CLIPVisionModelWithProjection"])
    (own / "image_encoder").mkdir()
    (own / "image_encoder" / "pytorch_model.bin").write_bytes(b"a pickle")
    assert pipelines.load(own, CPU).image_encoder is None


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A folder that says to be a CLIP model."""
    (tmp_path / "clip").mkdir()
    (tmp_path / "clip" / "config.json").write_text('{"model_type": "clip"}')
    return tmp_path / "clip"


@pytest.mark.parametrize("name", ["config.json", "processor_config.json", "tokenizer_config.json"])
def test_code_that_a_clip_folder_names_is_not_run_though_someone_would_answer_yes(
    name: str, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    (clip / "own.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\n")
    (clip / name).write_text('{"model_type": "clip", "auto_map": {"AutoTokenizer": ["own.Tokenizer", null]}}')
    with pytest.raises(ModelError, match=f"{name} has 'auto_map', which runs code"):
        clip_from(clip)
    assert not (tmp_path / "mark").exists()


def test_an_index_of_a_clip_folder_that_lists_a_pickle_is_refused(clip: Path) -> None:
    (clip / "model.safetensors.index.json").write_text('{"weight_map": {"a": "evil.bin"}}')
    with pytest.raises(ModelError, match=r"lists 'evil\.bin'"):
        clip_from(clip)


# Files that are not the pipeline's own


def saved(source: Path, folder: Path) -> list[str]:
    """The files of a pipeline that was written again."""
    folder.mkdir()
    pipelines.save(pipelines.load(source, CPU).unet, source, folder)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_nothing_is_written_outside_the_output(own: Path, tmp_path: Path) -> None:
    (tmp_path / "payload").mkdir()
    (tmp_path / "payload" / "secret").touch()
    change(own / INDEX, **{"../payload": ["diffusers", "UNet2DModel"]})
    with pytest.raises(ModelError, match="is not part of a StableDiffusionPipeline"):
        pipelines.save(nn.Linear(1, 1), own, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize("file", [INDEX, "vae/config.json", "tokenizer/vocab.json", "tokenizer/extra.txt", "scheduler"])
def test_a_link_that_leads_out_of_the_pipeline_is_refused(file: str, own: Path, tmp_path: Path) -> None:
    (own / "tokenizer" / "extra.txt").write_text("extra")
    (own / "tokenizer" / "vocab.json").write_text("{}")
    (own / file).rename(tmp_path / "elsewhere")
    (own / file).symlink_to(tmp_path / "elsewhere")
    refused(own, f"{file} leads out of {own}")


@pytest.mark.parametrize("file", ["vae/config.json", "unet/diffusion_pytorch_model.safetensors", "tokenizer/extra.txt"])
def test_a_fifo_in_a_pipeline_is_refused_without_waiting_for_it(file: str, own: Path) -> None:
    (own / file).unlink(missing_ok=True)
    os.mkfifo(own / file)
    refused(own, f"{file} cannot be read: it is not a regular file")


def test_a_snapshot_in_the_cache_of_the_hub_is_loaded_and_written_as_files(base: Path, tmp_path: Path) -> None:
    source = tinysd.source(base)
    repository = tmp_path / "models--owner--name"
    snapshot = repository / "snapshots" / ("1" * 40)
    (repository / "blobs").mkdir(parents=True)
    for number, path in enumerate(path for path in sorted(source.rglob("*")) if path.is_file()):
        link = snapshot / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, repository / "blobs" / str(number))
        link.symlink_to(os.path.relpath(repository / "blobs" / str(number), link.parent))
    assert saved(snapshot, tmp_path / "out") == saved(source, tmp_path / "again")
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))


def test_a_link_inside_the_pipeline_is_followed(own: Path, tmp_path: Path) -> None:
    (own / "vae" / "config.json").rename(own / "unet" / "vae.json")
    (own / "vae" / "config.json").symlink_to("../unet/vae.json")
    assert "vae/config.json" in saved(own, tmp_path / "out")


# Weights and settings that make no sense


@pytest.mark.parametrize(
    "file", [str(pipelines.WEIGHTS), "vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"]
)
def test_a_pipeline_with_a_weight_that_is_not_finite_is_refused(file: str, own: Path) -> None:
    weights = load_file(own / file)
    next(iter(weights.values())).view(-1)[0] = math.nan
    save_file(weights, own / file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"the weights of {(own / file).parent} are damaged"):
        pipelines.load(own, CPU)


def test_weights_that_are_misaligned_in_their_file_are_copied(own: Path) -> None:
    for path in own.glob("*/*.safetensors"):
        misalign(path)
    pipeline = pipelines.load(own, CPU)
    assert all(map(is_aligned, (pipeline.unet, pipeline.vae, pipeline.text_encoder)))


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("scheduler/scheduler_config.json", {"prediction_type": "x"}),
        ("scheduler/scheduler_config.json", {"beta_start": math.nan}),
        ("tokenizer/tokenizer_config.json", {"model_max_length": "x"}),
        ("tokenizer/tokenizer_config.json", {"model_max_length": True}),
        ("text_encoder/config.json", {"num_attention_heads": -1}),
        ("unet/config.json", {"sample_size": -1}),
        ("unet/config.json", {"sample_size": [4, 4]}),
        ("unet/config.json", {"norm_eps": "x"}),
        ("vae/config.json", {"scaling_factor": None}),
    ],
)
def test_a_pipeline_whose_settings_make_no_sense_is_refused(file: str, values: dict[str, Any], own: Path) -> None:
    change(own / file, **values)
    with pytest.raises(ModelError, match=f"{own} cannot draw: "):
        pipelines.load(own, CPU)


def test_trying_a_pipeline_leaves_no_trace(own: Path) -> None:
    torch.manual_seed(0)
    found = pipelines.load(own, CPU)
    assert found.scheduler.num_inference_steps is None
    assert torch.initial_seed() == 0
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(0))


# Pictures


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """A folder of two pictures, beside one that is somebody else's."""
    for name in ("shown/a.png", "shown/b.png", "secret.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    tinysd.listing(tmp_path / "shown", [("a.png", "a three"), ("b.png", "a four")])
    return tmp_path / "shown"


@pytest.mark.parametrize("name", ["../secret.png", "{parent}/secret.png", "link.png", "below/../../secret.png", "loop"])
def test_a_picture_that_leads_out_of_the_folder_is_refused(name: str, shown: Path) -> None:
    (shown / "below").mkdir()
    (shown / "link.png").symlink_to(shown.parent / "secret.png")
    (shown / "loop").symlink_to("loop")
    tinysd.listing(shown, [("a.png", "a three"), (name.format(parent=shown.parent), "a four")])
    with pytest.raises(DataError, match="leads out of"):
        Pictures.of(shown)


def test_a_picture_in_a_folder_without_a_list_may_not_lead_out_of_it(shown: Path) -> None:
    (shown / pictures.METADATA).unlink()
    assert len(Pictures.in_folder(shown, 8)) == 2
    (shown / "link.png").symlink_to(shown.parent / "secret.png")
    with pytest.raises(DataError, match=r"the image 'link\.png' leads out of"):
        Pictures.in_folder(shown, 8)


def test_a_picture_below_the_folder_or_linked_within_it_is_read(shown: Path) -> None:
    (shown / "below").mkdir()
    (shown / "a.png").rename(shown / "below" / "a.png")
    (shown / "a.png").symlink_to("below/a.png")
    tinysd.listing(shown, [("below/a.png", "a three"), ("a.png", "a four")])
    assert Pictures.of(shown)[:].shape == (2, 3, 8, 8)


@pytest.mark.parametrize("name", ["a.png", pictures.METADATA])
def test_a_fifo_among_the_pictures_is_refused_without_waiting_for_it(name: str, shown: Path) -> None:
    (shown / name).unlink()
    os.mkfifo(shown / name)
    with pytest.raises(DataError, match="is not a regular file"):
        Pictures.of(shown)


# Our own files, spoilt


@pytest.fixture
def drawn(base: Path, tmp_path: Path) -> Path:
    """What a scrubbed pipeline drew."""
    source, there = tinysd.source(base), tmp_path / "drawn"
    done(command(source, tmp_path / "erased", "finetune", f"--data {tinysd.photographs(base)}"))
    done(f"sample {tmp_path / 'erased'} --prompts 'a three' --per-prompt 1 --set steps=2 -o {there}")
    return there


def nested(path: Path) -> None:
    path.write_text('{"a":' * 100_000)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


SPOILT: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "empty": lambda path: path.write_bytes(b""),
    "a list": lambda path: path.write_text("[]"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
    "nested": nested,
    "a fifo": fifo,
    "a link": link,
}


def answered(text: str, says: str) -> None:
    """Raises unless the command fails with code 2 and one line that says this."""
    answer = cli(text)
    assert answer.code == 2, answer
    assert len(answer.err.strip().splitlines()) == 1, answer.err
    assert says in answer.err


def test_what_was_drawn_and_spoilt_is_told_in_one_line(drawn: Path, tmp_path: Path) -> None:
    classifier = tmp_path / "classifier"
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    named = {"id2label": {0: "three", 1: "four"}, "label2id": {"three": 0, "four": 1}}
    ViTForImageClassification(ViTConfig(**sizes, **named, image_size=8, patch_size=4)).save_pretrained(classifier)
    again = f"sample {tmp_path / 'erased'} --prompts 'a three' --per-prompt 1 --set steps=2 -o {drawn}"
    judge = f"judge {drawn} --classifier {classifier} -o {tmp_path / 'judged'}"
    for name, text in ((MAKER, judge), (drawing.DRAWN, again)):
        content = (drawn / name).read_bytes()
        for spoil in SPOILT.values():
            spoil(drawn / name)
            answered(text, f"{name} cannot be read")
            (drawn / name).unlink()
            (drawn / name).write_bytes(content)
    done(judge)
    done(again)


RECORD = {
    "seed": 0,
    "data": {},
    "method": {"name": "finetune"},
    "split": {"forget": "concept:three", "manifest": "", "fingerprint": "", "holdout": 0.0},
}


@pytest.mark.parametrize(
    "values",
    [
        {"record": 3},
        {"record": {"seed": 0}},
        {"record": {**RECORD, "seed": "x"}},
        {"record": {**RECORD, "data": []}},
        {"record": {**RECORD, "method": {"name": 3}}},
        {"record": {**RECORD, "split": {"forget": 3}}},
        {"record": RECORD, "seconds": "x"},
        {"record": RECORD, "memory_mib": True},
        {"name": []},
    ],
)
def test_a_maker_of_the_wrong_kind_is_refused(values: dict[str, Any], shown: Path, tmp_path: Path) -> None:
    (shown / MAKER).write_text(json.dumps(values))
    with pytest.raises(ReadError, match=r"pipeline\.json cannot be read: (it has no )?'"):
        judging.judge(Drawn(shown), None, Panel(), Place(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("images", [[], 3, None])
def test_a_list_of_drawn_images_of_the_wrong_kind_is_refused(images: Any, own: Path, tmp_path: Path) -> None:
    (tmp_path / drawing.DRAWN).write_text(json.dumps({"images": images}))
    with pytest.raises(ReadError, match="cannot be read: 'images' is "):
        drawing.sample(pipelines.load(own, CPU), {}, drawing.Drawing(), tmp_path)


def test_a_list_of_drawn_images_does_not_replace_what_a_link_leads_to(own: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    wanted, how = drawing.several(["a three"], 1, 0), drawing.Drawing(steps=2)
    drawing.sample(pipelines.load(own, CPU), wanted, how, tmp_path / "drawn")
    (tmp_path / "drawn" / pictures.METADATA).unlink()
    (tmp_path / "drawn" / pictures.METADATA).symlink_to(tmp_path / "letter")
    answer = cli(f"sample {own} --prompts 'a three' --per-prompt 1 --set steps=2 -o {tmp_path / 'drawn'}")
    assert answer.code == 2
    assert (tmp_path / "letter").read_text() == "dear"


class Eye:
    """A detector that finds nothing."""

    about: ClassVar[dict[str, Any]] = {"detector": "eye"}

    def findings(self, images: Any) -> list[list[nudity.Finding]]:
        return [[] for _ in images]


@pytest.mark.parametrize(
    "line",
    [
        '{"file_name": [], "found": []}',
        '{"file_name": "a.png", "found": 3}',
        '{"file_name": "a.png", "found": [3]}',
        '{"file_name": "a.png", "found": [{"class": "FEET_EXPOSED", "score": 1, "box": [1, 2]}]}',
        '{"file_name": "a.png", "found": [{"class": "FEET_EXPOSED", "score": 1, "box": [Infinity, 0, 1, 2]}]}',
        '{"file_name": "a.png", "found": [{"class": 3, "score": 1, "box": [0, 0, 1, 2]}]}',
        '{"file_name": "a.png", "labels": ["FEET_EXPOSED"]}',
        "[" * 100_000,
        "3",
        '{"a": 1}',
    ],
)
def test_a_line_of_what_was_seen_that_makes_no_sense_is_looked_at_again(line: str, shown: Path) -> None:
    eye: Any = Eye()
    (shown / nudity.SEEN).write_text(json.dumps(eye.about) + f"\n{line}\n")
    assert sum(nudity.found(shown, Pictures.of(shown), eye).values()) == 0
    assert len((shown / nudity.SEEN).read_text().splitlines()) == 3


def test_what_was_seen_does_not_replace_what_a_link_leads_to(shown: Path) -> None:
    eye: Any = Eye()
    (shown.parent / "letter").write_text("dear")
    (shown / nudity.SEEN).symlink_to(shown.parent / "letter")
    with pytest.raises(WriteError, match="cannot write"):
        nudity.found(shown, Pictures.of(shown), eye)
    assert (shown.parent / "letter").read_text() == "dear"
