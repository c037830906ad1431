"""Where data comes from: digits and diabetes (inside scikit-learn's wheel), a file, a folder, or the Hugging Face hub.

A small set of images is decoded once into uint8 tensors, which are cached on disk, for the user alone, under a hash of
what was decoded. A set that would take more than the memory budget is decoded batch by batch instead.
"""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, did_you_mean, listed
from ..randomness import generator
from ..settings import Rule, Settings, count, non_negative, one_of, setting
from ..settings import text as words
from .columns import CLASSIFICATION, REGRESSION, class_names, label_column, task_of
from .folders import splits
from .images import LARGEST, augmentation
from .listing import Splits
from .readers import Kind, Reading, kind_of, require_own
from .records import Augment, Records, Stored
from .scaling import scaled
from .streamed import shown
from .tables import divided, is_table, one_table

_side = Rule(f"a whole number from 0 to {LARGEST}", lambda x: 0 <= x <= LARGEST)


@dataclass(frozen=True)
class Known:
    """A data set with a short name. Without a hub name it must be given as a folder."""

    hub: str = ""
    configuration: str | None = None
    label: str = ""
    augment: str = "none"


KNOWN = {
    "digits": Known(),
    "noisy-digits": Known(),
    "diabetes": Known(),
    "cifar10": Known("uoft-cs/cifar10", augment="crop,flip"),
    "cifar100": Known("uoft-cs/cifar100", label="fine_label", augment="crop,flip"),
    "svhn": Known("ufldl-stanford/svhn", "cropped_digits"),
    "celebamask-hq": Known(augment="flip"),
}
_NOISE = {"digits": 0.0, "noisy-digits": 100.0}  # the deviation of noise, in levels of gray
_INSIDE = (*_NOISE, "diabetes")  # scikit-learn


@dataclass(frozen=True)
class Data:
    """Training and test records, and how their images are augmented in training."""

    train: Records
    test: Records
    augment: Augment | None


@dataclass(frozen=True, kw_only=True)
class Source(Settings):
    """Which data, and how to read it."""

    name: str = setting("digits", words, "a short name, a folder, a table, or owner/name[@revision] on the hub")
    image: str = setting("", words, "the column that holds the images; found if there is one")
    columns: str = setting("", words, "the columns of numbers to learn from, as in age,income; by default all")
    text: str = setting("", words, "the column that holds the texts; found if there is one")
    label: str = setting("", words, "the column that holds the labels; found if there is one")
    task: str = setting(
        "",
        one_of("", CLASSIFICATION, REGRESSION),
        "whether labels are classes or numbers to predict; by default these, where they are floats",
    )
    key: str = setting("", words, "the column that says what a record is called; by default its path, or its number")
    test: str = setting("", words, "the split or file of test records, found if called test; or a share, as 20%")
    size: int = setting(0, _side, "resize images to this height and width; 0 leaves them")
    limit: int = setting(0, count, "take the first so many of the training records; 0 takes all")
    augment: str = setting("", words, "crop, flip, 'crop,flip' or none; by default what is usual for the data set")
    mean: str = setting("", words, "give images as floats less this, from 0 to 1; a number, or one for each channel")
    std: str = setting("", words, "give images as floats divided by this; a number, or one for each channel")
    memory: float = setting(2.0, non_negative, "the most GiB of images to hold in memory; a larger set is streamed")

    def here(self) -> bool:
        """Return whether the data can be read without a download."""
        return self.name in _INSIDE or _place(self.name) is not None

    def load(self, cache: bool = True, kind: Kind | None = None) -> Data:
        """Read the data, as a kind that a model takes, or else images if there are some, or else numbers.

        Without `cache`, which is then neither read nor written, images are streamed.
        """
        known = KNOWN.get(self.name, Known())
        augment = augmentation(self.augment or known.augment)
        if self.name in _INSIDE:
            return self._inside(augment)
        place = _place(self.name)
        train, test, drawn = self._tables(self._splits(place, known))
        if not len(train) or not len(test):
            raise DataError("the data set has no records.")
        kind, settings = kind or kind_of(train, self.image), self.to_dict()
        require_own(settings, Source().to_dict(), kind, self.name)
        label = label_column(train, self.label or (known.label if known.label in train.column_names else ""))
        root = str(place.resolve()) if place else ""
        classes = class_names(train, label, task_of(train, label, self.task))
        reading = Reading(train, label, classes, root, self.memory if cache else 0.0, settings)
        data = Data(kind.read(train, reading), kind.read(test, reading), augment)
        if drawn:
            data.train.drawn_from = data.test.drawn_from = drawn
        first = (records.fetch(torch.arange(1))[0] for records in (data.train, data.test))
        shapes = [tuple(inputs.shape[1:]) if isinstance(inputs, Tensor) else () for inputs in first]
        if shapes[0] != shapes[1]:
            raise DataError(
                f"training images are {shown(shapes[0])} and test images {shown(shapes[1])}: make them alike."
            )
        return self._scaled(data)

    def _inside(self, augment: Augment | None) -> Data:
        """Return a data set that comes inside scikit-learn."""
        table = ("augment", "mean", "std") if self.name not in _NOISE else ()
        for name in ("image", "columns", "text", "label", "task", "key", "test", "size", *table):
            if getattr(self, name):
                raise DataError(f"'{name}' cannot be set for {self.name}, which comes inside scikit-learn.")
        if self.name in _NOISE:
            return self._scaled(Data(*_digits(self.name, self.limit), augment))
        return Data(*_diabetes(self.limit), None)

    def _scaled(self, data: Data) -> Data:
        """Give images as floats if that was asked for."""
        if not self.mean and not self.std:
            return data
        train, test = (scaled(records, self.mean, self.std) for records in (data.train, data.test))
        return replace(data, train=train, test=test)

    def _splits(self, place: Path | None, known: Known) -> Splits:
        """Return the splits of the data, each behind a function that reads it."""
        if not place:
            return _hub(known.hub or self.name, known.configuration)
        if place.is_dir():
            return splits(place, self.memory, self.key)
        found = {"train": partial(one_table, str(place), self.memory, self.key)}
        if self.test and is_table(self.test):
            if not (there := _place(self.test)) or there.is_dir():
                raise DataError(f"there is no file '{self.test}' of test records.")
            found[self.test] = partial(one_table, str(there), self.memory, self.key)
        return found

    def _tables(self, tables: Splits) -> tuple[Any, Any, str]:
        """Return the training and the test table; and what both were drawn from, if from one table."""
        if "train" not in tables:
            raise DataError(f"{self.name} has no split 'train'. It has: {listed(tables)}.")
        train, drawn = tables["train"](), ""
        if self.test.endswith("%"):
            train, test = divided(train, self.test)
            drawn = self.name
        else:
            test = tables[self._test_split(tables)]()
        return (train.select(range(self.limit)) if 0 < self.limit < len(train) else train), test, drawn

    def _test_split(self, tables: Splits) -> str:
        if self.test and self.test not in tables:
            raise DataError(f"{self.name} has no split '{self.test}'. {did_you_mean(self.test, tables)}")
        for name in filter(None, (self.test, "test", "validation", "valid")):
            if name in tables:
                return name
        raise DataError(
            f"{self.name} has no test split. Name one of its splits, {listed(tables)}: --data-set test=NAME. Or a "
            "share of the records, if the model was not trained on it: --data-set test=20%."
        )


