"""How each piece of evidence is gathered, and what that costs: probes, reference models, shadow models."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..data.problem import Log
from ..data.records import Joined, Part
from ..errors import ModelError, SettingError
from ..metrics import sureness
from ..randomness import generator
from . import probes as residue
from .exam import SEED, Exam, Pace
from .predict import predict
from .reference_models import Teacher


@dataclass(frozen=True)
class Gatherer:
    """Something to look at: the settings that change it, what it is in words, its price, and how it is gathered."""

    settings: tuple[str, ...]
    what: Callable[[Exam], str]
    seconds: Callable[[Exam, Pace], float]
    gather: Callable[[Exam, Log], dict[str, Any]]


def _steps(exam: Exam, records: int) -> int:
    return -(-records // exam.batch_size)


def _forward(exam: Exam, pace: Pace, *parts: Part) -> float:
    return pace.record * sum(len(part) for part in parts)


def _probe(exam: Exam, log: Log) -> dict[str, Any]:
    shots = exam.settings.shots
    inside, outside = residue.probe(exam.model, exam.problem, exam.split.others, shots)
    return {"probe": inside, "probe_others": outside, "probe_shots": shots}


def _probe_seconds(exam: Exam, pace: Pace) -> float:
    """The time of a probe, continued in a straight line from a twentieth and a tenth of the retained records."""
    records, retain = min(len(exam.split.retain), residue.MOST), exam.split.retain

    def timed(count: int) -> float:
        few = exam.problem.sample(retain, count / len(retain), "pace")
        started = time.perf_counter()
        residue.probe(exam.model, replace(exam.problem, retain=few), exam.split.others, exam.settings.shots)
        return time.perf_counter() - started

    less, more = max(50, records // 20), max(100, records // 10)
    timed(less)  # what a process does only once is not counted
    first, second = timed(less), timed(more)
    return second + max(0.0, second - first) * (records - more) / (more - less)


def _reawakened(exam: Exam, log: Log) -> dict[str, Any]:
    return {"reawakened": residue.reawaken(exam.model, exam.problem, exam.batch_size, log)}


def _few_shot(exam: Exam, log: Log) -> dict[str, Any]:
    return {"few_shot": residue.few_shot(exam.model, exam.problem, exam.settings.shots, exam.batch_size, log)}


def _few_shot_seconds(exam: Exam, pace: Pace) -> float:
    shown = exam.settings.shots * len(exam.split.forget.labels.unique())
    shown += exam.settings.shots * len(exam.split.retain.labels.unique())
    steps = residue.FEW.epochs * -(-shown // exam.batch_size)
    return pace.step * steps * min(1.0, shown / exam.batch_size) + _forward(exam, pace, exam.split.forget)


def _relearning(exam: Exam, log: Log) -> dict[str, Any]:
    if exam.original_accuracy is None:
        raise SettingError("what the original knew of the forgotten records is not recorded.")
    found = residue.relearn(
        exam.model, exam.problem, exam.original_accuracy, exam.batch_size, exam.settings.relearn, log
    )
    return {"relearning": found, "original_accuracy": exam.original_accuracy}


def _relearning_seconds(exam: Exam, pace: Pace) -> float:
    epoch = pace.step * len(exam.split.forget) / exam.batch_size + _forward(exam, pace, exam.split.forget)
    return exam.settings.relearn * epoch


def _halves(exam: Exam) -> list[Part]:
    """The records of each reference model: a random half of what is retained, so that it saw nothing else."""
    return [exam.problem.sample(exam.split.retain, 0.5, "reference", i) for i in range(exam.settings.references)]


def _references(exam: Exam, log: Log) -> dict[str, Any]:
    found = []
    for reference in exam.taught("reference").trained(_halves(exam), log):
        one: dict[str, Any] = {
            name: predict(reference, part)
            for name, part in exam.split.parts().items()
            if name != "retain"  # of which it saw a half, so that it says nothing about a model that saw all
        }
        if exam.split.kind == "classes":
            with suppress(ModelError):  # a model without a linear head has no probe, and is a reference all the same
                one |= _probe(replace(exam, model=reference), log)
        found.append(one)
    return {"references": found}


def _references_seconds(exam: Exam, pace: Pace) -> float:
    halves, teacher = _halves(exam), exam.taught("reference")
    each = pace.step * teacher.training.epochs * _steps(exam, len(halves[0]))
    probes = len(halves) * _probe_seconds(exam, pace) if exam.split.kind == "classes" else 0.0
    asked = [part for name, part in exam.split.parts().items() if name != "retain"]
    return each * teacher.missing(halves) + _forward(exam, pace, *asked) * len(halves) + probes


def _pool(exam: Exam) -> Part:
    """The records whose membership is in question: the forgotten ones, and the others, which were never seen."""
    pool = Joined(exam.split.forget, exam.split.others)
    return Part(pool, torch.arange(len(pool)))


def _shadow_draws(exam: Exam) -> Tensor:
    """Which records of the pool each shadow model is trained on, and then made to forget: a half.

    Every second model takes the other half of the one before, so that each record is seen by half of the models.
    """
    size = len(exam.split.forget) + len(exam.split.others)
    trained = torch.zeros(exam.settings.shadows, size, dtype=torch.bool)
    for i in range(0, len(trained), 2):
        order = torch.randperm(size, generator=generator(SEED, "shadow", i))
        for row, half in zip(trained[i : i + 2], order.tensor_split(2), strict=False):
            row[half] = True
    return trained


def _lessons(exam: Exam, draws: Tensor) -> tuple[list[Part], list[Part], list[Part]]:
    """For each shadow model its records: those to train on, of these those to forget, and those it never sees."""
    everything = Joined(exam.split.retain, exam.split.forget, exam.split.others)
    retained = torch.arange(len(exam.split.retain))
    pool = len(retained) + torch.arange(draws.shape[1])
    lessons = [Part(everything, torch.cat([retained, pool[drawn]])) for drawn in draws]
    forgets, unseen = ([Part(everything, pool[some]) for some in chosen] for chosen in (draws, ~draws))
    return lessons, forgets, unseen


def _shadows(exam: Exam, log: Log) -> dict[str, Any]:
    draws = _shadow_draws(exam)
    lessons, forgets, unseen = _lessons(exam, draws)
    sure = []
    for seed, shadow in enumerate(exam.taught("shadow").trained(lessons, log)):
        if exam.method:
            retain = replace(lessons[seed], ids=torch.arange(len(exam.split.retain)))
            problem = replace(exam.problem, forget=forgets[seed], retain=retain, unseen=unseen[seed], seed=seed)
            exam.method.scrub(shadow, problem, log)
        said = predict(shadow, _pool(exam))
        sure.append(sureness(said.logits, said.labels))
    return {"shadows": torch.stack(sure), "shadows_trained": draws}


def _shadows_seconds(exam: Exam, pace: Pace) -> float:
    lessons, *_ = _lessons(exam, _shadow_draws(exam))
    teacher = exam.taught("shadow")
    each = pace.step * teacher.training.epochs * _steps(exam, len(lessons[0]))
    return each * teacher.missing(lessons) + exam.settings.shadows * exam.seconds


def _trained(teacher: Teacher, parts: list[Part], what: str) -> str:
    missing = teacher.missing(parts)
    kept = f", {len(parts) - missing} of them kept from before" if missing < len(parts) else ""
    return f"{len(parts)} {what}{kept}"


GATHERERS: dict[str, Gatherer] = {
    "probe": Gatherer(("shots",), lambda exam: "a linear probe of the features", _probe_seconds, _probe),
    "reawakened": Gatherer(
        ("training",),
        lambda exam: f"relearning from retained data alone, {residue.SOON.epochs} epochs",
        lambda exam, pace: pace.step * residue.SOON.epochs * _steps(exam, min(len(exam.split.retain), residue.MOST)),
        _reawakened,
    ),
    "few_shot": Gatherer(
        ("shots", "training"),
        lambda exam: f"relearning from {exam.settings.shots} records of each class",
        _few_shot_seconds,
        _few_shot,
    ),
    "relearning": Gatherer(
        ("relearn", "training"),
        lambda exam: f"relearning the forgotten records, at most {exam.settings.relearn} epochs",
        _relearning_seconds,
        _relearning,
    ),
    "references": Gatherer(
        ("references", "shots", "training"),
        lambda exam: _trained(exam.taught("reference"), _halves(exam), "reference models on half of the retained data"),
        _references_seconds,
        _references,
    ),
    "shadows": Gatherer(
        ("shadows", "training"),
        lambda exam: _trained(
            exam.taught("shadow"), _lessons(exam, _shadow_draws(exam))[0], "shadow models, each made to forget"
        ),
        _shadows_seconds,
        _shadows,
    ),
}
