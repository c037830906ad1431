"""The table of tasks: which kind of model a folder holds, and which methods apply to it."""

import dataclasses
import json
from pathlib import Path

import pytest

from helpers import tinysd
from helpers.commands import cli, done
from scissorhands import tasks
from scissorhands.choices import LEVELS
from scissorhands.data.forget import Forget
from scissorhands.data.split import Split
from scissorhands.errors import ModelError, SettingError
from scissorhands.evaluation.evaluate import Scores
from scissorhands.methods import METHODS, Method
from scissorhands.metrics import METRICS
from scissorhands.runs.place import Place
from scissorhands.runs.scrub import scrub
from scissorhands.runs.subject import load_classifier
from scissorhands.tasks.classification.request import Request
from scissorhands.tasks.classification.task import Classification
from scissorhands.tasks.diffusion.erasure import Concept, Erasure
from scissorhands.tasks.diffusion.task import Diffusion


def test_a_folder_with_an_index_is_a_pipeline_and_all_else_a_classifier(tmp_path: Path) -> None:
    assert tasks.find(str(tinysd.source(tmp_path))) is Diffusion
    for other in (str(tmp_path), "owner/name", "nowhere"):
        assert tasks.find(other) is Classification


def test_a_run_goes_on_as_the_kind_of_model_that_it_was_begun_with() -> None:
    assert tasks.begun_by({"concept": "concept:three", "model": "gone"}) is Diffusion
    assert tasks.begun_by({"forget": "class:3", "model": "gone"}) is Classification
    assert tasks.begun_by({}) is Classification


def test_every_method_stands_in_one_table() -> None:
    assert list(tasks.methods()) == [*METHODS, "scissorhands-diffusion", "salun-diffusion", "esd"]
    shown = json.loads(done("methods --json").out)
    assert [row["name"] for row in shown] == list(tasks.methods())
    assert json.loads(done("methods esd --json").out)["settings"]


@pytest.mark.parametrize("task", tasks.TASKS)
def test_a_method_that_does_not_apply_is_told_from_one_that_is_not_there(task: type[tasks.Task]) -> None:  # type: ignore[type-arg]
    for name in tasks.methods():
        if name in task.methods():
            assert tasks.method(name, task) is tasks.methods()[name]
            continue
        with pytest.raises(SettingError, match=rf"^'{name}' applies only to .*s; it is a {task.noun}\.$"):
            tasks.method(name, task, "it")
    with pytest.raises(SettingError, match=r"there is no method 'scissorhand'\. Did you mean 'scissorhands'"):
        tasks.method("scissorhand", task)


def test_a_method_that_is_not_there_is_named_by_the_command_too() -> None:
    answer = cli("methods salunn")
    assert answer.code == 2
    assert "there is no method 'salunn'. Did you mean 'salun'?" in answer.err


def test_a_method_of_ones_own_applies_to_every_kind_of_model() -> None:
    for task in tasks.TASKS:
        found = tasks.method("scissorhands:FineTune", task)
        assert issubclass(found, Method)
        assert dataclasses.is_dataclass(found)


@pytest.mark.parametrize("task", tasks.TASKS)
def test_a_request_survives_being_written_down(task: type[tasks.Task]) -> None:  # type: ignore[type-arg]
    options = {
        "forget": "concept:three" if task is Diffusion else "class:3",
        "data": "digits",
        "data_set": ("size=8",),
        "split_seed": 3,
        "unseen": 0.3,
        "label": "label",
        "labels": None,
        "key": None,
        "missing": "refuse",
        "untrained": True,
        "anchor": "a four",
        "erase": ("per_prompt=3",),
    }
    request = task.asks.from_options(options)
    assert task.asks.from_dict(request.to_dict()) == request
    assert task.request_key in request.to_dict()
    with pytest.raises(SettingError, match="say what to forget: --forget"):
        task.asks.from_options({**options, "forget": None})


def test_a_request_for_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    concept, place = Concept(Forget("concept:three"), Erasure(anchor="a four")), Place(tmp_path / "out")
    with pytest.raises(ModelError, match=r"^gone is not a diffusion pipeline, or does not exist\.$"):
        scrub("gone", concept, "esd", {}, place)
    pipeline = str(tinysd.source(tmp_path))
    with pytest.raises(ModelError, match="is not a classifier, or does not exist"):
        scrub(pipeline, Request(Forget("class:3")), "finetune", {}, place)
    assert not (tmp_path / "out").exists()


def test_a_level_that_a_kind_of_model_does_not_have_is_refused() -> None:
    for task in tasks.TASKS:
        for level in LEVELS:
            if level in task.levels:
                tasks.require_level(level, task, "it")
                continue
            with pytest.raises(SettingError, match=rf"^level {level} applies only to .*s; it is a {task.noun}\.$"):
                tasks.require_level(level, task, "it")
    assert all(set(task.levels) <= set(LEVELS) and "quick" in task.levels for task in tasks.TASKS)


def test_a_pipeline_is_no_classifier(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tiny-pipeline is a diffusion pipeline, and a classifier is needed\.$"):
        load_classifier(str(tinysd.source(tmp_path)))


def test_data_is_loaded_each_time_or_once() -> None:
    loaded: list[str] = []

    def load() -> int:
        loaded.append("it")
        return len(loaded)

    read = tasks.once()
    assert [read("a", load), read("a", load), read("b", load), read("a", load)] == [1, 1, 2, 1]
    assert [tasks.each_time("a", load), tasks.each_time("a", load)] == [3, 4]


@pytest.mark.parametrize("part", METHODS["scissorhands"].judged_on)
def test_damage_is_seen_on_every_part_of_a_split_that_a_method_is_judged_on(part: str) -> None:
    assert part in {f.name for f in dataclasses.fields(Split)}
    name = f"{part}_accuracy"
    assert part == "calibration" or name in METRICS  # methods look at calibration; commands score the rest
    fell = Scores({name: 40.0}, {part: 500})
    task = object.__new__(Classification)
    said = task.damage(METHODS["scissorhands"], {name: 98.0}, fell)
    assert said.endswith("data fell from 98.0 to 40.0 %")
    few = Scores({name: 40.0}, {part: 5})
    assert bool(task.damage(METHODS["scissorhands"], {name: 98.0}, few)) == (part == "retain")
