"""The data of a classifier: its classes numbered as the model numbers them, and divided as a run divided it."""

from collections.abc import Collection
from dataclasses import replace

import torch

from ...choices import SKIP
from ...data import labels as relabeling
from ...data.forget import Forget
from ...data.inventory import Aligned, Inventory, aligned
from ...data.records import Records, Stored
from ...data.sources import Data
from ...data.split import Split, held_out, split
from ...errors import DataError, ReadError, listed
from ..task import SourceRun
from . import classes
from .models import Blueprint


def matched(data: Data, blueprint: Blueprint, labels: str, forget: Forget | None = None) -> Data:
    """Give the data the model's numbers of its classes; refuse names that do not say which is which."""
    names = data.train.classes
    if data.train.regression:
        if labels:
            raise DataError("--labels says which class is which, and the labels are numbers to predict: leave it out.")
        return data
    numbers = classes.numbers(names, blueprint.classes, labels)
    if numbers is None:
        return data
    kind, _, what = forget.text.partition(":") if forget else ("", "", "")
    for asked in what.split(",") if kind == "class" else ():
        if asked.strip().isdecimal() and asked.strip() not in blueprint.classes:
            raise DataError(
                f"'class:{asked.strip()}' may be either, since the data and the model number their classes "
                f"differently: say its name. Known: {listed(names)}."
            )
    called = list(blueprint.classes)
    for name, number in zip(names, numbers, strict=True):
        called[number] = name  # a class that both have is called as the data calls it
    train, test = (relabeling.renumbered(part, numbers, tuple(called)) for part in (data.train, data.test))
    return replace(data, train=train, test=test)


def numbered_as_in(run: SourceRun, data: Data, name: str, missing: str = "") -> Data:
    """Give the records the numbers that they had when the run was made.

    What was forgotten, or held out of training, may have been erased since. `name` is that of the data. Refuse what
    else is not as it was, unless what is `missing` is skipped.
    """
    known = run.inventory()
    original = known["train"].fingerprint if known else data.train.fingerprint
    if run.record["split"]["fingerprint"] != original:
        raise DataError(f"{name} is not the data of {run.folder}: its content differs.")
    if not known:
        return data
    expected = forgotten(run)
    train, said = _numbered(data.train, known["train"], expected["train"] | _held_out(run, known["train"]))
    test, also = _numbered(data.test, known["test"], expected["test"])
    if (said or also) and missing != SKIP:
        others = ", or go on without these records: --missing skip" if missing else ""
        raise DataError(
            f"{name} is not as it was when {run.folder} was made: {listed([*said, *also], 6)}. Restore it{others}."
        )
    return replace(data, train=train, test=test)


def forgotten(run: SourceRun) -> dict[str, set[int]]:
    """Return the records of the `train` and `test` data that a run with an inventory, or one before it, forgot.

    Others of the same customer belong to them, even if they were held out, and so do all of a class that is gone.
    """
    known = run.inventory()
    keys, now = {*run.keys("forget"), *run.keys("before")}, {*run.ids("forget")}
    whole = run.record["split"].get("kind") == "classes"
    gone = {label for number, label in enumerate(known["train"].labels) if whole and number in now}
    found = {name: one.having(keys, gone) for name, one in known.items()}
    return {**found, "train": {*found["train"], *now, *run.ids("before")}}


def _held_out(run: SourceRun, known: Inventory) -> set[int]:
    """Return the records that the model was never trained on, so that it need not forget them."""
    labels, divided = torch.tensor(known.labels), run.record["split"]
    if not 0 < float(divided["holdout"]) < 1:
        return set()
    return {*held_out(Stored(labels, labels), float(divided["holdout"]), int(divided["held_seed"])).tolist()}


def _numbered(records: Records, known: Inventory, expected: Collection[int]) -> tuple[Records, list[str]]:
    if known.fingerprint == records.fingerprint and not len(known.missing):
        return records, []
    return aligned(records, known, expected)


def _as_of_then(records: Records) -> Records:
    return records.as_of_then() if isinstance(records, Aligned) else records


def divided_as_in(run: SourceRun, data: Data) -> Split:
    """Divide the data, numbered as in the run, as it did; refuse a run whose record does not match its data."""
    known = run.record["split"]
    data = replace(data, train=_as_of_then(data.train), test=_as_of_then(data.test))
    holdout = float(known["holdout"])
    if not 0 <= holdout < 1:
        raise ReadError(f"{run.folder} cannot be read as a run: 'split.holdout' is {holdout}.")
    unseen = held_out(data.train, holdout, int(known["held_seed"])).tolist() if holdout else float(known["unseen"])
    # The run's own list of ids holds for what was asked by name, which is not recorded.
    asked = Forget(known["forget"])
    forget = asked if asked.drawn else run.ids("forget")
    divided = split(
        data.train, forget, test=data.test, unseen=unseen, before=run.ids("before"), seed=int(known["seed"])
    )
    if divided.manifest != known["manifest"] or divided.forget.ids.tolist() != run.ids("forget"):
        raise DataError(f"{run.folder} cannot be divided as it was: the test data or its forget.txt has changed.")
    return divided
