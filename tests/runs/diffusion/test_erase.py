"""Erasing a concept from a tiny pipeline: what is written, what may change, how it goes on, and what is refused."""

import ast
import json
import os
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import PNDMScheduler, StableDiffusionPipeline
from safetensors.torch import load_file, save_file
from torch import nn

import scissorhands
from helpers import erasers, kept, tinysd
from helpers.commands import cli, done
from helpers.nursery import Nursery
from helpers.tinysd import BROKEN, QUICK, changed, command, unet
from scissorhands import runs
from scissorhands.cli.main import VERBS
from scissorhands.data.forget import Forget
from scissorhands.data.labels import random_labels
from scissorhands.data.problem import Log, ignore
from scissorhands.distributed import Batch
from scissorhands.errors import RunError, StoppedError
from scissorhands.runs import Run
from scissorhands.runs.place import Place
from scissorhands.runs.resume import resume
from scissorhands.runs.scrub import scrub
from scissorhands.tasks.diffusion import denoising, drawing, pictures
from scissorhands.tasks.diffusion import pipeline as pipelines
from scissorhands.tasks.diffusion.denoising import Denoising
from scissorhands.tasks.diffusion.erasure import Concept, Erasure, encoded, posed
from scissorhands.tasks.diffusion.prompts import Prompt
from scissorhands.tasks.diffusion.task import Diffusion

pytestmark = pytest.mark.usefixtures("pipelines_loaded_once")
CPU = torch.device("cpu")
PACKAGE = Path(scissorhands.__file__).parent
EVERY = tuple(Diffusion.methods())


