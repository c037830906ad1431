"""What many tests ask for again, read or computed once: pipelines, and the membership attack on the same outputs."""

import copy
import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scissorhands.metrics import mia_svc
from scissorhands.tasks.diffusion import pipeline

load_from_disk, _part, _called_other = pipeline.load, pipeline._part, mia_svc.called_other
_kept: dict[tuple[Any, ...], Any] = {}


def load(folder: Path, device: torch.device) -> Any:
    """Load the pipeline, or copy what was loaded from the folder before if no file in it was written since."""
    stats = {path: path.stat() for path in sorted(folder.rglob("*")) if path.is_file()}
    files = [(path, stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()]
    key = (folder.resolve(), device, *files)
    if key not in _kept:
        _kept[key] = load_from_disk(folder, device)
    found = _kept[key]
    unchanged = (found.vae, found.text_encoder, found.tokenizer)  # erasing changes the U-Net alone
    return copy.deepcopy(found, {id(one): one for one in unchanged})


def part(folder: Path, kind: Any) -> Any:
    """Load a model of the pipeline, or copy what was loaded from files of the same names and bytes."""
    files = [(path.name, hashlib.sha256(path.read_bytes()).digest()) for path in sorted(folder.iterdir())]
    key = (kind, *files)
    if key not in _kept:
        _kept[key] = _part(folder, kind)
    return copy.deepcopy(_kept[key])


def called_other(*parts: Tensor) -> Tensor:
    """Attack the outputs, unless they were attacked before: a run is scored once, and checked whenever it is read."""
    key = tuple((part.dtype, part.shape, part.contiguous().numpy().tobytes()) for part in parts)
    if key not in _kept:
        _kept[key] = _called_other(*parts)
    found: Tensor = _kept[key].clone()
    return found
