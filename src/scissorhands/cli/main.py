"""The command line: train, scrub, evaluate, report, sample, judge, methods, bench, demo."""

import errno
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid

from .. import runs
from ..bench import classification as benching
from ..bench import diffusion as experiments
from ..bench import diffusion_demo as drawing_demo
from ..bench.diffusion import is_one as about_pipelines
from ..bench.recipe import HOLDOUT, Recipe
from ..data.forget import Forget
from ..data.problem import Log, ignore
from ..data.sources import Source
from ..distributed import barrier, exit_process, on_rank_0, process_group, rank, under_torchrun
from ..errors import RunError, ScissorhandsError, did_you_mean
from ..evaluation.context import Evaluation, discard_shadows
from ..methods import METHODS, find
from ..methods.damage import advice
from ..methods.precision import PRECISIONS
from ..methods.training import Training
from ..metrics import LEVELS, METRICS
from ..report import page as report
from ..report import table
from ..runs import Run, jobs
from ..runs.audit import Audit
from ..runs.claims import PAGE
from ..runs.diffusion import drawing, judging
from ..runs.diffusion import erase as erasing
from ..runs.diffusion.drawing import Drawing
from ..runs.diffusion.erase import Erasure
from ..runs.diffusion.judging import Drawn, Judging
from ..runs.jobs import Place, Request, Subject
from ..settings import Settings
from ..tasks.diffusion import pipeline as pipelines
from ..tasks.diffusion.esd import ErasedDiffusion
from ..tasks.diffusion.pipeline import is_pipeline
from ..tasks.diffusion.prompts import prompts as read_prompts
from .docs import shown, summary

DAMAGED = 3  # the exit code of a command that did what was asked, and damaged the model

out = Console(highlight=False, emoji=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGTERM, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another
    try:
        _answer()
    except SystemExit as end:
        if not isinstance(end.code, int):  # a message, which Python prints
            raise
        exit_process(end.code)
    exit_process(0)


def _stop(*_: Any) -> None:
    """Answers SIGTERM. torchrun sends one when another process died: an error on its way out is told all the same."""
    if not (under_torchrun() and sys.exc_info()[1]):
        sys.exit(143)


def _answer() -> None:
    """Does what is asked. Whatever goes wrong is told in one line, with exit code 2 for a user's mistake."""
    try:
        _require_text(sys.argv[1:])
        with process_group():
            out.quiet = err.quiet = rank() > 0
            code = group.main(standalone_mode=False)
        if code:  # what a command ended with by `Exit`
            sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        sys.exit(2)
    except click.ClickException as error:
        _fail(error.format_message(), 2)
    except ScissorhandsError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted; no unfinished run was kept, only what was finished.", 130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        code = 2 if error.errno in _MISTAKES else 1
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", code)
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        _fail(_unexpected(error), 1)


_DEBUG = "SCISSORHANDS_DEBUG"
_MISTAKES = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)
UNEXPECTED = "this is a fault of scissorhands"


def _unexpected(error: Exception) -> str:
    """What to say of an error that nobody foresaw."""
    said = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error).lower():
        return "there is not enough memory: try a smaller batch_size, smaller images or a smaller model."
    return f"{type(error).__name__}: {said[:200]}; {UNEXPECTED}. Set {_DEBUG}=1 to see where, and tell us."


def _require_text(words: Sequence[str]) -> None:
    """Refuses arguments that are no text, and that could not be written down."""
    for word in words:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise click.UsageError(f"an argument is no text in UTF-8: {ascii(word)[:60]}")


def _wide(width: int) -> Console:
    """The output, that many characters wide."""
    return Console(highlight=False, emoji=False, width=width, quiet=out.quiet)


def _say(text: str) -> None:
    """Prints the text as it is, once."""
    if not out.quiet:
        click.echo(text)


