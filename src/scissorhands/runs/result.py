"""What a finished run is worth, and what its folder says about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.inventory import Inventory, read_inventories
from ..errors import ReadError
from ..evaluation.evaluate import Scores
from ..files import read_text
from .seals import INVENTORY, read_scores, require_same_model


@dataclass(frozen=True)
class Result:
    """What a run is worth: its scores, what it cost, and what it was compared with.

    `tried` is how many runs were made to choose the settings, where that is known, and `tuning_seconds` how long they
    took, where that was measured; `examined` are the settings of an evaluation above the quick level; `reference_hash`
    is the `scores_hash` of the reference as it was compared with.
    """

    scores: Scores
    seconds: float | None = None
    memory_mib: float | None = None
    reference: str = ""
    reference_seconds: float | None = None
    tried: int | None = None
    examined: Mapping[str, Any] = field(default_factory=dict)
    reference_hash: str = ""
    tuning_seconds: float | None = None

    def values(self) -> dict[str, float]:
        """Return all numbers by name, as tables show them."""
        stored: dict[str, float] = self.scores.to_dict()["values"]
        if self.memory_mib is not None:
            stored["memory_mib"] = self.memory_mib
        if self.seconds is not None and self.reference_seconds:
            stored["rte"] = self.seconds / self.reference_seconds
            if self.tried is not None:
                measured = self.tuning_seconds
                stored["tuning"] = self.tried * stored["rte"] if measured is None else measured / self.reference_seconds
                stored["rte_tuned"] = stored["rte"] + stored["tuning"]
        return stored

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; `rte` and `avg_gap` are there for reading, and are computed again when read."""
        return {
            **self.scores.to_dict(),
            "values": self.values(),
            "seconds": self.seconds,
            "reference_run": self.reference,
            "reference_seconds": self.reference_seconds,
            "reference_hash": self.reference_hash,
            "tried": self.tried,
            "tuning_seconds": self.tuning_seconds,
            "examined": dict(self.examined),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Result":
        """Read the result from plain values."""
        values = dict(stored["values"])
        memory = values.pop("memory_mib", None)
        for derived in ("rte", "tuning", "rte_tuned"):
            values.pop(derived, None)
        scores = Scores.from_dict({**stored, "values": values})
        cost = (stored["seconds"], memory, stored["reference_run"], stored["reference_seconds"], stored.get("tried"))
        examined, reference = stored.get("examined", {}), str(stored.get("reference_hash", ""))
        return cls(scores, *cost, examined, reference, stored.get("tuning_seconds"))


@dataclass(frozen=True)
class Run:
    """A finished run, as read from its folder."""

    folder: Path
    record: Mapping[str, Any]
    result: Result

    @property
    def method(self) -> str:
        """Return the name of the method that made it."""
        return str(self.record["method"]["name"])

    @property
    def title(self) -> str:
        """Return the name of the method, with that of the variant where a recipe has several."""
        return "-".join(filter(None, (self.method, str(self.record.get("variant", "")))))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the method's settings."""
        return {name: value for name, value in self.record["method"].items() if name != "name"}

    @property
    def damage(self) -> str:
        """Return what the method broke, in words; empty if nothing."""
        return str(self.record.get("damage", ""))

    def ids(self, name: str) -> list[int]:
        """Read the numbers of the records that it forgot (`forget`), or that were forgotten earlier (`before`)."""
        try:
            return [int(number) for number, _ in self._listed(name)]
        except ValueError as error:
            raise ReadError(f"{self.folder / f'{name}.txt'} cannot be read: {error}.") from None

    def keys(self, name: str) -> list[str]:
        """Read the keys of these records: paths or values of a column, or else their numbers."""
        return [key or number for number, key in self._listed(name)]

    def _listed(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the number of each record in a list, and its key, which is empty where records have none."""
        path = self.folder / f"{name}.txt"
        for line in read_text(path).split("\n") if path.exists() else ():
            number, _, key = line.strip("\r").partition("\t")
            if line.strip():
                yield number.strip(), key

    def inventory(self) -> dict[str, Inventory]:
        """Read what was in the `train` and `test` data; empty if it was not written down."""
        path = self.folder / INVENTORY
        return read_inventories(path) if path.exists() else {}

    def require_model(self) -> None:
        """Refuse a model that was changed after the run was written."""
        require_same_model(self.folder, read_scores(self.folder))