def _digits(name: str, limit: int) -> tuple[Stored, Stored]:
    """Load scikit-learn's 1,797 handwritten digits of 8 × 8 pixels; a random fifth of them are the test data.

    Under noise they overlap: a network learns them by heart, and is often wrong about others.
    """
    images, labels = _every_digit()
    if _NOISE[name]:
        noise = _NOISE[name] * torch.randn(images.shape, generator=generator(0, "noise"))
        images = (images + noise).round().clamp(0, 255).to(torch.uint8)
    order = torch.randperm(len(labels), generator=generator(0, "digits"))
    classes = tuple(map(str, range(10)))
    train, test = (
        Stored(images[ids], labels[ids], classes=classes, drawn_from=name)  # copies: nobody changes the cache
        for ids in (order[360:][: limit or None], order[:360])
    )
    return train, test


def _diabetes(limit: int) -> tuple[Stored, Stored]:
    """Load scikit-learn's 442 patients, whose diabetes a year later is a number; a random fifth are the test data."""
    from sklearn.datasets import load_diabetes

    known = load_diabetes(scaled=False)
    rows, labels = (torch.from_numpy(values.astype(np.float32)) for values in (known.data, known.target))
    order = torch.randperm(len(labels), generator=generator(0, "diabetes"))

    def some(ids: Tensor) -> Stored:
        columns = {name: rows[ids, place].numpy for place, name in enumerate(known.feature_names)}
        return Stored(rows[ids], labels[ids], columns=columns, drawn_from="diabetes")

    return some(order[88:][: limit or None]), some(order[:88])


@cache
def _every_digit() -> tuple[Tensor, Tensor]:
    """Read the digits as bytes, with their labels: once, for parsing the text takes a tenth of a second."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return torch.from_numpy(images)[:, None], torch.from_numpy(digits.target.astype(np.int64))


def _hub(name: str, configuration: str | None) -> Splits:
    """Download `owner/name` or `owner/name@revision`."""
    import datasets

    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry
    repository, _, revision = name.partition("@")
    try:
        tables = datasets.load_dataset(repository, configuration, revision=revision or None)
    except Exception as error:  # datasets raises a dozen kinds, none of them ours
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"'{name}', on the hub or here, cannot be read as a data set: {reason}") from None
    return {split: partial(tables.get, split) for split in tables}


def _place(name: str) -> Path | None:
    """Find the folder or table of that name, here or under $SCISSORHANDS_DATA; None for a name on the hub."""
    root = os.environ.get("SCISSORHANDS_DATA")
    places = [Path(root) / name] if root else []
    with suppress(OSError, RuntimeError, ValueError):  # a name too long, the home of nobody, or a name with a 0 in it
        for folder in [*places, Path(name).expanduser()]:
            if name and (folder.is_dir() or (folder.is_file() and is_table(name))):
                return folder
        if name and Path(name).expanduser().exists():
            raise DataError(f"{name} is not a folder, nor a table in a .csv, .jsonl or .parquet file.")
    if name in KNOWN:
        if not KNOWN[name].hub:
            raise DataError(
                f"{name} is not on the hub: put it into a folder {name} and set SCISSORHANDS_DATA to its parent."
            )
        return None
    if name.count("/") != 1 or name.startswith(("/", ".", "~")) or name.endswith("/") or Path(name).parent.is_dir():
        known = did_you_mean(name, KNOWN)
        raise DataError(f"there is no data set or folder '{name}'. {known} Or give a file, or owner/name on the hub.")
    return None
