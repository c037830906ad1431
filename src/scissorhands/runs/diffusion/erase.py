"""Erasing a concept from a pipeline: images and prompts become latents and text, then any method does the work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import files, runs
from ...data.forget import Forget
from ...data.problem import Log, Problem, ignore
from ...data.records import Part, Stored
from ...distributed import any_rank, local_state, on_rank_0, shard
from ...errors import DataError, FailedError, RunError, SettingError, did_you_mean
from ...evaluation.evaluate import Scores
from ...methods import Method, find
from ...methods.damage import damage, mean_loss
from ...methods.parameters import select
from ...settings import Settings, at_least_one, non_negative, one_of, patterns, setting, text
from ...tasks.diffusion import pictures
from ...tasks.diffusion import pipeline as pipelines
from ...tasks.diffusion.denoising import Denoising, Latents
from ...tasks.diffusion.esd import ErasedDiffusion
from .. import Result, Run, jobs
from ..jobs import Place
from . import drawing

METHODS = ("scissorhands", "finetune", "ascent", "salun", "randomlabel", "retrain")  # those that need no classifier
ESD = "esd"
_LOOKED_AT = 256  # images of a kind that the loss before and after is measured on


@dataclass(frozen=True, kw_only=True)
class Erasure(Settings):
    """How a concept is erased, whatever the method."""

    anchor: str = setting("", text, "prompt that the model is to take the concept for; if empty, images are unlearnt")
    data: str = setting("", text, "folder of images with prompts; if empty, images are drawn from the pipeline itself")
    per_prompt: int = setting(100, at_least_one, "images that are drawn for each word; as many in all of what is kept")
    retain: str = setting("", text, "prompts to keep, separated by semicolons, for images that are drawn")
    parameters: str = setting("*", patterns, "which parameters may change, such as *attn2* or *,-time_emb*")
    optimizer: str = setting("adam", one_of("adam", "sgd"), "what takes the steps")
    inference: int = setting(50, at_least_one, "steps in which an image is drawn")
    guidance: float = setting(7.5, non_negative, "guidance with which images are drawn")

    def recorded(self, folder: Path) -> dict[str, Any]:
        """What the run in a folder says of it; the way to the images is told from there."""
        data = runs.from_there(self.data, folder) if self.data else ""
        return {"name": data or "drawn", **self.to_dict(), "data": data}


def method_named(name: str) -> type[Method]:
    """The method of that name, refused if it needs a classifier."""
    if name == ESD:
        return ErasedDiffusion
    if ":" not in name and name not in METHODS:
        raise SettingError(f"'{name}' erases no concept from a pipeline. {did_you_mean(name, (*METHODS, ESD))}")
    return find(name)


def erase(
    source: Path,
    forget: Forget,
    erasure: Erasure,
    method: str,
    values: Mapping[str, Any],
    place: Place,
    log: Log = ignore,
) -> Run:
    """Erases a concept, and writes the pipeline that is left, which is also a run folder."""
    if not forget.text.startswith("concept:"):
        raise DataError(f"a pipeline forgets a concept, such as concept:nudity,naked, and not '{forget.text}'.")
    chosen = method_named(method).make(values)
    jobs.same_threads(place)
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite, place.resume) as work:
        pipeline = pipelines.load(source, device)
        images = _images(pipeline, forget, erasure, place.seed, log)
        earlier = _forgotten(source, images)
        problem, manifest = posed(pipeline, images, forget, erasure, place.seed, earlier)
        asked = {
            "model": str(source.absolute()),
            "concept": forget.text,
            "erasure": erasure.to_dict(),
            "method": method,
            "settings": chosen.to_dict(),
            "weights": pipelines.weights(pipeline),
            "manifest": manifest,
        }
        runs.begin(work, jobs.all_asked("scrub", asked, place))
        unet = shard(freed(pipeline.unet, erasure.parameters), device)
        before = errors(unet, problem)
        problem = replace(problem, watch=False)  # what it does is measured here
        cost = jobs.carried_out(lambda case, keep: chosen.scrub(unet, case, keep), unet, problem, work, place, log)
        if any_rank(not all(bool(torch.isfinite(x).all()) for x in local_state(unet).values())):
            raise FailedError(f"{method} left weights that are not numbers: it diverged, so nothing was written.")
        pipelines.save(unet, source, work)
        after = errors(unet, problem)
        counts = {"forget": len(problem.forget), "retain": len(problem.retain)}
        record = {
            **jobs.about("scrub", place),
            "model": {
                "source": runs.from_there(source, place.folder),
                "origin": source.name,
                "name": "pipeline",
                "arguments": {},
            },
            "data": erasure.recorded(place.folder),
            "split": {"forget": forget.text, "manifest": manifest, "fingerprint": images.fingerprint, "holdout": 0.0},
            "method": {"name": method, **chosen.to_dict()},
            **{f"{name}_before": value for name, value in before.items()},
            "damage": damage(before, after),
        }
        runs.write_record(work, record, {"forget": problem.forget.ids.tolist(), "before": earlier})
        runs.write_result(work, Result(Scores(after, counts, manifest=manifest), cost.seconds, cost.memory_mib))
    return runs.read(place.folder)


def resume(folder: Path, asked: Mapping[str, Any], method: str | None = None, log: Log = ignore) -> Run:
    """Goes on with an erasure that was begun and not finished; somebody's method runs only if it is named."""
    jobs.require_named(asked, "scrub", None, method)
    try:
        place = Place(folder.absolute(), **{name: asked[name] for name in jobs.WHERE}, resume=True)
        erasure, forget, source = Erasure.make(asked["erasure"]), Forget(asked["concept"]), Path(asked["model"])
        begun, settings = asked["method"], asked["settings"]
    except (KeyError, TypeError) as error:
        raise RunError(f"{folder} was begun by another version of scissorhands: {error}.") from None
    with jobs.begun_in(asked):
        return erase(source, forget, erasure, begun, settings, place, log)


