"""The runs that a report is about: what cannot be read is named and left out."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import runs
from ..errors import RunError, ScissorhandsError
from ..runs import Run
from ..runs.claims import ABOUT, claimed

_NAMED = 5  # missing runs of a bench that are named


def gathered(folders: Iterable[Path]) -> tuple[list[Run], list[str]]:
    """Read the runs in these folders; say which were left out, and why.

    Each is a run, a bench or demo with its runs, or a folder that holds runs. If none can be read, raise the first
    reason.
    """
    found: list[Run] = []
    errors: list[ScissorhandsError] = []
    for folder in folders:
        try:
            inside = [*_expanded(folder)]
        except ScissorhandsError as error:
            errors.append(error)
            continue
        for one in inside:
            try:
                found.append(runs.checked(one))
            except ScissorhandsError as error:
                errors.append(error)
        errors += _missing(folder)
    if not found and errors:
        raise errors[0]
    return found, [str(error) for error in errors]


def _expanded(folder: Path) -> list[Path]:
    """List the run folders in a folder, which may be one itself."""
    if runs.is_run(folder) or not folder.is_dir():
        return [folder]
    bench = (folder / ABOUT).exists()
    inside = [*_planned(folder)] if bench else sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    found = [path for path in inside if runs.is_run(path)]
    if not found and bench:
        raise RunError(f"{folder} has no finished run yet.")
    return found or [folder]


def _planned(folder: Path) -> Iterator[Path]:
    """Yield the run folders of a bench, finished or not."""
    for name in claimed(folder)["runs"]:
        path = Path(str(name))
        if not path.is_absolute() and ".." not in path.parts:
            yield folder / path


def _missing(folder: Path) -> list[ScissorhandsError]:
    """Say which runs of a bench are not finished."""
    if runs.is_run(folder) or not (folder / ABOUT).exists():
        return []
    planned = [*_planned(folder)]
    missing = [str(path.relative_to(folder)) for path in planned if not runs.is_run(path)]
    if not missing:
        return []
    more = ", …" if len(missing) > _NAMED else ""
    said = f"{len(missing)} of {len(planned)} runs have not finished: {', '.join(missing[:_NAMED])}{more}"
    return [RunError(f"{folder}: {said}.")]
