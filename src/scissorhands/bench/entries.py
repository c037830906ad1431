"""The methods of a recipe with their settings: one entry for each variant, and for each value in a list."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import SettingError, did_you_mean
from ..methods import Method
from ..runs.tune import Tuned

# Where the settings of a method come from: the paper's text, the scripts of its published code, or our own trials.
VARIANTS = ("paper", "script", "ours")
_ENTRIES = 1000  # combinations of the settings of one method


@dataclass(frozen=True)
class Entry:
    """One method of a recipe, what the recipe calls it, which settings it gives, and what a search found if it ran."""

    label: str
    name: str
    method: Method
    tried: int | None = None
    variant: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    tuned: Tuned | None = None


def entries(
    name: str,
    kind: type[Method],
    settings: Mapping[str, Any],
    tried: int | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Iterator[Entry]:
    """Return the method with its settings, once for every variant where there are some.

    Settings that the recipe does not give are the `defaults`, such as those of the training for retraining.
    """
    common = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    variants = {key: value for key, value in settings.items() if isinstance(value, dict)}
    for variant, own in (variants or {"": {}}).items():
        if variant and variant not in VARIANTS:
            raise SettingError(f"'{name}' has no variant '{variant}'. {did_you_mean(variant, VARIANTS)}")
        if lists := [key for key, value in own.items() if isinstance(value, dict)]:
            raise SettingError(f"'{lists[0]}' of '{name}.{variant}' is a table, and settings are plain values.")
        for swept in _swept({**common, **own}, ".".join(filter(None, (name, variant)))):
            chosen = [f"{key}={value}" for key, value in swept.items()]
            label = "-".join([name.replace(":", "."), *filter(None, [variant]), *chosen])
            label = label.replace("/", "_").replace("\0", "_")  # it is the name of a folder
            given = {**common, **own, **swept}
            yield Entry(label, name, kind.make({**(defaults or {}), **given}), tried, variant, given)


def _swept(settings: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values in lists."""
    lists = {key: value for key, value in settings.items() if isinstance(value, list)}
    if empty := [key for key, value in lists.items() if not value]:
        raise SettingError(f"'{empty[0]}' of '{name}' is an empty list: give it a value, or leave it out.")
    if (count := math.prod(map(len, lists.values()))) > _ENTRIES:
        raise SettingError(f"the lists of '{name}' stand for {count:,} settings, and at most {_ENTRIES:,} are run.")
    yield from (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
