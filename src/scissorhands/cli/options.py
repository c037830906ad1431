"""Options that several commands share, and how their text is read."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..choices import LEVELS, MISSING, PRECISIONS, REFUSE, TRACKERS
from ..settings import Settings
from .arguments import BEGUN, FORGET, METHOD, MODEL, PATH

if TYPE_CHECKING:
    from ..tasks import Task

Decorator = Callable[[Any], Any]


def _all(*options: Decorator) -> Decorator:
    """Return one decorator that adds all of these options, in this order."""

    def apply(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def _together(name: str, *options: Decorator) -> Decorator:
    """Return a decorator that adds these options, and passes their values to the command as one dict."""

    def nothing() -> None: ...

    names = [parameter.name for parameter in _all(*options)(nothing).__click_params__]

    def apply(command: Any) -> Any:
        @wraps(command)
        def grouped(**values: Any) -> Any:
            return command(**{name: {one: values.pop(one) for one in names}}, **values)

        return _all(*options)(grouped)

    return apply


def settings_option(*names: str, **more: Any) -> Decorator:
    """Return an option that may be given many times, each time as NAME=VALUE."""
    return click.option(*names, multiple=True, metavar="NAME=VALUE", **more)


device_option = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps …")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def required_unless(other: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the callback of a parameter that a command needs unless another option, an eager one, is given."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None and not ctx.params.get(other):
            raise click.MissingParameter(ctx=ctx, param=param)
        return value

    return check


def _policy(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse what is no policy before anything else is done."""
    if value:
        from ..evidence.policy import read_policy

        read_policy(value)
    return value


policy_option = click.option(
    "--policy", type=PATH, metavar="FILE", callback=_policy, help="Thresholds to keep, in TOML; exit code 3 if not."
)
method_option = click.option(
    "--method", type=METHOD, default="scissorhands", show_default=True, help="A name from 'methods', or module:Class."
)
method_options = _all(
    method_option,
    settings_option("--set", "settings", help="A setting of the method, such as trim=0.03."),
)
sign_option = click.option(
    "--sign", type=PATH, metavar="KEY", help="Sign with this private key; 'scissorhands key' makes one."
)
run_option = click.option(
    "-o", "--output", type=PATH, callback=required_unless("resume"), help="The run folder to write."
)


