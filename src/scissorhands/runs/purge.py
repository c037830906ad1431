"""Remove what was made from records that were forgotten: from the cache, and from run folders."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..data.forget import mentioning
from ..data.records import held_by
from ..errors import ReadError, RunError
from ..files import cache, read_json, read_metadata
from ..tasks.classification.division import forgotten
from ..tasks.diffusion.drawing import DRAWN
from . import PICTURES, Run

_ROOMS = {"images": "decoded images", "models": "a reference model", "shadows": "a shadow model"}  # of the cache


@dataclass(frozen=True)
class Leftover:
    """A file or a folder that was made from forgotten records, what it is in words, and how large it is."""

    path: Path
    what: str
    bytes: int

    @classmethod
    def at(cls, path: Path, what: str) -> "Leftover":
        """Measure what is there."""
        inside = (one for one in (path, *path.rglob("*")) if one.is_file())
        return cls(path, what, sum(one.stat().st_size for one in inside))

    def remove(self) -> None:
        """Remove it; if somebody else did so in the meantime, it is gone, too."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink()


def leftovers(run: Run) -> list[Leftover]:
    """List what the cache and the run's folder hold of the records that the run, or one before it, forgot."""
    if not run.ids("forget"):
        raise RunError(f"{run.folder} forgot nothing: name a run of scrub.")
    pictures, asked = run.folder / PICTURES, str(run.record["split"].get("forget", ""))
    found = [Leftover.at(pictures, "pictures of some records")] if pictures.is_dir() else []
    return [*found, *(_drawn(asked) if asked.startswith("concept:") else _cached(run))]


def still_there(run: Run) -> list[str]:
    """List the files that the run, or one before it, forgot, and that are still in its folder of images."""
    root, keys = Path(str(run.record["data"]["name"])), run.keys("forget") + run.keys("before")
    return [key for key in keys if not run.record["data"].get("key") and (root / key).is_file()]


def _cached(run: Run) -> Iterator[Leftover]:
    """Find decoded images and trained models that were made from more of the data than what is left."""
    known = run.inventory()
    gone = forgotten(run) if known else {}
    everything = {one for inventory in known.values() for one in inventory.hashes}
    left = {
        one
        for name, inventory in known.items()
        for number, one in enumerate(inventory.hashes)
        if number not in gone[name]
    }
    for room, what in _ROOMS.items():
        for path in sorted(cache(room).glob("*.safetensors")):
            made_from = _made_from(path)
            if not made_from or not known:
                yield Leftover.at(path, f"{what}, of records that are not known")
            elif made_from & everything and not made_from <= left:
                yield Leftover.at(path, f"{what}, of {len(made_from)} records")


def _made_from(path: Path) -> set[str]:
    with suppress(ReadError):
        return held_by(read_metadata(path))
    return set()


def _drawn(concept: str) -> Iterator[Leftover]:
    """Find images that a pipeline drew of a concept."""
    mentions = mentioning(concept.partition(":")[2])
    for folder in sorted(path for path in cache("drawn").glob("*") if path.is_dir()):
        images = {}
        with suppress(ReadError):
            images = read_json(folder / DRAWN, dict)["images"]
        if not images or any(mentions(str(prompt[0])) for prompt in images.values()):
            yield Leftover.at(folder, f"{len(images)} images that a pipeline drew")
