"""The splits of a data folder: tables, or images.

Nothing is guessed from a pattern, and nothing is left out in silence: what is listed is what is loaded, or it is named
in an error. No copy of the data outlives the process.
"""

import os
from pathlib import Path

from ..errors import DataError
from .imagefolder import image_splits
from .listing import METADATA, Splits, below, entries, has_ending, is_image, require_text
from .tables import is_table, table_splits


def splits(folder: Path, memory: float, key: str = "") -> Splits:
    """Return the splits of a folder, train first, each behind a function that reads it.

    A table of more than `memory` GiB is kept on disk while it is used; `key` is the column that names its records.
    """
    root = str(folder.resolve())
    require_text(root)
    folders, paths = entries(root)
    top = [*paths, *(path for inner in folders for path in entries(inner)[1])]
    tables = [path for path in top if is_table(path) and os.path.basename(path) not in METADATA]
    if folders:  # of images, beside which there may be lists, or of parquet files
        tables = [path for path in tables if has_ending(".parquet", path)]
    if not tables:
        return image_splits(root)
    if images := [path for path in top if is_image(path)]:
        raise DataError(
            f"{root} holds both {below(tables[0], root)} and {below(images[0], root)}: keep tables and images in "
            "folders of their own."
        )
    return table_splits(root, tables, memory, key)
