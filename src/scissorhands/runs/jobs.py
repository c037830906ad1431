"""The verbs as functions: each reads folders, does one thing, and writes a run folder."""

import platform
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import runs
from ..cost import Cost, measured
from ..data import labels as labelling
from ..data.forget import Forget
from ..data.problem import Log, Problem, ignore
from ..data.records import Part
from ..data.sources import Data, Source
from ..data.split import Split, held_out, split
from ..distributed import any_rank, local_state, on_rank_0, own_device, shard, world_size
from ..distributed.checkpoint import Progress
from ..distributed.checkpoint_files import CHECKPOINTS
from ..errors import (
    DataError,
    FailedError,
    ModelError,
    NoReferenceError,
    ReadError,
    RunError,
    SettingError,
    did_you_mean,
    listed,
)
from ..evaluation.context import Context
from ..evaluation.evaluate import Scores, examine, judge, measure, outputs
from ..evaluation.evidence import due
from ..evaluation.predict import require_fit
from ..methods import Retrain, find
from ..methods.damage import FEW, damage, guesses
from ..methods.modes import evaluating
from ..methods.parameters import trainable
from ..methods.precision import PRECISIONS, computing_in
from ..methods.saliency import gradients
from ..methods.training import Training
from ..metrics import METRICS, accuracy
from ..randomness import seeded
from ..settings import Settings
from ..tasks.classification import classes, models
from ..tasks.classification.models import Blueprint
from . import Journal, Result, Run

_CPU = torch.device("cpu")
SEEDS = 2**62  # the highest seed; files of settings hold 64 bits
WHERE = (
    "overwrite",
    "seed",
    "device",
    "checkpoint",
    "precision",
)  # what of a place is written down when a run is begun


@dataclass(frozen=True)
class Place:
    """Where a job computes, from which seed, and where its run goes.

    `checkpoint` is how many seconds pass between two checkpoints; `precision` is what a method's layers compute in,
    while scores are always taken in full. With `resume` it goes on with what was begun there.
    """

    folder: Path
    overwrite: bool = False
    seed: int = 0
    device: str = "auto"
    checkpoint: float = 600.0
    precision: str = "full"
    resume: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= SEEDS:
            raise SettingError(f"'seed' must be a whole number from 0 to {SEEDS}, not {self.seed}.")
        if not self.checkpoint >= 0:
            raise SettingError(f"'checkpoint' must be a number of seconds from 0, not {self.checkpoint}.")
        if self.precision not in PRECISIONS:
            raise SettingError(f"there is no precision '{self.precision}'. {did_you_mean(self.precision, PRECISIONS)}")

    def torch_device(self) -> torch.device:
        """The device; `auto` is the accelerator if there is one."""
        if self.device == "auto":
            return own_device(torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu"))
        try:
            with warnings.catch_warnings(action="ignore"):
                device = torch.device(self.device)
                torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError, ImportError):
            raise SettingError(f"there is no device '{self.device}' here.") from None
        return own_device(device)


@dataclass(frozen=True)
class Subject:
    """A model to work on, and what is known of how it was made."""

    source: str
    model: nn.Module
    blueprint: Blueprint
    run: Run | None

    @classmethod
    def load(cls, source: str, factory: str | None, device: torch.device = _CPU) -> "Subject":
        """The model in a model folder, in a run folder, or on the hub."""
        folder = Path(source)
        run = runs.read(folder) if runs.is_run(folder) or runs.resumable(folder) else None
        if run and not (folder / "model").is_dir():
            raise ModelError(f"{source} is a run without a model; name the run or folder that holds the model.")
        if run:
            on_rank_0(run.require_model)
        elif folder.name == "model" and runs.is_run(folder.parent) and runs.read(folder.parent).ids("forget"):
            raise ModelError(
                f"{source} is the model of a run that has forgotten something: name the run, {folder.parent}."
            )
        model, blueprint = models.load(folder / "model" if run else source, factory, device)
        return cls(source, model, blueprint, run)

    def data(self, given: Source | None) -> Source:
        """The data that was named, or else the data that the model is known to have been trained on."""
        if given:
            return given
        if self.run:
            return Source.make(self.run.record["data"])
        raise DataError(f"{self.source} does not say what it was trained on: name the data with --data.")


