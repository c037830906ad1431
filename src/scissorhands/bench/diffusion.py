"""Run a recipe for pipelines: one concept, several methods and seeds, all judged by the same panel, then a table."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from .. import runs
from ..data.forget import Forget
from ..data.problem import Log, ignore
from ..errors import SettingError
from ..report import grids
from ..report import page as report
from ..report.figures import body_parts
from ..report.table import Table, tabulate
from ..runs import Run
from ..runs.claims import claiming
from ..runs.diffusion import judging
from ..runs.diffusion.drawn import Drawn, sign
from ..runs.diffusion.judging import Judging, Panel
from ..runs.place import Place
from ..runs.scrub import scrub
from ..settings import REQUIRED, Rule, count, names, setting, table, text
from ..tasks import Read, method, once
from ..tasks.diffusion import drawing
from ..tasks.diffusion import pipeline as pipelines
from ..tasks.diffusion.drawing import Drawing
from ..tasks.diffusion.erasure import Concept, Erasure
from ..tasks.diffusion.pictures import Pictures
from ..tasks.diffusion.prompts import Prompt
from ..tasks.diffusion.prompts import prompts as read_prompts
from ..tasks.diffusion.task import SHARED, Diffusion, defaults
from .entries import Entry, entries
from .recipe import BaseRecipe, counted, finished
from .runlist import RunList, publish

JUDGED = "judged"  # the folder of what a run is worth
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


@dataclass(frozen=True, kw_only=True)
class PipelineRecipe(BaseRecipe):
    """An experiment with a pipeline: what to erase, by which methods, how often, and by what images it is judged.

    `compare` names further pipelines, which are only sampled and judged.
    """

    called: ClassVar[str] = "a recipe for a pipeline"
    owns: ClassVar[tuple[str, ...]] = ("pipeline", "prompts")

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

    @cached_property
    def attempts(self) -> list[Attempt]:
        """Return the methods with their settings; a method's own `erasure` overrides the shared one."""
        found = []
        for name in self.methods:
            settings = {**self.settings.get(name, {})}
            more = settings.pop("erasure", {})
            if not isinstance(more, Mapping):
                raise SettingError(f"the erasure of '{name}' must be a table: [{name}.erasure].")
            own, kind = Erasure.make({**self.erasure, **more}), method(name, Diffusion, "the model")
            found += [
                Attempt(entry, own) for entry in entries(name, kind, settings, self.tried.get(name), defaults(kind))
            ]
        return found

    @property
    def entries(self) -> list[Entry]:
        return [attempt.entry for attempt in self.attempts]

    @property
    def wanted(self) -> Mapping[str, Prompt]:
        """Return what is drawn, by the names of the images."""
        if isinstance(self.prompts, str):
            return drawing.each(read_prompts(Path(self.prompts)), self.first_seed)
        return drawing.several(self.prompts, self.per_prompt, self.first_seed)

    def runs(self) -> list[str]:
        made = [f"seed-{seed}/{entry.label}" for seed in self.seeds for entry in self.entries]
        return ["original", *(f"compared/{name}" for name in self.compare), *made]

    def count(self) -> str:
        made = counted(len(self.seeds) * len(self.entries), "run")
        return f"{made} + {counted(1 + len(self.compare), 'pipeline')} to draw"

    def missing(self) -> Iterator[str]:
        judges = [self.judging.to_dict()[name] for name in ("classifier", "features", "real", "clip")]
        prompts = [self.prompts] if isinstance(self.prompts, str) else []
        images = [attempt.erasure.data for attempt in self.attempts]
        needed = dict.fromkeys([self.pipeline, *self.compare.values(), *prompts, *images, *judges])
        yield from (name for name in needed if name and not Path(name).exists())

    def about(self, made: Mapping[str, Any]) -> dict[str, Any]:
        known = super().about(made)
        methods: dict[str, Any] = {name: {"pipeline": path} for name, path in self.compare.items()}
        for attempt in self.attempts:
            label = attempt.entry.label
            methods[label] = {**known["methods"][label], "erasure": attempt.erasure.to_dict()}
        return {**known, "methods": methods, "runs": [f"{name}/{JUDGED}" for name in self.runs()]}


