"""How each observation is gathered, and what that costs: probes, reference models, shadow models."""

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
from ..metrics import normal_score
from ..randomness import generator
from . import probes
from .context import SEED, Context, Pace
from .predict import predict
from .reference_models import Trainer


@dataclass(frozen=True)
class Gatherer:
    """Something to look at: the settings that change it, what it is in words, its price, and how it is gathered."""

    settings: tuple[str, ...]
    what: Callable[[Context], str]
    seconds: Callable[[Context, Pace], float]
    gather: Callable[[Context, Log], dict[str, Any]]


def _steps(context: Context, records: int) -> int:
    return -(-records // context.batch_size)


def _forward(pace: Pace, *parts: Part) -> float:
    return pace.record * sum(len(part) for part in parts)


def _probe(context: Context, log: Log) -> dict[str, Any]:
    shots = context.settings.shots
    inside, outside = probes.probe(context.model, context.problem, context.split.others, shots)
    return {"probe": inside, "probe_others": outside, "probe_shots": shots}


def _probe_seconds(context: Context, pace: Pace) -> float:
    """Extrapolate the time of a probe from a twentieth and a tenth of the retained records."""
    records, retain = min(len(context.split.retain), probes.MOST), context.split.retain

    def timed(count: int) -> float:
        few = context.problem.sample(retain, count / len(retain), "pace")
        started = time.perf_counter()
        probes.probe(context.model, replace(context.problem, retain=few), context.split.others, context.settings.shots)
        return time.perf_counter() - started

    less, more = max(50, records // 20), max(100, records // 10)
    timed(less)  # what a process does only once is not counted
    first, second = timed(less), timed(more)
    return second + max(0.0, second - first) * (records - more) / (more - less)


def _reawakened(context: Context, log: Log) -> dict[str, Any]:
    return {"reawakened": probes.reawaken(context.model, context.problem, context.batch_size, log)}


def _reawakened_seconds(context: Context, pace: Pace) -> float:
    return pace.step * probes.SOON.epochs * _steps(context, min(len(context.split.retain), probes.MOST))


def _few_shot(context: Context, log: Log) -> dict[str, Any]:
    shots = context.settings.shots
    return {"few_shot": probes.few_shot(context.model, context.problem, shots, context.batch_size, log)}


def _few_shot_seconds(context: Context, pace: Pace) -> float:
    shown = context.settings.shots * len(context.split.forget.labels.unique())
    shown += context.settings.shots * len(context.split.retain.labels.unique())
    steps = probes.FEW.epochs * -(-shown // context.batch_size)
    return pace.step * steps * min(1.0, shown / context.batch_size) + _forward(pace, context.split.forget)


def _relearning(context: Context, log: Log) -> dict[str, Any]:
    if context.original_accuracy is None:
        raise SettingError("the original's accuracy on the forgotten records is not recorded.")
    found = probes.relearn(
        context.model, context.problem, context.original_accuracy, context.batch_size, context.settings.relearn, log
    )
    return {"relearning": found, "original_accuracy": context.original_accuracy}


def _relearning_seconds(context: Context, pace: Pace) -> float:
    epoch = pace.step * len(context.split.forget) / context.batch_size + _forward(pace, context.split.forget)
    return context.settings.relearn * epoch


def _halves(context: Context) -> list[Part]:
    """Draw the records of each reference model: a random half of what is retained."""
    retain = context.split.retain
    return [context.problem.sample(retain, 0.5, "reference", i) for i in range(context.settings.references)]


def _references(context: Context, log: Log) -> dict[str, Any]:
    found = []
    for reference in context.trainer_for("reference").trained(_halves(context), log):
        one: dict[str, Any] = {
            name: predict(reference, part)
            for name, part in context.split.parts().items()
            if name != "retain"  # of which it saw a half, so that it says nothing about a model that saw all
        }
        if context.split.kind == "classes":
            with suppress(ModelError):  # a model without a linear head has no probe, and is a reference all the same
                one |= _probe(replace(context, model=reference), log)
        found.append(one)
    return {"references": found}


def _references_what(context: Context) -> str:
    what = "reference models on half of the retained data"
    return _trained(context.trainer_for("reference"), _halves(context), what)


def _references_seconds(context: Context, pace: Pace) -> float:
    halves, trainer = _halves(context), context.trainer_for("reference")
    each = pace.step * trainer.training.epochs * _steps(context, len(halves[0]))
    probing = len(halves) * _probe_seconds(context, pace) if context.split.kind == "classes" else 0.0
    asked = [part for name, part in context.split.parts().items() if name != "retain"]
    return each * trainer.missing(halves) + _forward(pace, *asked) * len(halves) + probing


def _pool(context: Context) -> Part:
    """Return the records whose membership is in question: the forgotten ones, and the others, which were never seen."""
    pool = Joined(context.split.forget, context.split.others)
    return Part(pool, torch.arange(len(pool)))


def _shadow_draws(context: Context) -> Tensor:
    """Draw the half of the pool that each shadow model is trained on, and then made to forget.

    Every second model takes the other half of the one before, so that each record is seen by half of the models.
    """
    size = len(context.split.forget) + len(context.split.others)
    trained = torch.zeros(context.settings.shadows, size, dtype=torch.bool)
    for i in range(0, len(trained), 2):
        order = torch.randperm(size, generator=generator(SEED, "shadow", i))
        for row, half in zip(trained[i : i + 2], order.tensor_split(2), strict=False):
            row[half] = True
    return trained


def _shadow_parts(context: Context, draws: Tensor) -> tuple[list[Part], list[Part]]:
    """Return the records of each shadow model: those to train on, and of these those to forget."""
    everything = Joined(context.split.retain, context.split.forget, context.split.others)
    retained = torch.arange(len(context.split.retain))
    pool = len(retained) + torch.arange(draws.shape[1])
    learned = [Part(everything, torch.cat([retained, pool[drawn]])) for drawn in draws]
    return learned, [Part(everything, pool[drawn]) for drawn in draws]


def _shadows(context: Context, log: Log) -> dict[str, Any]:
    draws = _shadow_draws(context)
    learned, forgets = _shadow_parts(context, draws)
    scores = []
    for seed, shadow in enumerate(context.trainer_for("shadow").trained(learned, log)):
        if context.method:
            retain = replace(learned[seed], ids=torch.arange(len(context.split.retain)))
            problem = replace(context.problem, forget=forgets[seed], retain=retain, seed=seed)
            context.method.scrub(shadow, problem, log)
        said = predict(shadow, _pool(context))
        scores.append(normal_score(said))
    return {"shadows": torch.stack(scores), "shadows_trained": draws}


def _shadows_what(context: Context) -> str:
    learned, _ = _shadow_parts(context, _shadow_draws(context))
    return _trained(context.trainer_for("shadow"), learned, "shadow models, each made to forget")


def _shadows_seconds(context: Context, pace: Pace) -> float:
    learned, _ = _shadow_parts(context, _shadow_draws(context))
    trainer = context.trainer_for("shadow")
    each = pace.step * trainer.training.epochs * _steps(context, len(learned[0]))
    return each * trainer.missing(learned) + context.settings.shadows * context.seconds


def _trained(trainer: Trainer, parts: list[Part], what: str) -> str:
    missing = trainer.missing(parts)
    kept = f", {len(parts) - missing} of them kept from before" if missing < len(parts) else ""
    return f"{len(parts)} {what}{kept}"


GATHERERS: dict[str, Gatherer] = {
    "probe": Gatherer(("shots",), lambda context: "a linear probe of the features", _probe_seconds, _probe),
    "reawakened": Gatherer(
        ("training",),
        lambda context: f"relearning from retained data alone, {probes.SOON.epochs} epochs",
        _reawakened_seconds,
        _reawakened,
    ),
    "few_shot": Gatherer(
        ("shots", "training"),
        lambda context: f"relearning from {context.settings.shots} records of each class",
        _few_shot_seconds,
        _few_shot,
    ),
    "relearning": Gatherer(
        ("relearn", "training"),
        lambda context: f"relearning the forgotten records, at most {context.settings.relearn} epochs",
        _relearning_seconds,
        _relearning,
    ),
    "references": Gatherer(
        ("references", "shots", "training"),
        _references_what,
        _references_seconds,
        _references,
    ),
    "shadows": Gatherer(
        ("shadows", "training"),
        _shadows_what,
        _shadows_seconds,
        _shadows,
    ),
}
