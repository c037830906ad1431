"""Weights in safetensors files: each process reads its rows, and no process holds them all to write them."""

import json
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from ..errors import ModelError
from .processes import barrier, on_rank_0, rank
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
    """Loads the weights in these safetensors files, of which each process reads its rows, in place.

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
def save_weights(model: nn.Module, path: Path) -> None:
    """Writes the weights into one safetensors file. They are gathered one at a time: no process holds them all."""
    named = _once(model.state_dict(keep_vars=True))
    order = sorted(named, key=lambda name: (-named[name].element_size(), name))  # so that each is aligned in the file
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in order:
        start, end = end, end + named[name].numel() * named[name].element_size()
        about = {"dtype": _DTYPES[named[name].dtype], "shape": list(named[name].shape), "data_offsets": [start, end]}
        header[name] = about
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    on_rank_0(path.touch)
    problem: OSError | None = None
    file = path.open("wb") if rank() == 0 else None
    for piece in _pieces(text, (named[name] for name in order)):
        try:
            if file and not problem:
                file.write(piece)
        except OSError as error:
            problem = error
    try:
        if file:
            file.flush()
            os.fsync(file.fileno())
            file.close()
    except OSError as error:
        problem = problem or error
    barrier(problem)


def _once(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor under the first of its names."""
    names: dict[int, str] = {}
    for name, value in named.items():
        names.setdefault(id(value), name)
    return {name: named[name] for name in names.values()}


def _pieces(header: bytes, weights: Iterable[Tensor]) -> Iterator[Any]:
    """What a safetensors file is made of: the length of its header, the header, and the weights one by one."""
    yield struct.pack("<Q", len(header)) + header
    for weight in weights:
        yield full(weight).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
