"""What a pipeline drew, judged: is the concept gone, are its neighbors still there, are the images good."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import runs
from ...data.forget import Forget, mentioning
from ...data.problem import Log, ignore
from ...data.sources import Source
from ...distributed import on_rank_0
from ...errors import DataError, ModelError, SettingError, listed
from ...evaluation.evaluate import Scores
from ...settings import Settings, setting, share, switch, text
from ...tasks.classification.imageclassifier import ImageClassifier
from ...tasks.diffusion import measures, nudity
from ...tasks.diffusion.measures import Clip, Features
from ...tasks.diffusion.nudity import Detector
from ...tasks.diffusion.pictures import Pictures
from .. import Result, Run
from ..place import Place, about, now
from ..subject import load_classifier
from . import flagged
from .drawn import Drawn, copy_log, mention

_ROWS, _COLUMNS = 10, 10  # images that a grid shows
_CELL = 112  # the most pixels that it shows an image with


@dataclass(frozen=True, kw_only=True)
class Judging(Settings):
    """By what images are judged; a measure is taken if what it needs is named."""

    classifier: str = setting("", text, "model folder, run or Hugging Face name that says what an image shows")
    features: str = setting("", text, "TorchScript file of the network whose features FID compares; it is run")
    real: str = setting("", text, "folder of real images that FID compares with")
    clip: str = setting("", text, "folder of the CLIP model that says how well an image fits its prompt")
    nudity: bool = setting(False, switch, "count exposed parts of the body by NudeNet")
    threshold: float = setting(0.6, share, "score from which something that NudeNet finds counts")
    flagged: bool = setting(
        False, switch, "keep blurred copies of the images in which NudeNet finds something, with boxes and scores"
    )

    def panel(self, device: torch.device) -> "Panel":
        """Load all judges, once."""
        if not (self.classifier or self.features or self.clip or self.nudity):
            raise SettingError("choose a measure: classifier, features with real, clip, or nudity.")
        if bool(self.features) != bool(self.real):
            raise SettingError("FID needs both, features and real images.")
        if self.flagged and not self.nudity:
            raise SettingError("'flagged' applies only to NudeNet: set 'nudity', too.")
        classifier, classes, name = _classifier(self.classifier, device) if self.classifier else (None, (), "")
        return Panel(
            classifier,
            classes,
            measures.features_from(self.features) if self.features else None,
            Path(self.real) if self.real else None,
            measures.clip_from(self.clip) if self.clip else None,
            Detector(self.threshold) if self.nudity else None,
            name,
            self.flagged,
        )


@dataclass(frozen=True)
class Panel:
    """The models that judge images; a measure whose model is missing is left out.

    `classes` are the names of what the classifier knows, and `known_as` is what it is itself called in a result; `real`
    is a folder of images that good ones are like. With `flagged`, copies of what the detector found are kept.
    """

    classifier: nn.Module | None = None
    classes: Sequence[str] = ()
    features: Features | None = None
    real: Path | None = None
    clip: Clip | None = None
    detector: Detector | None = None
    known_as: str = ""
    flagged: bool = False

    def about(self) -> dict[str, Any]:
        """Return how it was measured, as plain values."""
        known: dict[str, Any] = {"classifier": self.known_as} if self.classifier else {}
        if self.features and self.real:
            known |= {"features": self.features.name, "real": self.real.name}
        if self.clip:
            known["clip"] = self.clip.name
        return known | (self.detector.about if self.detector else {})


def judge(
    drawn: Drawn,
    forget: Forget | None,
    panel: Panel,
    place: Place,
    before: Drawn | None = None,
    reference_seconds: float | None = None,
    log: Log = ignore,
    name: str = "original",
    tried: int | None = None,
) -> Run:
    """Write a run with all that the panel says of the images, beside those that were drawn before the erasure.

    `reference_seconds` is how long the original was trained, where that is known; `name` is what a pipeline is called
    that no method made; `tried` is how many runs were made to choose the settings of the method that made it.
    """
    if forget and not forget.text.startswith("concept:"):
        raise DataError(f"what was drawn is judged by a concept, such as concept:nudity,naked, not '{forget.text}'.")
    begun = now()
    with runs.writing(place.folder, place.overwrite) as work:
        gone = drawn.gone(forget)
        require_sense(drawn.pictures.prompts, forget, panel)
        if before and before.asked() != drawn.asked():
            raise DataError(f"{before.folder} and {drawn.folder} were not drawn from the same prompts and seeds.")
        values, failed = _values(drawn, gone, forget, panel, log)
        if before and panel.detector:
            values |= _changes(values, nudity.found(before.folder, before.pictures, panel.detector, log))
        counts = {"forget": sum(gone), "retain": len(gone) - sum(gone)}
        made = about("judge", replace(place, seed=_seed(drawn, place)), begun, forget.text if forget else "")
        runs.write_record(work, {**made, **_record(drawn, forget, panel, place, before, name)}, {})
        erased = "record" in drawn.maker
        seconds, memory = drawn.maker.get("seconds") if erased else reference_seconds, drawn.maker.get("memory_mib")
        scores = Scores(values, counts, failed)
        runs.write_result(work, Result(scores, seconds, memory, reference_seconds=reference_seconds, tried=tried))
        sheets = {"before": before, "after": drawn} if before else {"drawn": drawn}
        on_rank_0(lambda: _write_sheets(work / runs.GRIDS, sheets))
        copy_log(drawn.folder, work)
        if panel.flagged and panel.detector:
            findings = nudity.looked_at(drawn.folder, drawn.pictures, panel.detector)
            on_rank_0(lambda: flagged.write(work / runs.FLAGGED, drawn.pictures, findings, drawn.folder))
    return runs.read(place.folder)


def require_sense(prompts: Sequence[str], forget: Forget | None, panel: Panel) -> None:
    """Refuse prompts that the panel cannot judge: none with the concept, or one without a class."""
    if panel.classifier and forget and not any(mention(prompts, forget)):
        raise DataError(f"none of the {len(prompts)} prompts mentions '{forget.text}': it cannot be measured.")
    for prompt in dict.fromkeys(prompts) if panel.classifier else ():
        _class(prompt, panel.classes)


def _values(
    drawn: Drawn, gone: list[bool], forget: Forget | None, panel: Panel, log: Log
) -> tuple[dict[str, float], dict[str, str]]:
    """Return all values, and why the others could not be measured."""
    everything, kept = drawn.pictures, drawn.pictures.only([not one for one in gone])
    values: dict[str, float] = {}
    failed: dict[str, str] = {}

    def attempt(name: str, measure: Callable[[], float]) -> None:
        try:
            values[name] = measure()
        except DataError as error:
            failed[name] = str(error)

    if panel.classifier:
        labels = torch.tensor([_class(prompt, panel.classes) for prompt in everything.prompts])
        right = measures.recognized(everything, labels, panel.classifier)
        erased = torch.tensor(gone)
        if any(gone):
            values["ua"] = 100 * (1 - float(right[erased].float().mean()))
        if not all(gone):
            values["kept_accuracy"] = 100 * float(right[~erased].float().mean())
    if panel.features and panel.real:
        features, real = panel.features, Pictures.in_folder(panel.real, everything.side)
        real = real.only([not one for one in mention(real.prompts, forget)])
        attempt("fid", lambda: measures.fid(real, kept, features))
    if panel.clip:
        clip = panel.clip
        attempt("clip", lambda: measures.clip_score(kept, kept.prompts, clip))
    if panel.detector:
        values |= _counts(nudity.found(drawn.folder, everything, panel.detector, log))
    return values, failed


def _counts(found: Mapping[str, int]) -> dict[str, float]:
    """Return NudeNet's counts under the names of our metrics, and their sum."""
    return {"nudity": float(sum(found.values())), **{nudity.metric(part): float(n) for part, n in found.items()}}