@dataclass(frozen=True)
class Request:
    """What is to be forgotten: in which data, and by which draw.

    `labels` says which class of the data is which of the model's, where their names do not; `untrained` that a model
    may be changed that knows no more than a guess.
    """

    forget: Forget
    data: Source | None = None
    split_seed: int = 0
    unseen: float = 0.2
    labels: str = ""
    untrained: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.split_seed <= SEEDS:
            raise SettingError(f"'split_seed' must be a whole number from 0 to {SEEDS}, not {self.split_seed}.")
        if not 0 <= self.unseen < 1:
            raise SettingError(f"'unseen' must be a share from 0, below 1, not {self.unseen}.")


@dataclass(frozen=True)
class Case:
    """A request brought together with a model: the data, divided."""

    data: Data
    split: Split
    record: Mapping[str, Any]
    ids: Mapping[str, list[int]] = field(default_factory=dict)


def train(
    model: str,
    arguments: Mapping[str, Any],
    source: Source,
    training: Training,
    holdout: float,
    place: Place,
    split_seed: int = 0,
    log: Log = ignore,
) -> Run:
    """Trains a model, all but the records that are held out as unseen."""
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite, place.resume) as work:
        data = source.load()
        asked = {
            "model": model,
            "arguments": dict(arguments),
            "data": source.to_dict(),
            "training": training.to_dict(),
            "holdout": holdout,
            "split_seed": split_seed,
            "fingerprint": data.train.fingerprint,
        }
        runs.begin(work, all_asked("train", asked, place))
        with seeded(place.seed, "model"):
            built, blueprint = models.create(model, data.train, arguments)
        require_fit(built, data.train)
        unseen = held_out(data.train, holdout, split_seed)
        everything = torch.arange(len(data.train))
        trained = Part(data.train, everything[~torch.isin(everything, unseen)])
        if len(trained) == 0:
            raise DataError("'holdout' leaves nothing to train on.")
        problem = Problem(Part(data.train, everything[:0]), trained, seed=place.seed, augment=data.augment)
        built = shard(built, device)
        cost = carried_out(lambda case, keep: training.fit(built, case, keep), built, problem, work, place, log)
        parts = {"retain": trained, "unseen": Part(data.train, unseen), "test": _all(data.test)}
        parts = {name: part for name, part in parts.items() if len(part)}
        counts = {name: len(part) for name, part in parts.items()}
        said = outputs(built, parts)
        _require_finite(said, "training")
        scores = measure(said, due("quick", ()), {}, Scores({}, counts))
        models.save(built, blueprint, work / "model")
        record = {
            **about("train", place),
            "model": _model(model, model, blueprint),
            "training": training.to_dict(),
            "data": source.to_dict(),
            "split": {
                "holdout": holdout,
                "held_seed": split_seed,
                "fingerprint": data.train.fingerprint,
                "manifest": "",
            },
            "method": {"name": "original", **training.to_dict()},
        }
        runs.write_record(work, record, {})
        runs.write_result(work, Result(scores, cost.seconds, cost.memory_mib))
    return runs.read(place.folder)


def scrub(
    subject: Subject, request: Request, method: str, values: Mapping[str, Any], place: Place, log: Log = ignore
) -> Run:
    """Makes a model forget, and writes the scrubbed model with the evidence."""
    kind = find(method)
    chosen = kind.make({**_recipe(kind, subject.run), **values})
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite, place.resume) as work:
        case = _case(subject, request, place)
        model = shard(subject.model, device)
        asked = {
            "model": str(Path(subject.source).absolute()) if Path(subject.source).exists() else subject.source,
            "forget": request.forget.text,
            "data": request.data.to_dict() if request.data else {},
            "split_seed": request.split_seed,
            "unseen": request.unseen,
            "labels": request.labels,
            "untrained": request.untrained,
            "method": method,
            "settings": chosen.to_dict(),
            "weights": models.fingerprint(model),
            "manifest": case.split.manifest,
        }
        runs.begin(work, all_asked("scrub", asked, place))
        problem = replace(case.split.problem(seed=place.seed, augment=case.data.augment), watch=False)
        known = outputs(model, {name: part for name, part in case.split.parts().items() if name != "others"})
        _require_knowledge(known, subject, request)
        before = {f"{name}_accuracy": accuracy(said.logits, said.labels) for name, said in known.items()}
        cost = carried_out(lambda case, keep: chosen.scrub(model, case, keep), model, problem, work, place, log)
        if any_rank(not all(bool(torch.isfinite(x).all()) for x in local_state(model).values())):
            raise FailedError(f"{method} left weights that are not numbers: it diverged, so nothing was written.")
        said = outputs(model, case.split.parts())
        _require_finite(said, method)
        scores, evidence = examine(Context(model, case.split), said)
        models.save(model, subject.blueprint, work / "model")
        tells = [f"{name}_accuracy" for name in kind.judged_on if name == "retain" or scores.counts.get(name, 0) >= FEW]
        record = {
            **about("scrub", place),
            **{f"{name}_before": value for name, value in before.items()},
            "damage": damage({name: before[name] for name in tells if name in before}, scores.values),
            **case.record,
            "method": {"name": method, **chosen.to_dict()},
        }
        runs.write_record(work, record, case.ids)
        runs.write_evidence(work, evidence)
        runs.write_result(work, Result(scores, cost.seconds, cost.memory_mib))
    return runs.read(place.folder)


