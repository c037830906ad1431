"""An experiment with a pipeline: one concept, several methods and seeds, all judged by the same panel, then a table."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from .. import runs
from ..data.forget import Forget
from ..data.problem import Log, ignore
from ..errors import DataError, ReadError, RunError, SettingError
from ..files import read_toml
from ..report import body_parts, grids
from ..report import page as report
from ..report.table import Table, tabulate
from ..runs import Run
from ..runs.claims import claiming
from ..runs.diffusion import judging
from ..runs.diffusion.drawn import Drawn, sign
from ..runs.diffusion.judging import Judging, Panel
from ..runs.place import Place
from ..runs.scrub import scrub
from ..settings import REQUIRED, Rule, count, names, setting, table, text
from ..tasks import method
from ..tasks.diffusion import drawing
from ..tasks.diffusion import pipeline as pipelines
from ..tasks.diffusion.drawing import Drawing
from ..tasks.diffusion.erasure import Concept, Erasure
from ..tasks.diffusion.pictures import Pictures
from ..tasks.diffusion.prompts import Prompt
from ..tasks.diffusion.prompts import prompts as read_prompts
from ..tasks.diffusion.task import SHARED, Diffusion
from .recipe import BaseRecipe, Entry, entries

_NAME = re.compile(r"[\w.-]*\w")  # it is the name of a folder
_IMAGES = 1_000_000  # of a prompt, at most
_images = Rule(f"a whole number from 1 to {_IMAGES}", lambda x: 1 <= x <= _IMAGES)
_concept = Rule("a concept, such as concept:nudity,naked", lambda x: Forget(x).text.startswith("concept:"))
_methods = Rule("a list of names, each of them once", lambda x: len(x) == len({*x}))
_folders = Rule(
    "a table of folders by name, none of them original",
    lambda x: all(type(y) is str and _NAME.fullmatch(name) and name != "original" for name, y in x.items()),
)
_prompts = Rule("a CSV file, or a list of texts, each of them once", lambda x: type(x) is str or names.holds(x))


@dataclass(frozen=True)
class Attempt:
    """A method, and the erasure that it takes part in."""

    entry: Entry
    erasure: Erasure


def attempts(methods: Mapping[str, Mapping[str, Any]], erasure: Mapping[str, Any]) -> list[Attempt]:
    """Return the methods with their settings; a method's own `erasure` overrides the shared one."""
    found = []
    for name, values in methods.items():
        settings = {key: value for key, value in values.items() if key != "erasure"}
        more = values.get("erasure", {})
        if not isinstance(more, Mapping):
            raise SettingError(f"the erasure of '{name}' must be a table: [{name}.erasure].")
        own = Erasure.make({**erasure, **more})
        found += [Attempt(entry, own) for entry in entries(name, method(name, Diffusion, "the model"), settings)]
    return found


