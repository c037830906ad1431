"""Write the files of a run folder."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..data.inventory import Inventory, as_json
from ..distributed import on_rank_0
from ..evaluation.observations import to_tensors
from ..files import write_tensors, write_text
from ..metrics import Observations
from ..settings import to_toml
from .result import Result
from .seals import INVENTORY, OUTPUTS, SCORES, sealed, tensors_seal


def write_record(
    work: Path,
    record: Mapping[str, Any],
    ids: Mapping[str, list[int]],
    keys: Sequence[str] = (),
    inventory: Mapping[str, Inventory] | None = None,
) -> None:
    """Write run.toml and, for their owner alone, each list of records that is not empty, and what was in the data.

    A line has the number of a record and, behind a tab, its key, where records have keys.
    """
    on_rank_0(lambda: write_text(work / "run.toml", to_toml(record)))
    for name, numbers in ids.items():
        if numbers:
            lines = "".join(f"{number}\t{keys[number]}\n" if keys else f"{number}\n" for number in numbers)
            on_rank_0(partial(write_text, work / f"{name}.txt", lines, private=True))
    if inventory:
        on_rank_0(lambda: write_text(work / INVENTORY, as_json(inventory), private=True))


def write_result(folder: Path, result: Result) -> None:
    """Write scores.json, with the seal of the run."""

    def write() -> None:
        write_text(folder / SCORES, json.dumps(sealed(result.to_dict(), folder), indent=2) + "\n")

    on_rank_0(write)


def write_outputs(folder: Path, observed: Observations) -> None:
    """Write outputs.safetensors, with its seal, for its owner alone."""
    tensors = to_tensors(observed)
    seal = {"seal": tensors_seal(tensors)}
    on_rank_0(lambda: write_tensors(folder / OUTPUTS, tensors, private=True, metadata=seal))
