"""The task of a classifier, or of a regression: it forgets records of a data set, and is scored on others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL.Image import Image
from torch import nn

from ...data.inventory import inventories
from ...data.problem import Log, ignore
from ...data.readers import Kind
from ...data.records import Augment, Part
from ...data.sources import Data, Source
from ...data.split import Split, held_out, split
from ...distributed import shard
from ...errors import DataError, FailedError, ModelError
from ...evaluation.context import Context
from ...evaluation.evaluate import Scores, examine, outputs
from ...evaluation.predict import require_fit
from ...methods import METHODS, Method, Retrain, choose_optimizer
from ...methods.damage import damage, guesses, judged, knows_little
from ...metrics import Observations, Outputs, basics
from ..task import DividedTask, Division, Read, RelativePath, SourceRun, each_time
from . import gradcam, models
from .division import divided_as_in, matched, numbered_as_in
from .huggingface import HuggingFaceModel
from .models import Blueprint
from .request import Request


@dataclass(frozen=True)
class Classification(DividedTask[Request]):
    """A classifier, or a model that predicts numbers, and what is known of how it was made."""

    noun: ClassVar[str] = "classifier"
    options: ClassVar[tuple[str, ...]] = (
        *("forget", "data", "data_set", "label", "split_seed", "unseen", "labels"),
        *("untrained", "factory", "key", "missing"),
    )
    asks: ClassVar[type[Request]] = Request
    request_key: ClassVar[str] = "forget"

    source: str
    model: nn.Module
    blueprint: Blueprint
    run: SourceRun | None = None
    read: Read = each_time

    @classmethod
    def matches(cls, source: str) -> bool:
        return True

    @classmethod
    def methods(cls) -> dict[str, type[Method]]:
        return METHODS

    @classmethod
    def load(
        cls, source: str, run: SourceRun | None, factory: str | None, device: torch.device, read: Read = each_time
    ) -> "Classification":
        inside = Path(source) / "model"
        if run and not inside.is_dir():
            raise ModelError(f"{source} is a run without a model; name the run or folder that holds the model.")
        model, blueprint = models.load(inside if run else source, factory, device)
        return cls(source, model, blueprint, run, read)

    def defaults(self, method: type[Method]) -> dict[str, Any]:
        return defaults(method, self.run.record.get("training", {})) if self.run else {}

    def named(self, request: Request) -> Source:
        """Return the data that was named, or else the data that the model is known to have been trained on."""
        if not request.data and not self.run:
            raise DataError(f"{self.source} does not say what it was trained on: name the data with --data.")
        found = request.data or Source.make(self.run.record["data"] if self.run else {})
        return replace(found, key=request.key) if request.key else found

    def pose(
        self, request: Request, seed: int, device: torch.device, relative: RelativePath, log: Log = ignore
    ) -> Division:
        """Load the data and divide it, as the model's own run says or as the request does."""
        source = self.named(request)
        data, labels = self._data(source, request)
        divided, held = self._divided(data, request)
        model = shard(self.model, device)
        return Division(
            model=model,
            problem=replace(divided.problem(seed=seed, augment=data.augment), warn_on_damage=False),
            weights=models.fingerprint(model),
            manifest=divided.manifest,
            inputs=request.to_dict(),
            record={
                "model": model_record(relative(self.source), self._first(), self.blueprint),
                **self._training(),
                "data": source.to_dict(),
                "split": split_record(request, divided, labels, data.train.fingerprint, held),
            },
            ids={"forget": divided.forget.ids.tolist(), "before": self._forgotten()},
            keys=data.train.keys if data.train.key else (),
            inventory=inventories(data.train, data.test),
            counts={name: len(part) for name, part in divided.parts().items()},
            split=divided,
        )

    def before(self, posed: Division) -> tuple[dict[str, float], Observations]:
        """Measure accuracies, or errors; refuse a model that knows no more of its training data than a guess."""
        known = outputs(posed.model, posed.split.parts())
        found = {
            f"{name}_{kind}": value
            for name, said in known.items()
            if name != "others"
            for kind, value in basics(said).items()
        }
        if not posed.inputs["untrained"] and (reason := self._guesses(known["retain"])):
            raise ModelError(f"{reason}; to change it all the same, add --untrained.")
        return found, known

    def _guesses(self, said: Outputs) -> str:
        """Say that the model knows no more of its training data than a guess, and where to look; else nothing."""
        if said.regression:
            reason, inputs = knows_little(basics(said).get("r2", 1.0)), "inputs"
            look = "--label, and at how inputs and labels were scaled for its training"
        else:
            reason, inputs = guesses(said.logits.argmax(1), said.labels), "images"
            look = "--labels and at its preprocessing, such as --data-set mean=0.5"
        unfit = f"the labels or the {inputs} of the data do not fit {self.source}. Look at {look}"
        return reason and f"{reason}, before anything was changed: {unfit}"

    def measure(
        self, posed: Division, method: str | None = None, before: Observations | None = None
    ) -> tuple[Scores, Observations]:
        said = outputs(posed.model, posed.split.parts())
        if method:
            require_finite(said, method)
        return examine(Context(posed.model, posed.split), {**said, "before": before} if before else said)

    def damage(self, method: type[Method], before: Mapping[str, float], scores: Scores) -> str:
        """Say what was lost on the data that the method is judged on, where there is enough of it."""
        return damage(judged(before, scores.counts, method.judged_on), scores.values)

    def save(self, posed: Division, folder: Path) -> None:
        models.save(posed.model, self.blueprint, folder / "model")

    @property
    def pretrained(self) -> bool:
        return isinstance(self.model, HuggingFaceModel)

    def divided(self, run: SourceRun) -> tuple[Split, Augment | None]:
        """Load the data of a run, and divide it as the run did."""
        labels = str(run.record["split"].get("labels", ""))
        source = Source.make(run.record["data"])
        data = matched(self._read(source), self.blueprint, labels)
        require_fit(self.model, data.train)
        return divided_as_in(run, numbered_as_in(run, data, source.name)), data.augment

    def pictures(self, before: "Classification", parts: Mapping[str, Part]) -> Mapping[str, Image]:
        return gradcam.pictures(before.model, self.model, parts)

    def _read(self, source: Source) -> Data:
        """Read the data, as the kind that the model takes, where it says so."""
        return read_as(self.model.kind if isinstance(self.model, HuggingFaceModel) else None, source, self.read)

    def _data(self, source: Source, request: Request) -> tuple[Data, str]:
        """Return the data with the model's numbers of its classes, and how they were matched."""
        known = str(self.run.record["split"].get("labels", "")) if self.run else ""
        labels = request.labels or known
        data = matched(self._read(source), self.blueprint, labels, request.forget)
        require_fit(self.model, data.train)
        numbered = numbered_as_in(self.run, data, source.name, request.forget.missing) if self.run else data
        return numbered, labels

    def _divided(self, data: Data, request: Request) -> tuple[Split, dict[str, Any]]:
        """Divide the data, and say what was held out of training."""
        earlier: Mapping[str, Any] = self.run.record["split"] if self.run else {}
        if self.run and earlier["manifest"]:
            divided_as_in(self.run, data)  # what was forgotten before must stay so
        holdout, seed = float(earlier.get("holdout", 0.0)), int(earlier.get("held_seed", 0))
        unseen = held_out(data.train, holdout, seed).tolist() if holdout else request.unseen
        before, draw = self._forgotten(), request.split_seed
        found = split(data.train, request.forget, test=data.test, unseen=unseen, before=before, seed=draw)
        return found, {"holdout": holdout, "held_seed": seed}

    def _forgotten(self) -> list[int]:
        """Return the records that were forgotten before."""
        return sorted(self.run.ids("forget") + self.run.ids("before")) if self.run else []

    def _training(self) -> dict[str, Any]:
        """Return how the original was trained, and from which seed, where that is known."""
        if not self.run:
            return {"training": {}}
        seed = int(self.run.record.get("training_seed", self.run.record["seed"]))
        return {"training": self.run.record.get("training", {}), "training_seed": seed}

    def _first(self) -> str:
        """Return where the model came from originally."""
        return str(self.run.record["model"]["origin"]) if self.run else self.blueprint.name


