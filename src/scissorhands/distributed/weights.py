"""Weights in safetensors files: each process reads its rows, and no process holds them all to write them."""

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from ..errors import ModelError
from .processes import raise_on_all_ranks, rank
from .sharding import full, local, own_rows

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}  # as safetensors calls them


def load_weights(model: nn.Module, files: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Load the weights in these safetensors files, in place; each process reads its rows.

    Returns what the model has and the files have not, and the other way round.
    """
    wanted = model.state_dict(keep_vars=True)
    found: dict[str, Tensor] = {}
    unexpected: list[str] = []
    for path in files:
        with safe_open(path, framework="pt") as file, torch.no_grad():
            for name in file.keys():  # noqa: SIM118  # it is no dictionary
                if name not in wanted:
                    unexpected.append(name)
                    continue
                there, weight = file.get_slice(name), wanted[name]
                if there.get_shape() != list(weight.shape):
                    sizes = f"{there.get_shape()} in the file, {list(weight.shape)} in the model"
                    raise ModelError(f"size mismatch for {name}: {sizes}.")
                rows = own_rows(weight)
                local(weight).copy_(there[rows] if rows else file.get_tensor(name))
                found[name] = weight
    tied = {id(weight) for weight in found.values()}  # a weight with two names is in the file under one
    missing = [name for name, weight in wanted.items() if name not in found and id(weight) not in tied]
    return sorted(missing), sorted(unexpected)


# Not torch.distributed.checkpoint: it writes every shard to disk first, and then all of them again into one file.
def save_weights(model: nn.Module, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write the weights into one safetensors file. They are gathered one at a time: no process holds them all."""
    named = _without_tied_duplicates(model.state_dict(keep_vars=True))
    order = sorted(named, key=lambda name: (-named[name].element_size(), name))  # so that each is aligned in the file
    weights = {name: named[name] for name in order}
    file, problem = None, None
    try:
        file = path.open("wb") if rank() == 0 else None
    except OSError as error:
        problem = error
    raise_on_all_ranks(problem)
    header = _header(weights, metadata)
    for chunk in _chunks(header, weights.values()):  # all processes gather, and the first one writes
        try:
            if file and not problem:
                file.write(chunk)
        except OSError as error:
            problem = error
    try:
        if file:
            file.flush()
            os.fsync(file.fileno())
            file.close()
    except OSError as error:
        problem = problem or error
    raise_on_all_ranks(problem)


def _header(weights: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> bytes:
    """Return the header of a safetensors file that holds these weights in their order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    end = 0
    for name, weight in weights.items():
        start, end = end, end + weight.numel() * weight.element_size()
        header[name] = {"dtype": _DTYPES[weight.dtype], "shape": list(weight.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def _without_tied_duplicates(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each tensor under the first of its names."""
    names: dict[int, str] = {}
    for name, value in named.items():
        names.setdefault(id(value), name)
    return {name: named[name] for name in names.values()}


def _chunks(header: bytes, weights: Iterable[Tensor]) -> Iterator[Any]:
    """Yield what a safetensors file is made of: the length of its header, the header, and the weights one by one."""
    yield struct.pack("<Q", len(header)) + header
    for weight in weights:
        yield full(weight).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
