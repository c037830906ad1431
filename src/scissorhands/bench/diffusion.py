"""An experiment with a pipeline: one concept, several methods and seeds, all judged by the same panel, then a table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import runs
from ..data.forget import Forget
from ..data.problem import Log, ignore
from ..errors import DataError, ReadError, RunError, SettingError, did_you_mean
from ..files import read_toml
from ..report import page as report
from ..report.table import Table, tabulate
from ..runs import Run
from ..runs.claims import claiming
from ..runs.diffusion import judging
from ..runs.diffusion.drawn import Drawn, sign
from ..runs.diffusion.judging import Judging, Panel
from ..runs.place import Place
from ..runs.scrub import scrub
from ..settings import MOST
from ..tasks import method
from ..tasks.diffusion import drawing
from ..tasks.diffusion import pipeline as pipelines
from ..tasks.diffusion.drawing import Drawing
from ..tasks.diffusion.erasure import Concept, Erasure
from ..tasks.diffusion.pictures import Pictures
from ..tasks.diffusion.prompts import Prompt
from ..tasks.diffusion.prompts import prompts as read_prompts
from ..tasks.diffusion.task import Diffusion
from .recipe import Entry, entries, load, require_trusted

METHODS = tuple(name for name in Diffusion.methods() if name != "esd")  # unless a recipe names others
_IMAGES = 1_000_000  # of a prompt, at most
_KEYS = (
    "title",
    "pipeline",
    "forget",
    "seeds",
    "methods",
    "prompts",
    "per_prompt",
    "first_seed",
    "erasure",
    "drawing",
    "judging",
)


@dataclass(frozen=True)
class Attempt:
    """A method, and the erasure that it takes part in."""

    entry: Entry
    erasure: Erasure


def attempts(methods: Mapping[str, Mapping[str, Any]], erasure: Mapping[str, Any]) -> list[Attempt]:
    """The methods with their settings; what one of them has under `erasure` goes before what all have."""
    found = []
    for name, values in methods.items():
        settings = {key: value for key, value in values.items() if key != "erasure"}
        own = Erasure.make({**erasure, **values.get("erasure", {})})
        found += [Attempt(entry, own) for entry in entries(name, method(name, Diffusion, "the model"), settings)]
    return found


@dataclass(frozen=True)
class Experiment:
    """Which pipeline, what to erase, by which methods, how often, and by what images it is judged."""

    title: str
    pipeline: Path
    forget: Forget
    attempts: Sequence[Attempt]
    wanted: Mapping[str, Prompt]
    drawing: Drawing = field(default_factory=Drawing)
    seeds: Sequence[int] = (0, 1, 2)

    def run(self, folder: Path, panel: Panel, device: str, log: Log = ignore, seconds: float | None = None) -> Table:
        """Runs what is not there yet, and writes table.json and report.html; `seconds` is what training took."""
        self._require_sense(panel)
        with claiming(folder, self._about(panel)):
            before = folder / "original" / "drawn"
            found = [self._judged(self.pipeline, Place(folder / "original", device=device), panel, None, seconds, log)]
            for seed in self.seeds:
                for attempt in self.attempts:
                    place = Place(folder / f"seed-{seed}" / attempt.entry.label, seed=seed, device=device)
                    erased = self._erased(attempt, place, log)
                    found.append(self._judged(erased, place, panel, Drawn(before), seconds, log))
        table = tabulate(found)
        report.publish(folder, table, found, self.title)
        return table

    def _require_sense(self, panel: Panel) -> None:
        """Refuses what would fail only after hours of drawing."""
        pipelines.require(self.pipeline)
        prompts = list(dict.fromkeys(prompt.text for prompt in self.wanted.values()))
        judging.require_sense(prompts, self.forget, panel)
        for folder in {attempt.erasure.data for attempt in self.attempts} - {""}:
            Pictures.of(Path(folder))

    def _about(self, panel: Panel) -> dict[str, Any]:
        """The whole experiment as plain values, and the runs that it makes."""
        names = [f"seed-{seed}/{attempt.entry.label}" for seed in self.seeds for attempt in self.attempts]
        return {
            "title": self.title,
            "made": {
                "pipeline": str(self.pipeline),
                "forget": self.forget.text,
                "drawing": self.drawing.to_dict(),
                "prompts": {name: [p.text, p.seed, p.guidance] for name, p in self.wanted.items()},
                "judging": panel.about(),
            },
            "methods": {
                one.entry.label: {
                    "name": one.entry.name,
                    **one.entry.method.to_dict(),
                    "erasure": one.erasure.to_dict(),
                }
                for one in self.attempts
            },
            "runs": [f"{name}/judged" for name in ("original", *names)],
        }

    def _erased(self, attempt: Attempt, place: Place, log: Log) -> Path:
        """The pipeline without the concept."""
        there, entry = place.folder / "pipeline", attempt.entry
        if runs.is_run(there):
            known, erasure = runs.read(there).record, attempt.erasure.to_dict()
            same = all(known["data"].get(name) == value for name, value in erasure.items() if name != "data")
            if known["method"] != {"name": entry.name, **entry.method.to_dict()} or not same:
                raise RunError(f"{there} is there, and was made with other settings: choose another folder.")
            return there
        at = Place(there, seed=place.seed, device=place.device, resume=runs.resumable(there))
        request = Concept(self.forget, attempt.erasure)
        scrub(str(self.pipeline), request, entry.name, entry.method.to_dict(), at, log=log)
        return there

    def _judged(
        self, pipeline: Path, place: Place, panel: Panel, before: Drawn | None, seconds: float | None, log: Log
    ) -> Run:
        """What the panel says of what a pipeline draws."""
        there, drawn = place.folder / "judged", place.folder / "drawn"
        if runs.is_run(there):
            return runs.read(there)
        drawer = pipelines.load(pipeline, place.torch_device())
        drawing.sample(drawer, self.wanted, self.drawing, drawn, log)
        sign(drawn, pipeline)
        at = Place(there, seed=place.seed, device=place.device)
        return judging.judge(Drawn(drawn), self.forget, panel, at, before, seconds, log)


def read(path: Path, trusted: Collection[str] = ()) -> tuple[Experiment, Judging]:
    """The experiment in a file, and by what it is judged; what it names is built, so that a mistake shows at once.

    Somebody's code runs only if it is among the `trusted`.
    """
    text = load(path)
    try:
        return _made(text, path.stem, trusted)
    except (SettingError, DataError) as error:
        raise SettingError(f"{path}: {error}") from None


def is_one(path: Path) -> bool:
    """Whether a recipe is about a pipeline."""
    try:
        return not {"pipeline", "prompts"}.isdisjoint(read_toml(path))
    except ReadError:
        return False


def _made(text: Mapping[str, Any], stem: str, trusted: Collection[str]) -> tuple[Experiment, Judging]:
    _check(text)
    forget = Forget(text["forget"])
    if not forget.text.startswith("concept:"):
        raise SettingError(f"a pipeline forgets a concept, such as concept:nudity,naked, and not '{forget.text}'.")
    names = text.get("methods", METHODS)
    require_trusted(names, trusted)
    prompts, seed = text["prompts"], text.get("first_seed", 0)
    wanted = (
        drawing.each(read_prompts(Path(prompts)), seed)
        if isinstance(prompts, str)
        else drawing.several(prompts, text.get("per_prompt", 100), seed)
    )
    experiment = Experiment(
        text.get("title", stem),
        Path(text["pipeline"]),
        forget,
        attempts({name: text.get(name, {}) for name in names}, text.get("erasure", {})),
        wanted,
        Drawing.make(text.get("drawing", {})),
        text.get("seeds", [0, 1, 2]),
    )
    return experiment, Judging.make(text.get("judging", {}))


def _check(text: Mapping[str, Any]) -> None:
    """Refuses what is of the wrong kind, unknown, or missing."""
    for key, kind in (("pipeline", str), ("forget", str), ("title", str), ("per_prompt", int), ("first_seed", int)):
        if key in text and type(text[key]) is not kind:
            raise SettingError(f"'{key}' cannot be {text[key]!r}.")
    for key, kind in (("seeds", int), ("methods", str)):
        if not _are(text.get(key, [kind()]), kind):
            raise SettingError(f"'{key}' cannot be {text[key]!r}: it is a list in which each stands once.")
    names = text.get("methods", METHODS)
    for key in text:
        if key not in _KEYS and key not in names:
            raise SettingError(f"a recipe for a pipeline has no '{key}'. {did_you_mean(key, [*_KEYS, *names])}")
    for key in ("pipeline", "forget", "prompts"):
        if key not in text:
            raise SettingError(f"a recipe for a pipeline needs '{key}'.")
    if not isinstance(text["prompts"], str) and not _are(text["prompts"], str):
        raise SettingError(f"'prompts' cannot be {text['prompts']!r}: it is a CSV file, or a list of texts.")
    if not 1 <= text.get("per_prompt", 1) <= _IMAGES or not 0 <= text.get("first_seed", 0) <= 2**62:
        raise SettingError(f"'per_prompt' is a whole number from 1 to {_IMAGES}, and 'first_seed' from 0 to 2**62.")
    if any(abs(seed) > MOST[int] for seed in text.get("seeds", ())):
        raise SettingError(f"'seeds' must be whole numbers of at most {MOST[int]}.")
    for key in ("erasure", "drawing", "judging", *names):
        if not isinstance(text.get(key, {}), dict):
            raise SettingError(f"the settings of '{key}' stand in a table: [{key}].")
    for name in names:
        if not isinstance(text.get(name, {}).get("erasure", {}), dict):
            raise SettingError(f"the erasure of '{name}' stands in a table: [{name}.erasure].")


def _are(values: Any, kind: type) -> bool:
    """Whether it is a list of such values, with at least one, and none twice."""
    return (
        isinstance(values, list)
        and all(type(value) is kind for value in values)
        and 0 < len(values) == len(set(values))
    )
