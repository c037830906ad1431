"""Go on with a run that was begun and not finished."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from .. import runs, tasks
from ..data.problem import Log, ignore
from ..data.sources import Source
from ..distributed import on_rank_0
from ..errors import RunError
from ..methods.training import Training
from . import Run
from .place import PLACING, Place
from .scrub import scrub
from .train import train


def resume(verb: str, folder: Path, factory: str | None = None, method: str | None = None, log: Log = ignore) -> Run:
    """Resume an unfinished run; the result is the same as that of a run that was not interrupted.

    If the run needs the user's own code, that runs only if it is named as `factory` or as `method`.
    """
    folder = folder.absolute()
    if on_rank_0(lambda: runs.finish(folder)):
        return runs.read(folder)
    if not runs.unfinished(folder).is_dir():
        reason = "is finished" if runs.is_run(folder) else "was not begun"
        raise RunError(f"{folder} {reason}, so there is nothing to resume.")
    asked = runs.begun(runs.unfinished(folder))
    if asked.get("verb") != verb:
        raise RunError(f"{folder} was begun by '{asked.get('verb')}': go on with '{runs.again(folder)}'.")
    require_named(asked, verb, factory, method)
    try:
        place = Place(folder, **{name: asked[name] for name in PLACING}, resume=True)
        work = _training(asked, place, log) if verb == "train" else _scrubbing(asked, place, factory, log)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{folder} was begun by another version of scissorhands: {error}.") from None
    with begun_in(asked):
        return work()


def _training(asked: Mapping[str, Any], place: Place, log: Log) -> Callable[[], Run]:
    source, training = Source.make(asked["data"]), Training.make(asked["training"])
    model, arguments, holdout, split_seed = (asked[name] for name in ("model", "arguments", "holdout", "split_seed"))
    return lambda: train(
        model, arguments, source, training, holdout, place, split_seed, log, exclude=asked.get("exclude", ())
    )


def _scrubbing(asked: Mapping[str, Any], place: Place, factory: str | None, log: Log) -> Callable[[], Run]:
    request = tasks.begun_by(asked).asks.from_dict(asked)
    model, method, settings = (asked[name] for name in ("model", "method", "settings"))
    return lambda: scrub(model, request, method, settings, place, factory, log=log, tuning=asked.get("tuning"))


@contextmanager
def begun_in(asked: Mapping[str, Any]) -> Iterator[None]:
    """Work in the folder that a run was begun in: what it names by a relative path is found from there."""
    folder = Path(str(asked.get("folder", ".")))
    if not folder.is_dir():
        raise RunError(f"{folder}, where the run was begun, no longer exists.")
    with chdir(folder):
        yield


def require_named(asked: Mapping[str, Any], verb: str, factory: str | None, method: str | None) -> None:
    """Refuse code that a file names and the user does not: a file that one was sent must not decide what runs."""
    option, what, given = ("--factory", "model", factory) if verb == "train" else ("--method", "method", method)
    code = str(asked.get(what))
    if ":" in code and code != given:
        raise RunError(f"the run needs the code '{code}'. If you trust it, name it: {option} {code}")
