"""Images that a pipeline draws, folders of images with prompts, and the command that fills one."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

from helpers import tinysd
from helpers.commands import cli, done
from helpers.tinysd import BROKEN
from scissorhands.data.problem import Log, ignore
from scissorhands.errors import DataError, ReadError
from scissorhands.tasks.diffusion import drawing
from scissorhands.tasks.diffusion import pipeline as pipelines
from scissorhands.tasks.diffusion.drawing import Drawing, drawn, each, several
from scissorhands.tasks.diffusion.pictures import Pictures, read
from scissorhands.tasks.diffusion.prompts import Prompt

pytestmark = pytest.mark.usefixtures("pipelines_loaded_once")
CPU = torch.device("cpu")
HOW = Drawing(steps=2, guidance=3.0, batch_size=2)
PROMPTS = ["a three", "a four"]


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny pipeline."""
    return tinysd.source(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def pipeline(source: Path) -> Any:
    """The tiny pipeline, as it is loaded."""
    return pipelines.load(source, CPU)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def all_drawn(pipeline: Any, prompts: list[str], seeds: list[int], how: Drawing = HOW) -> Tensor:
    return torch.cat(list(drawn(pipeline, asked(prompts, seeds), how)))


def asked(prompts: list[str], seeds: list[int]) -> list[Prompt]:
    return [Prompt(prompt, 0, seed) for prompt, seed in zip(prompts, seeds, strict=True)]


def sample(
    pipeline: Any, prompts: list[str], per_prompt: int, seed: int, how: Drawing, folder: Path, log: Log = ignore
) -> None:
    drawing.sample(pipeline, several(prompts, per_prompt, seed), how, folder, log)


def close(one: Tensor, other: Tensor) -> bool:
    """Whether images are the same but for rounding."""
    return bool(((one.int() - other.int()).abs() <= 1).all())


# Drawing


def test_images_are_bytes_in_color_of_the_size_of_the_pipeline(pipeline: Any) -> None:
    found = list(drawn(pipeline, asked(["a three"] * 5, [0, 1, 2, 3, 4]), HOW))
    assert [batch.shape for batch in found] == [(2, 3, 8, 8), (2, 3, 8, 8), (1, 3, 8, 8)]
    assert {batch.dtype for batch in found} == {torch.uint8}
    assert pipelines.size(pipeline) == 8
    assert torch.cat(found).float().std() > 5, "they are not all of one color"


def test_an_image_depends_on_its_prompt_and_seed_alone(pipeline: Any) -> None:
    prompts, seeds = ["a three", "a four", "a three", "a five", "a four"], [3, 3, 4, 0, 7]
    alone = torch.cat([all_drawn(pipeline, [p], [s]) for p, s in zip(prompts, seeds, strict=True)])
    for size in (1, 2, 3, 5):
        together = all_drawn(pipeline, prompts, seeds, Drawing(steps=2, guidance=3.0, batch_size=size))
        assert close(together, alone)
    backwards = all_drawn(pipeline, prompts[::-1], seeds[::-1])
    assert close(backwards.flip(0), alone)
    assert not close(alone[0], alone[2]), "another seed, another image"


def test_the_prompt_the_guidance_and_the_steps_make_a_difference(pipeline: Any) -> None:
    plain = all_drawn(pipeline, ["a three"], [0], Drawing(steps=4, guidance=30.0))
    assert not torch.equal(plain, all_drawn(pipeline, ["a four"], [0], Drawing(steps=4, guidance=30.0)))
    assert not torch.equal(plain, all_drawn(pipeline, ["a three"], [0], Drawing(steps=4, guidance=0.0)))
    assert not torch.equal(plain, all_drawn(pipeline, ["a three"], [0], Drawing(steps=1, guidance=30.0)))


def test_drawing_neither_uses_nor_moves_the_random_numbers_of_others(pipeline: Any) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = all_drawn(pipeline, ["a three"], [0])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(all_drawn(pipeline, ["a three"], [0]), one)


def test_what_the_unet_is_told_is_what_the_pipeline_tells_it(pipeline: Any) -> None:
    prompts = ["a three", "", "a very long prompt that has more letters than fit"]
    found = pipelines.encoded_text(pipeline, prompts)
    expected, empty = pipeline.encode_prompt(prompts, CPU, 1, do_classifier_free_guidance=True)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found[1], empty[0])


