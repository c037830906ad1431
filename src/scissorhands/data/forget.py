"""What to forget, in one string that a person can type."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..choices import MISSING, REFUSE, SKIP
from ..errors import DataError, ReadError, did_you_mean, given, listed
from ..files import read_text
from ..randomness import generator
from .conditions import matches
from .keys import find, listed_keys
from .records import Records

NOTHING = torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Rule:
    """A way to say what to forget: a function of the text after the colon, the records, those trained on, and the seed.

    `draws` is `records` or `classes` where the seed draws them at random; `private` hides the text from reports; one
    that `needs_classes` is not for numbers to predict. One that is `listed` names records one by one, and is also told
    which were forgotten `before`, and whether to `skip` those that cannot be forgotten.
    """

    choose: Callable[..., Tensor]
    draws: str = ""
    private: bool = False
    listed: bool = False
    needs_classes: bool = False


@dataclass(frozen=True)
class Forget:
    """Says what to forget.

    `random:10%` or `random:500` records, `class:3` or `class:cat,dog`, `classes:10%` drawn at random, the records whose
    keys (`keys:FILE`) or numbers (`ids:FILE`) are in a file, what fulfills a condition (`where:age > 30`), or images
    whose prompt mentions one of the words of a concept (`concept:nudity,naked`). `missing` says whether a listed record
    that is not in the model is to `refuse` or to `skip`.
    """

    text: str
    missing: str = REFUSE

    def __post_init__(self) -> None:
        kind, colon, rest = self.text.partition(":")
        if not colon or not rest.strip():
            raise DataError(
                f"'{self.text}' does not say what to forget. Write for example random:10%, class:3, ids:FILE."
            )
        if kind not in _RULES:
            raise DataError(f"cannot forget by '{kind}'. {did_you_mean(kind, _RULES)}")
        if self.missing not in MISSING:
            raise DataError(f"'missing' must be one of {', '.join(MISSING)}, not {given(self.missing)}.")

    @property
    def drawn(self) -> bool:
        """Return whether the records are drawn at random, so that they are like all others."""
        return self._rule.draws == "records"

    @property
    def seeded(self) -> bool:
        """Return whether another seed chooses other records."""
        return self._rule.draws != ""

    @property
    def _rule(self) -> Rule:
        return _RULES[self.text.partition(":")[0]]

    def redacted(self, ids: Tensor, labels: Tensor) -> str:
        """Return the text without names of records, people or files; `ids` are the records that it chose.

        >>> Forget("where:name == 'Ada'").redacted(torch.tensor([4, 7]), torch.tensor([0, 1]))
        'where:#8485ebb0'
        >>> Forget("class:Ada").redacted(torch.tensor([4, 7]), torch.tensor([1, 1]))
        'class:1'
        """
        kind = self.text.partition(":")[0]
        if kind == "class":
            return "class:" + ",".join(map(str, labels.unique().tolist()))
        if self._rule.private:
            return f"{kind}:#{hashlib.sha256(ids.numpy().tobytes()).hexdigest()[:8]}"
        return self.text

    def ids(self, records: Records, among: Tensor, seed: int = 0, before: Tensor = NOTHING) -> Tensor:
        """Return the sorted numbers of the records to forget, out of those that the model was trained on (`among`).

        `before` are those that it was trained on and has been made to forget.
        """
        text = self.text.partition(":")[2].strip()
        if self._rule.needs_classes and records.regression:
            raise DataError(
                f"'{self.text}' names classes, and the labels are numbers: write for example where:label > 3."
            )
        more = {"before": before, "skip": self.missing == SKIP} if self._rule.listed else {}
        chosen = self._rule.choose(text, records, among, seed, **more)
        if self._rule.listed and self.missing == SKIP and len(chosen) == 0:
            raise DataError(
                f"none of the records that '{self.text}' lists is in the model: there is nothing to forget."
            )
        return some_of(among, chosen, f"'{self.text}'")


def some_of(among: Tensor, chosen: Tensor, what: str) -> Tensor:
    """Return what was chosen, sorted; refuse nothing, and everything."""
    if len(chosen) == 0:
        raise DataError(f"{what} matches none of the {len(among)} training records.")
    if len(chosen) == len(among):
        raise DataError(f"{what} matches all {len(among)} training records, which leaves nothing to retain.")
    return chosen.sort().values


def _random(text: str, records: Records, among: Tensor, seed: int) -> Tensor:
    try:
        count = round(float(text[:-1]) / 100 * len(among)) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise DataError(
            f"'random:{text}' needs a number of records or a percentage: random:500 or random:10%."
        ) from None
    if not 0 < count <= len(among):
        raise DataError(f"'random:{text}' asks for {count} of {len(among)} training records.")
    return among[torch.randperm(len(among), generator=generator(seed, "forget"))[:count]]


def _class(text: str, records: Records, among: Tensor, seed: int) -> Tensor:
    labels = records.labels[among]
    names = list(records.classes) or [str(i) for i in range(int(records.labels.max()) + 1)]
    chosen = torch.tensor([_index(part.strip(), names) for part in text.split(",")])
    return among[torch.isin(labels, chosen)]


def _index(name: str, names: list[str]) -> int:
    if name in names:
        return names.index(name)
    if name.isdecimal() and len(name) < 18 and int(name) < len(names):
        return int(name)
    numbered = listed(n if n == str(i) else f"{n} ({i})" for i, n in enumerate(names))
    hint = did_you_mean(name, names).split("Known:")[0]
    raise DataError(f"'class:{name}' names no class of this data, which has {len(names)}. {hint}Known: {numbered}.")


def _classes(text: str, records: Records, among: Tensor, seed: int) -> Tensor:
    labels = records.labels[among]
    present = labels.unique()
    chosen = present[_random(text, records, torch.arange(len(present)), seed)]
    return among[torch.isin(labels, chosen)]


def _ids(text: str, records: Records, among: Tensor, seed: int, *, before: Tensor, skip: bool) -> Tensor:
    lines = _read(text, "ids").split()
    seen: set[int] = set()
    trained = set(among.tolist())
    for line in lines:
        if not line.isdecimal() or len(line) > 18 or int(line) >= len(records):
            raise DataError(
                f"'{line[:40]}' in '{text}' is not an id: they are whole numbers from 0 to {len(records) - 1}."
            )
        if int(line) in seen:
            raise DataError(f"id {int(line)} is listed twice in '{text}'.")
        if int(line) not in trained and not skip:
            raise DataError(f"id {int(line)} in '{text}' is not in the model: it was held out, or forgotten before.")
        seen.add(int(line))
    return torch.tensor(sorted(seen & trained), dtype=torch.int64)


def _keys(text: str, records: Records, among: Tensor, seed: int, *, before: Tensor, skip: bool) -> Tensor:
    names = listed_keys(_read(text, "keys"))
    where = "" if any(names.values()) else f"'{text}'"
    return find(names, records, among, before=before, skip=skip, where=where)


def _read(path: str, what: str) -> str:
    try:
        return read_text(Path(path).expanduser())
    except (ReadError, RuntimeError) as error:
        raise DataError(f"the list of {what}: {error}") from None


def _where(text: str, records: Records, among: Tensor, seed: int) -> Tensor:
    return among[torch.from_numpy(matches(text, records.column))[among]]


def mentioning(words: str) -> Callable[[str], bool]:
    """Return a test of whether a prompt mentions one of the words, which commas separate.

    >>> mentioning("naked, erotic")("An EROTIC novel"), mentioning("art")("a party")
    (True, False)
    """
    escaped = [re.escape(word.strip()) for word in words.split(",") if word.strip()]
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(escaped)})(?!\w)", re.IGNORECASE)
    return lambda prompt: bool(pattern.search(prompt))


def _concept(text: str, records: Records, among: Tensor, seed: int) -> Tensor:
    mentions = mentioning(text)
    chosen = [label for label, prompt in enumerate(records.classes) if mentions(prompt)]
    if not chosen:
        prompts = listed([f"'{prompt}'" for prompt in records.classes], 3)
        raise DataError(f"none of the {len(records.classes)} prompts mentions 'concept:{text}': {prompts}.")
    return among[torch.isin(records.labels[among], torch.tensor(chosen))]


_RULES: dict[str, Rule] = {
    "random": Rule(_random, draws="records"),
    "class": Rule(_class, needs_classes=True),
    "classes": Rule(_classes, draws="classes", needs_classes=True),
    "ids": Rule(_ids, private=True, listed=True),
    "keys": Rule(_keys, private=True, listed=True),
    "where": Rule(_where, private=True),
    "concept": Rule(_concept, needs_classes=True),
}
