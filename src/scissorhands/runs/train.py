"""Train a classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import runs
from ..data.forget import NOTHING
from ..data.inventory import inventories
from ..data.keys import find
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
    exclude: Sequence[str] = (),
) -> Run:
    """Train a model, on all but the records that are held out as unseen, and those whose keys are to `exclude`.

    What is left out is listed as what was forgotten before is, so that no later use of the model takes it either.
    """
    device = place.torch_device()
    with runs.writing(place.folder, place.overwrite, place.resume) as work:
        data = read_as(models.kind_of(model), source, read)
        asked = {"training": training.to_dict(), "data": source.to_dict()}
        fingerprint = {"fingerprint": data.train.fingerprint}
        held = {"holdout": holdout, "split_seed": split_seed, "exclude": [*exclude]}
        inputs = {"model": model, "arguments": dict(arguments), **asked, **held, **fingerprint}
        begun = runs.begin(work, run_inputs("train", inputs, place))
        left_out = find(exclude, data.train, torch.arange(len(data.train)), before=NOTHING, skip=True)
        parts = _parts(data, holdout, split_seed, left_out)
        with seeded(place.seed, "model"):
            built, blueprint = models.create(model, data.train, arguments, left_out.tolist())
        require_fit(built, data.train)
        nothing = replace(parts["retain"], ids=parts["retain"].ids[:0])
        problem = Problem(nothing, parts["retain"], seed=place.seed, augment=data.augment)
        built = shard(built, device)
        cost = run_with_checkpoints(
            lambda case, keep: training.fit(built, case, keep), built, problem, work, place, log
        )
        scores = _scored(built, parts)
        models.save(built, blueprint, work / "model")
        record = {
            **about("train", place, begun),
            "model": model_record(model, model, blueprint),
            **asked,
            "split": {"holdout": holdout, "held_seed": split_seed, **fingerprint, "manifest": ""},
            "method": {"name": "original", **training.to_dict()},
        }
        keys, known = data.train.keys if data.train.key else (), inventories(data.train, data.test)
        runs.write_record(work, record, {"before": left_out.tolist()}, keys, inventory=known)
        runs.write_result(work, Result(scores, cost.seconds, cost.memory_mib))
    return runs.read(place.folder)


def _parts(data: Data, holdout: float, seed: int, left_out: Tensor) -> dict[str, Part]:
    """Divide the data into what is trained on, what is held out, and test records."""
    unseen, everything = held_out(data.train, holdout, seed), torch.arange(len(data.train))
    calibration, audit = halves(Part(data.train, unseen))
    trained = Part(data.train, everything[~torch.isin(everything, unseen)])
    found = {"retain": trained, "calibration": calibration, "audit": audit}
    parts = {name: replace(x, ids=x.ids[~torch.isin(x.ids, left_out)]) for name, x in found.items()}
    if len(parts["retain"]) == 0:
        taken = "'holdout' and 'exclude' leave" if len(left_out) else "'holdout' leaves"
        raise DataError(f"{taken} nothing to train on.")
    return {**parts, "test": Part(data.test, torch.arange(len(data.test)))}


def _scored(model: nn.Module, parts: Mapping[str, Part]) -> Scores:
    """Score a trained model on each part that has records; refuse one that diverged."""
    parts = {name: part for name, part in parts.items() if len(part)}
    said = outputs(model, parts)
    require_finite(said, "training")
    names = due("quick", (), parts["retain"].records.regression)
    return measure(said, names, {}, Scores({}, {name: len(part) for name, part in parts.items()}))