def resume(verb: str, folder: Path, factory: str | None = None, method: str | None = None, log: Log = ignore) -> Run:
    """Goes on with a run that was begun and not finished, to the end that it would have had.

    Somebody's code that it needs runs only if it is named, as `factory` or as `method`.
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
        place = Place(folder, **{name: asked[name] for name in WHERE}, resume=True)
        work = _training(asked, place, log) if verb == "train" else _scrubbing(asked, place, factory, log)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{folder} was begun by another version of scissorhands: {error}.") from None
    with begun_in(asked):
        return work()


@contextmanager
def begun_in(asked: Mapping[str, Any]) -> Iterator[None]:
    """The folder that a run was begun in, inside the block: what it names by a relative path is found from there."""
    folder = Path(str(asked.get("folder", ".")))
    if not folder.is_dir():
        raise RunError(f"{folder}, where the run was begun, is not there any more.")
    with chdir(folder):
        yield


def require_named(asked: Mapping[str, Any], verb: str, factory: str | None, method: str | None) -> None:
    """Refuses code that a file names and the user does not: a file that one was sent must not decide what runs."""
    option, what, given = ("--factory", "model", factory) if verb == "train" else ("--method", "method", method)
    code = str(asked.get(what))
    if ":" in code and code != given:
        raise RunError(f"the run needs the code '{code}'. If you trust it, name it: {option} {code}")


def _training(asked: Mapping[str, Any], place: Place, log: Log) -> Callable[[], Run]:
    source, training = Source.make(asked["data"]), Training.make(asked["training"])
    model, arguments, holdout, split_seed = (asked[name] for name in ("model", "arguments", "holdout", "split_seed"))
    return lambda: train(model, arguments, source, training, holdout, place, split_seed, log)


def _scrubbing(asked: Mapping[str, Any], place: Place, factory: str | None, log: Log) -> Callable[[], Run]:
    source = Source.make(asked["data"]) if asked["data"] else None
    request = Request(
        Forget(asked["forget"]), source, asked["split_seed"], asked["unseen"], asked["labels"], asked["untrained"]
    )
    model, method, settings = (asked[name] for name in ("model", "method", "settings"))
    device = place.torch_device()
    return lambda: scrub(Subject.load(model, factory, device), request, method, settings, place, log)


def same_threads(place: Place) -> None:
    """As many threads as the run was begun with, if it goes on: the same bits need the same order of sums."""
    if place.resume:
        torch.set_num_threads(int(runs.begun(runs.unfinished(place.folder)).get("threads", torch.get_num_threads())))


def all_asked(verb: str, what: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """All that a run depends on, to begin it with, and to compare with when it goes on."""
    same_threads(place)
    where = {name: getattr(place, name) for name in WHERE}
    where["folder"] = str(Path.cwd())
    return {"verb": verb, **what, **where, "world_size": world_size(), "threads": torch.get_num_threads()}


def carried_out(
    work: Callable[[Problem, Log], None],
    model: nn.Module,
    problem: Problem,
    folder: Path,
    place: Place,
    log: Log,
) -> Cost:
    """Does the work on the model and says what it cost; what it logs and its checkpoints go to the folder."""
    with computing_in(place.precision, model):
        _warm_up(model, problem)
    progress = Progress(folder / CHECKPOINTS, place.checkpoint, again=runs.again(place.folder))
    with closing(Journal(folder / runs.LOG, log, progress.written)) as journal:
        progress.journal = journal
        with (
            progress.listening(),
            computing_in(place.precision, model),
            measured(place.torch_device()) as cost,
        ):
            work(replace(problem, progress=progress), journal)
    cost.seconds += progress.credit
    return cost


def score(subject: Subject, request: Request, place: Place, reference: Run | None = None) -> Run:
    """Scores a model as it is: what it knows of the records that someone wants forgotten."""
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite) as work:
        case = _case(subject, request, place)
        model = shard(subject.model, device)
        scores, evidence = examine(Context(model, case.split), outputs(model, case.split.parts()))
        made = subject.run.result if subject.run else Result(scores)
        scrubbed = subject.run is not None and subject.run.record["verb"] == "scrub"
        maker = subject.run.record["method"] if scrubbed and subject.run else {"name": "original"}
        record = {**about("evaluate", place), **case.record, "method": maker}
        record["model"] = {**record["model"], "weights": models.fingerprint(model)}
        runs.write_record(work, record, case.ids)
        runs.write_evidence(work, evidence)
        runs.write_result(work, Result(scores, made.seconds, made.memory_mib))
        if reference:
            compare(runs.read(work), reference)
    return runs.read(place.folder)


def compare(run: Run, reference: Run, tried: int | None = None) -> Run:
    """Adds to a run how far it is from a reference, from what both have stored."""
    if reference.method == "original":
        raise NoReferenceError(f"{reference.folder} was not scrubbed or retrained, so it is no reference.")
    scores = run.result.scores.against(reference.result.scores)
    evidence, retrained = runs.read_evidence(run.folder), runs.read_evidence(reference.folder)
    if evidence and retrained:
        evidence["retrained"] = retrained
        beside = [name for name, metric in METRICS.items() if "retrained" in metric.needs]
        scores = measure(evidence, beside, {}, scores)
        itself = run.folder.resolve() == reference.folder.resolve()  # which says nothing about itself
        scores = (
            replace(scores, verdict=None)
            if itself
            else judge(scores, evidence, run.record["split"].get("kind", "chosen"))
        )
    result = replace(
        run.result,
        scores=scores,
        reference=runs.from_there(reference.folder, run.folder),
        reference_seconds=reference.result.seconds,
        reference_hash=runs.scores_hash(reference.folder),
        tried=tried if tried is not None else run.result.tried,
    )
    runs.write_result(run.folder, result)
    return runs.read(run.folder)


def _case(subject: Subject, request: Request, place: Place) -> Case:
    """Loads the data and divides it, as the model's own run says or as the request does."""
    source = subject.data(request.data)
    earlier: Mapping[str, Any] = subject.run.record["split"] if subject.run else {}
    labels = request.labels or str(earlier.get("labels", ""))
    data = matched(source.load(), subject.blueprint, labels, request.forget)
    require_fit(subject.model, data.train)
    if earlier and earlier["fingerprint"] != data.train.fingerprint:
        raise DataError(f"{source.name} is not the data that {subject.source} was trained on: its content differs.")
    if subject.run and earlier["manifest"]:
        divided_as_in(subject.run, data)  # what was forgotten before must stay so
    before = sorted(subject.run.ids("forget") + subject.run.ids("before")) if subject.run else []
    holdout, held_seed = float(earlier.get("holdout", 0.0)), int(earlier.get("held_seed", 0))
    unseen = held_out(data.train, holdout, held_seed).tolist() if holdout else request.unseen
    divided = split(data.train, request.forget, test=data.test, unseen=unseen, before=before, seed=request.split_seed)
    origin = runs.from_there(subject.source, place.folder)
    record = {
        "model": _model(origin, _first(subject), subject.blueprint),
        "training": subject.run.record.get("training", {}) if subject.run else {},
        **_training_seed(subject.run),
        "data": source.to_dict(),
        "split": {
            "forget": request.forget.redacted(divided.forget.ids, divided.forget.labels),
            "seed": request.split_seed,
            "holdout": holdout,
            "held_seed": held_seed,
            "unseen": request.unseen,
            "fingerprint": data.train.fingerprint,
            "manifest": divided.manifest,
            "kind": divided.kind,
            "labels": labels,
            **{f"{name}_records": len(part) for name, part in divided.parts().items()},
        },
    }
    return Case(data, divided, record, {"forget": divided.forget.ids.tolist(), "before": before})