@pytest.fixture(autouse=True, scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny pipeline and its images."""
    base = tmp_path_factory.getbasetemp()
    tinysd.source(base)
    tinysd.photographs(base)
    return base


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def source(base: Path) -> Path:
    """The folder of the tiny pipeline."""
    return tinysd.source(base)


def erase(
    source: Path,
    how: Erasure,
    method: str,
    values: Mapping[str, Any],
    place: Place,
    log: Log = ignore,
    forget: str = "concept:three",
) -> Run:
    """A concept erased from a pipeline."""
    return scrub(str(source), Concept(Forget(forget), how), method, values, place, log=log)


def _anchor(method: str) -> dict[str, str]:
    """The anchor of a method that needs one."""
    return {"anchor": "a four"} if method == "salun-diffusion" else {}


Eraser = Callable[..., Run]


@pytest.fixture
def erased(source: Path, base: Path, tmp_path: Path) -> Eraser:
    """A function that erases three from the tiny pipeline, each time into a new folder."""
    runs_made: list[Run] = []

    def made(
        method: str = "scissorhands", place: Mapping[str, Any] | None = None, log: Log = ignore, **more: Any
    ) -> Run:
        methods_own = more.pop("settings", {})  # where a setting of the method has a name of the erasure's
        own = {name: more.pop(name) for name in list(more) if name in Erasure().to_dict()}
        erasure = Erasure.make({"data": str(tinysd.photographs(base)), **_anchor(method), **own})
        where = Place(**{"folder": tmp_path / f"out-{len(runs_made)}", **(place or {})})
        run = erase(source, erasure, method, {**QUICK[method], **more, **methods_own}, where, log)
        runs_made.append(run)
        return run

    return made


LONGER = {"scissorhands": {"epochs": 2}}
BRIEF = {method: {"batch_size": 9} for method in EVERY} | {"esd": {"steps": 1}}  # one step
Whole = Callable[[str], Path]


@pytest.fixture(scope="session")
def whole(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A function that says where a run of a method is that nothing interrupted; tests share it, and only read it."""
    folder = tmp_path_factory.mktemp("whole")

    def found(method: str) -> Path:
        if not (folder / method).exists():
            erasure = Erasure.make({"data": str(tinysd.photographs(base)), **_anchor(method)})
            given = (erasure, method, QUICK[method] | LONGER.get(method, {}), Place(folder / method))
            erase(tinysd.source(base), *given)
        return folder / method

    return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def result(folder: Path) -> dict[str, Any]:
    """All that a run came to, but for what it cost, when it ran, by which command, and where it is."""
    found: dict[str, Any] = files(folder)
    scores = json.loads(found["scores.json"])
    del scores["seconds"], scores["values"]["memory_mib"], scores["seal"], scores["files"]["run.toml"]
    record = tomllib.loads(found["run.toml"].decode())
    del record["begun"], record["finished"], record["command"]
    return found | {"scores.json": scores, "run.toml": record}


def same(one: Path, other: Path) -> bool:
    """Whether two runs came to the same to the bit; says what differs."""
    first, second = result(one), result(other)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    return True


# What is written


def test_what_is_written_is_a_pipeline_that_draws(whole: Whole) -> None:
    folder = whole("scissorhands")
    loaded = StableDiffusionPipeline.from_pretrained(folder)
    loaded.set_progress_bar_config(disable=True)
    images = loaded("a three", num_inference_steps=2, output_type="pt").images
    assert images.shape == (1, 3, 8, 8)
    assert images.isfinite().all()
    assert all(torch.equal(value, unet(folder)[name]) for name, value in loaded.unet.state_dict().items())


@pytest.mark.parametrize("method", ["scissorhands", "esd"])
def test_all_but_the_weights_of_the_unet_is_that_of_the_source_to_the_byte(
    method: str, whole: Whole, source: Path
) -> None:
    before, after = files(source), files(whole(method))
    weights = str(pipelines.WEIGHTS)
    assert {name: after[name] for name in before if name != weights} == {
        name: value for name, value in before.items() if name != weights
    }
    assert after.keys() - before.keys() == {"run.toml", "scores.json", "log.jsonl", "forget.txt"}
    assert after[weights] != before[weights]


def test_weights_of_the_source_under_other_names_are_left_behind(source: Path, erased: Eraser, tmp_path: Path) -> None:
    """A pipeline may hold its U-Net twice, as half precision or as a pickle; those would be the original's."""
    own = shutil.copytree(source, tmp_path / "own")
    for name in ("diffusion_pytorch_model.fp16.safetensors", "diffusion_pytorch_model.bin"):
        shutil.copy(own / pipelines.WEIGHTS, own / "unet" / name)
    (own / "safety_checker").mkdir()
    (own / "letter.txt").write_text("dear")
    how = Erasure(anchor="a four", per_prompt=1, inference=1)
    erase(own, how, "finetune", QUICK["finetune"], Place(tmp_path / "out"))
    assert {path.name for path in (tmp_path / "out" / "unet").iterdir()} == {"config.json", pipelines.WEIGHTS.name}
    assert not (tmp_path / "out" / "letter.txt").exists()


def test_it_is_a_run_that_can_be_read_and_reported(whole: Whole, tmp_path: Path) -> None:
    run = runs.read(whole("scissorhands"))
    assert (run.method, run.record["verb"], run.record["split"]["forget"]) == ("scissorhands", "scrub", "concept:three")
    assert run.settings["trim"] == 0.05
    assert run.ids("forget") == [0, 1, 2, 3, 4, 5]
    assert dict(run.result.scores.counts) == {"forget": 6, "retain": 9}
    assert set(run.result.scores.values) >= {"forget_error", "retain_error"}
    assert run.record["retain_error_before"] > 0
    answer = done(f"report {run.folder} {whole('esd')} -o {tmp_path / 'page.html'}")
    assert "scissorhands" in answer.out
    assert "esd" in answer.out
    assert "concept:three" in (tmp_path / "page.html").read_text()


def test_evaluate_shows_an_erased_pipeline_by_its_errors_before_and_after(whole: Whole) -> None:
    folder = whole("scissorhands")
    before, run = files(folder), runs.read(folder)
    lines = done(f"evaluate {folder}").out.splitlines()
    for line, name in zip(lines[1:], ("forget", "retain"), strict=False):
        values = run.record[f"{name}_error_before"], run.result.scores[f"{name}_error"]
        assert line.split()[-2:] == [f"{value:.4f}" for value in values]
    assert lines[-1] == f"{folder} is the diffusion pipeline; look at what it draws: scissorhands sample."
    assert files(folder) == before


def test_evaluate_measures_what_a_pipeline_knows_of_a_concept(whole: Whole, base: Path, tmp_path: Path) -> None:
    """After erasing, that is what the run says; before it, what the run says of the time before."""
    run, data = runs.read(whole("scissorhands")), f"--data {tinysd.photographs(base)}"
    for source, suffix in ((run.folder, ""), (tinysd.source(base), "_before")):
        out = tmp_path / f"scored{suffix}"
        shown = done(f"evaluate {source} --forget concept:three {data} -o {out}").out
        scored = runs.checked(out)
        for name in ("forget_error", "retain_error"):
            known = run.record[f"{name}_before"] if suffix else run.result.scores[name]
            assert scored.result.scores[name] == pytest.approx(known, rel=1e-5)
        assert (scored.record["verb"], scored.method) == ("evaluate", "original" if suffix else "scissorhands")
        assert dict(scored.result.scores.counts) == {"forget": 6, "retain": 9}
        assert scored.ids("forget") == run.ids("forget")
        assert {path.name for path in out.iterdir()} - {"before.txt"} == {"run.toml", "scores.json", "forget.txt"}
        assert done(f"evaluate {out}").out == shown


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--level standard", "level standard applies only to classifiers; {} is a diffusion pipeline."),
        ("--forget concept:three --anchor four --level deep -o {}/out", "level deep applies only to classifiers"),
        ("--forget concept:three --split-seed 1 -o {}/out", "--split-seed applies only to classifiers; {} is"),
        ("--forget concept:three --factory a:b -o {}/out", "--factory applies only to classifiers; {} is"),
        ("--forget concept:three -o {}/out", "say what is to be kept: --anchor PROMPT"),
        ("--forget concept:three", "needs a place for the scores: -o RUN."),
        ("--anchor four", "--anchor goes with --forget."),
    ],
)
def test_an_evaluation_of_a_pipeline_that_makes_no_sense_is_refused(
    more: str, says: str, whole: Whole, tmp_path: Path
) -> None:
    folder = shutil.copytree(whole("scissorhands"), tmp_path / "run")
    refused(f"evaluate {folder} {more.format(folder)}", tmp_path, says.format(folder))


def test_a_score_of_a_pipeline_is_not_looked_at_more_deeply(base: Path, tmp_path: Path) -> None:
    source, out = tinysd.source(base), tmp_path / "scored"
    done(f"evaluate {source} --forget concept:three --data {tinysd.photographs(base)} -o {out}")
    refused(f"evaluate {out} --level standard", tmp_path, "level standard applies only to classifiers", source.name)


def test_the_log_tells_of_every_step(erased: Eraser) -> None:
    events: list[Mapping[str, Any]] = []
    folder = erased(log=events.append).folder
    lines = [json.loads(line) for line in (folder / runs.LOG).read_text().splitlines()]
    assert lines == events
    assert [event["phase"] for event in events] == ["trim"] + ["repair"] * 3


