"""What a model says about a part of the data."""

import torch
from torch import nn

from .distributed import gathered
from .metrics import Outputs
from .modes import evaluating
from .problem import on_device
from .records import Part


def predict(model: nn.Module, part: Part, batch_size: int = 512) -> Outputs:
    """What the model says about a part, without changing the model."""
    with evaluating(model), torch.no_grad():
        found = [
            gathered(model(on_device(model, inputs)).cpu(), len(ids))
            for ids, (inputs, _) in zip(part.ids.split(batch_size), part.batches(batch_size), strict=True)
        ]
    return Outputs(torch.cat(found).float(), part.labels)
