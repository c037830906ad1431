"""The small pipeline, built as the real one but of a few thousand weights; how well the real one draws is no test."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import StableDiffusionPipeline
from torch import Tensor

from helpers import judges
from scissorhands.data.records import Stored
from scissorhands.data.sources import Source
from scissorhands.errors import FailedError
from scissorhands.tasks.diffusion import small
from scissorhands.tasks.diffusion.small import judge, original, pictures, trained
from scissorhands.tasks.diffusion.small_parts import PROMPTS, Plan, tokenizer

TINY = Plan(vae=(4, 8, 8), unet=(4, 8), text=8, vae_epochs=1, unet_epochs=2, batch_size=32)


def few() -> tuple[Stored, Stored]:
    """The first of the real pictures."""
    train, test = (Stored(*records.fetch(torch.arange(96)), classes=PROMPTS) for records in pictures())
    return train, test


@pytest.fixture(autouse=True)
def _own_cache_and_few_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(small, "pictures", few)


@pytest.fixture(scope="module")
def tiny() -> Any:
    """A tiny pipeline, hardly trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "pictures", few)
        return trained(0, plan=TINY)


def drawn(pipeline: Any) -> Tensor:
    """Two pictures, by way of the pipeline's own call."""
    pipeline.set_progress_bar_config(disable=True)
    draws = [torch.Generator().manual_seed(seed) for seed in range(2)]
    images: Tensor = pipeline(
        [PROMPTS[3], PROMPTS[7]], num_inference_steps=2, guidance_scale=3.0, generator=draws, output_type="pt"
    ).images
    return images


