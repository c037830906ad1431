"""Weights in a PyTorch file: a state dict, alone or in a training checkpoint. Nothing is unpickled but plain values."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...distributed import full, local, on_rank_0, shard_of
from ...errors import ModelError, ReadError, listed
from ...files import require_regular

SUFFIXES = (".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Checkpoint:
    """How a PyTorch file holds the weights of a model, so that they can be written back in the same way.

    The state dict is an `entry` of the file, or the file itself if that is empty. Its names have a `prefix` that those
    of the model do not have. `beside` are the other entries of the file that hold no tensors.
    """

    name: str
    entry: str = ""
    prefix: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)


def load(model: nn.Module, path: Path) -> Checkpoint:
    """Load the weights in a file into the model, in place; they must fit in name and shape."""
    content = _read(path)
    found = dict(_state_dicts(content))
    if not found:
        raise ModelError(f"{path} holds no state dict: save one with torch.save(model.state_dict(), FILE).")
    wanted = model.state_dict(keep_vars=True)
    prefixes = {entry: _prefix(weights, wanted) for entry, weights in found.items()}
    misfits = {entry: _misfit(weights, wanted, prefixes[entry]) for entry, weights in found.items()}
    fitting = [entry for entry, misfit in misfits.items() if not misfit]
    if len(fitting) > 1:
        raise ModelError(
            f"{path} holds weights of such a model under {listed(fitting)}: save those that you mean to a file of "
            f"their own, as in torch.save(torch.load('{path.name}')['{fitting[0]}'], FILE)."
        )
    if not fitting:
        entry = max(found, key=lambda one: len(found[one]))
        inside = f" under '{entry}'" if entry else ""
        raise ModelError(f"the weights in {path}{inside} do not fit the model; {misfits[entry]}.")
    entry = fitting[0]
    with torch.no_grad():
        for name, weight in wanted.items():
            local(weight).copy_(shard_of(found[entry][prefixes[entry] + name], weight))
    beside = {name: value for name, value in content.items() if name != entry and not _has_tensor(value)}
    return Checkpoint(path.name, entry, prefixes[entry], beside if entry else {})


def save(model: nn.Module, checkpoint: Checkpoint, folder: Path) -> None:
    """Write the weights as the file held them that they came from.

    What else that file held with tensors, such as the state of an optimizer, is left out: it was computed from the
    records that are to be forgotten.
    """
    weights = {checkpoint.prefix + name: full(value).cpu().clone() for name, value in model.state_dict().items()}
    content = {**checkpoint.beside, checkpoint.entry: weights} if checkpoint.entry else weights
    on_rank_0(lambda: torch.save(content, folder / checkpoint.name))


def _read(path: Path) -> Mapping[str, Any]:
    """Read a PyTorch file of tensors and plain values."""
    try:
        require_regular(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except ReadError as error:
        raise ModelError(str(error)) from None
    except Exception as error:  # an unpickler that is fed garbage raises anything
        code = re.search(r"GLOBAL (\S+)|[Uu]nsupported (?:global|class) (\S+)", str(error))
        if code:
            named = next(filter(None, code.groups()))
            raise ModelError(
                f"{path} holds more than weights: reading it could run the code '{named}', so it is refused. Save the "
                "state dict alone: torch.save(model.state_dict(), FILE)."
            ) from None
        raise ModelError(f"{path} cannot be read as a file of weights that torch.save wrote.") from None
    return content if isinstance(content, Mapping) else {}


def _state_dicts(content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Yield what could be state dicts: the file's content itself, or its entries, by name."""
    for entry, value in {"": content, **content}.items():
        if isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
            weights = {name: weight for name, weight in value.items() if isinstance(weight, Tensor)}
            if weights and len(weights) == len(value):
                yield str(entry), weights


def _prefix(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """Return what stands before the names of the model, as `module.` does in a model that was trained in parallel."""
    parts = next(iter(weights)).split(".")
    prefixes = ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts))]
    return max(prefixes, key=lambda prefix: sum(prefix + name in weights for name in wanted))


def _misfit(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], prefix: str) -> str:
    """Say why the weights do not fit the model; empty if they do."""
    own = {prefix + name: value for name, value in wanted.items()}
    for what, names in (("missing", own.keys() - weights.keys()), ("unexpected", weights.keys() - own.keys())):
        if names:
            return f"{what}: {listed(sorted(names), 3)}"
    for name, weight in own.items():
        if weights[name].shape != weight.shape:
            there, here = list(weights[name].shape), list(weight.shape)
            return f"size mismatch for {name}: {there} in the file, {here} in the model"
    return ""


def _has_tensor(value: Any) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else ()
    return isinstance(value, Tensor) or any(map(_has_tensor, inner))