def _forgotten(source: Path, images: Stored) -> list[int]:
    """Those of the images that were forgotten before, if the pipeline is a run that forgot some of them."""
    if not runs.is_run(source):
        return []
    run = runs.read(source)
    known = run.record["split"]
    if known["fingerprint"] != images.fingerprint:
        return []
    if Part(images, torch.tensor(run.ids("forget"), dtype=torch.int64)).fingerprint[:16] != known["manifest"]:
        raise RunError(f"{source} does not say the truth about what it forgot: its forget.txt has changed.")
    return sorted(run.ids("forget") + run.ids("before"))


def posed(
    pipeline: Any, images: Stored, forget: Forget, erasure: Erasure, seed: int, before: Sequence[int] = ()
) -> tuple[Problem, str]:
    """The problem of unlearning some images, in latents and text, and the hash of what is forgotten.

    Those that were forgotten before are not retained.
    """
    everything = torch.arange(len(images))
    forgotten = forget.ids(images, everything, seed)
    gone = torch.cat([forgotten, torch.tensor(before, dtype=torch.int64)])
    retained = everything[~torch.isin(everything, gone)]
    if len(retained) == 0:
        raise DataError(
            f"'{forget.text}' and what was forgotten before are all images, which leaves nothing to retain."
        )
    anchor = [erasure.anchor] if erasure.anchor else []
    given = pipelines.encoded_text(pipeline, [*images.classes, *anchor, ""])
    prompts = given[:-1]
    latents = Latents(
        pipelines.encoded_images(pipeline, images.inputs),
        images.labels,
        torch.tensor([len(images.classes)]) if anchor else images.labels[retained].unique(),
        len(prompts),
        classes=images.classes,
        fingerprint=images.fingerprint,
    )
    anchors = {int(label): prompts[-1] for label in images.labels[forgotten].unique()} if anchor else {}
    loss = Denoising(pipeline.scheduler, prompts, given[-1:], anchors)
    problem = Problem(
        Part(latents, forgotten), Part(latents, retained), loss=loss, seed=seed, optimizer=erasure.optimizer
    )
    return problem, Part(latents, forgotten).fingerprint[:16]


def errors(unet: nn.Module, problem: Problem) -> dict[str, float]:
    """The mean loss on images to forget and to retain, up to 256 of each, with the same noise each time."""
    parts = {"forget": problem.forget, "retain": problem.retain}
    some = {name: problem.sample(part, min(1.0, _LOOKED_AT / len(part)), "errors") for name, part in parts.items()}
    return {f"{name}_error": mean_loss(unet, problem, part) for name, part in some.items()}


def freed(unet: nn.Module, parameters: str) -> nn.Module:
    """The U-Net, of which only the chosen parameters may change."""
    unet.requires_grad_(True)
    chosen = select(unet, parameters)
    for name, parameter in unet.named_parameters():
        parameter.requires_grad_(name in chosen)
    return unet


def _images(pipeline: Any, forget: Forget, erasure: Erasure, seed: int, log: Log) -> Stored:
    """The user's images, or those that the pipeline draws for the concept and for what is to be kept."""
    side = pipelines.size(pipeline)
    if erasure.data:
        return pictures.read(Path(erasure.data), side)
    words = [word.strip() for word in forget.text.partition(":")[2].split(",") if word.strip()]
    kept = [prompt.strip() for prompt in (erasure.retain or erasure.anchor).split(";") if prompt.strip()]
    if not kept:
        raise SettingError("say what is to be kept: --anchor PROMPT, --erase retain=PROMPTS, or --data FOLDER.")
    how = drawing.Drawing(steps=erasure.inference, guidance=erasure.guidance)
    many = max(1, erasure.per_prompt * len(words) // len(kept))  # as many images in all as there are to forget
    wanted = drawing.several(words, erasure.per_prompt, seed) | drawing.several(kept, many, seed, len(words))
    folder = files.cache("drawn") / drawing.key(pipeline, wanted, how)
    on_rank_0(lambda: files.private_folder(folder.parent))
    drawing.sample(pipeline, wanted, how, folder, log)
    return pictures.read(folder, side)
