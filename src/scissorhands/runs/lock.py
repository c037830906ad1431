"""The lock of a run folder, which keeps two processes from writing to it at once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from ..distributed import on_rank_0, rank
from ..errors import RunError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run inside the block, since one of two results would be lost."""
    held = on_rank_0(lambda: lock(folder, f"{folder} is being evaluated by another process."))
    try:
        yield
    finally:
        if rank() == 0:
            os.close(held)


def lock(folder: Path, otherwise: str) -> int:
    """Lock a folder if its file system supports locks; return the file descriptor. Closing that releases the lock."""
    # A lock on the folder itself: the file that FileLock needs would stay in the run, and a run may be read-only.
    descriptor, free = os.open(folder, os.O_RDONLY), True
    with suppress(OSError):  # a file system without locks
        free = lock_descriptor(descriptor, blocking=False)
    if not free:
        os.close(descriptor)
        raise RunError(otherwise)
    return descriptor
