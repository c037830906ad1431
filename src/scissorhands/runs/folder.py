"""A run folder: run.toml says what was done, log.jsonl how it went, model/ what came out, scores.json what it is worth,
evidence.safetensors what the scores were computed from, and gradcam/ where the model looks.

A run is written beside its place and renamed into it when it is complete, so a folder that exists is whole. One that
was killed is still there under a hidden name, with begun.toml to say what was asked, and may hold checkpoints.
"""

import fcntl
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ..data.problem import Log
from ..distributed import barrier, on_rank_0, rank
from ..distributed.checkpoint import ABOUT, CHECKPOINTS, PART
from ..errors import FailedError, LostError, ReadError, RunError, ScissorhandsError, StoppedError
from ..evaluation.evaluate import Scores, judge, measure
from ..evaluation.evidence import from_tensors, to_tensors
from ..files import FULL, read_metadata, read_tensors, read_text, read_toml, require_regular, write_tensors, write_text
from ..metrics import METRICS, Evidence
from ..settings import to_toml
from .seals import (
    EVIDENCE,
    SCORES,
    read_scores,
    require_record,
    require_same_model,
    require_unchanged,
    sealed,
    tensors_seal,
)

BEGUN, LOG, GRIDS, PICTURES = "begun.toml", "log.jsonl", "grids", "gradcam"
ROWS = "rows.txt"  # the prompts of the rows of pictures in `grids`
# All that a run folder may hold; a pipeline is its own run folder.
HOLDS = (
    *("run.toml", SCORES, LOG, "forget.txt", "before.txt", EVIDENCE, "model", GRIDS, PICTURES),
    *("model_index.json", "unet", "vae", "text_encoder", "tokenizer", "scheduler"),
    *("safety_checker", "feature_extractor", "image_encoder"),
)


@dataclass(frozen=True)
class Result:
    """What a run is worth: its scores, what it cost, and what it was compared with.

    `tried` is how many runs were made to choose the settings, where that is known; `examined` are the settings of an
    evaluation above the quick level; `reference_hash` is the `scores_hash` of the reference as it was compared with.
    """

    scores: Scores
    seconds: float | None = None
    memory_mib: float | None = None
    reference: str = ""
    reference_seconds: float | None = None
    tried: int | None = None
    examined: Mapping[str, Any] = field(default_factory=dict)
    reference_hash: str = ""

    def values(self) -> dict[str, float]:
        """All numbers by name, as tables show them."""
        stored: dict[str, float] = self.scores.to_dict()["values"]
        if self.memory_mib is not None:
            stored["memory_mib"] = self.memory_mib
        if self.seconds is not None and self.reference_seconds:
            stored["rte"] = self.seconds / self.reference_seconds
            if self.tried is not None:
                stored["tuning"] = self.tried * stored["rte"]
        return stored

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values; `rte` and `avg_gap` are there for reading, and are computed again when read."""
        return {
            **self.scores.to_dict(),
            "values": self.values(),
            "seconds": self.seconds,
            "reference_run": self.reference,
            "reference_seconds": self.reference_seconds,
            "reference_hash": self.reference_hash,
            "tried": self.tried,
            "examined": dict(self.examined),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Result":
        """The result from plain values."""
        values = dict(stored["values"])
        memory = values.pop("memory_mib", None)
        for derived in ("rte", "tuning"):
            values.pop(derived, None)
        scores = Scores.from_dict({**stored, "values": values})
        cost = (stored["seconds"], memory, stored["reference_run"], stored["reference_seconds"], stored.get("tried"))
        return cls(scores, *cost, stored.get("examined", {}), str(stored.get("reference_hash", "")))


@dataclass(frozen=True)
class Run:
    """A finished run, as read from its folder."""

    folder: Path
    record: Mapping[str, Any]
    result: Result

    @property
    def method(self) -> str:
        """The name of the method that made it."""
        return str(self.record["method"]["name"])

    @property
    def settings(self) -> dict[str, Any]:
        """The method's settings."""
        return {name: value for name, value in self.record["method"].items() if name != "name"}

    @property
    def damage(self) -> str:
        """What the method broke, in words; empty if nothing."""
        return str(self.record.get("damage", ""))

    def ids(self, name: str) -> list[int]:
        """The record numbers that it forgot (`forget`), or that were forgotten earlier (`before`)."""
        path = self.folder / f"{name}.txt"
        try:
            return [int(line) for line in read_text(path).split()] if path.exists() else []
        except ValueError as error:
            raise ReadError(f"{path} cannot be read: {error}.") from None

    def require_model(self) -> None:
        """Refuses a model that was changed after the run was written."""
        require_same_model(self.folder, read_scores(self.folder))