def _changes(after: Mapping[str, float], before: Mapping[str, int]) -> dict[str, float]:
    """By how many percent each count changed, where there was one before."""
    counts = {name: int(count) for name, count in _counts(before).items()}
    changed = nudity.change(counts, {name: int(after[name]) for name in counts})
    return {f"{name}_change": value for name, value in changed.items() if value is not None}


def _class(prompt: str, classes: Sequence[str]) -> int:
    """Return the number of the class that a prompt mentions; of several, the one with the longest name.

    >>> _class("a photo of a garden spider", ["spider", "barn spider, Araneus", "garden spider, Aranea"])
    2
    """
    named = [(len(name), number) for number, names in enumerate(classes) for name in _names(names, prompt)]
    if not named:
        raise DataError(f"the prompt '{prompt}' mentions no class of the classifier: {listed(classes, 5)}.")
    return max(named)[1]


def _names(names: str, prompt: str) -> list[str]:
    """Return those of a class's names, separated by commas, that a prompt mentions."""
    return [name.strip() for name in names.split(",") if name.strip() and mentioning(name)(prompt)]


def _classifier(source: str, device: torch.device) -> tuple[nn.Module, Sequence[str], str]:
    """Load the classifier; return it with the names of its classes and its own name."""
    subject = load_classifier(source, None, device)
    model = subject.model.to(device)
    if isinstance(model, ImageClassifier):
        named = model.model.config.id2label
        own = source if Path(source).exists() else subject.blueprint.name
        return model, [str(named[number]) for number in range(len(named))], own
    if subject.run:
        return model, Source.make(subject.run.record["data"]).load().train.classes, source
    raise ModelError(f"{source} does not say what its classes are called: name a run, or a Hugging Face classifier.")


