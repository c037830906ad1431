"""The seal of a run: hashes of its files, so that a later change is detected when the run is read.

A seal is no signature. It tells of accidents and of careless edits; who edits a run and computes its hashes anew is
found out only where something can be recomputed: the manifest from the data, accuracies from the outputs.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import ReadError, RunError
from ..files import read_json, require_regular

SCORES, EVIDENCE = "scores.json", "evidence.safetensors"
# The folders of a model: of a classifier, or of a pipeline, which is its own run folder and has an index.
MODEL = (
    *("model", "unet", "vae", "text_encoder", "tokenizer", "scheduler"),
    *("safety_checker", "feature_extractor", "image_encoder"),
)
INDEX = "model_index.json"
_SMALL = ("run.toml", "forget.txt", "before.txt")
_NUMBER = (int, float)

# What every reader of a run relies on: where it stands in run.toml, of what kind it is, and whether it must be there.
_RECORD: dict[str, tuple[Any, bool]] = {
    "verb": (str, True),
    "seed": (int, True),
    "training_seed": (int, False),
    "damage": (str, False),
    "training": (dict, False),
    "data": (dict, True),
    "data.name": (str, True),
    "model": (dict, True),
    "model.name": (str, True),
    "model.source": (str, True),
    "model.origin": (str, True),
    "model.arguments": (dict, True),
    "model.weights": (str, False),
    "split": (dict, True),
    "split.manifest": (str, True),
    "split.fingerprint": (str, True),
    "split.holdout": (_NUMBER, True),
    "split.unseen": (_NUMBER, False),
    "split.held_seed": (int, False),
    "split.seed": (int, False),
    "split.forget": (str, False),
    "split.forget_records": (int, False),
    "split.kind": (str, False),
    "split.labels": (str, False),
    "method": (dict, True),
    "method.name": (str, True),
    "variant": (str, False),
}
_RESULT: dict[str, tuple[Any, bool]] = {
    "manifest": (str, True),
    "values": (dict, True),
    "counts": (dict, True),
    "failed": (dict, True),
    "reference": (dict, True),
    "verdict": ((dict, type(None)), False),
    "verdict.call": (str, False),
    "verdict.reason": (str, False),
    "seconds": ((*_NUMBER, type(None)), True),
    "reference_run": (str, True),
    "reference_seconds": ((*_NUMBER, type(None)), True),
    "reference_hash": (str, False),
    "tried": ((int, type(None)), False),
    "examined": (dict, False),
    "examined.training": (dict, False),
    "files": (dict, True),
    "seal": (str, True),
}


def require_record(record: Mapping[str, Any], path: Path) -> None:
    """Refuse a run.toml that lacks something, or that holds something of another kind."""
    measured = {name: (_NUMBER, False) for name in record if name.endswith("_before")}
    _require(record, {**_RECORD, **measured}, path)
    for name, value in record["method"].items():
        if isinstance(value, dict | list) and name != "name":
            raise ReadError(f"{path} cannot be read: 'method.{name}' is not a plain value.")


def read_scores(folder: Path) -> dict[str, Any]:
    """Read scores.json, refused where it lacks something or was changed since it was written."""
    path = folder / SCORES
    stored = read_json(path, dict)
    if "seal" not in stored:
        raise ReadError(f"{path} has no seal: it was made by another version, or by hand. Make the run again.")
    _require(stored, _RESULT, path)
    for kind, inner in (("values", _NUMBER), ("counts", int), ("failed", str), ("reference", _NUMBER), ("files", str)):
        for name, value in stored[kind].items():
            if not isinstance(value, inner) or isinstance(value, bool):
                raise ReadError(f"{path} cannot be read: '{kind}.{name}' is {value!r}.")
    if stored["seal"] != _seal(stored):
        raise RunError(f"{path} was changed after it was written, so it is not trusted. Make the run again.")
    return stored


def sealed(result: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the result with hashes of the run's files, and a seal over both.

    What was hashed when the run was made is not hashed again.
    """
    known = read_scores(folder)["files"] if (folder / SCORES).exists() else _hashes(folder)
    content = {**result, "files": known}
    return {**content, "seal": _seal(content)}


def require_unchanged(folder: Path, stored: Mapping[str, Any], *names: str) -> None:
    """Refuse a run of which one of these files, or of the small ones, is not as it was written."""
    files: Mapping[str, str] = stored["files"]
    for name in names or _SMALL:
        path = folder / name
        if name not in files and not path.exists():
            continue
        if not path.exists():
            raise RunError(f"{path} is missing, though the run was written with it. Restore it, or make the run again.")
        known = files.get(name, "")
        size = path.stat().st_size
        if not known.startswith(f"{size} ") or file_hash(path) != known:  # a file that grew without end is not hashed
            raise RunError(f"{path} was changed after the run was written. Restore it, or make the run again.")


def require_same_model(folder: Path, stored: Mapping[str, Any]) -> None:
    """Refuse a run whose model is not the one that it was written with."""
    found = {str(path.relative_to(folder)) for path in (folder / "model").rglob("*") if path.is_file()}
    require_unchanged(folder, stored, *sorted(found | {name for name in stored["files"] if name.startswith("model/")}))


def tensors_seal(tensors: Mapping[str, Tensor]) -> str:
    """Hash named tensors. An evaluation adds to the evidence of a run, so that has a seal of its own."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """Return the size of a regular file, and its hash."""
    require_regular(path)
    with path.open("rb") as file:
        return f"{path.stat().st_size} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _hashes(folder: Path) -> dict[str, str]:
    own = [folder / name for name in (*_SMALL, INDEX)]
    model = sorted(path for name in MODEL for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): file_hash(path) for path in (*own, *model) if path.exists()}


def _seal(content: Mapping[str, Any]) -> str:
    own = {name: value for name, value in content.items() if name != "seal"}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


def _require(content: Mapping[str, Any], kinds: Mapping[str, tuple[Any, bool]], path: Path) -> None:
    for name, (kind, needed) in kinds.items():
        table, _, inner = name.rpartition(".")
        there: Any = content.get(table) if table else content
        if not isinstance(there, Mapping) or inner not in there:
            if needed:
                raise ReadError(f"{path} cannot be read as a run: it has no '{name}'.")
            continue
        value = there[inner]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ReadError(f"{path} cannot be read as a run: '{name}' is {str(value)[:40]!r}.")
