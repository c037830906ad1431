"""Check folders for `from_pretrained` before anything is loaded: they may come from an untrusted source."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..distributed import local, raise_on_all_ranks
from ..errors import ModelError, ReadError, listed
from ..files import read_json, require_regular

# What makes transformers or diffusers run code that the folder names, or load weights from somewhere else.
_FOREIGN = (
    "auto_map",
    "custom_pipeline",
    "custom_pipelines",
    "trust_remote_code",  # CVE-2026-5241: a configuration that vouches for itself
    "transformers_weights",
    "use_pretrained_backbone",
    "quantization_config",  # some kinds fetch kernels from the hub, and none can be trained
)
_KERNEL = re.compile(r"_?(attn|experts)_implementation(_internal)?")  # owner/name is code on the hub: CVE-2026-4372
_ADAPTER = "adapter_config.json"
MISFITS = {"missing_keys": "missing", "unexpected_keys": "unexpected", "mismatched_keys": "of another shape"}


@contextmanager
def _about_a_model() -> Iterator[None]:
    """Turn an error in reading a file into a ModelError."""
    try:
        yield
    except ReadError as error:
        raise ModelError(str(error)) from None


@_about_a_model()
def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object from a model folder."""
    return read_json(path, dict)


@_about_a_model()
def files_of(folder: Path, root: Path | None = None) -> list[Path]:
    """List the files of a folder, all of which are regular; no link leads out of `root`, by default the folder."""
    require_inside(folder, root or folder)
    found = [path for path in sorted(folder.iterdir()) if path.is_symlink() or not path.is_dir()]
    for path in found:
        require_inside(path, root or folder)
    found = [path for path in found if not path.is_dir()]  # a link may lead to a folder
    for path in found:
        require_regular(path)
    return found


def require_inside(path: Path, root: Path) -> None:
    """Refuse a path that leads out of a folder."""
    if not is_inside(path, root):
        raise ModelError(f"{path} leads out of {root}: put a copy there in place of the link.")


def is_inside(path: Path, root: Path) -> bool:
    """Tell whether a path stays in a folder when its links are followed.

    A snapshot in the hub's cache consists of links to the `blobs` of its repository, which belong to it.
    """
    try:
        real, top = path.resolve(), root.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return False
    blobs = [parent / "blobs" for parent in top.parents if parent.name.startswith("models--")]
    return any(real.is_relative_to(home) for home in (top, *blobs))


def require_safe(folder: Path, root: Path | None = None) -> None:
    """Refuse a model folder that names code, weights that are no safetensors, or files that are not its own."""
    for path in files_of(folder, root):
        if path.name == _ADAPTER:
            raise ModelError(f"{folder} is an adapter of another model: merge it into that model first.")
        if path.name.endswith("config.json"):
            require_no_code(path, read_config(path))
        if path.name.endswith(".safetensors.index.json"):
            _require_shards(path)


def require_no_code(path: Path, content: dict[str, Any]) -> None:
    """Refuse a configuration that names code to run, or another place to load from."""
    for key, value in _entries(content):
        kernel = _KERNEL.fullmatch(key) and "/" in str(value)
        if kernel or (key in _FOREIGN and value):
            raise ModelError(f"{path} has '{key}', which runs code or loads files that you did not name: refused.")


def _entries(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Walk the keys and values of a JSON object, however deep."""
    pending: list[Any] = [content]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield from one.items()
        pending += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


@_about_a_model()
def _require_shards(index: Path) -> None:
    """Refuse an index that lists anything but safetensors files beside it."""
    shards = read_json(index, dict).get("weight_map")
    if not isinstance(shards, dict):
        raise ModelError(f"{index} does not say which file holds which weight: it has no 'weight_map'.")
    for name in shards.values():
        plain = isinstance(name, str) and name == os.path.basename(name) and name.endswith(".safetensors")
        if not plain:
            raise ModelError(f"{index} lists {name!r}, which is not a safetensors file in that folder: refused.")
        require_regular(index.parent / name)


def load_safely(kind: Any, folder: Path, source: str | Path, refused: Collection[str] = (), **more: Any) -> Any:
    """Load a model with `from_pretrained`: from safetensors, without the network, into memory of its own.

    Refuse weights that are not finite, or that do not fit in one of the ways in `refused`: those would be random.
    """
    model, info = kind.from_pretrained(
        folder,
        use_safetensors=True,
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported by require_fit, with the name of the weight
        **more,
    )
    require_fit({what: info[what] for what in refused}, source)
    copy_weights(model)
    require_finite(model, source)
    return model


def require_fit(info: Mapping[str, Collection[Any]], source: str | Path) -> None:
    """Refuse weights that do not fit the model; `info` is what `from_pretrained` says of them."""
    for what, keys in info.items():
        names = sorted(key if isinstance(key, str) else str(key[0]) for key in keys)  # a mismatched one has its shapes
        if names:
            found = f"{MISFITS[what]}: {listed(names, 3)}"
            raise ModelError(f"the weights in {source} do not fit its config.json; {found}.")


def first_line(error: Exception) -> str:
    """Return the first line of what went wrong."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def copy_weights(model: nn.Module) -> None:
    """Copy what `from_pretrained` left in the mapped file, where it may be misaligned, into memory of its own."""
    for value in (*model.parameters(), *model.buffers()):
        value.data = value.data.clone()


def require_finite(model: nn.Module, source: str | Path) -> None:
    """Refuse a model with a stored value that is not finite; each of many processes looks at its part."""
    stored = ((name, local(value)) for name, value in model.state_dict().items())
    unfit = (name for name, value in stored if value.is_floating_point() and not torch.isfinite(value).all())
    name = next(unfit, None)
    damaged = ModelError(f"the weights of {source} are damaged: '{name}' holds NaN or infinity.")
    raise_on_all_ranks(damaged if name else None)