def _say_json(value: Any) -> None:
    """Prints a value as JSON, which knows no infinity and no NaN: they become null."""

    def plain(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {name: plain(inner) for name, inner in one.items()}
        if isinstance(one, list | tuple):
            return [plain(inner) for inner in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    _say(json.dumps(plain(value), indent=2))


def _fail(message: str, code: int) -> None:
    if err.quiet:  # if the first process fails alike, it says so, and this one is ended before it can say it too
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(3)
        err.quiet = False
    err.print(f"[bold red]error:[/] {_plain(message)}")
    sys.exit(code)


def _plain(message: str) -> str:
    """The message on one line, with nothing that rich would take for markup, nor a terminal for a command."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split())))


class _Group(click.Group):
    """Answers a misspelt verb with the nearest one, and lists verbs in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(f"there is no command '{args[0]}'. {did_you_mean(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


_CODES = "Exit codes: 0 done, 1 failed, 2 a mistake in what was asked, 3 done but the model is damaged."


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=_CODES
)
@click.version_option(package_name="scissorhands", message="%(prog)s %(version)s")
def group() -> None:
    """Make a trained model forget chosen training data, and measure how well it forgot."""


class _Path(click.ParamType):  # type: ignore[type-arg]  # generic only in later releases of click
    """A path; `~` is the user's home."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if str(value) == "":
            self.fail("a path is empty.", param, ctx)
        try:
            return Path(value).expanduser()
        except RuntimeError as error:
            self.fail(f"'{value}': {error}", param, ctx)


class _Model(_Path):
    """A path or a name."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return str(super().convert(value, param, ctx)) if str(value).startswith("~") else value


_PATH, _MODEL = _Path(), _Model()


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_where_options = _options(
    click.option("--overwrite", is_flag=True, help="Replace the run folder if it exists."),
    click.option("--seed", default=0, show_default=True, help="Seed of everything random but the division of data."),
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps …"),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
)
_resume_options = _options(
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
        help="What the layers compute in; weights are kept, and scores taken, in full.",
    ),
    click.option("--resume", type=_PATH, metavar="RUN", help="Go on with a run that was begun and not finished."),
)
_level_option = click.option(
    "--level",
    type=click.Choice(LEVELS),
    help="How much to spend on evaluation; at first quick, or what the recipe says.",
)
_data_option = click.option("--data", help="digits, cifar10, …, a folder, or owner/name on the Hugging Face hub.")
_data_set_option = click.option(
    "--data-set",
    multiple=True,
    metavar="NAME=VALUE",
    help="How to read the data: image, label, test, size, augment, memory.",
)
_forget_options = _options(
    click.option(
        "--forget",
        metavar="WHAT",
        help="random:10%, random:500, class:3, class:cat,dog, classes:10%, ids:FILE, where:age > 30, concept:naked.",
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
    click.option("--factory", metavar="MODULE:NAME", help="The code that builds the model, if its folder names one."),
)


@group.command()
@click.option("--model", type=_MODEL, help="small, resnet18, resnet34, module:factory, or Hugging Face name.")
@click.option("--model-set", multiple=True, metavar="NAME=VALUE", help="An argument of the model, such as width=16.")
@_data_option
@_data_set_option
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of training, such as epochs=30."
)
@click.option("--holdout", default=HOLDOUT, show_default=True, help="Share of the training data to hold out as unseen.")
@click.option("--split-seed", default=0, show_default=True, help="Seed of the choice of what is held out.")
@click.option("-o", "--output", type=_PATH, help="The run folder to write.")
@click.option("--factory", metavar="MODULE:NAME", help="With --resume: the code that builds the model, if it is yours.")
@_where_options
@_resume_options
def train(
    model: str | None,
    model_set: tuple[str, ...],
    data: str | None,
    data_set: tuple[str, ...],
    settings: tuple[str, ...],
    holdout: float,
    split_seed: int,
    output: Path | None,
    factory: str | None,
    overwrite: bool,
    seed: int,
    device: str,
    as_json: bool,
    checkpoint: float,
    precision: str,
    resume: Path | None,
) -> None:
    """Train a classifier, with some data held out."""
    if resume:
        _resume("train", resume, factory, None, as_json)
        return
    if model is None or output is None:
        raise click.UsageError(f"Missing option {'--model' if model is None else '-o'!r}.")
    if not 0 <= holdout < 1:
        raise click.BadParameter(f"'holdout' must be a share from 0, below 1, not {holdout}.")
    source = _source("digits" if data is None else data, data_set)
    training = Training.make(Training.parsed(settings))
    place = Place(output, overwrite, seed, device, checkpoint, precision)
    with _progress() as log:
        run = jobs.train(model, _arguments(model_set), source, training, holdout, place, split_seed, log)
    _show(run, as_json)


def _resume(verb: str, folder: Path, factory: str | None, method: str | None, as_json: bool) -> None:
    """Goes on with a run; what it does was said when it was begun."""
    context = click.get_current_context()
    work = runs.unfinished(folder)
    begun = runs.begun(work) if (work / runs.BEGUN).is_file() else {}
    free = {"resume", "factory", "as_json"} | ({"method"} if method == begun.get("method") else set())
    others = [name for name in context.params if name not in free]
    if what := _given(*others):
        what = "MODEL" if what == "model" else what
        raise click.UsageError(f"'{verb} --resume RUN' goes on with what was asked; {what} cannot change it.")
    with _progress() as log:
        erases = "concept" in begun and verb == "scrub"
        run = erasing.resume(folder, begun, method, log) if erases else jobs.resume(verb, folder, factory, method, log)
    _show_made(run, as_json)


def _erase(
    model: str,
    forget: str | None,
    erasure: Erasure,
    method: str,
    settings: tuple[str, ...],
    place: Place,
    as_json: bool,
) -> None:
    """Erases a concept from a pipeline."""
    if not forget:
        raise click.UsageError("say what to forget: --forget concept:nudity,naked.")
    values = erasing.method_named(method).parsed(settings)
    with _progress() as log:
        run = erasing.erase(Path(model), Forget(forget), erasure, method, values, place, log)
    _show_made(run, as_json)


@group.command()
@click.argument("model", type=_MODEL, required=False)
@_data_option
@_data_set_option
@_forget_options
@click.option("--method", default="scissorhands", show_default=True, help="A name from 'methods', or module:Class.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the method, such as trim=0.03."
)
@click.option("--untrained", is_flag=True, help="Scrub a model even if it knows no more than a guess.")
@click.option("--anchor", metavar="PROMPT", help="For a pipeline: what it is to take the concept for.")
@click.option(
    "--erase",
    multiple=True,
    metavar="NAME=VALUE",
    help="For a pipeline: parameters, optimizer, per_prompt, retain, inference.",
)
@click.option("-o", "--output", type=_PATH, help="The run folder to write.")
@_where_options
@_resume_options
def scrub(
    model: str | None,
    data: str | None,
    data_set: tuple[str, ...],
    forget: str | None,
    split_seed: int,
    unseen: float,
    labels: str | None,
    factory: str | None,
    method: str,
    settings: tuple[str, ...],
    untrained: bool,
    anchor: str | None,
    erase: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    seed: int,
    device: str,
    as_json: bool,
    checkpoint: float,
    precision: str,
    resume: Path | None,
) -> None:
    """Make MODEL forget: a model folder, a run, a Hugging Face name, or a diffusion pipeline."""
    if resume:
        _resume("scrub", resume, factory, method, as_json)
        return
    if model is None or output is None:
        raise click.UsageError("Missing argument 'MODEL'." if model is None else "Missing option '-o'.")
    place = Place(output, overwrite, seed, device, checkpoint, precision)
    if is_pipeline(model):
        if idle := _given("data_set", "split_seed", "unseen", "labels", "untrained", "factory"):
            raise click.UsageError(f"{idle} is about a classifier, and {model} is a pipeline.")
        asked = {**Erasure.parsed(erase), **({"anchor": anchor} if anchor else {}), **({"data": data} if data else {})}
        _erase(model, forget, Erasure.make(asked), method, settings, place, as_json)
        return
    if idle := _given("anchor", "erase"):
        raise click.UsageError(f"{idle} is about a diffusion pipeline, and {model} is none.")
    kind = find(method)
    values = kind.parsed(settings)
    kind.make(values)
    request = replace(_request(forget, data, data_set, split_seed, unseen, labels), untrained=untrained)
    with _progress() as log:
        run = jobs.scrub(Subject.load(model, factory, place.torch_device()), request, method, values, place, log)
    _show_made(run, as_json)


@group.command()
@click.argument("model", type=_MODEL)
@_data_option
@_data_set_option
@_forget_options
@click.option("--against", type=_PATH, help="The run of the retrained model, to measure the gap to.")
@_level_option
@click.option("--dry-run", is_flag=True, help="Say what would be trained and how long that takes, and stop.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the evaluation, such as shadows=16."
)
@click.option(
    "--train",
    "training",
    multiple=True,
    metavar="NAME=VALUE",
    help="How reference models are trained, such as epochs=30, if not as the model was.",
)
@click.option("--method", metavar="MODULE:CLASS", help="The code of the run's method, if it is yours (level deep).")
@click.option("--pictures", is_flag=True, help="Keep Grad-CAM pictures of some records, forgotten ones too.")
@click.option("-o", "--output", type=_PATH, help="The run folder to write, for a MODEL that is no scrub run.")
@_where_options
def evaluate(
    model: str,
    data: str | None,
    data_set: tuple[str, ...],
    forget: str | None,
    split_seed: int,
    unseen: float,
    labels: str | None,
    factory: str | None,
    against: Path | None,
    level: str | None,
    dry_run: bool,
    settings: tuple[str, ...],
    training: tuple[str, ...],
    method: str | None,
    pictures: bool,
    output: Path | None,
    overwrite: bool,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Score MODEL on what is to be forgotten, or look deeper at the run MODEL, or compare it with a reference."""
    if is_pipeline(model):
        raise click.UsageError(f"{model} is a diffusion pipeline: see what it draws with 'sample', then 'judge' that.")
    level = level or "quick"
    effort, lessons = Evaluation.parsed(settings), Training.parsed(training)
    Evaluation.make(effort)
    Training.make(lessons)
    if (effort or lessons) and level == "quick":
        raise click.UsageError("--set and --train are about what a level above quick trains: add --level standard.")
    if pictures and level == "quick":
        raise click.UsageError("--pictures are drawn at a level above quick: add --level standard.")
    reference = runs.checked(against) if against else None
    with TemporaryDirectory() as nowhere:
        if forget:
            if output is None and not dry_run:
                raise click.UsageError("'evaluate MODEL --forget …' needs a place for the scores: -o RUN.")
            request = _request(forget, data, data_set, split_seed, unseen, labels)
            away = Path(on_rank_0(lambda: nowhere)) / "run"
            place = Place(away if dry_run or not output else output, overwrite, seed, device)
            run = jobs.score(Subject.load(model, factory, place.torch_device()), request, place, reference)
        elif runs.is_run(Path(model)) or runs.resumable(Path(model)):
            if idle := _given("output", "data", "data_set", "split_seed", "unseen", "labels", "overwrite", "seed"):
                raise click.UsageError(f"'evaluate RUN' adds to the run itself; {idle} goes with --forget.")
            run, place = runs.read(Path(model)), Place(Path(model), seed=seed, device=device)
        else:
            raise click.UsageError(f"'{model}' is no run, so say what it should forget: --forget … --data … -o RUN.")
        with runs.locked(run.folder):
            run = runs.checked(run.folder)  # somebody may have added to it until it was locked
            audit = Audit(run, level, effort, lessons, factory, place.torch_device(), method, pictures)
            try:
                run = _deepened(audit, dry_run)
            finally:
                if rank() == 0:
                    discard_shadows()
            if not dry_run:
                _show(jobs.compare(run, reference) if reference else run, as_json)
        barrier()


def _given(*names: str) -> str:
    """The first of these options that the user gave, as it is written."""
    context = click.get_current_context()
    written = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return written[given[0]] if given else ""


def _deepened(audit: Audit, dry_run: bool) -> Run:
    """The run with the evidence of the level, after saying what that takes here; unchanged if only that was asked."""
    if audit.level == "quick":
        if dry_run:
            err.print("level quick trains nothing.")
        return audit.run
    steps = audit.plan()
    total = _about(sum(step.seconds for step in steps))
    err.print(f"level {audit.level}: {f'{total}, measured on a few steps here' if steps else 'all of it is there'}")
    for step in steps:
        err.print(f"  {_about(step.seconds):>16}  {_plain(step.what)}")
    if dry_run:
        return audit.run
    with _progress() as log:
        return audit.carry_out(log)


def _about(seconds: float) -> str:
    """A duration as a person says it.

    >>> _about(0.3), _about(45), _about(600), _about(9000)
    ('less than 1 s', 'about 45 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 1:
        return "less than 1 s"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 6000 else f"about {seconds / 3600:.1f} h"


@group.command(name="report")
@click.argument("folders", nargs=-1, required=True, type=_PATH, metavar="RUN...")
@click.option("-o", "--output", type=_PATH, default=PAGE, show_default=True)
@click.option("--title", default="Scissorhands report", show_default=True)
@click.option(
    "--pictures", is_flag=True, help="Show the pictures of records, forgotten ones too, where there are some."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def report_(folders: tuple[Path, ...], output: Path, title: str, pictures: bool, as_json: bool) -> None:
    """Make one page of some runs; a RUN may be a folder of runs, such as a bench."""
    if output.is_dir():
        raise RunError(f"cannot write {output}: it is a folder.")
    if output.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"cannot write {output}: a report is a page, so give it a name that ends in .html or .htm.")
    found = report.gathered(folders)
    shown = table.tabulate(found)
    report.write(output, report.page(shown, found, title, pictures))
    _print(shown, as_json)
    err.print(f"wrote {_plain(str(output))}")


@group.command()
@click.argument("pipeline", type=_PATH)
@click.option(
    "--prompts",
    required=True,
    help="What to draw, separated by commas, or by semicolons if there are any; or a FILE.csv.",
)
@click.option("--per-prompt", default=100, show_default=True, type=click.IntRange(min=1), help="Images of each.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="How to draw: steps=50, guidance=7.5, batch_size=4."
)
@click.option("-o", "--output", required=True, type=_PATH, help="The folder to fill; what is there is not drawn again.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**62), help="Seed of the first image.")
@click.option("--device", default="auto", show_default=True)
def sample(
    pipeline: Path, prompts: str, per_prompt: int, settings: tuple[str, ...], output: Path, seed: int, device: str
) -> None:
    """Draw images from a diffusion PIPELINE, with their prompts."""
    how = Drawing.make(Drawing.parsed(settings))
    if output.exists() and not output.is_dir():
        raise RunError(f"cannot write to {output}: it is not a folder.")
    if prompts.lower().endswith(".csv") or _is_file(prompts):
        if idle := _given("per_prompt"):
            raise click.UsageError(f"{idle} is about prompts that are typed; a file has one image for each line.")
        wanted = drawing.each(read_prompts(Path(prompts).expanduser()), seed)
    else:
        typed = [prompt.strip() for prompt in prompts.split(";" if ";" in prompts else ",") if prompt.strip()]
        wanted = drawing.several(typed, per_prompt, seed)
    if not wanted:
        raise click.UsageError("say what to draw: --prompts 'a cat, a dog'.")
    with _progress() as log:
        drawer = pipelines.load(pipeline, Place(output, device=device).torch_device())
        drawing.sample(drawer, wanted, how, output, log)
        drawing.sign(output, pipeline)
    err.print(f"wrote {len(wanted)} images to {_plain(str(output))}")


def _is_file(text: str) -> bool:
    """Whether the text is the path of a file; one that is too long for a path is not."""
    with suppress(OSError):
        return Path(text).is_file()
    return False


@group.command()
@click.argument("drawn", type=_PATH)
@click.option("--against", type=_PATH, metavar="DRAWN", help="What the pipeline drew before the concept was erased.")
@click.option("--forget", metavar="WHAT", help="The erased concept, if the pipeline's run does not say it.")
@click.option(
    "--classifier", type=_MODEL, metavar="MODEL", help="What says what an image shows: UA, accuracy on the rest."
)
@click.option("--features", type=_PATH, metavar="FILE", help="TorchScript network for FID; it is run, so trust it.")
@click.option("--real", type=_PATH, metavar="FOLDER", help="Real images for FID.")
@click.option("--clip", type=_PATH, metavar="FOLDER", help="CLIP model for the CLIP score.")
@click.option("--nudity", is_flag=True, help="Count exposed parts of the body by NudeNet.")
@click.option("--threshold", default=0.6, show_default=True, help="Score from which NudeNet's finding counts.")
@click.option("-o", "--output", type=_PATH, required=True, help="The run folder to write.")
@click.option("--overwrite", is_flag=True, help="Replace the run folder if it exists.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps …")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def judge(
    drawn: Path,
    against: Path | None,
    forget: str | None,
    classifier: str | None,
    features: Path | None,
    real: Path | None,
    clip: Path | None,
    nudity: bool,
    threshold: float,
    output: Path,
    overwrite: bool,
    device: str,
    as_json: bool,
) -> None:
    """Judge the images in DRAWN, a folder that 'sample' filled, or another with a metadata.csv."""
    if _given("threshold") and not nudity:
        raise click.UsageError("--threshold is about what NudeNet finds: add --nudity.")
    named = {"classifier": classifier, "features": features, "real": real, "clip": clip}
    by = Judging.make({name: str(value) for name, value in named.items() if value} | {"nudity": nudity})
    by = replace(by, threshold=threshold)
    place = Place(output, overwrite, device=device)
    images, before = Drawn(drawn), Drawn(against) if against else None
    concept = Forget(forget) if forget else images.concept()
    for one in filter(None, (images, before)):
        one.gone(concept)  # what is wrong with the folder shows before anything is loaded
    with _progress() as log:
        run = judging.judge(images, concept, by.panel(place.torch_device()), place, before, log=log)
    _show(run, as_json)


@group.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or show the settings of one."""
    if name is None:
        known = METHODS | {erasing.ESD: ErasedDiffusion}
        rows = [{"name": n, "paper": kind.paper, "what": summary(kind)} for n, kind in known.items()]
        _list(rows, as_json)
        return
    kind = ErasedDiffusion if name == erasing.ESD else find(name)
    if as_json:
        _say_json({"name": name, "what": summary(kind), "settings": list(kind.described())})
        return
    out.print(f"[bold]{name}[/]  {_plain(summary(kind))}\n")
    _list(list(kind.described()), as_json=False)


@group.command()
@click.argument("recipe", type=_PATH)
@click.option("-o", "--output", type=_PATH, required=True, help="The folder to write; what is done there is kept.")
@_level_option
@click.option("--trust", multiple=True, metavar="MODULE:NAME", help="Code that the recipe names and that may run.")
@click.option("--device", default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def bench(recipe: Path, output: Path, level: str | None, trust: tuple[str, ...], device: str, as_json: bool) -> None:
    """Run the experiment of a RECIPE, or go on with it."""
    if about_pipelines(recipe):
        found = _bench_pipeline(recipe, output, level, trust, device)
    else:
        chosen = Recipe.read(recipe, trust)
        with _progress() as log:
            found = benching.bench(replace(chosen, level=level or chosen.level), output, device, log)
    _print(found, as_json)
    err.print(f"wrote {_plain(str(output / 'report.html'))} and {_plain(str(output / 'table.json'))}")


def _bench_pipeline(recipe: Path, output: Path, level: str | None, trust: tuple[str, ...], device: str) -> table.Table:
    """Runs an experiment with a pipeline."""
    if level:
        raise click.UsageError(f"--level is about classifiers, and {recipe} is about a pipeline.")
    experiment, by = experiments.read(recipe, trust)
    with _progress() as log:
        return experiment.run(output, by.panel(Place(output, device=device).torch_device()), device, log)


@group.command()
@click.option("--diffusion", is_flag=True, help="Forget how to draw a digit, with a small text-to-image pipeline.")
@click.option("-o", "--output", type=_PATH, help="The folder to write: runs/demo or runs/demo-diffusion.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier demo.")
@_level_option
@click.option("--device", default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def demo(diffusion: bool, output: Path | None, overwrite: bool, level: str | None, device: str, as_json: bool) -> None:
    """Forget a digit by every method of the paper, three seeds."""
    if diffusion and level:
        raise click.UsageError("--level is about classifiers: leave it out with --diffusion.")
    output = output or Path("runs/demo-diffusion" if diffusion else "runs/demo")
    with _progress() as log:
        if diffusion:
            found = drawing_demo.demo(output, overwrite, device, log)
        else:
            found = benching.demo(output, overwrite, device, log, level or "quick")
    _print(found, as_json)
    err.print(f"wrote {_plain(str(output / 'report.html'))} and {_plain(str(output / 'table.json'))}")


def _source(name: str, assignments: tuple[str, ...]) -> Source:
    values = Source.parsed(assignments)
    if "name" in values:
        raise click.UsageError("name the data with --data, not with --data-set.")
    return Source.make({**values, "name": name})


def _request(
    forget: str | None, data: str | None, data_set: tuple[str, ...], split_seed: int, unseen: float, labels: str | None
) -> Request:
    if not forget:
        raise click.UsageError("say what to forget: --forget random:10%, class:3, ids:FILE or where:CONDITION.")
    if data_set and not data:
        raise click.UsageError("--data-set says how to read the data, so name it too: --data.")
    source = _source(data, data_set) if data is not None else None
    return Request(Forget(forget), source, split_seed, unseen, labels or "")


def _arguments(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of a model: whole numbers, numbers, true, false, or text."""
    values: dict[str, Any] = dict(Settings.parsed(assignments))
    for name, value in values.items():
        with suppress(ValueError, RecursionError):
            values[name] = value if value == "null" else json.loads(value)
    return values


@contextmanager
def _progress() -> Iterator[Log]:
    """A log that moves a bar in a terminal, and is quiet where the output is piped."""
    if not err.is_terminal:
        yield ignore
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def log(event: Mapping[str, Any]) -> None:
            if "steps" not in event:
                return
            phase = event["phase"]
            if phase not in tasks or event["step"] <= progress.tasks[tasks[phase]].completed:
                for task in tasks.values():
                    progress.update(task, visible=False)
                tasks[phase] = progress.add_task(phase, total=event["steps"])
            loss = f" {event['loss']:8.4f}" if "loss" in event else ""
            progress.update(tasks[phase], completed=event["step"], description=f"{phase}{loss}")

        yield log


def _show_made(run: Run, as_json: bool) -> None:
    """One run that was just made. One that damaged its model ends the command with exit code 3."""
    _show(run, as_json)
    if run.damage:
        raise click.exceptions.Exit(DAMAGED)


def _show(run: Run, as_json: bool) -> None:
    """One run, a line per number, beside what a retrained model has or would have, and whether it is damaged."""
    if run.damage:
        err.print(f"[bold yellow]warning:[/] {escape(advice(run.damage))}")
    if as_json:
        _say_json({"run": str(run.folder), "damage": run.damage, **run.result.to_dict()})
        return
    if "forget_error_before" in run.record:
        _show_errors(run)
        return
    shown = table.tabulate([run])
    reference = run.result.scores.reference
    grid = Grid(run.method, "", "retrained", box=None, pad_edge=False, header_style="bold")
    for name in shown.names():
        expected = f"{reference[name]:.{METRICS[name].digits}f}" if name in reference else METRICS[name].retrained
        cell = shown.rows[0].cell(name)
        beside = shown.rows[0].failed[name] if cell == "failed" else expected
        grid.add_row(table.TITLES[name], cell, f"[dim]{_plain(beside)}[/]")
    grid.columns[1].justify = "right"
    _wide(200 if not out.is_terminal else out.width).print(grid)
    for name, reason in run.result.scores.failed.items():
        if name not in METRICS:
            err.print(f"{name} failed: {_plain(reason)}")
    if verdict := run.result.scores.verdict:
        out.print(f"[bold]{verdict.call}[/]: {_plain(verdict.reason)}")


def _show_errors(run: Run) -> None:
    """What erasing did to the loss, on the images of the concept and on the others."""
    grid = Grid(run.method, "before", "after", box=None, pad_edge=False, header_style="bold")
    for name, title in (("forget", "loss on the concept"), ("retain", "loss on the rest")):
        values = run.record[f"{name}_error_before"], run.result.scores[f"{name}_error"]
        grid.add_row(title, *(f"{value:.4f}" for value in values))
    _wide(out.width).print(grid)
    out.print(f"{_plain(str(run.folder))} is the pipeline; look at what it draws: scissorhands sample.")


def _print(shown: table.Table, as_json: bool) -> None:
    for sentence in shown.damage():
        err.print(f"[bold yellow]warning:[/] damaged: {_plain(sentence)}")
    if as_json:
        _say_json(shown.to_dict())
        return
    names = shown.names(table.MAIN)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("method", no_wrap=True)
    for name in names:
        grid.add_column(table.TITLES[name], justify="right", no_wrap=True)
    if judged := shown.judged():
        grid.add_column("verdict", no_wrap=True)
    for row in shown.rows:
        grid.add_row(_plain(row.method), *(row.cell(name) for name in names), *([row.verdict()] if judged else []))
    _wide(max(out.width, 200)).print(grid)  # a narrow terminal folds it, and hides nothing
    for row in shown.rows:
        for name in names:
            if row.cell(name) == "failed":
                err.print(f"{_plain(row.method)}: {table.TITLES[name]} failed: {_plain(row.failed[name])}")
    for note in shown.notes():
        out.print(_plain(note))


def _list(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        _say_json(rows)
        return
    grid = Grid(*rows[0], box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(_plain(shown(value)) for value in row.values()))
    _wide(200 if not out.is_terminal else out.width).print(grid)