def test_latents_are_what_the_pipeline_decodes(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "_ENCODED", 2)
    images = torch.randint(256, (5, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = pipelines.encoded_images(pipeline, images)
    with torch.no_grad():
        expected = pipeline.vae.encode(pipeline.image_processor.preprocess(images / 255)).latent_dist.mean
    torch.testing.assert_close(found, expected * pipeline.vae.config.scaling_factor, rtol=1e-4, atol=1e-5)
    assert found.shape == (5, 4, 4, 4)


def test_the_name_of_what_is_drawn_changes_with_all_that_changes_it(pipeline: Any) -> None:
    given: dict[str, Any] = {"prompts": PROMPTS, "per_prompt": 2, "seed": 0, "how": HOW}

    def key(pipeline: Any, prompts: list[str], per_prompt: int, seed: int, how: Drawing) -> str:
        return drawing.key(pipeline, several(prompts, per_prompt, seed), how)

    names = [key(pipeline, **given), key(pipeline, **given)]
    for change in ({"prompts": ["a three"]}, {"per_prompt": 3}, {"seed": 1}, {"how": Drawing(steps=3)}):
        names.append(key(pipeline, **{**given, **change}))
    assert names[0] == names[1]
    assert len(set(names)) == 5
    other = tinysd.pipeline()
    with torch.no_grad():
        next(other.unet.parameters()).view(-1)[0] += 1
    assert key(other, **given) not in names


# Filling a folder


def test_a_folder_is_filled_and_reads_back(pipeline: Any, tmp_path: Path) -> None:
    events: list[Mapping[str, Any]] = []
    sample(pipeline, PROMPTS, 3, 5, HOW, tmp_path / "new" / "drawn", events.append)
    folder = tmp_path / "new" / "drawn"
    names = [f"{p:03}-{i:05}.png" for p in range(2) for i in range(3)]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "drawn.json", "metadata.csv"])
    with (folder / "metadata.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file_name"] for row in rows] == names
    assert [row["prompt"] for row in rows] == ["a three"] * 3 + ["a four"] * 3
    assert [row["seed"] for row in rows] == ["5", "6", "7"] * 2
    found = read(folder, 8)
    assert found.classes == ("a four", "a three")
    assert found.labels.tolist() == [1, 1, 1, 0, 0, 0]
    assert torch.equal(found.inputs, all_drawn(pipeline, ["a three"] * 3 + ["a four"] * 3, [5, 6, 7] * 2))
    assert [event["step"] for event in events] == [2, 4, 6]


def test_what_is_there_is_not_drawn_again(pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path)
    before = contents(tmp_path)
    events: list[Mapping[str, Any]] = []
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path, events.append)
    assert events == []
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["000-00000.png", "000-00002.png", "001-00001.png"])
def test_an_image_that_is_missing_is_drawn_again_and_it_alone(name: str, pipeline: Any, tmp_path: Path) -> None:
    how = Drawing(steps=2, guidance=3.0, batch_size=1)
    sample(pipeline, PROMPTS, 3, 0, how, tmp_path)
    before = contents(tmp_path)
    (tmp_path / name).unlink()
    events: list[Mapping[str, Any]] = []
    sample(pipeline, PROMPTS, 3, 0, how, tmp_path, events.append)
    assert [(event["step"], event["steps"]) for event in events] == [(1, 1)]
    assert contents(tmp_path) == before