def test_a_scrubbed_pipeline_can_be_scrubbed_again(whole: Whole, base: Path, tmp_path: Path) -> None:
    once = whole("scissorhands")
    done(command(once, tmp_path / "twice", "finetune", f"--data {tinysd.photographs(base)}"))
    assert changed(unet(once), unet(tmp_path / "twice"))
    assert runs.read(tmp_path / "twice").method == "finetune"


def test_what_was_forgotten_before_is_not_retained(whole: Whole, base: Path, tmp_path: Path) -> None:
    once = whole("scissorhands")
    more = f"--data {tinysd.photographs(base)}"
    done(command(once, tmp_path / "twice", "finetune", more).replace("concept:three", "concept:four"))
    twice = runs.read(tmp_path / "twice")
    assert dict(twice.result.scores.counts) == {"forget": 5, "retain": 4}
    assert twice.ids("before") == runs.read(once).ids("forget")


def test_the_errors_are_the_mean_losses_with_the_same_noise(erased: Eraser, source: Path, base: Path) -> None:
    """Methods that do nothing leave what was there before."""
    run = erased("ascent", epochs=0)
    assert run.result.scores.values["forget_error"] == run.record["forget_error_before"]
    assert run.result.scores.values["retain_error"] == run.record["retain_error_before"]
    assert changed(unet(source), unet(run.folder)) == set()


# What changes


@pytest.mark.parametrize("method", EVERY)
def test_every_method_changes_the_unet_alone_and_the_same_seed_gives_the_same_bits(
    method: str, erased: Eraser, whole: Whole, source: Path
) -> None:
    before = files(source)
    torch.manual_seed(2)
    one = erased(method, **LONGER.get(method, {}))
    assert files(source) == before
    assert one.method == method
    assert changed(unet(source), unet(one.folder))
    assert all(value.isfinite().all() for value in unet(one.folder).values())
    torch.manual_seed(1)
    assert same(one.folder, whole(method))


@pytest.mark.parametrize("method", ["scissorhands", "esd"])
def test_another_seed_gives_another_unet(method: str, erased: Eraser, whole: Whole) -> None:
    own = LONGER.get(method, {})
    assert changed(unet(whole(method)), unet(erased(method, place={"seed": 1}, **own).folder))


@pytest.mark.parametrize("method", EVERY)
def test_every_method_works_with_an_anchor(method: str, erased: Eraser, source: Path) -> None:
    run = erased(method, anchor="a four", **BRIEF[method])
    assert changed(unet(source), unet(run.folder))
    assert run.record["forget_error_before"] < 0  # minus the distance to the anchor


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        *((method, "*attn2*") for method in ("scissorhands", "salun", "retrain", "esd")),
        ("scissorhands", "*,-*time_emb*"),
        ("scissorhands", "conv_out.*"),
    ],
)
def test_only_what_is_chosen_may_change(method: str, parameters: str, erased: Eraser, source: Path) -> None:
    before = unet(source)
    allowed = {
        "*attn2*": {name for name in before if "attn2" in name},
        "*,-*time_emb*": {name for name in before if "time_emb" not in name},
        "conv_out.*": {"conv_out.weight", "conv_out.bias"},
    }[parameters]
    settings = {"parameters": "*"} if method == "esd" else {}
    run = erased(method, parameters=parameters, settings=settings, **BRIEF[method])
    touched = changed(before, unet(run.folder))
    assert touched <= allowed
    assert touched


def test_esd_keeps_cross_attention_time_embedding_and_output_to_the_bit(whole: Whole, source: Path) -> None:
    before = unet(source)
    kept = {
        name for name in before if "attn2" in name or name.startswith(("time_embedding.", "conv_norm_out", "conv_out"))
    }
    assert changed(before, unet(whole("esd"))) == before.keys() - kept


def test_esd_can_be_told_to_leave_cross_attention_twice(erased: Eraser, source: Path) -> None:
    """What its own setting leaves out may be left out already."""
    touched = changed(unet(source), unet(erased("esd", parameters="*,-*attn2*").folder))
    assert not [name for name in touched if "attn2" in name]


DIFFERENT: dict[str, dict[str, Any]] = {
    "as usual": {},
    "without projection": {"project": False},
    "with an anchor": {"anchor": "a four"},
    "with another anchor": {"anchor": "a five"},
    "by sgd": {"optimizer": "sgd"},
    "as published": {"reading": "published"},
    "with more to forget": {"balance": 0.9},
    "trimmed more": {"trim": 0.2},
}


def test_each_setting_makes_a_difference_of_its_own(erased: Eraser) -> None:
    found = {how: unet(erased(**BRIEF["scissorhands"], **settings).folder) for how, settings in DIFFERENT.items()}
    assert [pair for pair in combinations(found, 2) if not changed(found[pair[0]], found[pair[1]])] == []


def test_without_trimming_nothing_is_drawn_anew(erased: Eraser, source: Path) -> None:
    events: list[Mapping[str, Any]] = []
    run = erased(trim=0.0, epochs=0, log=events.append)
    assert [event["drawn"] for event in events] == [0]
    assert changed(unet(source), unet(run.folder)) == set()


