"""Train a classifier."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .. import runs
from ..data.inventory import inventories
from ..data.problem import Log, Problem, ignore
from ..data.records import Part
from ..data.sources import Data, Source
from ..data.split import halves, held_out
from ..distributed import shard
from ..errors import DataError
from ..evaluation.evaluate import Scores, measure, outputs
from ..evaluation.observations import due
from ..evaluation.predict import require_fit
from ..methods.training import Training
from ..randomness import seeded
from ..tasks import Read, each_time
from ..tasks.classification import models
from ..tasks.classification.task import model_record, read_as, require_finite
from . import Result, Run
from .place import Place, about, run_inputs
from .work import run_with_checkpoints


def train(
    model: str,
    arguments: Mapping[str, Any],
    source: Source,
    training: Training,
    holdout: float,
    place: Place,
    split_seed: int = 0,
    log: Log = ignore,
    read: Read = each_time,
) -> Run:
    """Train a model, on all but the records that are held out as unseen."""
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite, place.resume) as work:
        data = read_as(models.kind_of(model), source, read)
        inputs = {
            "model": model,
            "arguments": dict(arguments),
            "data": source.to_dict(),
            "training": training.to_dict(),
            "holdout": holdout,
            "split_seed": split_seed,
            "fingerprint": data.train.fingerprint,
        }
        begun = runs.begin(work, run_inputs("train", inputs, place))
        with seeded(place.seed, "model"):
            built, blueprint = models.create(model, data.train, arguments)
        require_fit(built, data.train)
        parts = _parts(data, holdout, split_seed)
        nothing = replace(parts["retain"], ids=parts["retain"].ids[:0])
        problem = Problem(nothing, parts["retain"], seed=place.seed, augment=data.augment)
        built = shard(built, device)
        cost = run_with_checkpoints(
            lambda case, keep: training.fit(built, case, keep), built, problem, work, place, log
        )
        scores = _scored(built, parts)
        models.save(built, blueprint, work / "model")
        held = {"holdout": holdout, "held_seed": split_seed}
        record = {
            **about("train", place, begun),
            "model": model_record(model, model, blueprint),
            "training": training.to_dict(),
            "data": source.to_dict(),
            "split": {**held, "fingerprint": data.train.fingerprint, "manifest": ""},
            "method": {"name": "original", **training.to_dict()},
        }
        runs.write_record(work, record, {}, inventory=inventories(data.train, data.test))
        runs.write_result(work, Result(scores, cost.seconds, cost.memory_mib))
    return runs.read(place.folder)


def _parts(data: Data, holdout: float, seed: int) -> dict[str, Part]:
    """Divide the data into what is trained on, what is held out, and test records."""
    unseen, everything = held_out(data.train, holdout, seed), torch.arange(len(data.train))
    trained = Part(data.train, everything[~torch.isin(everything, unseen)])
    if len(trained) == 0:
        raise DataError("'holdout' leaves nothing to train on.")
    test = Part(data.test, torch.arange(len(data.test)))
    calibration, audit = halves(Part(data.train, unseen))
    return {"retain": trained, "calibration": calibration, "audit": audit, "test": test}


def _scored(model: nn.Module, parts: Mapping[str, Part]) -> Scores:
    """Score a trained model on each part that has records; refuse one that diverged."""
    parts = {name: part for name, part in parts.items() if len(part)}
    said = outputs(model, parts)
    require_finite(said, "training")
    return measure(said, due("quick", ()), {}, Scores({}, {name: len(part) for name, part in parts.items()}))