def from_there(path: str | Path, folder: Path) -> str:
    """The way to a path from a run's folder, so that what is moved together stays together; a name stays a name."""
    return os.path.relpath(Path(path).resolve(), folder.resolve()) if Path(path).exists() else str(path)


def is_run(folder: Path) -> bool:
    """Whether the folder is a run's."""
    return (folder / "run.toml").is_file()


def read(folder: Path) -> Run:
    """The run in a folder."""
    if not folder.is_dir() and resumable(folder):
        raise RunError(f"{folder} is not finished. Go on with '{again(folder)}'.")
    if not folder.is_dir():
        raise RunError(f"there is no run folder '{folder}'.")
    if not is_run(folder):
        raise RunError(f"{folder} is no run folder: it has no run.toml.")
    if not (folder / SCORES).exists():
        raise RunError(f"{folder} has no scores.json: the run did not finish. Run it again with --overwrite.")
    record, stored = read_toml(folder / "run.toml"), read_scores(folder)
    require_record(record, folder / "run.toml")
    require_unchanged(folder, stored)
    try:
        return Run(folder, record, Result.from_dict(stored))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"{folder} cannot be read as a run: {type(error).__name__}: {error}") from None


def checked(folder: Path) -> Run:
    """Return the run in a folder, after checking its files and its model, and computing its scores again."""
    run = read(folder)
    if (folder / "model").is_dir():
        run.require_model()
    _require_recomputed(run)
    return run


def scores_hash(folder: Path) -> str:
    """A hash of what a run is worth by itself; comparing it with a reference, even with itself, does not change it."""
    result = read(folder).result
    beside = {name for name, metric in METRICS.items() if "retrained" in metric.needs}
    values = {name: value for name, value in result.scores.values.items() if name not in beside}
    own = [result.scores.manifest, values, dict(result.scores.counts), result.seconds]
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps others from adding to a run inside the block: of two results one would be lost."""
    lock = on_rank_0(lambda: _locked(folder, f"{folder} is being evaluated by another process."))
    try:
        yield
    finally:
        if rank() == 0:
            os.close(lock)


def _locked(folder: Path, otherwise: str) -> int:
    """Opens a folder and locks it, where its file system knows locks."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise RunError(otherwise) from None
    except OSError:
        pass  # a file system without locks
    return lock


