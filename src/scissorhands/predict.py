"""What a model says about a part of the data."""

import torch
from torch import nn

from .metrics import Outputs
from .modes import evaluating
from .problem import on_device
from .records import Part


def predict(model: nn.Module, part: Part, batch_size: int = 512) -> Outputs:
    """What the model says about a part, without changing the model."""
    with evaluating(model), torch.inference_mode():
        found = [(model(on_device(model, inputs)).cpu(), labels) for inputs, labels in part.batches(batch_size)]
    return Outputs(torch.cat([logits for logits, _ in found]).float(), torch.cat([labels for _, labels in found]))