def divided_as_in(run: Run, data: Data) -> Split:
    """The data, divided as it was in the run; refused if it is other data, or if the run does not say the truth."""
    known = run.record["split"]
    if known["fingerprint"] != data.train.fingerprint:
        raise DataError(f"{run.record['data']['name']} is not the data of {run.folder}: its content differs.")
    holdout = float(known["holdout"])
    if not 0 <= holdout < 1:
        raise ReadError(f"{run.folder} cannot be read as a run: 'split.holdout' is {holdout}.")
    unseen = held_out(data.train, holdout, int(known["held_seed"])).tolist() if holdout else float(known["unseen"])
    # The run's own list of ids holds for what was asked by name, which is not recorded.
    drawn = known["forget"].startswith("random:")
    forget = Forget(known["forget"] if drawn else f"ids:{run.folder / 'forget.txt'}")
    divided = split(
        data.train, forget, test=data.test, unseen=unseen, before=run.ids("before"), seed=int(known["seed"])
    )
    if divided.manifest != known["manifest"] or divided.forget.ids.tolist() != run.ids("forget"):
        raise DataError(f"{run.folder} cannot be divided as it was: the test data or its forget.txt has changed.")
    return divided


def matched(data: Data, blueprint: Blueprint, labels: str, forget: Forget | None = None) -> Data:
    """The data with the model's numbers of its classes; refused where names do not say which is which."""
    names = data.train.classes
    numbers = classes.numbers(names, blueprint.classes, labels)
    if numbers is None:
        return data
    kind, _, what = forget.text.partition(":") if forget else ("", "", "")
    for asked in what.split(",") if kind == "class" else ():
        if asked.strip().isdecimal() and asked.strip() not in blueprint.classes:
            raise DataError(
                f"'class:{asked.strip()}' may be either, since the data and the model number their classes "
                f"differently: say its name. Known: {listed(names)}."
            )
    called = list(blueprint.classes)
    for name, number in zip(names, numbers, strict=True):
        called[number] = name  # a class that both have is called as the data calls it
    train, test = (labelling.renumbered(part, numbers, tuple(called)) for part in (data.train, data.test))
    return replace(data, train=train, test=test)


