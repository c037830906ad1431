"""The files of a checkpoint: one of tensors for each process, and one that says where the loop was; with checksums.

Not torch.distributed.checkpoint: its index is a pickle, which we never load, and its storage in safetensors has no
place for what each process has for itself, such as random states, and no checksum.
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ..errors import ReadError, RunError
from ..files import fsync, read_json

CHECKPOINTS, ABOUT, PART = "checkpoints", "about.json", ".part"
NAME = "[0-9]" * 3 + "-" + "[0-9]" * 9 + "-" + "[0-9]" * 6  # of a checkpoint: loop, step, epoch
POSITION = ("epoch", "step_in_epoch", "global_step")  # where a loop is
NUMBERS = (*POSITION, "world_size", "seconds", "log")


def found_checkpoints(folder: Path) -> dict[int, tuple[Path, dict[str, Any]]]:
    """Return the last complete checkpoint of each loop."""
    found: dict[int, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.glob(NAME)):
        if path.is_symlink() or not (path / ABOUT).exists():
            continue
        try:
            metadata: Any = read_json(path / ABOUT, object)
        except ReadError:
            continue
        try:
            [metadata["phase"], *(float(metadata[name]) for name in NUMBERS)]
            stated = metadata.pop("checksum")
            if stated != checksum(json.dumps(metadata).encode()):
                raise ValueError("it was changed after it was written")
            found[int(path.name.partition("-")[0])] = path, metadata
        except (TypeError, KeyError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    return found


def save_shard(tensors: Mapping[str, Tensor], path: Path) -> OSError | None:
    """Write the tensors to a file, and return the error if that fails."""
    try:
        named = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(named, path, {"checksum": checksum_of(named)})
        fsync(path)
    except (OSError, SafetensorError) as error:
        return error if isinstance(error, OSError) else OSError(0, str(error), str(path))
    return None


def checksum(content: bytes | memoryview, before: int = 0) -> str:
    """Compute a CRC-32, which is fast enough for every checkpoint."""
    return f"{zlib.crc32(content, before):08x}"


def checksum_of(tensors: Mapping[str, Tensor]) -> str:
    """Compute the checksum of named tensors."""
    total = "0"
    for name, value in sorted(tensors.items()):
        total = checksum(f"{name} {value.dtype} {tuple(value.shape)}".encode(), int(total, 16))
        total = checksum(value.reshape(-1).view(torch.uint8).numpy().data, int(total, 16))
    return total
