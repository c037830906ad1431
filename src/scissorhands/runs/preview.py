"""What a request would touch, before anything is done."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import tasks
from ..data.duplicates import Duplicate, near_duplicates
from ..data.split import Split
from ..errors import ScissorhandsError
from ..evaluation.context import Evaluation
from ..methods import Method
from ..metrics import Power, power
from ..tasks import Division
from .subject import load_classifier

_STEPS, _SECONDS = 8, 5.0  # after so many steps of a method, or so long, how long it takes is known


@dataclass(frozen=True)
class Preview:
    """What a request would touch.

    `classes` has a row for each class that loses records, or one row for numbers to predict; `power` says what the
    verdict could tell at a level. How many `seconds` the method takes is None where it cannot do it at all, which
    `cannot` then explains.
    """

    split: Split
    before: int
    classes: list[dict[str, Any]]
    duplicates: list[Duplicate]
    power: Mapping[str, Power]
    seconds: float | None
    cannot: str

    def name(self, part: str, number: int) -> str:
        """Return what people call a record of a part."""
        return str(getattr(self.split, part).records.keys[number])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        forget = self.split.forget
        return {
            "forget": len(forget),
            "retain": len(self.split.retain),
            "before": self.before,
            "classes": self.classes,
            "keys": [forget.records.keys[number] for number in forget.ids.tolist()],
            "duplicates": [
                {"key": self.name("forget", x.record), "part": x.part, "other": self.name(x.part, x.other)}
                for x in self.duplicates
            ],
            "power": {level: one.to_dict() for level, one in self.power.items()},
            "seconds": self.seconds,
            "cannot": self.cannot,
        }


def preview(source: str, request: Any, method: str, factory: str | None, device: torch.device) -> Preview:
    """Say what a request would touch; the model and the data stay as they are, and nothing is written."""
    kind = tasks.method(method, tasks.asked_of(source, request), source)
    task = load_classifier(source, factory, device)
    posed = task.pose(request, 0, device, str)
    divided, counts = posed.split, posed.counts
    staying = {name: part for name, part in divided.parts().items() if name not in ("forget", "others")}
    references = {"quick": 0, "standard": Evaluation().references}
    found = {level: power(counts, divided.kind, count) for level, count in references.items()}
    duplicates = near_duplicates(divided.forget, staying)
    seconds, cannot = _timed(kind.make(task.defaults(kind)), posed)
    return Preview(divided, len(posed.ids["before"]), _classes(divided), duplicates, found, seconds, cannot)


def _classes(divided: Split) -> list[dict[str, Any]]:
    """Count the records of each class that loses some; of numbers to predict say from where to where they are."""
    names, forget = divided.forget.records.classes, len(divided.forget)
    if divided.forget.records.regression:
        low, high = divided.forget.labels.aminmax()
        return [{"labels": f"{low:g} to {high:g}", "forget": forget, "of": forget + len(divided.retain)}]
    labels, counts = divided.forget.labels.unique(return_counts=True)
    rows = []
    for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
        stays = int((divided.retain.labels == label).sum())
        rows.append({"class": names[label] if names else str(label), "forget": count, "of": count + stays})
    return rows


class _EnoughError(Exception):
    """Enough steps were taken to know how long a method takes."""


def _timed(method: Method, posed: Division) -> tuple[float | None, str]:
    """Take the first steps of a method, and return how long all of them take, or why it cannot be done."""
    started, ticks = time.perf_counter(), list[tuple[float, int, int]]()

    def log(event: Mapping[str, Any]) -> None:
        if "steps" in event:
            ticks.append((time.perf_counter(), event["step"], event["steps"]))
        if len(ticks) > _STEPS or (len(ticks) > 1 and ticks[-1][0] - started > _SECONDS):
            raise _EnoughError

    try:
        method.scrub(posed.model, posed.problem, log)
    except _EnoughError:
        (first, before, _), (last, after, steps) = ticks[0], ticks[-1]
        return first - started + (last - first) / max(1, after - before) * steps, ""
    except ScissorhandsError as error:
        return None, str(error)
    return time.perf_counter() - started, ""
