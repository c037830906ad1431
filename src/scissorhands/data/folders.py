"""The splits of a data folder: parquet files, or images.

Nothing is guessed from a pattern, and nothing is left out in silence: what is listed is what is loaded, or it is named
in an error. No copy of the data outlives the process.
"""

import os
from pathlib import Path

from ..errors import DataError
from .imagefolder import image_splits
from .listing import METADATA, Splits, below, entries, has_ending, is_image, require_text
from .parquet import parquet_splits


def splits(folder: Path, memory: float) -> Splits:
    """Return the splits of a folder, train first, each behind a function that reads it.

    A table of more than `memory` GiB is kept on disk while it is used.
    """
    root = str(folder.resolve())
    require_text(root)
    folders, paths = entries(root)
    top = [*paths, *(path for inner in folders for path in entries(inner)[1])]
    shards = [path for path in top if has_ending(".parquet", path) and os.path.basename(path) not in METADATA]
    if not shards:
        return image_splits(root)
    if images := [path for path in top if is_image(path)]:
        raise DataError(
            f"{root} holds both {below(shards[0], root)} and {below(images[0], root)}: keep parquet files and "
            "images in folders of their own."
        )
    return parquet_splits(root, shards, memory)
