"""The seal of a run: hashes of its files, so that a later change is detected when the run is read.

It detects accidental changes, not deliberate forgery. Who edits a run and computes its hashes again is found out only
where something can be recomputed: the manifest from the data, accuracies from the outputs.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import ReadError, RunError
from ..files import Kinds, read_json, require_kinds, require_regular

SCORES, OUTPUTS, INVENTORY = "scores.json", "outputs.safetensors", "inventory.json"
# The folders of a model: of a classifier, or of a pipeline, which is its own run folder and has an index.
MODEL = (
    *("model", "unet", "vae", "text_encoder", "tokenizer", "scheduler"),
    *("safety_checker", "feature_extractor", "image_encoder"),
)
INDEX = "model_index.json"
# What a model folder may hold where no scores.json lists its files.
MODEL_FILES = (
    *("config.json", "preprocessor_config.json", "*.safetensors", "*.safetensors.index.json"),
    *("*.pt", "*.pth", "*.ckpt"),
)
_LISTS = ("run.toml", "forget.txt", "before.txt", INVENTORY)
_NUMBER = int | float

# What every reader of a run relies on: what must stand in run.toml, what may, and of what kind it is.
_RECORD: Kinds = {
    "verb": str,
    "seed": int,
    "data": dict,
    "data.name": str,
    "model": dict,
    "model.name": str,
    "model.source": str,
    "model.origin": str,
    "model.arguments": dict,
    "split": dict,
    "split.manifest": str,
    "split.fingerprint": str,
    "split.holdout": _NUMBER,
    "method": dict,
    "method.name": str,
}
_RECORD_MAY: Kinds = {
    "source_files": dict,
    "training_seed": int,
    "damage": str,
    "begun": str,
    "finished": str,
    "who": str,
    "command": str,
    "training": dict,
    "model.weights": str,
    "split.unseen": _NUMBER,
    "split.held_seed": int,
    "split.seed": int,
    "split.forget": str,
    "split.forget_records": int,
    "split.kind": str,
    "split.labels": str,
    "variant": str,
    "tuning": dict,
    "tuning.trials": int,
    "tuning.seconds": _NUMBER,
}
# The same of scores.json.
_RESULT: Kinds = {
    "manifest": str,
    "values": dict,
    "counts": dict,
    "failed": dict,
    "reference": dict,
    "seconds": _NUMBER | None,
    "reference_run": str,
    "reference_seconds": _NUMBER | None,
    "files": dict,
    "seal": str,
}
_RESULT_MAY: Kinds = {
    "verdict": dict | None,
    "verdict.call": str,
    "verdict.reason": str,
    "reference_hash": str,
    "tried": int | None,
    "tuning_seconds": _NUMBER | None,
    "examined": dict,
    "examined.training": dict,
}


def require_record(record: Mapping[str, Any], path: Path) -> None:
    """Refuse a run.toml that lacks something, or that holds something of another kind."""
    measured = {name: _NUMBER for name in record if name.endswith("_before")}
    require_kinds(path, record, _RECORD, {**_RECORD_MAY, **measured})
    for name, value in record["method"].items():
        if isinstance(value, dict | list) and name != "name":
            raise ReadError(f"{path} cannot be read: 'method.{name}' is not a plain value.")


def read_scores(folder: Path) -> dict[str, Any]:
    """Read scores.json, refused where it lacks something or was changed since it was written."""
    path = folder / SCORES
    stored = read_json(path, dict)
    if "seal" not in stored:
        raise ReadError(f"{path} has no seal: it was made by another version, or by hand. Make the run again.")
    require_kinds(path, stored, _RESULT, _RESULT_MAY)
    for kind, inner in (("values", _NUMBER), ("counts", int), ("failed", str), ("reference", _NUMBER), ("files", str)):
        for name, value in stored[kind].items():
            if not isinstance(value, inner) or isinstance(value, bool):
                raise ReadError(f"{path} cannot be read: '{kind}.{name}' is {value!r}.")
    if stored["seal"] != _seal(stored):
        raise RunError(f"{path} was changed after it was written. Make the run again.")
    return stored


def sealed(result: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the result with hashes of the run's files, and a seal over both.

    What was hashed when the run was made is not hashed again.
    """
    known = read_scores(folder)["files"] if (folder / SCORES).exists() else _hashes(folder)
    content = {**result, "files": known}
    return {**content, "seal": _seal(content)}


def require_unchanged(folder: Path, stored: Mapping[str, Any], *names: str) -> None:
    """Refuse a run of which one of these files, or of those that list records, is not as it was written."""
    files: Mapping[str, str] = stored["files"]
    for name in names or _LISTS:
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
    """Hash named tensors. An evaluation adds to the outputs of a run, so that they have a seal of its own."""
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


def model_files(source: Path) -> dict[str, str]:
    """Return the sizes and hashes of the files of a model: of its run, of its folder, or the file that it is."""
    if source.is_file():
        return {source.name: file_hash(source)}
    found = {name.removeprefix("model/"): x for name, x in _hashes(source).items() if name not in _LISTS}
    own = sorted(path for pattern in MODEL_FILES for path in source.glob(pattern) if path.is_file())
    return found or {path.name: file_hash(path) for path in own}


def _hashes(folder: Path) -> dict[str, str]:
    own = [folder / name for name in (*_LISTS, INDEX)]
    model = sorted(path for name in MODEL for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): file_hash(path) for path in (*own, *model) if path.exists()}


def _seal(content: Mapping[str, Any]) -> str:
    own = {name: value for name, value in content.items() if name != "seal"}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()