@contextmanager
def writing(folder: Path, overwrite: bool, resume: bool = False, replaces: tuple[str, ...] = HOLDS) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when the block ends, and vanishes when it fails.

    It stays if it holds a checkpoint from which the work can go on. Only a folder is replaced that holds nothing but
    what `replaces` names, and is thus an earlier result of the same kind.
    """
    folder = Path(os.path.abspath(folder))
    made, lock = on_rank_0(lambda: _prepared(folder, overwrite, resume, replaces))
    work = unfinished(folder)
    try:
        yield work
        barrier()
        on_rank_0(lambda: _swap(work, folder))
    except BaseException as error:
        kept = resumable(folder) and (resume or _may_go_on(error))
        if rank() == 0 and not kept:
            shutil.rmtree(work, ignore_errors=True)
            _remove_empty(made)
        if kept and _exit_code(error) > 128:
            raise StoppedError(f"interrupted; go on with '{again(folder)}'.", _exit_code(error)) from None
        if isinstance(error, StoppedError) and error.exit_code > 128:  # of a run inside this one
            raise StoppedError("interrupted; no unfinished run was kept.", error.exit_code) from None
        if isinstance(error, OSError) and error.errno in FULL:
            left = f"it goes on from its last checkpoint with '{again(folder)}'" if kept else "nothing was written"
            raise FailedError(f"the disk under {folder.parent} is full; {left}.") from None
        raise
    finally:
        if rank() == 0:
            os.close(lock)


def unfinished(folder: Path) -> Path:
    """Where a run is written until it is complete."""
    folder = Path(os.path.abspath(folder))
    if not folder.name:
        raise RunError(f"'{folder}' is no place for a run: name a folder.")
    return folder.with_name(f".{folder.name}.unfinished")


def resumable(folder: Path) -> bool:
    """Whether a run was begun there that can go on from a checkpoint."""
    found = (unfinished(folder) / CHECKPOINTS).glob(f"*/{ABOUT}")
    return any(about.parent.suffix != PART for about in found)


def again(folder: Path) -> str:
    """The command with which a run goes on."""
    path = os.path.relpath(folder) if folder.absolute().is_relative_to(Path.cwd()) else str(folder)
    return f"scissorhands {begun(unfinished(folder)).get('verb', 'scrub')} --resume {shlex.quote(path)}"


def _exit_code(error: BaseException) -> int:
    """Above 128 where a signal ended it."""
    if isinstance(error, StoppedError):
        return error.exit_code
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _may_go_on(error: BaseException) -> bool:
    """Whether what ended a run may not happen again: anything but a mistake in what was asked."""
    return isinstance(error, LostError | StoppedError) or not isinstance(error, ScissorhandsError)


def _prepared(folder: Path, overwrite: bool, resume: bool, replaces: tuple[str, ...]) -> tuple[list[Path], int]:
    """Makes the folder to write into, locked; returns the folders that were made above it, and the lock."""
    work = unfinished(folder)
    if len(os.fsencode(folder.name)) > 200:
        raise RunError(f"the name '{folder.name[:20]}…' is too long for a folder.")
    _require_replaceable(folder, overwrite, replaces)
    if work.is_symlink():
        raise RunError(f"{work} is a link, and a run is not written through one.")
    made = _make_parents(folder.parent)
    try:
        work.mkdir(exist_ok=True)
        lock = _locked(work, f"{folder} is being written by another process.")
    except OSError as error:
        _remove_empty([work, *made])
        raise RunError(f"cannot write to {folder.parent}: {error.strerror}.") from None
    if resume:
        _clear(work, (name for name in os.listdir(work) if name.startswith(".") or name in {*HOLDS} - {LOG}))
    else:
        if resumable(folder) and not overwrite:
            os.close(lock)
            what = f"Go on with '{again(folder)}', or discard it with --overwrite"
            raise RunError(f"{folder} was begun and not finished. {what}.")
        _clear(work, os.listdir(work))
    return made, lock


def _require_replaceable(folder: Path, overwrite: bool, replaces: tuple[str, ...]) -> None:
    """Refuses to remove what is there, unless that is asked for and we wrote all of it."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RunError(f"cannot write to {folder}: it is not a folder.")
    if folder.exists() and not overwrite:
        raise RunError(f"{folder} exists already. Choose another place, or replace it with --overwrite.")
    if folder == Path.cwd() or folder in Path.cwd().parents:
        raise RunError(f"{folder} is the folder that you are in, or above it: choose another place.")
    inside = sorted(folder.iterdir()) if folder.exists() else []
    foreign = [path.name for path in inside if not any(fnmatchcase(path.name, pattern) for pattern in replaces)]
    if inside and replaces == HOLDS and not foreign:
        foreign = _foreign(folder)
    if foreign:
        raise RunError(f"--overwrite does not replace {folder}: it holds '{foreign[0]}', which is not ours.")


