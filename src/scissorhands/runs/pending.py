"""A run that is not finished: where it is written, what was asked of it, and how it goes on."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..distributed import on_rank_0
from ..distributed.checkpoint_files import ABOUT, CHECKPOINTS, PART
from ..errors import RunError
from ..files import read_toml, write_text
from ..settings import to_toml
from .layout import BEGUN

# What may be otherwise when a run goes on; what is read from the folder is compared itself.
_MAY_DIFFER = ("folder", "begun", "command", "who")


def unfinished(folder: Path) -> Path:
    """Return the folder in which a run is written until it is complete."""
    folder = Path(os.path.abspath(folder))
    if not folder.name:
        raise RunError(f"'{folder}' cannot be a run folder: name another.")
    return folder.with_name(f".{folder.name}.unfinished")


def resumable(folder: Path) -> bool:
    """Return whether an unfinished run can go on from a checkpoint."""
    found = (unfinished(folder) / CHECKPOINTS).glob(f"*/{ABOUT}")
    return any(about.parent.suffix != PART for about in found)


def again(folder: Path) -> str:
    """Return the command that resumes a run."""
    path = os.path.relpath(folder) if folder.absolute().is_relative_to(Path.cwd()) else str(folder)
    return f"scissorhands {begun(unfinished(folder)).get('verb', 'scrub')} --resume {shlex.quote(path)}"


def begin(work: Path, asked: Mapping[str, Any]) -> str:
    """Write down what was asked; refuse a run that was begun with something else. Return when it was begun."""
    return on_rank_0(lambda: _begin(work, asked))


def _begin(work: Path, asked: Mapping[str, Any]) -> str:
    path = work / BEGUN
    known = begun(work) if path.exists() else None
    for name, value in asked.items() if known else ():
        if known and known.get(name) != value and name not in _MAY_DIFFER:
            what = f"'{name}' was {known.get(name)!r}, and is {value!r} now"
            raise RunError(f"{work} was begun with other settings: {what}. Start over with --overwrite, or remove it.")
    if known is None:
        write_text(path, to_toml(asked), private=True)
    return str((known or asked)["begun"])


def begun(work: Path) -> dict[str, Any]:
    """Read what was asked of an unfinished run; empty if none was begun."""
    if not work.is_dir():
        return {}
    require_no_links(work)
    if not (work / BEGUN).exists():
        raise RunError(f"{work} has no {BEGUN}, so it cannot be resumed: give the whole command again.")
    return read_toml(work / BEGUN)


def require_no_links(work: Path) -> None:
    """Refuse an unfinished run that is a link or holds one: it would be read and written somewhere else."""
    for path in (work, *sorted(work.iterdir())):
        if path.is_symlink():
            raise RunError(f"{path} is a link, and a run is not resumed through one: remove the link.")