@dataclass(frozen=True)
class Experiment:
    """Which pipeline, what to erase, by which methods, how often, and by what images it is judged.

    `compare` names further pipelines, which are only sampled and judged.
    """

    title: str
    pipeline: Path
    forget: Forget
    attempts: Sequence[Attempt]
    wanted: Mapping[str, Prompt]
    drawing: Drawing = field(default_factory=Drawing)
    seeds: Sequence[int] = (0, 1, 2)
    compare: Mapping[str, Path] = field(default_factory=dict)

    def run(self, folder: Path, panel: Panel, device: str, log: Log = ignore, seconds: float | None = None) -> Table:
        """Run what is missing, and write a table, a page and pictures; `seconds` is how long training took."""
        self._require_sense(panel)
        with claiming(folder, self._about(panel)):
            before = Drawn(folder / "original" / "drawn")
            original = Place(folder / "original", device=device)
            found = [self._judged(self.pipeline, original, panel, None, seconds, log)]
            for name, pipeline in self.compare.items():
                place = Place(folder / "compared" / name, device=device)
                found.append(self._judged(pipeline, place, panel, before, None, log, name))
            for seed in self.seeds:
                for attempt in self.attempts:
                    there, variant = folder / f"seed-{seed}" / attempt.entry.label, attempt.entry.variant
                    place = Place(there, seed=seed, device=device, variant=variant)
                    erased = self._erased(attempt, place, log)
                    found.append(self._judged(erased, place, panel, before, seconds, log))
        table = tabulate(found)
        body_parts.write(folder, table)
        grids.write(folder, {row.method: Drawn(row.runs[0].folder.with_name("drawn")) for row in table.rows})
        report.publish(folder, table, found, self.title)
        return table

    def _require_sense(self, panel: Panel) -> None:
        """Refuse early what would fail only after hours of drawing."""
        for pipeline in (self.pipeline, *self.compare.values()):
            pipelines.require(pipeline)
        prompts = list(dict.fromkeys(prompt.text for prompt in self.wanted.values()))
        judging.require_sense(prompts, self.forget, panel)
        for folder in {attempt.erasure.data for attempt in self.attempts} - {""}:
            Pictures.of(Path(folder))

    def _about(self, panel: Panel) -> dict[str, Any]:
        """Return the whole experiment as plain values, with the folders of its runs."""
        names = [f"compared/{name}" for name in self.compare]
        names += [f"seed-{seed}/{attempt.entry.label}" for seed in self.seeds for attempt in self.attempts]
        return {
            "title": self.title,
            "made": {
                "pipeline": str(self.pipeline),
                "forget": self.forget.text,
                "drawing": self.drawing.to_dict(),
                "prompts": {name: [p.text, p.seed, p.guidance] for name, p in self.wanted.items()},
                "judging": panel.about(),
            },
            "methods": {name: {"pipeline": str(path)} for name, path in self.compare.items()}
            | {
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
        """Erase the concept, unless that is done already, and return the folder of the pipeline."""
        there, entry = place.folder / "pipeline", attempt.entry
        if runs.is_run(there):
            known, erasure = runs.read(there).record, attempt.erasure.to_dict()
            same = all(known["data"].get(name) == value for name, value in erasure.items() if name != "data")
            if known["method"] != {"name": entry.name, **entry.method.to_dict()} or not same:
                raise RunError(f"{there} is there, and was made with other settings: choose another folder.")
            return there
        at = replace(place, folder=there, resume=runs.resumable(there))
        request = Concept(self.forget, attempt.erasure)
        scrub(str(self.pipeline), request, entry.name, entry.method.to_dict(), at, log=log)
        return there

    def _judged(
        self,
        pipeline: Path,
        place: Place,
        panel: Panel,
        before: Drawn | None,
        seconds: float | None,
        log: Log,
        name: str = "original",
    ) -> Run:
        """Draw with a pipeline and judge the images, unless that is done already."""
        there, drawn = place.folder / "judged", place.folder / "drawn"
        if runs.is_run(there):
            return runs.read(there)
        drawer = pipelines.load(pipeline, place.torch_device())
        drawing.sample(drawer, self.wanted, self.drawing, drawn, log)
        sign(drawn, pipeline)
        at = replace(place, folder=there)
        return judging.judge(Drawn(drawn), self.forget, panel, at, before, seconds, log, name)


@dataclass(frozen=True, kw_only=True)
class PipelineRecipe(BaseRecipe):
    """An experiment with a diffusion pipeline, as a recipe says it."""

    called: ClassVar[str] = "a recipe for a pipeline"

    pipeline: str = setting(REQUIRED, text, "folder of the pipeline")
    forget: str = setting(REQUIRED, _concept, "what to forget")
    prompts: str | list[str] = setting(REQUIRED, _prompts, "what to draw")
    per_prompt: int = setting(100, _images, "images of each prompt, if they are not in a file")
    first_seed: int = setting(0, count, "seed of the first image")
    methods: list[str] = setting(list(SHARED), _methods, "what makes the pipeline forget")
    compare: dict[str, str] = setting({}, _folders, "pipelines that are only sampled and judged: folders by name")
    erasure: dict[str, Any] = setting({}, table, "how the concept is erased")
    drawing: Drawing = setting(Drawing(), table, "how images are drawn")
    judging: Judging = setting(Judging(), table, "by what images are judged")

    @classmethod
    def _grouped(cls, found: Mapping[str, Any], trusted: Collection[str]) -> dict[str, Any]:
        """Put the tables of methods under `settings`; without methods there is none."""
        unknown = [name for name in found if name not in {row["name"] for row in cls.described()}]
        if found.get("methods") == [] and unknown:
            raise SettingError(f"{cls.called} without methods has no '{unknown[0]}'.")
        return super()._grouped(found, trusted)

    def experiment(self) -> "Experiment":
        """Build all that the recipe names."""
        wanted = (
            drawing.each(read_prompts(Path(self.prompts)), self.first_seed)
            if isinstance(self.prompts, str)
            else drawing.several(self.prompts, self.per_prompt, self.first_seed)
        )
        chosen = attempts({name: self.settings.get(name, {}) for name in self.methods}, self.erasure)
        return Experiment(
            self.title,
            Path(self.pipeline),
            Forget(self.forget),
            chosen,
            wanted,
            self.drawing,
            self.seeds,
            {name: Path(folder) for name, folder in self.compare.items()},
        )


def read(path: Path, trusted: Collection[str] = ()) -> tuple[Experiment, Judging]:
    """Read the experiment in a file, and by what it is judged; what it names is built, so that a mistake shows at once.

    Somebody's code runs only if it is among the `trusted`.
    """
    recipe = PipelineRecipe.read(path, trusted)
    try:
        return recipe.experiment(), recipe.judging
    except (SettingError, DataError) as error:
        raise SettingError(f"{path}: {error}") from None


def is_one(path: Path) -> bool:
    """Tell whether a recipe is about a pipeline."""
    try:
        return not {"pipeline", "prompts"}.isdisjoint(read_toml(path))
    except ReadError:
        return False
