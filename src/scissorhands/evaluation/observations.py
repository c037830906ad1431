"""The observations that a level of evaluation needs besides the model's outputs: what is missing, and how it is stored.

quick      nothing that has to be trained
standard   what is left inside the model, and a few reference models that all methods share
deep       shadow models, each of which is trained and made to forget in the same way
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..choices import LEVELS
from ..data.problem import Log, ignore
from ..errors import ScissorhandsError, SettingError, did_you_mean
from ..metrics import METRICS, Observations, Outputs
from .context import Context, Pace
from .gatherers import GATHERERS


@dataclass(frozen=True)
class Step:
    """One line of what an evaluation will do: what it gathers, in words, and about how long that takes."""

    name: str
    what: str
    seconds: float


def wanted(level: str, known: Iterable[str], at_hand: Iterable[str], regression: bool = False) -> list[str]:
    """List the observations to gather for the metrics of the level that are not known yet, in the table's order."""
    have = {*at_hand}
    needs = [{*METRICS[name].needs} - have for name in due(level, known, regression)]
    missing = {need for some in needs if some <= GATHERERS.keys() for need in some}
    return [name for name in GATHERERS if name in missing]


def due(level: str, known: Iterable[str], regression: bool = False) -> list[str]:
    """List the metrics of a level, and of those below, that are not known yet, for classes or numbers to predict."""
    if level not in LEVELS:
        raise SettingError(f"there is no level '{level}'. {did_you_mean(level, LEVELS)}")
    have, highest = {*known}, LEVELS.index(level)
    computed = {name for name, metric in METRICS.items() if metric.compute and metric.applies_to(regression)}
    return [name for name in METRICS if name in computed - have and LEVELS.index(METRICS[name].level) <= highest]


def computable(level: str, known: Iterable[str], at_hand: Iterable[str], regression: bool = False) -> list[str]:
    """List the metrics of a level that are not known yet, and for which all observations are at hand."""
    return [name for name in due(level, known, regression) if {*METRICS[name].needs} <= {*at_hand}]


def still_good(known: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the known metrics and observations that do not depend on a setting that has changed."""
    changed = {name for name in now if name in before and before[name] != now[name]}
    stale = {name for name, gatherer in GATHERERS.items() if changed & {*gatherer.settings}}
    stale |= {name for name, metric in METRICS.items() if stale & {*metric.needs}}
    return [name for name in known if name not in stale]


def settings_behind(names: Iterable[str]) -> set[str]:
    """Return the settings of an evaluation that these metrics depend on."""
    needs = {need for name in names if name in METRICS for need in METRICS[name].needs}
    return {setting for name, gatherer in GATHERERS.items() if name in needs for setting in gatherer.settings}


def plan(context: Context, names: list[str]) -> list[Step]:
    """Estimate what gathering these takes, from a few steps of this model on this machine."""
    pace = Pace.of(context) if names else Pace(0.0, 0.0)
    found = []
    for name in names:
        try:
            found.append(Step(name, GATHERERS[name].what(context), GATHERERS[name].seconds(context, pace)))
        except (ScissorhandsError, ValueError, RuntimeError) as error:
            found.append(Step(name, f"{name} is not possible: {error}", 0.0))
    return found


def gather(context: Context, names: list[str], log: Log = ignore) -> tuple[Observations, dict[str, str]]:
    """Return the observations of these names, and the reasons why some could not be gathered."""
    found: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            found |= GATHERERS[name].gather(context, log)
        except (ScissorhandsError, ValueError, RuntimeError) as error:
            failed[name] = str(error).splitlines()[0]
    return found, failed


def to_tensors(observed: Observations) -> dict[str, Tensor]:
    """Return the observations as named tensors; what belongs to a retrained model is stored with that model.

    >>> sorted(to_tensors({"probe": torch.ones(2), "references": [{"probe": torch.ones(2)}]}))
    ['probe', 'references.0.probe']
    """
    found: dict[str, Tensor] = {}
    for name, value in observed.items():
        if isinstance(value, Outputs):
            found |= {f"{name}.logits": value.logits, f"{name}.labels": value.labels}
        elif isinstance(value, dict) and name != "retrained":
            found |= {f"{name}.{key}": x for key, x in to_tensors(value).items()}
        elif isinstance(value, list):
            found |= {f"{name}.{i}.{key}": x for i, one in enumerate(value) for key, x in to_tensors(one).items()}
        elif name != "retrained":
            found[name] = (
                torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)
            )
    return {name: value.clone(memory_format=torch.contiguous_format) for name, value in found.items()}


def from_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Read the observations that were stored as these tensors."""
    nested: dict[str, dict[str, Tensor]] = {}
    found: dict[str, Any] = {}
    for name, value in tensors.items():
        first, _, rest = name.partition(".")
        if rest:
            nested.setdefault(first, {})[rest] = value
        else:
            found[name] = value.item() if value.dim() == 0 else value
    for name, inner in nested.items():
        if inner.keys() == {"logits", "labels"}:
            found[name] = Outputs(**inner)
        elif not all(key.partition(".")[0].isdecimal() for key in inner):
            found[name] = from_tensors(inner)
        else:
            count = 1 + max(int(key.partition(".")[0]) for key in inner)
            found[name] = [
                from_tensors({k.partition(".")[2]: x for k, x in inner.items() if k.startswith(f"{i}.")})
                for i in range(count)
            ]
    return found