def _absent(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse to replace what is there."""
    if value and (value.exists() or value.is_symlink()):
        raise click.BadParameter(f"{value} exists, and is not replaced.", ctx, param)
    return value


save_option = click.option(
    "--save",
    type=PATH,
    metavar="PATH",
    callback=_absent,
    help="Where to put a copy of the model, in the format that it came in, unless it was damaged.",
)
_placing = (
    click.option("--overwrite", is_flag=True, help="Replace the run folder if it exists."),
    click.option("--seed", default=0, show_default=True, help="Seed of everything random but the division of data."),
    device_option,
    click.option("--who", is_flag=True, help="Write down who runs it, as user@host."),
)
_pace = (
    click.option(
        "--checkpoint",
        type=click.FloatRange(min=0),
        default=600.0,
        show_default=True,
        help="Seconds between two checkpoints of a long run.",
    ),
    click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        default="full",
        show_default=True,
        help="What the layers compute in; weights and scores stay in full precision.",
    ),
)


def _with_command(options: Decorator) -> Decorator:
    """Return a decorator that adds the options of a place, and passes the command with their values."""

    def apply(command: Any) -> Any:
        @wraps(command)
        def placed(placing: dict[str, Any], **values: Any) -> Any:
            return command(placing={**placing, "command": typed()}, **values)

        return options(placed)

    return apply


def typed() -> str:
    """Return the command that was typed."""
    return shlex.join(["scissorhands", *sys.argv[1:]])


place_options = _with_command(_together("placing", *_placing))
long_place_options = _with_command(_together("placing", *_placing, *_pace))
track_option = click.option(
    "--log", "track", type=click.Choice(TRACKERS), help="Write losses and scores to this tracker, too."
)
long_run_options = _all(
    long_place_options,
    track_option,
    click.option("--resume", type=BEGUN, metavar="RUN", is_eager=True, help="Resume an unfinished run."),
    json_option,
)


def _level(default: str) -> Decorator:
    about = f"How much to spend on evaluation; {default} unless given."
    return click.option("--level", type=click.Choice(LEVELS), help=about)


level_option, recipe_level_option = _level("quick"), _level("what the recipe says")
serve_level_option = _level("standard")
_data = (
    click.option("--data", help="digits, cifar10, …, a folder, a .csv, .jsonl or .parquet file, or owner/name (hub)."),
    settings_option("--data-set", help="How to read it: test, text, columns, image, size, mean, std, augment, limit."),
    click.option("--label", metavar="COLUMN", help="The column that holds the labels, if it is not called so."),
)
key_option = click.option(
    "--key", metavar="COLUMN", help="The column that says what a record is called; by default its path, or number."
)
data_options = _all(*_data, key_option)
_forget = click.option(
    "--forget",
    type=FORGET,
    metavar="WHAT",
    help="random:10%, random:500, class:3, class:cat,dog, classes:10%, keys:FILE, ids:FILE, where:age > 30, "
    "concept:naked.",
)
_found = (
    key_option,
    click.option(
        "--missing",
        type=click.Choice(MISSING),
        default=REFUSE,
        show_default=True,
        help="What to do if a listed record is not in the model, or if the data is not as in training.",
    ),
    click.option("--split-seed", default=0, show_default=True, help="Seed of the random division of data."),
    click.option(
        "--unseen",
        default=0.2,
        show_default=True,
        help="Share of the test data to set aside as unseen, if training held out none.",
    ),
    click.option(
        "--labels",
        metavar="DATA=MODEL,…",
        help="Which class of the data is which of the model's, if their names differ; or 'position'.",
    ),
)
_erasure = (
    click.option("--anchor", metavar="PROMPT", help="For a pipeline: prompt to replace the concept with."),
    settings_option("--erase", help="For a pipeline: parameters, per_prompt, retain, inference."),
)
_untrained = click.option("--untrained", is_flag=True, help="Scrub a model even if it is no better than chance.")
forget_options = _together("what", *_data, _forget, *_found, *_erasure)
scrub_options = _together("what", *_data, _forget, *_found, _untrained, *_erasure)
serve_options = _together("what", *_data, *_found, _untrained)
depth_options = _together(
    "depth",
    serve_level_option,
    settings_option("--evaluate", "effort", help="A setting of the evaluation, such as shadows=16."),
    settings_option(
        "--train", "lessons", help="How reference models are trained, such as epochs=30, if not as the model was."
    ),
)
judging_options = _together(
    "by",
    click.option(
        "--classifier", type=MODEL, metavar="MODEL", help="Classifier of what images show: UA, accuracy on the rest."
    ),
    click.option("--features", type=PATH, metavar="FILE", help="TorchScript network for FID; it is run, so trust it."),
    click.option("--real", type=PATH, metavar="FOLDER", help="Real images for FID."),
    click.option("--clip", type=PATH, metavar="FOLDER", help="CLIP model for the CLIP score."),
    click.option("--nudity", is_flag=True, help="Count exposed parts of the body by NudeNet."),
    click.option("--threshold", default=0.6, show_default=True, help="Least score at which what NudeNet finds counts."),
    click.option("--flagged", is_flag=True, help="Keep blurred copies of what NudeNet finds, with boxes and scores."),
)
factory_option = click.option(
    "--factory", metavar="MODULE:NAME", help="The code that builds the model, of a .pt file or if its folder names one."
)


def given(*names: str) -> str:
    """Return the first of these options that the user gave, as it is written."""
    context = click.get_current_context()
    written = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    found = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return written[found[0]] if found else ""


def require_options(names: Iterable[str], task: "type[Task[Any, Any]]", model: str) -> None:
    """Refuse options that are given, and are for other kinds of models."""
    from .. import tasks

    for name in names:
        if name not in task.options and (idle := given(name)):
            others = [other for other in tasks.TASKS if name in other.options]
            raise click.UsageError(tasks.only_for(idle, others, task, model))


def arguments(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a model: whole numbers, numbers, true, false, or text."""
    values: dict[str, Any] = dict(Settings.parsed(assignments))
    for name, value in values.items():
        with suppress(ValueError, RecursionError):
            values[name] = value if value == "null" else json.loads(value)
    return values
