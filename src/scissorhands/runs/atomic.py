"""Write a run folder atomically: under a hidden name first, then renamed into place."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from ..distributed import barrier, on_rank_0, rank
from ..distributed.checkpoint_files import CHECKPOINTS
from ..errors import FailedError, LostError, RunError, ScissorhandsError, StoppedError
from ..files import FULL, read_toml
from .layout import BEGUN, DRAWN, HOLDS, LOG, WRITTEN, is_run
from .lock import lock
from .pending import again, require_no_links, resumable, unfinished
from .seals import MODEL_FILES, SCORES, read_scores, require_record


@contextmanager
def writing(folder: Path, overwrite: bool, resume: bool = False, replaces: tuple[str, ...] = HOLDS) -> Iterator[Path]:
    """Give a folder to write into; it replaces `folder` when the block ends, and is removed when the block fails.

    It stays if it holds a checkpoint from which the work can go on. Only a folder is replaced that holds nothing but
    what `replaces` names, and is thus an earlier result of the same kind.
    """
    folder = Path(os.path.abspath(folder))
    made, held = on_rank_0(lambda: _prepared(folder, overwrite, resume, replaces))
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
            os.close(held)


def finish(folder: Path) -> bool:
    """Rename a run that was killed just before its final rename; return whether there was one."""
    work = unfinished(folder)
    if not (work / SCORES).is_file() or (work / BEGUN).exists():
        return False
    require_no_links(work)
    _swap(work, folder)
    return True


def _swap(work: Path, folder: Path) -> None:
    """Rename the new folder into place, without its checkpoints; then remove the folder that it replaces.

    If it is killed at any point, the run can still be resumed: from a checkpoint, from the start, or by `finish`.
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


def _exit_code(error: BaseException) -> int:
    """Return the exit code of an error; above 128 where a signal ended the process."""
    if isinstance(error, StoppedError):
        return error.exit_code
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _may_go_on(error: BaseException) -> bool:
    """Return whether a retry may succeed: after any error but a user's mistake."""
    return isinstance(error, LostError | StoppedError) or not isinstance(error, ScissorhandsError)


def _prepared(folder: Path, overwrite: bool, resume: bool, replaces: tuple[str, ...]) -> tuple[list[Path], int]:
    """Make and lock the folder to write into; return the folders that were made above it, and the lock."""
    work = unfinished(folder)
    if len(os.fsencode(folder.name)) > 200:
        raise RunError(f"the name '{folder.name[:20]}…' is too long for a folder.")
    if any("\ud800" <= letter <= "\udfff" for letter in str(folder)):
        raise RunError(f"the path {str(folder)!a} is not UTF-8 text: choose another path.")
    _require_replaceable(folder, overwrite, replaces)
    if work.is_symlink():
        raise RunError(f"{work} is a link, and a run is not written through one.")
    made = _make_parents(folder.parent)
    try:
        work.mkdir(exist_ok=True)
        held = lock(work, f"{folder} is being written by another process.")
    except OSError as error:
        _remove_empty([work, *made])
        raise RunError(f"cannot write to {folder.parent}: {error.strerror}.") from None
    if resume:
        _clear(work, (name for name in os.listdir(work) if name.startswith(".") or name in {*HOLDS} - {LOG}))
    else:
        if resumable(folder) and not overwrite:
            os.close(held)
            what = f"Go on with '{again(folder)}', or discard it with --overwrite"
            raise RunError(f"{folder} was begun and not finished. {what}.")
        _clear(work, os.listdir(work))
    return made, held


def _require_replaceable(folder: Path, overwrite: bool, replaces: tuple[str, ...]) -> None:
    """Refuse to remove what is there, unless that is asked for and we wrote all of it."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RunError(f"cannot write to {folder}: it is not a folder.")
    if folder.exists() and not overwrite:
        raise RunError(f"{folder} exists already. Choose another place, or replace it with --overwrite.")
    if folder == Path.cwd() or folder in Path.cwd().parents:
        raise RunError(f"{folder} is the folder that you are in, or above it: choose another place.")
    inside = sorted(folder.iterdir()) if folder.exists() else []
    foreign = [path.name for path in inside if not any(fnmatchcase(path.name, pattern) for pattern in replaces)]
    if inside and not foreign:
        foreign = _foreign(folder) if replaces == HOLDS else _foreign_among_runs(folder)
    if foreign:
        raise RunError(f"--overwrite does not replace {folder}: it holds '{foreign[0]}', which is not ours.")


def _foreign(folder: Path) -> list[str]:
    """List the files in a folder that no run wrote; all of them, if it is not a run."""
    try:
        require_record(read_toml(folder / "run.toml"), folder / "run.toml")
        known = {*read_scores(folder)["files"]} if (folder / SCORES).exists() else set()
    except RunError:
        return sorted(path.name for path in folder.iterdir())
    written = WRITTEN if known else {**WRITTEN, "model": MODEL_FILES}
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path) for path in inside if str(path) not in known and not _matches(path, written))


def _foreign_among_runs(folder: Path) -> list[str]:
    """List the files below the first level of a folder of runs that no run wrote."""
    found: list[str] = []
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.is_symlink() or path.name.startswith("."):
            continue
        if is_run(path):
            found += [f"{path.name}/{name}" for name in _foreign(path)]
            continue
        files = [one.name for one in path.iterdir() if one.is_symlink() or not one.is_dir()]
        odd = [name for name in files if not any(fnmatchcase(name, pattern) for pattern in DRAWN)]
        found += [f"{path.name}/{name}" for name in (*sorted(odd), *_foreign_among_runs(path))]
    return found


def _matches(path: Path, written: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell whether a file is one that is written into its folder."""
    return any(fnmatchcase(path.name, pattern) for pattern in written.get(str(path.parent), ()))


def _clear(folder: Path, names: Iterable[str]) -> None:
    for old in [folder / name for name in names]:
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()


def _make_parents(parent: Path) -> list[Path]:
    """Make the missing folders above a run, and return them, the deepest first."""
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