def _foreign(folder: Path) -> list[str]:
    """What a folder holds that no run of ours wrote; all of it, if it is no run."""
    try:
        require_record(read_toml(folder / "run.toml"), folder / "run.toml")
        known = {*read_scores(folder)["files"]} if (folder / SCORES).exists() else set()
    except RunError:
        return sorted(path.name for path in folder.iterdir())
    own = (str(path.relative_to(folder)) for path in (folder / "model").rglob("*") if not path.is_dir())
    return sorted({*own} - known) if known else []


def _clear(folder: Path, names: Iterable[str]) -> None:
    for old in [folder / name for name in names]:
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()


def begin(work: Path, asked: Mapping[str, Any]) -> None:
    """Writes down what was asked; refused if the run was begun with something else."""
    on_rank_0(lambda: _begin(work, asked))


def _begin(work: Path, asked: Mapping[str, Any]) -> None:
    path = work / BEGUN
    known = begun(work) if path.exists() else None
    for name, value in asked.items() if known else ():
        if known and known.get(name) != value and name != "folder":  # what was read from there is compared itself
            what = f"'{name}' was {known.get(name)!r}, and is {value!r} now"
            raise RunError(f"{work} was begun with something else: {what}. Start anew with --overwrite, or remove it.")
    if known is None:
        write_text(path, to_toml(asked), private=True)


def begun(work: Path) -> dict[str, Any]:
    """What was asked of a run that is not finished; nothing if none was begun."""
    if not work.is_dir():
        return {}
    if not (work / BEGUN).exists():
        raise RunError(f"{work} has no {BEGUN}, so it cannot be resumed: give the whole command again.")
    return read_toml(work / BEGUN)


def write_record(work: Path, record: Mapping[str, Any], ids: Mapping[str, list[int]]) -> None:
    """Writes run.toml and, for their owner alone, each list of record numbers that is not empty."""
    on_rank_0(lambda: write_text(work / "run.toml", to_toml(record)))
    for name, numbers in ids.items():
        if numbers:
            lines = "".join(f"{number}\n" for number in numbers)
            on_rank_0(partial(write_text, work / f"{name}.txt", lines, private=True))


def write_result(folder: Path, result: Result) -> None:
    """Writes scores.json, with the seal of the run."""

    def write() -> None:
        write_text(folder / SCORES, json.dumps(sealed(result.to_dict(), folder), indent=2) + "\n")

    on_rank_0(write)


def write_evidence(folder: Path, evidence: Evidence) -> None:
    """Writes evidence.safetensors, with its seal, for its owner alone."""
    tensors = to_tensors(evidence)
    seal = {"seal": tensors_seal(tensors)}
    on_rank_0(lambda: write_tensors(folder / EVIDENCE, tensors, private=True, metadata=seal))


def read_evidence(folder: Path) -> dict[str, Any]:
    """The evidence behind a run's scores; empty where none was kept. Refused where it was edited."""
    path = folder / EVIDENCE
    if not path.exists():
        return {}
    tensors = read_tensors(path)
    if read_metadata(path).get("seal") != tensors_seal(tensors):
        raise RunError(f"{path} was changed after it was written, so it is not believed. Make the run again.")
    try:
        return from_tensors(tensors)
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise ReadError(f"{path} cannot be read: {error}") from None


def with_reference(run: Run) -> dict[str, Any]:
    """The evidence behind a run's scores, with that of the retrained model where it was compared with one."""
    evidence, there = read_evidence(run.folder), run.folder / run.result.reference
    if evidence and run.result.reference and not _own_reference(run) and (retrained := read_evidence(there)):
        evidence["retrained"] = retrained
    return evidence


def _own_reference(run: Run) -> bool:
    return bool(run.result.reference) and (run.folder / run.result.reference).resolve() == run.folder.resolve()