def weights(pipeline: Any) -> dict[str, Tensor]:
    """All weights of the pipeline."""
    parts = {"vae": pipeline.vae, "unet": pipeline.unet, "text": pipeline.text_encoder}
    return {f"{part}.{name}": value for part, model in parts.items() for name, value in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_pictures_are_the_digits_in_their_order() -> None:
    data = Source(name="digits").load()
    for found, wanted in zip(pictures(), (data.train, data.test), strict=True):
        assert found.inputs.shape == (len(wanted), 3, 16, 16)
        assert found.inputs.dtype == torch.uint8
        assert found.classes == PROMPTS
        assert torch.equal(found.labels, wanted.labels)
        shrunk = torch.nn.functional.avg_pool2d(found.inputs[:, :1].float(), 2)
        small_images, _ = wanted.fetch(torch.arange(len(wanted)))
        assert (shrunk - small_images.float()).abs().mean() < 20


def test_a_prompt_is_named_after_its_digit() -> None:
    assert len(PROMPTS) == 10
    assert (PROMPTS[0], PROMPTS[3], PROMPTS[9]) == ("a handwritten zero", "a handwritten three", "a handwritten nine")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_each_word_of_a_prompt_is_one_token(prompt: str) -> None:
    assert tokenizer().tokenize(prompt) == [f"{word}</w>" for word in prompt.split()]


def test_other_words_are_spelt() -> None:
    assert tokenizer().tokenize("a Cat, é") == ["a</w>", "c", "a", "t</w>", ",</w>", "Ã", "©</w>"]


def test_a_text_is_padded_to_one_length_with_the_end_token() -> None:
    words = tokenizer()
    full, empty = words([PROMPTS[3], ""], padding="max_length", truncation=True).input_ids
    assert len(full) == len(empty) == words.model_max_length
    assert full[0] == empty[0] == words.bos_token_id
    assert full[4:] == empty[4:] == [words.eos_token_id] * (words.model_max_length - 4)
    assert len(words) == 1 + max(words.get_vocab().values())


def test_it_is_a_pipeline_that_draws(tiny: Any) -> None:
    assert isinstance(tiny, StableDiffusionPipeline)
    assert tiny.safety_checker is None
    images = drawn(tiny)
    assert images.shape == (2, 3, 16, 16)
    assert images.isfinite().all()
    assert not torch.equal(images[0], images[1])


def test_the_latents_that_the_unet_learns_from_have_deviation_one(tiny: Any) -> None:
    latents = small._latents(tiny, few()[0])
    assert latents.inputs.shape[1:] == (4, 4, 4)
    assert latents.inputs.std().item() == pytest.approx(1, abs=1e-4)


def test_a_folder_keeps_the_pictures_to_the_bit(tiny: Any, tmp_path: Path) -> None:
    tiny.save_pretrained(tmp_path / "pipeline", safe_serialization=True)
    again = StableDiffusionPipeline.from_pretrained(tmp_path / "pipeline")
    assert again.vae.config.scaling_factor == tiny.vae.config.scaling_factor
    assert same(weights(again), weights(tiny))
    assert torch.equal(drawn(again), drawn(tiny))
    assert again.tokenizer(PROMPTS[3]).input_ids == tiny.tokenizer(PROMPTS[3]).input_ids


def test_the_seed_decides_all_and_nothing_else_does(tiny: Any) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    again = trained(0, plan=TINY)
    assert torch.equal(before, torch.get_rng_state())
    assert same(weights(again), weights(tiny))
    assert not same(weights(trained(1, plan=TINY)), weights(tiny))


def test_training_tells_how_far_it_is() -> None:
    events: list[Mapping[str, Any]] = []
    trained(0, events.append, TINY)
    assert [event["phase"] for event in events] == ["vae"] * 3 + ["unet"] * 6
    assert [event["step"] for event in events] == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    assert [event["epoch"] for event in events] == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert {event["steps"] for event in events[:3]} == {3}
    assert all(event["loss"] > 0 for event in events)


def test_training_learns_to_tell_the_noise() -> None:
    events: list[Mapping[str, Any]] = []
    longer = Plan(vae=(4, 8, 8), unet=(8, 8), text=8, vae_epochs=6, unet_epochs=8, batch_size=16, lr=8e-3)
    trained(0, events.append, longer)
    for phase, epochs in (("vae", 6), ("unet", 8)):
        first, last = (
            statistics.fmean(event["loss"] for event in events if (event["phase"], event["epoch"]) == (phase, epoch))
            for epoch in (0, epochs - 1)
        )
        assert last < 0.9 * first


def test_the_original_is_trained_once_and_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events: list[Mapping[str, Any]] = []
    place = original(0, events.append, tmp_path, TINY)
    assert place.parent == tmp_path
    assert 0 < small.seconds(place) < 600
    count = len(events)
    assert count > 0
    assert original(0, events.append, tmp_path, TINY) == place
    assert len(events) == count
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.glob("digits-*")) == [place]
    assert same(weights(StableDiffusionPipeline.from_pretrained(place)), weights(trained(0, plan=TINY)))


def test_the_original_is_in_the_cache_and_another_seed_has_another_folder(tmp_path: Path) -> None:
    assert original(0, plan=TINY).parent == tmp_path / "cache" / "diffusion"
    assert small._key(0, TINY) != small._key(1, TINY)
    assert small._key(0, TINY) != small._key(0, Plan())


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FailedError, match=r"cannot keep the pipeline in .*: Not a directory"):
        original(0, folder=tmp_path / "file", plan=TINY)


def test_training_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def stop(event: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        original(0, stop, tmp_path / "kept", TINY)
    assert not list((tmp_path / "kept").iterdir())


def test_the_judge_names_the_digit_of_bytes_and_of_floats_and_is_kept(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "pictures", pictures)
    scores = judges.copied(tmp_path_factory, tmp_path / "cache", monkeypatch)
    _, test = pictures()
    assert scores.shape == (360, len(PROMPTS))
    assert (scores.argmax(1) == test.labels).float().mean() >= 0.97
    events: list[Mapping[str, Any]] = []
    again = judge(events.append)
    with torch.no_grad():
        assert torch.equal(again(test.inputs), scores)
        assert torch.allclose(scores, again(test.inputs.float() / 255), atol=1e-4)
    assert not events
