"""The outputs of a model on a part of the data."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from ..data.problem import forward, predicted
from ..data.records import Part, Records
from ..distributed import Inputs, any_rank, gather_rows
from ..errors import ModelError
from ..methods.modes import evaluating
from ..metrics import Outputs

BATCH_SIZE = 512  # of a model that only predicts


def predict(model: nn.Module, part: Part) -> Outputs:
    """Return the outputs of the model on a part, without changing the model."""
    with evaluating(model), torch.no_grad():
        found = [
            gather_rows(forward(model, inputs).cpu(), len(ids))
            for ids, (inputs, _) in zip(part.ids.split(BATCH_SIZE), part.batches(BATCH_SIZE), strict=True)
        ]
    said = torch.cat(found).float()
    return Outputs(predicted(said)[:, None] if part.records.regression else said, part.labels)


def require_fit(model: nn.Module, records: Records) -> None:
    """Refuse a model that cannot take the records' inputs, or whose outputs do not fit their labels."""
    inputs, _ = records.fetch(torch.arange(min(2, len(records))))
    try:
        with evaluating(model), torch.no_grad():
            outputs = forward(model, inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = next(iter(str(error).splitlines()), "")
        if _takes_floats(model, inputs):
            reason = (
                "they are bytes, and it takes floats. Say how images were scaled when it was trained, such as "
                "--data-set mean=0.5 --data-set std=0.5; mean=0 is from 0 to 1."
            )
        raise ModelError(f"the model cannot take inputs of shape {_shapes(inputs)}: {reason}") from None
    if records.regression and isinstance(outputs, torch.Tensor) and outputs.dim() in (1, 2):
        outputs = predicted(outputs)[:, None]
    if not isinstance(outputs, torch.Tensor) or outputs.dim() != 2:
        raise ModelError(f"the model must return one row of scores per record, not {_shape(outputs)}.")
    if any_rank(not bool(outputs.isfinite().all())):
        raise ModelError("the model returns values that are not finite: its weights are broken or do not fit the data.")
    if records.regression:
        return
    wanted, highest = len(records.classes), int(records.labels.max())
    if (wanted and outputs.shape[1] != wanted) or outputs.shape[1] <= highest:
        labels = f"{wanted} classes" if wanted else f"labels up to {highest}"
        raise ModelError(f"the model has {outputs.shape[1]} outputs, but the data has {labels}.")


def _takes_floats(model: nn.Module, inputs: Inputs) -> bool:
    """Return whether the model would take the bytes of images as floats."""
    if isinstance(inputs, torch.Tensor) and inputs.dtype == torch.uint8:
        with suppress(RuntimeError, ValueError, TypeError, IndexError), evaluating(model), torch.no_grad():
            forward(model, inputs / 255)
            return True
    return False


def _shapes(inputs: Inputs) -> str:
    if isinstance(inputs, Mapping):
        return ", ".join(f"{_shapes(x)} ({name})" for name, x in inputs.items())
    return "×".join(map(str, inputs.shape[1:])) or "1"


def _shape(outputs: Any) -> str:
    return f"a tensor of shape {tuple(outputs.shape)}" if isinstance(outputs, torch.Tensor) else type(outputs).__name__