def reference_unchanged(run: Run) -> bool:
    """Whether the reference is as it was when the run was compared with it."""
    there = run.folder / run.result.reference
    try:
        return is_run(there) and scores_hash(there) == run.result.reference_hash
    except RunError:
        return False


def _require_recomputed(run: Run) -> None:
    """Refuse scores and a verdict that do not follow from the evidence, as far as that is there."""
    compared = bool(run.result.reference) and not _own_reference(run)
    known = not compared or reference_unchanged(run)
    stated, evidence = run.result.scores, with_reference(run) if known else read_evidence(run.folder)
    names = [name for name in stated.values if name in METRICS]
    try:
        found = measure(evidence, names, {}, replace(stated, values={}, failed={}, verdict=None))
        if evidence and known:
            found = judge(found, evidence, run.record["split"].get("kind", "chosen"))
    except (ScissorhandsError, ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError) as error:
        raise ReadError(f"{run.folder / EVIDENCE} cannot be read: {error}") from None
    for name, reason in found.failed.items():
        said = f"says {name} is {stated.values[name]:.2f}, which does not follow from {EVIDENCE}: {reason}"
        raise RunError(f"{run.folder / SCORES} {said}")
    for name, value in found.values.items():
        # A support vector classifier is fitted, and on another machine a record at its boundary may fall otherwise.
        if not abs(stated.values[name] - value) <= (1.0 if name.startswith("mia") else 1e-3):
            said = f"says {name} is {stated.values[name]:.2f}, and by {EVIDENCE} it is {value:.2f}"
            raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")
    if stated.verdict and found.verdict and stated.verdict.call != found.verdict.call:
        said = f"has the verdict '{stated.verdict.call}', and by {EVIDENCE} it is '{found.verdict.call}'"
        raise RunError(f"{run.folder / SCORES} {said}. Make the run again.")


class Journal:
    """A log that also keeps every event as a line of log.jsonl.

    Of a run that goes on, the lines up to `position` are there already, and are not written again.
    """

    def __init__(self, path: Path, log: Log, known: int) -> None:
        self.position, self._known, self._log = 0, known, log
        if rank() == 0 and path.exists():
            require_regular(path)
        if rank() == 0 and known > (path.stat().st_size if path.exists() else 0):
            raise RunError(f"{path} is shorter than it was when the last checkpoint was written.")
        self._file = path.open("ab") if rank() == 0 else None
        if self._file:
            self._file.truncate(known)

    def __call__(self, event: Mapping[str, Any]) -> None:
        line = (json.dumps(event) + "\n").encode()
        if self._file and self.position >= self._known:
            self._file.write(line)
        self.position += len(line)
        self._log(event)

    def flush(self) -> None:
        """Writes down what is still in memory."""
        if self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Ends the file."""
        if self._file:
            self._file.close()


def _make_parents(parent: Path) -> list[Path]:
    """Makes the missing folders above a run, and says which, the deepest first."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise RunError(f"cannot write to {parent}: it is not a folder.") from None
    except OSError as error:
        _remove_empty(missing)
        raise RunError(f"cannot write to {parent}: {error.strerror}.") from None
    return missing


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _swap(work: Path, folder: Path) -> None:
    """Renames the work into its place, without what only its making needed; what stood there is removed after that.

    Whenever it is killed, what is left can go on: from a checkpoint, from the beginning, or by `finish`.
    """
    spent, old = work / ".spent", work.with_name(f"{work.name}.old")
    if (work / CHECKPOINTS).exists():
        (work / CHECKPOINTS).replace(spent)
    shutil.rmtree(spent, ignore_errors=True)
    (work / BEGUN).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)  # of a run that was killed while it removed it
        folder.rename(old)
    try:
        work.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def finish(folder: Path) -> bool:
    """Puts a run into its place that was killed when only that was left to do; says whether there was one."""
    work = unfinished(folder)
    if not (work / SCORES).is_file() or (work / BEGUN).exists():
        return False
    _swap(work, folder)
    return True