def test_an_image_that_is_missing_from_a_batch_comes_back_but_for_rounding(pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path)
    before = read(tmp_path, 8).inputs
    (tmp_path / "000-00001.png").unlink()
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path)
    assert close(read(tmp_path, 8).inputs, before)


def test_drawing_that_was_interrupted_goes_on(pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path / "whole")

    def interrupt(event: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path / "broken", interrupt)
    assert len(list((tmp_path / "broken").glob("*.png"))) == 2
    assert not (tmp_path / "broken" / "metadata.csv").exists()
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_more_images_of_each_prompt_are_added_to_those_there(pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 2, 0, HOW, tmp_path)
    before = contents(tmp_path)
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path)
    after = contents(tmp_path)
    assert len(after) == len(before) + 2
    assert all(after[name] == value for name, value in before.items() if name.endswith(".png"))
    assert len(read(tmp_path, 8)) == 6


OTHERWISE: dict[str, dict[str, Any]] = {
    "other prompts": {"prompts": ["a four"]},
    "another seed": {"seed": 1},
    "more steps": {"how": Drawing(steps=3, guidance=3.0, batch_size=2)},
    "more guidance": {"how": Drawing(steps=2, guidance=4.0, batch_size=2)},
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_images_of_two_makings_are_not_mixed(what: str, pipeline: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {"prompts": PROMPTS, "per_prompt": 1, "seed": 0, "how": HOW}
    sample(pipeline, **given, folder=tmp_path)
    before = contents(tmp_path)
    with pytest.raises(DataError, match="drawn with other settings"):
        sample(pipeline, **{**given, **OTHERWISE[what]}, folder=tmp_path)
    assert contents(tmp_path) == before


def test_images_of_another_pipeline_are_not_mixed_in(pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 1, 0, HOW, tmp_path)
    other = tinysd.pipeline()
    with torch.no_grad():
        other.unet.conv_out.bias += 1
    with pytest.raises(DataError, match="drawn with other settings"):
        sample(other, PROMPTS, 1, 0, HOW, tmp_path)


def test_a_folder_of_something_else_is_left_alone(pipeline: Any, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="not empty"):
        sample(pipeline, PROMPTS, 1, 0, HOW, tmp_path)
    assert contents(tmp_path) == {"letter.txt": b"dear"}


# A folder of one's own


def test_gray_and_colored_images_of_other_sizes_become_color_of_one_size(tmp_path: Path) -> None:
    Image.new("L", (20, 31), 200).save(tmp_path / "gray.jpg")
    Image.new("RGB", (5, 7), (255, 0, 10)).save(tmp_path / "color.png")
    Image.new("RGBA", (16, 16), (0, 90, 0, 255)).save(tmp_path / "clear.png")
    Image.new("P", (8, 8)).save(tmp_path / "palette.png")
    Image.new("1", (9, 9), 1).save(tmp_path / "white.png")
    (tmp_path / "more").mkdir()
    Image.new("I;16", (12, 12), 256 * 77).save(tmp_path / "more" / "deep.png")
    names = ["gray.jpg", "color.png", "clear.png", "palette.png", "white.png", "more/deep.png"]
    tinysd.listing(tmp_path, [(name, f"a thing, {i % 2}") for i, name in enumerate(names)])
    found = read(tmp_path, 8)
    assert found.inputs.shape == (6, 3, 8, 8)
    assert found.inputs.dtype == torch.uint8
    assert found.inputs[:, :, 4, 4].tolist() == [
        pytest.approx([200] * 3, abs=2),
        [255, 0, 10],
        [0, 90, 0],
        [0, 0, 0],
        [255] * 3,
        [77] * 3,
    ]
    assert found.classes == ("a thing, 0", "a thing, 1")
    assert found.labels.tolist() == [0, 1] * 3


def test_other_columns_a_byte_order_mark_and_another_order_of_columns_do_no_harm(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "metadata.csv").write_text("\ufeffprompt,seed,file_name\nein Bär,7,a.png\n", encoding="utf-8")
    assert read(tmp_path, 8).classes == ("ein Bär",)


def test_the_fingerprint_changes_with_the_pixels_and_the_prompts(tmp_path: Path) -> None:
    folder = tinysd.photographs(tmp_path)
    before = read(folder, 8).fingerprint
    assert read(folder, 8).fingerprint == before
    Image.new("RGB", (8, 8)).save(folder / "three-0.png")
    assert read(folder, 8).fingerprint != before


def listed(folder: Path, text: str) -> Path:
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    (folder / "metadata.csv").write_text(text)
    return folder


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_list_of_images_is_refused(what: str, tmp_path: Path) -> None:
    text, message = BROKEN[what]
    with pytest.raises(DataError) as caught:
        read(listed(tmp_path, text), 8)
    assert message in str(caught.value)


def test_a_list_without_images_is_not_said_to_lack_a_column(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(listed(tmp_path, "file_name,prompt\n"), 8)
    assert "has no column" not in str(caught.value)


def test_a_folder_without_a_list_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError, match=r"has no readable metadata\.csv"):
            read(folder, 8)


# The command

SAMPLE = "--prompts 'a three, a four' --per-prompt 2 --set steps=2 --set guidance=3 --set batch_size=2"


def test_the_command_draws_and_then_finds_all_there(source: Path, tmp_path: Path, pipeline: Any) -> None:
    answer = done(f"sample {source} {SAMPLE} -o {tmp_path / 'drawn'}")
    assert "wrote 4 images" in answer.err
    before = contents(tmp_path / "drawn")
    assert done(f"sample {source} {SAMPLE} -o {tmp_path / 'drawn'}").code == 0
    assert contents(tmp_path / "drawn") == before
    sample(pipeline, PROMPTS, 2, 0, HOW, tmp_path / "other")
    assert json.loads(before.pop("pipeline.json")) == {"name": source.name}
    assert contents(tmp_path / "other") == before


LIST = """case_number,prompt,evaluation_seed,evaluation_guidance
7,a three,5,1.5
8,a four,6,
9,"a five, small",,4
"""


def test_the_command_draws_a_list_of_prompts_each_its_own_way(source: Path, tmp_path: Path, pipeline: Any) -> None:
    (tmp_path / "list.csv").write_text(LIST)
    command = f"sample {source} --prompts {tmp_path / 'list.csv'} --seed 2 --set steps=2 --set guidance=3"
    done(f"{command} -o {tmp_path / 'drawn'}")
    with (tmp_path / "drawn" / "metadata.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [("a three", 5, 1.5), ("a four", 6, 3.0), ("a five, small", 2, 4.0)]
    assert [(row["prompt"], int(row["seed"]), float(row["guidance"])) for row in rows] == expected
    for row, (prompt, seed, guidance) in zip(rows, expected, strict=True):
        alone = all_drawn(pipeline, [prompt], [seed], Drawing(steps=2, guidance=guidance))
        assert close(Pictures([tmp_path / "drawn" / row["file_name"]], [prompt], 8)[:], alone)


def test_a_list_of_prompts_says_itself_how_many_images_there_are(source: Path, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(LIST)
    answer = cli(f"sample {source} --prompts {tmp_path / 'list.csv'} --per-prompt 2 -o {tmp_path / 'drawn'}")
    assert answer.code == 2
    assert "--per-prompt" in answer.err


def test_images_of_one_guidance_are_drawn_together(pipeline: Any, tmp_path: Path) -> None:
    events: list[Mapping[str, Any]] = []
    prompts = [Prompt("a three", i, i, guidance) for i, guidance in enumerate((2.0, 3.0, 2.0, 3.0))]
    drawing.sample(pipeline, each(prompts, 0), HOW, tmp_path, events.append)
    assert [event["step"] for event in events] == [2, 4]


def test_pictures_are_decoded_when_they_are_asked_for(pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 3, 0, HOW, tmp_path)
    pictures, whole = Pictures.of(tmp_path), read(tmp_path, 8).inputs
    assert (len(pictures), pictures.side) == (6, 8)
    assert [len(batch) for batch in pictures.split(4)] == [4, 2]
    assert torch.equal(torch.cat(list(pictures.split(4))), whole)
    fours = pictures.only([prompt == "a four" for prompt in pictures.prompts])
    assert torch.equal(fours[:2], whole[3:5])
    (tmp_path / "metadata.csv").unlink()
    assert torch.equal(Pictures.in_folder(tmp_path, 8)[:], whole)


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no images"):
        Pictures.in_folder(tmp_path, 8)


def test_semicolons_separate_prompts_with_commas(source: Path, tmp_path: Path) -> None:
    done(f"sample {source} --prompts 'a three, big; a four' --per-prompt 1 --set steps=1 -o {tmp_path / 'drawn'}")
    assert read(tmp_path / "drawn", 8).classes == ("a four", "a three, big")


REFUSED = {
    "no pipeline": ("nowhere --prompts a", "there is no pipeline folder"),
    "a setting that is not known": ("SOURCE --prompts a --set step=3", "Did you mean 'steps'"),
    "a setting that is out of range": ("SOURCE --prompts a --set steps=0", "'steps' must be"),
    "no images": ("SOURCE --prompts a --per-prompt 0", "per-prompt"),
    "no prompts": ("SOURCE", "--prompts"),
    "empty prompts": ("SOURCE --prompts ' , '", "prompt"),
    "no such device": ("SOURCE --prompts a --device moon", "there is no device 'moon'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_command_refuses_in_one_line_and_writes_nothing(what: str, source: Path, tmp_path: Path) -> None:
    arguments, message = REFUSED[what]
    answer = cli(f"sample {arguments.replace('SOURCE', str(source))} -o {tmp_path / 'drawn'}")
    assert answer.code == 2
    assert message in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not (tmp_path / "drawn").exists()


def test_the_command_does_not_write_over_a_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("dear")
    answer = cli(f"sample {source} {SAMPLE} -o {tmp_path / 'file'}")
    assert answer.code == 2
    assert len(answer.err.strip().splitlines()) == 1
    assert (tmp_path / "file").read_text() == "dear"


def test_a_prompt_too_long_for_a_path_is_a_prompt(source: Path, tmp_path: Path) -> None:
    done(f"sample {source} --prompts '{'a three ' * 40}' --per-prompt 1 --set steps=1 -o {tmp_path / 'drawn'}")
    assert len(Pictures.of(tmp_path / "drawn")) == 1


def test_a_file_of_prompts_by_another_name_is_read_as_one(source: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(LIST)
    done(f"sample {source} --prompts {tmp_path / 'list.txt'} --set steps=1 -o {tmp_path / 'drawn'}")
    assert Pictures.of(tmp_path / "drawn").prompts == ["a three", "a four", "a five, small"]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"images": 3}'])
def test_a_folder_whose_record_is_damaged_is_refused(text: str, pipeline: Any, tmp_path: Path) -> None:
    sample(pipeline, PROMPTS, 1, 0, HOW, tmp_path)
    (tmp_path / "drawn.json").write_text(text)
    with pytest.raises(ReadError, match="cannot be read"):
        sample(pipeline, PROMPTS, 1, 0, HOW, tmp_path)


@pytest.mark.parametrize("what", ["--seed 99999999999999999999999", "--set steps=2000"])
def test_numbers_that_are_too_large_are_refused(what: str, source: Path, tmp_path: Path) -> None:
    answer = cli(f"sample {source} --prompts 'a three' --per-prompt 1 {what} -o {tmp_path / 'drawn'}")
    assert answer.code == 2
    assert len(answer.err.strip().splitlines()) == 1
