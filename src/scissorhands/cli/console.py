"""Where commands print: results to `out`, everything else to `err`. It imports nothing slow, so that help is quick."""

import json
import math
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console

out = Console(highlight=False, emoji=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def say_json(value: Any) -> None:
    """Print a value as JSON, which has no infinity and no NaN: they become null."""

    def finite(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {name: finite(inner) for name, inner in one.items()}
        if isinstance(one, list | tuple):
            return [finite(inner) for inner in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    if not out.quiet:
        click.echo(json.dumps(finite(value), indent=2))