def defaults(method: type[Method], training: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that follow from how the original was trained: its optimizer, and all of them for retraining."""
    return dict(training) if method is Retrain else choose_optimizer(method, training.get("optimizer", "sgd"))


def read_as(kind: Kind | None, source: Source, read: Read = each_time) -> Data:
    """Read data, as a kind that a model takes; if there is none, as what the data holds."""
    return read((source, kind), lambda: source.load(kind=kind))


def model_record(source: str, origin: str, blueprint: Blueprint) -> dict[str, Any]:
    """Say where a model came from, what it was at first, and how it is built."""
    return {"source": source, "origin": origin, "name": blueprint.name, "arguments": dict(blueprint.arguments)}


def split_record(
    request: Request, divided: Split, labels: str, fingerprint: str, held: Mapping[str, Any]
) -> dict[str, Any]:
    """Say how data was divided."""
    return {
        "forget": request.forget.redacted(divided.forget.ids, divided.forget.labels),
        "seed": request.split_seed,
        **held,
        "unseen": request.unseen,
        "fingerprint": fingerprint,
        "manifest": divided.manifest,
        "kind": divided.kind,
        "labels": labels,
        **{f"{name}_records": len(part) for name, part in divided.parts().items()},
    }


def require_finite(said: Mapping[str, Any], what: str) -> None:
    """Refuse the outputs of a model that diverged."""
    if not all(bool(one.logits.isfinite().all()) for one in said.values()):
        raise FailedError(f"{what} diverged: the model's outputs are not finite, so nothing was written.")
