"""A folder of drawn images, and which pipeline drew them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ... import runs
from ...data.forget import Forget, mentioning
from ...distributed import on_rank_0
from ...files import read_json, read_text, require_kinds, write_text
from ...tasks.diffusion.pictures import Pictures, read_list

MAKER = "pipeline.json"
_MAKER = {"name": str | None, "record": dict | None, "seconds": float | int | None, "memory_mib": float | int | None}
_RECORD = {
    "seed": int,
    "data": dict,
    "method": dict,
    "method.name": str,
    "split": dict,
    "split.forget": str,
    "split.manifest": str,
    "split.fingerprint": str,
    "split.holdout": float | int,
}


@dataclass(frozen=True)
class Drawn:
    """A folder of drawn images, and who drew them."""

    folder: Path

    @cached_property
    def pictures(self) -> Pictures:
        """Return the images."""
        return Pictures.of(self.folder)

    @cached_property
    def maker(self) -> dict[str, Any]:
        """Return the record of the pipeline that drew them, if there is one."""
        path = self.folder / MAKER
        found = read_json(path, dict) if path.exists() else {}
        require_kinds(path, found, {}, _MAKER)
        if record := found.get("record"):
            require_kinds(path, record, _RECORD)
        return {name: value for name, value in found.items() if value is not None}

    def concept(self) -> Forget | None:
        """Return the concept that was erased from the pipeline, if its record names one."""
        text = self.maker.get("record", {}).get("split", {}).get("forget", "")
        return Forget(text) if text.startswith("concept:") else None

    def asked(self) -> list[tuple[str, str, str]]:
        """Return the prompt, seed and guidance of each image."""
        rows = read_list(self.folder)
        return [(row["prompt"], row.get("seed", ""), row.get("guidance", "")) for row in rows]

    def gone(self, forget: Forget | None) -> list[bool]:
        """Return a mask of the images whose prompt asks for the erased concept; all False if nothing was erased."""
        return mention(self.pictures.prompts, forget)


def mention(prompts: Sequence[str], forget: Forget | None) -> list[bool]:
    """Tell which prompts mention a concept; none does if there is none."""
    mentions = mentioning(forget.text.partition(":")[2]) if forget else None
    return [bool(mentions and mentions(prompt)) for prompt in prompts]


def sign(folder: Path, source: Path) -> None:
    """Record in a folder of images which pipeline drew them, and how that pipeline was made if known, with its log."""
    made: dict[str, Any] = {"name": source.resolve().name}
    if runs.is_run(source):
        run = runs.read(source)
        made |= {"record": run.record, "seconds": run.result.seconds, "memory_mib": run.result.memory_mib}
    on_rank_0(lambda: write_text(folder / MAKER, json.dumps(made, indent=1) + "\n"))
    copy_log(source, folder)


def copy_log(source: Path, folder: Path) -> None:
    """Copy the log of the run that made a pipeline, where there is one, so that it goes with what is drawn."""
    if (source / runs.LOG).is_file():
        on_rank_0(lambda: write_text(folder / runs.LOG, read_text(source / runs.LOG)))
