"""What someone asks a classifier to forget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...data.forget import Forget
from ...data.sources import Source
from ...errors import SettingError

SEEDS = 2**62  # the highest seed; files of settings hold 64 bits


@dataclass(frozen=True)
class Request:
    """What is to be forgotten: in which data, and by which draw.

    `labels` says which class of the data is which of the model's, where their names do not; `untrained` that a model
    may be changed that knows no more than a guess.
    """

    forget: Forget
    data: Source | None = None
    split_seed: int = 0
    unseen: float = 0.2
    labels: str = ""
    untrained: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.split_seed <= SEEDS:
            raise SettingError(f"'split_seed' must be a whole number from 0 to {SEEDS}, not {self.split_seed}.")
        if not 0 <= self.unseen < 1:
            raise SettingError(f"'unseen' must be a share from 0, below 1, not {self.unseen}.")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "Request":
        """Read a request from options of the command line."""
        if not options["forget"]:
            raise SettingError("say what to forget: --forget random:10%, class:3, ids:FILE or where:CONDITION.")
        if options["data_set"] and not options["data"]:
            raise SettingError("--data-set says how to read the data, so name it too: --data.")
        data = None if options["data"] is None else named_data(options["data"], options["data_set"])
        rest = options["split_seed"], options["unseen"], options["labels"] or "", options.get("untrained", False)
        return cls(Forget(options["forget"]), data, *rest)

    @classmethod
    def from_dict(cls, inputs: Mapping[str, Any]) -> "Request":
        """Read a request from plain values."""
        data = Source.make(inputs["data"]) if inputs["data"] else None
        rest = (inputs[name] for name in ("split_seed", "unseen", "labels", "untrained"))
        return cls(Forget(inputs["forget"]), data, *rest)

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values."""
        return {
            "forget": self.forget.text,
            "data": self.data.to_dict() if self.data else {},
            "split_seed": self.split_seed,
            "unseen": self.unseen,
            "labels": self.labels,
            "untrained": self.untrained,
        }


def named_data(name: str, assignments: tuple[str, ...]) -> Source:
    """Return the data of that name, read as the assignments say."""
    values = Source.parsed(assignments)
    if "name" in values:
        raise SettingError("name the data with --data, not with --data-set.")
    return Source.make({**values, "name": name})