def test_trimming_draws_the_share_that_it_was_told_anew(erased: Eraser, source: Path) -> None:
    events: list[Mapping[str, Any]] = []
    run = erased(trim=0.1, epochs=0, log=events.append)
    before, after = unet(source), unet(run.folder)
    differing = sum(int((before[name] != after[name]).sum()) for name in before)
    assert events[0]["drawn"] == round(0.1 * events[0]["of"])
    assert 0.99 * events[0]["drawn"] <= differing <= events[0]["drawn"]
    assert not [name for name in changed(before, after) if "norm" in name]


def test_a_step_of_fine_tuning_goes_down_the_gradient(erased: Eraser, source: Path, base: Path) -> None:
    """One step of plain descent moves each weight by the learning rate times its own slope."""
    plain = {"epochs": 1, "lr": 0.01, "batch_size": 100, "momentum": 0.0, "weight_decay": 0.0}
    noises: list[tuple[torch.Tensor, torch.Tensor]] = []
    batches: list[Batch] = []
    drawn, called = Denoising.drawn, Denoising.__call__

    def watched(self: Denoising, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        noises.append(drawn(self, batch))
        return noises[-1]

    def seen(self: Denoising, model: nn.Module, batch: Batch) -> torch.Tensor:
        batches.append(batch)
        return called(self, model, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Denoising, "drawn", watched)
        patch.setattr(Denoising, "__call__", seen)
        after = unet(erased("finetune", optimizer="sgd", **plain).folder)
    assert len(noises) == 2 + 1 + 1 + 2  # the errors before, a warm-up, the step, and the errors after
    pipeline = pipelines.load(source, CPU)
    (latents, labels), (noise, times) = batches[3], noises[3]
    text = pipelines.encoded_text(pipeline, list(pictures.read(tinysd.photographs(base), 8).classes))[labels]
    noisy = pipeline.scheduler.add_noise(latents, noise, times)
    loss = (pipeline.unet(noisy.contiguous(), times, text).sample - noise).square().mean()
    names = [name for name, _ in pipeline.unet.named_parameters()]
    slopes = torch.autograd.grad(loss, list(pipeline.unet.parameters()))
    for name, slope in zip(names, slopes, strict=True):
        expected = unet(source)[name] - 0.01 * slope
        torch.testing.assert_close(after[name], expected, rtol=1e-4, atol=1e-6, msg=f"{name} went elsewhere")


def taken_for(source: Path, base: Path, anchor: str) -> tuple[set[int], int]:
    """What the prompt of a three is taken for where wrong prompts are taught, and how many prompts there are."""
    images, pipeline = pictures.read(tinysd.photographs(base), 8), pipelines.load(source, CPU)
    problem, _ = posed(pipeline, encoded(pipeline, images), Forget("concept:three"), Erasure(anchor=anchor), 0)
    labels, count = random_labels(problem.forget, 0).labels, len(denoising.of(problem).prompts)
    three, forgotten = images.classes.index("a three"), problem.forget.ids
    assert set((labels[forgotten] % count).tolist()) == {three}
    assert torch.equal(labels[problem.retain.ids], images.labels[problem.retain.ids])
    return set((labels[forgotten] // count - 1).tolist()), count


def test_a_wrong_prompt_is_one_of_those_to_keep(source: Path, base: Path) -> None:
    assert taken_for(source, base, "") == ({0, 1}, 3)  # a five, a four, a three


def test_with_an_anchor_the_wrong_prompt_is_the_anchor(source: Path, base: Path) -> None:
    assert taken_for(source, base, "a six") == ({3}, 4)


def test_images_are_drawn_once_for_all_that_need_the_same(erased: Eraser, source: Path, tmp_path: Path) -> None:
    events: list[Mapping[str, Any]] = []
    own = {"data": "", "anchor": "a four", "per_prompt": 3, "inference": 2}
    run = erased("finetune", **own, log=events.append)
    assert [event["step"] for event in events if event["phase"] == "draw"] == [4, 6]
    assert dict(run.result.scores.counts) == {"forget": 3, "retain": 3}
    events.clear()
    assert same(erased("finetune", **own, log=events.append).folder, run.folder)
    assert "draw" not in {event["phase"] for event in events}
    (folder,) = (tmp_path / "cache" / "drawn").iterdir()
    assert pictures.read(folder, 8).classes == ("a four", "three")


@pytest.mark.parametrize(
    ("forget", "retain", "prompts"),
    [
        ("concept:three", "a four; a five, small", {"three", "a four", "a five, small"}),
        ("concept:three, six", "a four", {"three", "six", "a four"}),
        ("concept:three,", "a four", {"three", "a four"}),
    ],
)
def test_what_is_drawn_is_the_words_of_the_concept_and_what_is_to_be_kept(
    forget: str, retain: str, prompts: set[str], source: Path, tmp_path: Path
) -> None:
    erasure = Erasure(retain=retain, per_prompt=1, inference=1)
    erase(source, erasure, "finetune", QUICK["finetune"], Place(tmp_path / "out"), forget=forget)
    (folder,) = (tmp_path / "cache" / "drawn").iterdir()
    assert set(pictures.read(folder, 8).classes) == prompts


# Going on


def interrupted(erased: Eraser, method: str, step: int, how: str, folder: Path, **more: Any) -> None:
    """A run of the method that ended at that step."""
    seen: list[Mapping[str, Any]] = []

    def stop(event: Mapping[str, Any]) -> None:
        seen.append(event)
        if len(seen) == step and how == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        if len(seen) == step and how == "error":
            raise RuntimeError("stop")

    place = {"folder": folder, "checkpoint": 0.0 if how == "error" else 600.0}
    with pytest.raises(StoppedError if how == "signal" else RuntimeError) as caught:
        erased(method, place, stop, **LONGER.get(method, {}), **more)
    assert how == "error" or "--resume" in str(caught.value)
    assert not folder.exists()
    assert runs.resumable(folder)


STEPS = [
    ("scissorhands", 3, "error"),
    ("scissorhands", 6, "error"),
    ("scissorhands", 7, "signal"),
    ("esd", 2, "signal"),
    ("esd", 3, "error"),
    ("salun", 3, "signal"),
    ("scissorhands-diffusion", 2, "signal"),
]


@pytest.mark.parametrize(("method", "step", "how"), STEPS)
def test_a_run_that_was_interrupted_ends_with_the_same_bits(
    method: str, step: int, how: str, erased: Eraser, whole: Whole, tmp_path: Path
) -> None:
    interrupted(erased, method, step, how, tmp_path / "run")
    torch.manual_seed(99)  # what goes on must not depend on where another process happens to be
    if how == "signal":
        assert method in done(f"scrub --resume {tmp_path / 'run'}").out
    else:
        resume("scrub", tmp_path / "run")
    assert same(tmp_path / "run", whole(method))
    assert not list(tmp_path.glob(".*"))


def test_the_command_goes_on_with_images_that_were_drawn_even_if_they_are_gone(erased: Eraser, tmp_path: Path) -> None:
    own: dict[str, Any] = {"data": "", "anchor": "a four", "per_prompt": 6, "inference": 1}
    done_at_once = erased(place={"folder": tmp_path / "whole"}, **own, **LONGER["scissorhands"]).folder
    interrupted(erased, "scissorhands", 3, "signal", tmp_path / "run", **own)
    shutil.rmtree(tmp_path / "cache")
    done(f"scrub --resume {tmp_path / 'run'}")
    assert same(tmp_path / "run", done_at_once)


def test_a_run_is_stopped_twice_and_still_ends_with_the_same_bits(erased: Eraser, whole: Whole, tmp_path: Path) -> None:
    interrupted(erased, "scissorhands", 3, "signal", tmp_path / "run")
    seen: list[Mapping[str, Any]] = []

    def stop(event: Mapping[str, Any]) -> None:
        seen.append(event)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError):
        resume("scrub", tmp_path / "run", log=stop)
    done(f"scrub --resume {tmp_path / 'run'}")
    assert same(tmp_path / "run", whole("scissorhands"))


def test_a_run_that_was_interrupted_is_guarded(erased: Eraser, tmp_path: Path) -> None:
    interrupted(erased, "esd", 2, "signal", tmp_path / "run")
    adam_remembers_its_steps(tmp_path)
    another_verb_does_not_go_on_with_it(tmp_path)
    a_method_that_a_file_names_runs_only_if_the_user_names_it(tmp_path)


def adam_remembers_its_steps(folder: Path) -> None:
    (file,) = (folder / ".run.unfinished" / "checkpoints").rglob("*.safetensors")
    names = {name.rpartition(".")[2] for name in load_file(file) if name.startswith("optimizer/")}
    assert names == {"step", "exp_avg", "exp_avg_sq"}


def another_verb_does_not_go_on_with_it(folder: Path) -> None:
    answer = cli(f"train --resume {folder / 'run'}")
    assert (answer.code, len(answer.err.strip().splitlines())) == (2, 1)
    assert "was begun by 'scrub'" in answer.err
    assert runs.resumable(folder / "run")


def a_method_that_a_file_names_runs_only_if_the_user_names_it(folder: Path) -> None:
    begun = runs.unfinished(folder / "run") / runs.BEGUN
    begun.write_text(begun.read_text().replace('method = "esd"', 'method = "antigravity:geohash"'))
    refused(f"scrub --resume {folder / 'run'}", folder, "If you trust it, name it: --method antigravity:geohash")
    assert "antigravity" not in sys.modules


def test_a_pipeline_that_changed_meanwhile_is_refused(source: Path, base: Path, tmp_path: Path) -> None:
    own = shutil.copytree(source, tmp_path / "own")

    def stop(event: Mapping[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    erasure, values = Erasure(data=str(tinysd.photographs(base))), QUICK["finetune"]
    with pytest.raises(StoppedError):
        erase(own, erasure, "finetune", values, Place(tmp_path / "run"), stop)
    weights = load_file(own / pipelines.WEIGHTS)
    weights["conv_out.bias"] += 1
    save_file(weights, own / pipelines.WEIGHTS)
    with pytest.raises(RunError, match="'weights' was"):
        resume("scrub", tmp_path / "run")


def test_images_are_encoded_with_the_threads_that_it_was_begun_with(erased: Eraser, tmp_path: Path) -> None:
    """Another number of threads may add in another order, and the latents are what all the rest depends on."""
    seen: list[int] = []
    encoded, threads = pipelines.encoded_images, torch.get_num_threads()

    def watched(*given: Any) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return encoded(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipelines, "load", kept.load_from_disk)
        patch.setattr(pipelines, "encoded_images", watched)
        interrupted(erased, "esd", 2, "signal", tmp_path / "run")
        torch.set_num_threads(3 - threads if threads < 3 else 1)
        try:
            resume("scrub", tmp_path / "run")
        finally:
            torch.set_num_threads(threads)
    assert seen == [threads] * 4  # a pipeline is tried when it is loaded


def test_a_folder_of_images_is_found_again_from_elsewhere(
    base: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(event: Mapping[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.chdir(base)
    erasure = Erasure(data=tinysd.photographs(base).name)
    with pytest.raises(StoppedError):
        erase(source, erasure, "esd", QUICK["esd"], Place(tmp_path / "run"), stop)
    monkeypatch.chdir(tmp_path)
    answer = cli("scrub --resume run")
    assert (answer.code, "error" in answer.err) == (0, False)


# Two processes


def together(base: Path) -> dict[str, Callable[[Path], str]]:
    """Commands by name, each for an output folder. The last ones may set the processes against each other."""
    pipeline, data = base / tinysd.SOURCE, f"--data {base / tinysd.PHOTOGRAPHS}"
    sgd = f"{data} --set optimizer=sgd"
    anchor = "--anchor 'a four'"

    def asked(method: str, more: str, **settings: Any) -> Callable[[Path], str]:
        return lambda out: command(pipeline, out, method, more, **settings)

    return {
        "scissorhands": asked("scissorhands", sgd, lr=0.01, batch_size=5),
        "scissorhands with an anchor": asked("scissorhands", f"{sgd} {anchor}", lr=0.01, batch_size=5),
        "scissorhands-diffusion": asked("scissorhands-diffusion", sgd, lr=0.01, batch_size=5),
        "salun-diffusion": asked("salun-diffusion", f"{sgd} {anchor}", lr=0.01, batch_size=5),
        "esd": asked("esd", sgd, lr=0.01, steps=2),
        "images that are drawn": asked(
            "finetune", f"{anchor} --erase per_prompt=3 --erase inference=1 --set optimizer=sgd", lr=0.01
        ),
        "a mistake": asked("finetune", "--data nowhere"),
        "esd in batches of one": asked("esd", sgd, lr=0.01, steps=2, batch_size=1),
    }


NAMES = [name for name in together(Path()) if name != "a mistake"]


@pytest.fixture(scope="session")
def both(nursery: Nursery, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what two processes wrote and answered."""
    folder = tmp_path_factory.mktemp("both")
    commands = [asked(folder / name) for name, asked in together(base).items()]
    (folder / "commands.json").write_text(json.dumps(commands))
    worker = Path(erasers.__file__)
    cache = str(folder / "cache")
    nursery.imports("helpers.tinysd")
    nursery.torchrun(2, worker, folder / "commands.json", SCISSORHANDS_CACHE=cache, SCISSORHANDS_TIMEOUT="8")
    return folder


def answers(both: Path, base: Path, name: str) -> list[list[Any]]:
    number = list(together(base)).index(name)
    found = [json.loads((both / f"answers-{rank}.json").read_text()) for rank in (0, 1)]
    assert min(map(len, found)) > number, "a command before it set the processes apart"
    return [answers[number] for answers in found]


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_leave_the_unet_that_one_leaves(name: str, both: Path, base: Path, tmp_path: Path) -> None:
    one, other = answers(both, base, name)
    assert (one[0], other[0]) == (0, 0), one[2][-500:] + other[2][-500:]
    assert other[2] in ("", one[2])  # torchrun ends it before it can say the same
    done(together(base)[name](tmp_path / "alone"))
    found, expected = unet(both / name), unet(tmp_path / "alone")
    assert changed(unet(tinysd.source(base)), found)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-4, msg=f"{key} is another")
    assert files(both / name).keys() == files(tmp_path / "alone").keys()


def test_what_two_processes_wrote_is_a_pipeline_that_draws(both: Path) -> None:
    loaded = pipelines.load(both / "scissorhands", CPU)
    (images,) = drawing.drawn(loaded, [Prompt("a three", 0, 0)], drawing.Drawing(steps=1))
    assert images.shape == (1, 3, 8, 8)
    assert runs.read(both / "scissorhands").record["world_size"] == 2


def test_a_mistake_of_two_processes_is_told_once(both: Path, base: Path) -> None:
    one, other = answers(both, base, "a mistake")
    assert (one[0], other[0]) == (2, 2)
    assert len(one[2].strip().splitlines()) == 1
    assert other[2] in ("", one[2])  # torchrun ends it before it can say the same
    assert not (both / "a mistake").exists()


@pytest.mark.parametrize("count", erasers.COUNTS)
def test_the_noise_of_a_record_does_not_depend_on_the_number_of_processes(count: int, both: Path) -> None:
    alone = erasers.noises()
    halves = [load_file(both / f"noise-{rank}.safetensors") for rank in (0, 1)]
    assert len(halves[0][f"times {count}"]) == count // 2
    for what in (f"noise {count}", f"times {count}"):
        assert torch.equal(torch.cat([half[what] for half in halves]), alone[what])


# What is refused


def damaged(source: Path, folder: Path, how: str) -> Path:
    """A copy of the pipeline that something is wrong with."""
    own = shutil.copytree(source, folder)
    weights = own / pipelines.WEIGHTS
    index = json.loads((own / "model_index.json").read_text())
    match how:
        case "another pipeline":
            (own / "model_index.json").write_text(json.dumps(index | {"_class_name": "StableDiffusionXLPipeline"}))
        case "an index that is no JSON":
            (own / "model_index.json").write_text("{")
        case "an index that is a list":
            (own / "model_index.json").write_text("[]")
        case "no U-Net":
            shutil.rmtree(own / "unet")
        case "no tokenizer":
            shutil.rmtree(own / "tokenizer")
        case "a pickle":
            weights.rename(weights.with_suffix(".bin"))
        case "weights that are cut off":
            weights.write_bytes(weights.read_bytes()[:-1000])
        case "weights that are no weights":
            weights.write_bytes(b"dear")
        case "a text encoder that is cut off":
            path = own / "text_encoder" / "model.safetensors"
            path.write_bytes(path.read_bytes()[:-1000])
        case "a weight of another shape":
            save_file(load_file(weights) | {"conv_out.bias": torch.zeros(9)}, weights)
        case "a weight that is missing":
            save_file({k: v for k, v in load_file(weights).items() if k != "conv_out.weight"}, weights)
        case "a weight of the text encoder that is missing":
            path = own / "text_encoder" / "model.safetensors"
            save_file(dict(list(load_file(path).items())[:-1]), path, metadata={"format": "pt"})
        case "a weight of the autoencoder of another shape":
            path = own / "vae" / "diffusion_pytorch_model.safetensors"
            known = load_file(path)
            save_file(known | {next(iter(known)): torch.zeros(9)}, path)
        case "a configuration that is no JSON":
            (own / "unet" / "config.json").write_text("{")
        case "a configuration that is missing":
            (own / "unet" / "config.json").unlink()
    return own


DAMAGES = {
    "another pipeline": "StableDiffusionXLPipeline",
    "an index that is no JSON": "model_index.json cannot be read",
    "an index that is a list": "model_index.json cannot be read: it is not a JSON object",
    "no U-Net": "it has no 'unet'",
    "no tokenizer": "it has no 'tokenizer'",
    "a pickle": "no weights as safetensors",
    "weights that are cut off": "cannot be loaded",
    "weights that are no weights": "cannot be loaded",
    "a text encoder that is cut off": "cannot be loaded",
    "a weight of another shape": "of another shape: conv_out.bias",
    "a weight that is missing": "missing: conv_out.weight",
    "a weight of the text encoder that is missing": "text_encoder do not fit its config.json; missing: ",
    "a weight of the autoencoder of another shape": "vae do not fit its config.json; of another shape: ",
    "a configuration that is no JSON": "config.json cannot be read as JSON",
    "a configuration that is missing": "cannot be loaded",
}


def refused(text: str, folder: Path, *messages: str) -> None:
    """Raises unless the command fails with code 2 and one line that says this, and leaves the folder as it was."""
    before = sorted(folder.rglob("*"))
    answer = cli(text)
    assert answer.code == 2, (answer.code, answer.err)
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) == 1, answer.err
    for message in messages:
        assert message in answer.err
    assert sorted(folder.rglob("*")) == before, "something was written"


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_pipeline_is_refused(how: str, source: Path, base: Path, tmp_path: Path) -> None:
    own = damaged(source, tmp_path / "own", how)
    refused(command(own, tmp_path / "out", more=f"--data {tinysd.photographs(base)}"), tmp_path, DAMAGES[how])


@pytest.mark.parametrize("verb", ["scrub", "sample"])
def test_a_folder_without_an_index_is_no_pipeline(verb: str, source: Path, tmp_path: Path) -> None:
    own = shutil.copytree(source, tmp_path / "own")
    (own / "model_index.json").unlink()
    texts = {
        "scrub": command(own, tmp_path / "out", more="--anchor 'a four'"),
        "sample": f"sample {own} --prompts a -o {tmp_path / 'out'}",
    }
    refused(texts[verb], tmp_path, {"scrub": "is a classifier", "sample": "it has no model_index.json"}[verb])
    if verb == "scrub":
        refused(command(own, tmp_path / "out"), tmp_path, str(own))


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_list_of_images_is_refused(what: str, source: Path, tmp_path: Path) -> None:
    own = shutil.copytree(tinysd.photographs(tmp_path / "there"), tmp_path / "images")
    shutil.copy(own / "three-0.png", own / "a.png")
    text, message = BROKEN[what]
    (own / "metadata.csv").write_text(text)
    refused(command(source, tmp_path / "out", more=f"--data {own}"), tmp_path, message)


REFUSED = {
    "a concept that no prompt mentions": ("--forget concept:seven DATA", "none of the 3 prompts mentions"),
    "a concept that every prompt mentions": ("--forget concept:a DATA", "leaves nothing to retain"),
    "a concept without a word": ("--forget concept:, DATA", "concept"),
    "nothing to keep": ("--forget concept:three", "--anchor", "--erase retain=", "--data"),
    "a class": ("--forget class:3 DATA", "a pipeline forgets a concept"),
    "a share": ("--forget random:10% DATA", "a pipeline forgets a concept"),
    "nothing to forget": ("DATA", "say what to forget"),
    "shrink": ("--forget concept:three DATA --method shrink", "'shrink' applies only to classifiers"),
    "expand": ("--forget concept:three DATA --method expand", "'expand' applies only to classifiers"),
    "influence": ("--forget concept:three DATA --method influence", "'influence' applies only to classifiers"),
    "a method that is not known": ("--forget concept:three DATA --method scissorhand", "Did you mean 'scissorhands'"),
    "a setting of erasure that is not known": ("--forget concept:three DATA --erase ancor=a", "Did you mean 'anchor'"),
    "an optimizer that is not known": ("--forget concept:three DATA --set optimizer=lion", "one of sgd, adam, adamw"),
    "parameters that are not there": ("--forget concept:three DATA --erase 'parameters=*lstm*'", "*lstm*"),
    "no parameters": ("--forget concept:three DATA --erase 'parameters=*,-*'", "leaves no parameter"),
    "a setting that is out of range": ("--forget concept:three DATA --set trim=2", "'trim' must be"),
    "an option of classifiers": ("--forget concept:three DATA --unseen 0.3", "--unseen applies only to classifiers"),
    "a folder of images that is not there": ("--forget concept:three --data nowhere", "nowhere"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_pipeline_cannot_do_is_refused(what: str, source: Path, base: Path, tmp_path: Path) -> None:
    options, *messages = REFUSED[what]
    options = options.replace("DATA", f"--data {tinysd.photographs(base)}")
    refused(f"scrub {source} {options} -o {tmp_path / 'out'}", tmp_path, *messages)


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier of digits."""
    folder = tmp_path_factory.mktemp("classifier") / "trained"
    done(f"train --model small --model-set width=2 --data digits --set epochs=1 --set batch_size=512 -o {folder}")
    return folder


OF_PIPELINES = {
    "an anchor": ("--forget class:3 --anchor 'a four'", "--anchor applies only to diffusion pipelines"),
    "a setting of erasure": ("--forget class:3 --erase per_prompt=3", "--erase applies only to diffusion pipelines"),
    "a concept": ("--forget concept:nudity", "nudity"),
    "esd": ("--forget class:3 --method esd", "'esd' applies only to diffusion pipelines; "),
    "esd by its module": (
        "--forget class:3 --method scissorhands.tasks.diffusion.esd:ErasedDiffusion --untrained",
        "the model here is a classifier",
    ),
}


@pytest.mark.parametrize("what", OF_PIPELINES)
def test_what_is_for_pipelines_is_refused_for_a_classifier(what: str, classifier: Path, tmp_path: Path) -> None:
    options, message = OF_PIPELINES[what]
    refused(f"scrub {classifier} {options} -o {tmp_path / 'out'}", tmp_path, message)


def test_a_folder_that_exists_is_not_replaced(source: Path, base: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    text = command(source, tmp_path / "out", more=f"--data {tinysd.photographs(base)}")
    refused(text, tmp_path, "exists already")
    refused(f"{text} --overwrite", tmp_path, "which is not ours")


@pytest.mark.parametrize("verb", ["scrub", "sample"])
def test_without_the_extra_one_line_says_what_to_install(
    verb: str, source: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shutil.copytree(source, tmp_path / "own")  # which was not loaded before
    monkeypatch.setitem(sys.modules, "diffusers", None)
    texts = {
        "scrub": command(own, tmp_path / "out", more=f"--data {tinysd.photographs(base)}"),
        "sample": f"sample {own} --prompts a -o {tmp_path / 'out'}",
    }
    refused(texts[verb], tmp_path, "pip install 'scissorhands[diffusion]'")


def test_all_else_works_without_the_extra() -> None:
    """What the command line and its commands import, when they start or later, is there without the extra."""
    pending, seen = {"cli", *(f"cli/{verb}" for verb in VERBS)}, set[str]()
    while pending:
        module = pending.pop()
        path = PACKAGE / f"{module}.py" if (PACKAGE / f"{module}.py").exists() else PACKAGE / module / "__init__.py"
        seen.add(module)
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            origin = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert not {origin.partition(".")[0], *names} & {"diffusers", "torchmetrics", "nudenet"}, path
            if isinstance(node, ast.ImportFrom) and node.level:
                home = Path(*path.relative_to(PACKAGE).parts[: -node.level]) / origin.replace(".", "/")
                near = [str(home), *(str(home / name) for name in names)]
                known = [n for n in near if (PACKAGE / f"{n}.py").exists() or (PACKAGE / n / "__init__.py").exists()]
                pending |= {*known} - seen - {"."}
    assert {f"tasks/diffusion/{name}" for name in ("erasure", "esd", "drawing", "pipeline")} <= seen


# Pipelines of other kinds


def test_the_pipeline_of_the_first_stable_diffusion_is_erased_too(source: Path, base: Path, tmp_path: Path) -> None:
    own = tinysd.pipeline()
    own.scheduler = PNDMScheduler(**tinysd.BETAS, skip_prk_steps=True, steps_offset=1)
    own.save_pretrained(tmp_path / "own")
    for method in ("scissorhands", "esd"):
        done(command(tmp_path / "own", tmp_path / method, method, "--anchor 'a four' --erase per_prompt=2"))
        assert changed(unet(tmp_path / "own"), unet(tmp_path / method))


def test_a_unet_in_half_precision_is_erased_in_full(source: Path, base: Path, tmp_path: Path) -> None:
    own = shutil.copytree(source, tmp_path / "own")
    save_file({name: value.half() for name, value in unet(source).items()}, own / pipelines.WEIGHTS)
    done(command(own, tmp_path / "out", "finetune", f"--data {tinysd.photographs(base)}"))
    assert {value.dtype for value in unet(tmp_path / "out").values()} == {torch.float32}


def test_weights_in_several_files_become_one(source: Path, base: Path, tmp_path: Path) -> None:
    own = tinysd.pipeline()
    own.save_pretrained(tmp_path / "own")
    own.unet.save_pretrained(tmp_path / "own" / "unet", max_shard_size="20KB")
    (tmp_path / "own" / pipelines.WEIGHTS).unlink()
    assert len(list((tmp_path / "own" / "unet").glob("*.safetensors"))) > 1
    done(command(tmp_path / "own", tmp_path / "out", "finetune", f"--data {tinysd.photographs(base)}"))
    assert StableDiffusionPipeline.from_pretrained(tmp_path / "out").unet is not None
    assert {path.name for path in (tmp_path / "out" / "unet").iterdir()} == {"config.json", pipelines.WEIGHTS.name}
