"""scissorhands tune: choose the settings of a method for a request."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .arguments import PATH, TRAINED
from .console import out, say_json
from .escape import plain
from .options import (
    device_option,
    factory_option,
    json_option,
    method_option,
    require_options,
    scrub_options,
    settings_option,
)

if TYPE_CHECKING:
    from ..runs.tune import Tuned

_OWN = ("method", "settings", "trials", "storage", "output", "seed", "as_json")  # options that are not for `scrub`


@click.command()
@click.argument("model", type=TRAINED)
@scrub_options
@factory_option
@method_option
@settings_option("--set", "settings", help="A setting of the method that stays as it is.")
@click.option("--trials", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Runs in all.")
@click.option(
    "--storage",
    default="",
    metavar="FILE|URL",
    help="Where trials are kept, by default in OUTPUT; several machines that name the same share them.",
)
@click.option("-o", "--output", required=True, type=PATH, help="The folder to write; trials that are there count.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**62), help="Seed of the search.")
@device_option
@json_option
def tune(
    model: str,
    what: dict[str, Any],
    factory: str | None,
    method: str,
    settings: tuple[str, ...],
    trials: int,
    storage: str,
    output: Path,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Choose settings of a method for MODEL, on other records than those to forget.

    It needs Optuna: pip install 'scissorhands[tune]'.
    """
    from .. import tasks
    from ..runs.place import Place
    from ..runs.tune import Study
    from ..runs.tune import tune as search
    from .progress import progress

    task = tasks.find(model)
    require_options((*what, "factory"), task, model)
    values = tasks.method(method, task, model).parsed(settings)
    request = task.asks.from_options(what)
    place, study = Place(output, seed=seed, device=device), Study(folder=output, trials=trials, storage=storage)
    with progress(f"tuning of {method}, seed {seed}") as log:
        found = search(model, request, method, values, study, place, factory, log)
    if as_json:
        say_json(found.to_dict())
    else:
        _show(found, output)


def _show(found: "Tuned", output: Path) -> None:
    """Show what was chosen, what it cost, and the commands that use it."""
    from .describe import duration, shown

    chosen = [f"{name}={shown(value)}" for name, value in found.settings.items()]
    out.print(plain(f"{found.method} {' '.join(chosen)}"))
    out.print(
        f"estimated Avg. Gap {found.estimate:.2f}, the least of {found.trials} trials in {duration(found.seconds)}"
    )
    words = _asked()
    typed = [word for setting in chosen for word in ("--set", setting)]
    out.print(f"next   {plain(shlex.join([*words, '--method', found.method, *typed]))} -o …")
    code = ["--method", found.method] if ":" in found.method else []
    tuned = shlex.join([*words, *code, "--tuned", str(output / "tuned.toml")])
    out.print(f"or     {plain(tuned)} -o …   (the run then says what the choice cost)")


def _asked() -> list[str]:
    """Return the command that scrubs the same records."""
    context = click.get_current_context()
    words = ["scissorhands", "scrub"]
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in _OWN or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value, option = context.params[name], parameter.opts[-1]
        if isinstance(parameter, click.Argument):
            words.append(str(value))
        elif value is True:
            words.append(option)
        else:
            words += [word for one in (value if isinstance(value, tuple) else [value]) for word in (option, str(one))]
    return words