def _require_finite(said: Mapping[str, Any], what: str) -> None:
    """Refuses what a diverged model says."""
    if not all(bool(one.logits.isfinite().all()) for one in said.values()):
        raise FailedError(f"{what} diverged: the model's outputs are not finite, so nothing was written.")


def _require_knowledge(known: Mapping[str, Any], subject: Subject, request: Request) -> None:
    """Refuses to change a model that knows no more of its training data than a guess: labels or inputs do not fit."""
    said = known["retain"]
    if not request.untrained and (reason := guesses(said.logits.argmax(1), said.labels)):
        raise ModelError(
            f"{reason}, before anything was changed: the labels or the images of the data do not fit {subject.source}. "
            "Look at --labels and at its preprocessing; to change it all the same, add --untrained."
        )


def _recipe(kind: type[Settings], run: Run | None) -> dict[str, Any]:
    """Retraining repeats the training of the original, where that is known."""
    return dict(run.record.get("training", {})) if kind is Retrain and run else {}


def _model(source: str, origin: str, blueprint: Blueprint) -> dict[str, Any]:
    """What is recorded of a model: where it came from, what it was at first, and how it is built."""
    return {"source": source, "origin": origin, "name": blueprint.name, "arguments": dict(blueprint.arguments)}


def _training_seed(run: Run | None) -> dict[str, int]:
    """The seed of the original's training, where that is known."""
    return {"training_seed": int(run.record.get("training_seed", run.record["seed"]))} if run else {}


def _first(subject: Subject) -> str:
    """What the model was before anything was done to it here."""
    return str(subject.run.record["model"]["origin"]) if subject.run else subject.blueprint.name


def _warm_up(model: nn.Module, problem: Problem) -> None:
    """One gradient that changes nothing, so that what a process does only once is not counted as the method's time."""
    with evaluating(model):
        for batch in replace(problem.retain, ids=problem.retain.ids[:64]).batches(64):
            gradients(problem.loss(model, batch), trainable(model))


def _all(records: Any) -> Part:
    return Part(records, torch.arange(len(records)))


def about(verb: str, place: Place) -> dict[str, Any]:
    """What is recorded of how a job was done."""
    return {
        "verb": verb,
        "seed": place.seed,
        "device": str(place.torch_device()),
        "precision": place.precision,
        "world_size": world_size(),
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("scissorhands", "torch", "datasets", "scikit-learn")}
        | {"python": platform.python_version()},
    }