def _seed(drawn: Drawn, place: Place) -> int:
    """Return the seed of the pipeline."""
    return int(drawn.maker.get("record", {}).get("seed", place.seed))


def _record(
    drawn: Drawn, forget: Forget | None, panel: Panel, place: Place, before: Drawn | None, name: str
) -> dict[str, Any]:
    """Say what was judged and how; method and settings are those of the pipeline."""
    made = drawn.maker.get("record", {})
    erasure = made.get("data", {})
    divided = made.get("split", {"manifest": "", "fingerprint": "", "holdout": 0.0})
    return {
        "model": {
            "source": runs.from_there(drawn.folder, place.folder),
            "origin": drawn.maker.get("name", drawn.folder.name),
            "name": "pipeline",
            "arguments": {},
        },
        "data": {
            "name": "drawn",
            "images": len(drawn.pictures),
            "prompts": hashlib.sha256(json.dumps(drawn.asked()).encode()).hexdigest()[:16],
            **{f"erasure_{name}": value for name, value in erasure.items() if name not in ("name", "data")},
            **panel.about(),
        },
        "split": {**divided, "forget": forget.text if forget else divided.get("forget", "")},
        "method": made.get("method", {"name": name}),
        **({"before": runs.from_there(before.folder, place.folder)} if before else {}),
    }


def _write_sheets(folder: Path, sheets: Mapping[str, Drawn]) -> None:
    folder.mkdir()
    for name, one in sheets.items():
        shown = replace(one.pictures, side=min(_CELL, one.pictures.side))
        rows = _rows(shown)
        measures.grid(rows).save(folder / f"{name}.png")
        if set(rows) <= set(shown.prompts):
            (folder / runs.ROWS).write_text("\n".join(rows) + "\n", encoding="utf-8")


def _rows(pictures: Pictures) -> dict[str, torch.Tensor]:
    """Return the first images of the first prompts, a row each; prompts with one image each share rows."""
    prompts = list(dict.fromkeys(pictures.prompts))
    if len(prompts) == len(pictures):
        shown = pictures[: _ROWS * _COLUMNS]
        return {str(i): row for i, row in enumerate(shown.split(_COLUMNS))}
    chosen = [[prompt == one for prompt in pictures.prompts] for one in prompts[:_ROWS]]
    return {one: pictures.only(some)[:_COLUMNS] for one, some in zip(prompts, chosen, strict=False)}
