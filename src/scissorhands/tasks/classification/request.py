"""What someone asks a classifier to forget."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...data.forget import Forget
from ...data.sources import Source
from ...errors import SettingError
from ...settings import REQUIRED, Settings, seed, setting, share_below_one, switch, table, text


@dataclass(frozen=True)
class Request(Settings):
    """What is to be forgotten: in which data, and by which draw."""

    forget: Forget = setting(REQUIRED, text, "what to forget")
    data: Source | None = setting(None, table, "in which data, if not in what the model is known to be trained on")
    split_seed: int = setting(0, seed, "seed of the random division of data")
    unseen: float = setting(
        0.2, share_below_one, "share of the test data to set aside as unseen, if nothing was held out"
    )
    labels: str = setting("", text, "which class of the data is which of the model's, where their names differ")
    untrained: bool = setting(False, switch, "change a model even if it is no better than chance")
    key: str = setting("", text, "the column that says what a record is called, if not as the data is known to say")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "Request":
        """Read a request from options of the command line."""
        if not options["forget"]:
            raise SettingError("say what to forget: --forget random:10%, class:3, keys:FILE or where:CONDITION.")
        for name in ("data_set", "label"):
            if options[name] and not options["data"]:
                raise SettingError(f"--{name.replace('_', '-')} needs --data, the data that it says how to read.")
        how = options["data_set"], options["label"]
        data = None if options["data"] is None else named_data(options["data"], *how)
        rest = options["split_seed"], options["unseen"], options["labels"] or "", options.get("untrained", False)
        return cls(Forget(options["forget"], options["missing"]), data, *rest, options["key"] or "")

    @classmethod
    def from_dict(cls, inputs: Mapping[str, Any]) -> "Request":
        """Read a request from plain values, among which there may be others."""
        own = {f.name: inputs[f.name] for f in fields(cls)}
        data = Source.make(inputs["data"]) if inputs["data"] else None
        return cls.make({**own, "forget": Forget(inputs["forget"], inputs["missing"]), "data": data})

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values."""
        data = self.data.to_dict() if self.data else {}
        return {**super().to_dict(), "forget": self.forget.text, "missing": self.forget.missing, "data": data}


def named_data(name: str, assignments: tuple[str, ...], label: str | None = None, key: str | None = None) -> Source:
    """Return the data of that name, read as the assignments and the options of their own say."""
    values = Source.parsed(assignments)
    for what, given in {"name": name, "label": label, "key": key}.items():
        if given is not None and what in values:
            option = "data" if what == "name" else what
            raise SettingError(f"say '{what}' with --{option}, not with --data-set.")
        if given is not None:
            values[what] = given
    return Source.make(values)
