"""The task of a diffusion pipeline: its U-Net forgets how to draw a concept."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from ...data.problem import Log, ignore
from ...data.records import Part, Stored
from ...distributed import shard
from ...errors import RunError
from ...evaluation.evaluate import Scores
from ...methods import METHODS, Method, Scissorhands, choose_optimizer
from ...methods.damage import damage
from ...metrics import Observations
from ..task import PreparedProblem, Read, RelativePath, SourceRun, Task, each_time
from . import pictures
from . import pipeline as pipelines
from .erasure import Concept, encoded, errors, freed, images_for, posed
from .esd import ErasedDiffusion
from .published import PublishedScissorhands
from .salun import SalUnDiffusion

SHARED = ("scissorhands", "finetune", "ascent", "salun", "randomlabel", "retrain")  # those that need no classifier
_OWN: dict[str, type[Method]] = {
    "scissorhands-diffusion": PublishedScissorhands,
    "salun-diffusion": SalUnDiffusion,
    "esd": ErasedDiffusion,
}


def defaults(method: type[Method]) -> dict[str, Any]:
    """Return settings for pipelines: Adam, as in the paper; and what needs no unseen images, as a concept has none."""
    return {**choose_optimizer(method, "adam"), **({"reading": "bounded"} if method is Scissorhands else {})}


@dataclass(frozen=True)
class Diffusion(Task[Concept, PreparedProblem]):
    """A diffusion pipeline, as diffusers loads it."""

    noun: ClassVar[str] = "diffusion pipeline"
    options: ClassVar[tuple[str, ...]] = ("forget", "data", "anchor", "erase")
    asks: ClassVar[type[Concept]] = Concept
    request_key: ClassVar[str] = "concept"
    titles: ClassVar[Mapping[str, str]] = {"forget_error": "loss on the concept", "retain_error": "loss on the rest"}
    next_step: ClassVar[str] = "look at what it draws: scissorhands sample"

    source: str
    pipeline: Any
    run: SourceRun | None = None
    read: Read = each_time

    @classmethod
    def matches(cls, source: str) -> bool:
        return pipelines.is_pipeline(source)

    @classmethod
    def methods(cls) -> dict[str, type[Method]]:
        return {**{name: METHODS[name] for name in SHARED}, **_OWN}

    @classmethod
    def load(
        cls, source: str, run: SourceRun | None, factory: str | None, device: torch.device, read: Read = each_time
    ) -> "Diffusion":
        return cls(source, pipelines.load(Path(source), device), run, read)

    def defaults(self, method: type[Method]) -> dict[str, Any]:
        return defaults(method)

    def pose(
        self, request: Concept, seed: int, device: torch.device, relative: RelativePath, log: Log = ignore
    ) -> PreparedProblem:
        """Read or draw the images, and pose the problem in latents and text."""
        forget, erasure = request.forget, request.erasure
        weights, folder = pipelines.weights(self.pipeline), images_for(self.pipeline, forget, erasure, seed, log)
        images = self.read((weights, folder), lambda: self._encoded(folder))
        before = self._forgotten(images)
        problem, manifest = posed(self.pipeline, images, forget, erasure, seed, before)
        data = relative(erasure.data) if erasure.data else ""
        origin = {"source": relative(self.source), "origin": Path(self.source).name}
        return PreparedProblem(
            model=shard(freed(self.pipeline.unet, erasure.parameters), device),
            problem=replace(problem, warn_on_damage=False),
            weights=weights,
            manifest=manifest,
            inputs=request.to_dict(),
            record={
                "model": {**origin, "name": "pipeline", "arguments": {}},
                "data": {"name": data or "drawn", **erasure.to_dict(), "data": data},
                "split": {
                    "forget": forget.text,
                    "manifest": manifest,
                    "fingerprint": images.fingerprint,
                    "holdout": 0.0,
                },
            },
            ids={"forget": problem.forget.ids.tolist(), "before": before},
            counts={"forget": len(problem.forget), "retain": len(problem.retain)},
        )

    def before(self, posed: PreparedProblem) -> tuple[dict[str, float], Observations]:
        return errors(posed.model, posed.problem), {}

    def measure(
        self, posed: PreparedProblem, method: str | None = None, before: Observations | None = None
    ) -> tuple[Scores, Observations]:
        return Scores(errors(posed.model, posed.problem), posed.counts, manifest=posed.manifest), {}

    def damage(self, method: type[Method], before: Mapping[str, float], scores: Scores) -> str:
        return damage(before, scores.values)

    def save(self, posed: PreparedProblem, folder: Path) -> None:
        """Write the whole pipeline; a run folder is one itself."""
        pipelines.save(posed.model, Path(self.source), folder)

    def _encoded(self, folder: Path) -> Stored:
        """Read the images of a folder as latents."""
        return encoded(self.pipeline, pictures.read(folder, pipelines.size(self.pipeline)))

    def _forgotten(self, images: Stored) -> list[int]:
        """Return those of the images that were forgotten before, if the pipeline is a run that forgot some of them."""
        if not self.run:
            return []
        known = self.run.record["split"]
        if known["fingerprint"] != images.fingerprint:
            return []
        forgotten = Part(images, torch.tensor(self.run.ids("forget"), dtype=torch.int64))
        if forgotten.fingerprint[:16] != known["manifest"]:
            raise RunError(f"{self.source} does not list what it forgot: its forget.txt was changed.")
        return sorted(self.run.ids("forget") + self.run.ids("before"))