def bench(
    recipe: PipelineRecipe,
    folder: Path,
    device: str,
    log: Log = ignore,
    panel: Panel | None = None,
    seconds: float | None = None,
    watch: bool = False,
    command: str = "",
) -> Table:
    """Run what is missing, and write a table, a page and pictures; with `watch` whenever a run ends.

    The `panel` is that of the recipe unless another is given; `seconds` is how long training the pipeline took, and
    `command` what was typed.
    """
    wanted = recipe.wanted
    panel = panel or recipe.judging.panel(Place(folder, device=device).torch_device())
    listed = RunList(recipe.runs(), log, partial(publish, folder, recipe.title) if watch else None)
    shared = _Shared(recipe, wanted, panel, Drawn(folder / "original" / "drawn"), once(), listed)
    shared.require_sense()

    def made(place: Place, work: Callable[..., Run], *more: Any) -> Run:
        name = place.folder.relative_to(folder).as_posix()
        return listed.make(name, runs.is_run(place.folder / JUDGED), partial(work, place, *more))

    with claiming(folder, {**recipe.about(shared.made()), "command": command}):
        original = Place(folder / "original", device=device)
        found = [made(original, shared.judged, Path(recipe.pipeline), None, seconds)]
        for name, pipeline in recipe.compare.items():
            place = Place(folder / "compared" / name, device=device)
            found.append(made(place, shared.judged, Path(pipeline), shared.before, None, name))
        for seed in recipe.seeds:
            for attempt in recipe.attempts:
                there, variant = folder / f"seed-{seed}" / attempt.entry.label, attempt.entry.variant
                place = Place(there, seed=seed, device=device, variant=variant)
                found.append(made(place, shared.attempted, attempt, seconds))
    table = tabulate(found)
    body_parts.write(folder, table)
    grids.write(folder, {row.method: Drawn(row.runs[0].folder.with_name("drawn")) for row in table.rows})
    report.publish(folder, table, found, recipe.title)
    return table


@dataclass(frozen=True)
class _Shared:
    """What all runs of a recipe share: images are read once, and the same ones are drawn and judged alike."""

    recipe: PipelineRecipe
    wanted: Mapping[str, Prompt]
    panel: Panel
    before: Drawn
    read: Read
    log: RunList

    def require_sense(self) -> None:
        """Refuse early what would fail only after hours of drawing."""
        for pipeline in (self.recipe.pipeline, *self.recipe.compare.values()):
            pipelines.require(Path(pipeline))
        prompts = list(dict.fromkeys(prompt.text for prompt in self.wanted.values()))
        judging.require_sense(prompts, Forget(self.recipe.forget), self.panel)
        for folder in {attempt.erasure.data for attempt in self.recipe.attempts} - {""}:
            Pictures.of(Path(folder))

    def made(self) -> dict[str, Any]:
        """Return what must not change between two runs of a recipe, as plain values."""
        return {
            "pipeline": self.recipe.pipeline,
            "forget": self.recipe.forget,
            "drawing": self.recipe.drawing.to_dict(),
            "prompts": {name: [p.text, p.seed, p.guidance] for name, p in self.wanted.items()},
            "judging": self.panel.about(),
        }

    def attempted(self, place: Place, attempt: Attempt, seconds: float | None) -> Run:
        """Erase the concept, draw and judge, as far as that is not done already."""
        erased = self._erased(attempt, place)
        return self.judged(place, erased, self.before, seconds, tried=attempt.entry.tried)

    def _erased(self, attempt: Attempt, place: Place) -> Path:
        """Erase the concept, unless that is done already, and return the folder of the pipeline."""
        there, entry = place.folder / "pipeline", attempt.entry
        erasure = {name: value for name, value in attempt.erasure.to_dict().items() if name != "data"}
        settings = entry.method.to_dict()
        if not finished(there, settings, erasure):
            at = replace(place, folder=there, resume=runs.resumable(there))
            request = Concept(Forget(self.recipe.forget), attempt.erasure)
            scrub(self.recipe.pipeline, request, entry.name, settings, at, read=self.read, log=self.log)
        return there

    def judged(
        self,
        place: Place,
        pipeline: Path,
        before: Drawn | None,
        seconds: float | None,
        name: str = "original",
        tried: int | None = None,
    ) -> Run:
        """Draw with a pipeline and judge the images, unless that is done already."""
        there, drawn = place.folder / JUDGED, place.folder / "drawn"
        if runs.is_run(there):
            return runs.read(there)
        drawer = pipelines.load(pipeline, place.torch_device())
        drawing.sample(drawer, self.wanted, self.recipe.drawing, drawn, self.log)
        sign(drawn, pipeline)
        at, forget = replace(place, folder=there), Forget(self.recipe.forget)
        return judging.judge(Drawn(drawn), forget, self.panel, at, before, seconds, self.log, name, tried)
