"""Copy the model of a run to a place of its own."""

import shutil
from pathlib import Path

from .. import runs
from ..distributed import on_rank_0
from ..errors import ModelError
from ..files import replacing
from ..tasks.classification.checkpoint import SUFFIXES
from . import Run


def export(run: Run, path: Path) -> None:
    """Copy the model of a run: to a folder, or, where its weights came in a PyTorch file, to such a file."""
    source = run.folder / "model"
    if path.suffix not in SUFFIXES:
        with runs.writing(path, overwrite=False) as work:
            on_rank_0(lambda: shutil.copytree(source, work, dirs_exist_ok=True))
        return
    weights = [file for file in sorted(source.iterdir()) if file.suffix in SUFFIXES]
    if not weights:
        raise ModelError(f"the model came as a folder, and is in {source}: {path} was not written, name a folder.")

    def copy() -> None:
        with replacing(path) as part:
            shutil.copyfile(weights[0], part)

    on_rank_0(copy)
