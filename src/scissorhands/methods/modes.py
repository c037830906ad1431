"""Putting a model into a mode for the length of a block, and back into what it was."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from ..distributed import Batch


@contextmanager
def _mode(model: nn.Module, training: bool) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    if not all(mode is training for mode in modes.values()):
        model.train(training)
    try:
        yield
    finally:
        for module, mode in modes.items():
            if module.training is not mode:  # to set an attribute of a module takes far longer than to read it
                module.training = mode


def evaluating(model: nn.Module) -> AbstractContextManager[None]:
    """Put the model into evaluation mode inside the block: no dropout, running statistics used and not updated."""
    return _mode(model, training=False)


def training(model: nn.Module) -> AbstractContextManager[None]:
    """Put the model into training mode inside the block."""
    return _mode(model, training=True)


def eval_if_single_record(model: nn.Module, batch: Batch) -> AbstractContextManager[None]:
    """Use evaluation mode for a batch of one record, which batch normalization cannot train on."""
    return evaluating(model) if batch.total == 1 else nullcontext()


@contextmanager
def frozen_norm_statistics(model: nn.Module) -> Iterator[None]:
    """Keep running statistics as they are inside the block, while normalizing by the batch as in training.

    What passes through the model inside the block leaves no trace in its buffers.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm | _InstanceNorm)]
    tracking = [m for m in norms if m.training and m.track_running_stats]
    kept = [(m, m.running_mean, m.running_var, m.num_batches_tracked) for m in tracking]
    for module in tracking:
        module.running_mean = module.running_var = module.num_batches_tracked = None
    try:
        yield
    finally:
        for module, mean, variance, batches in kept:
            module.running_mean, module.running_var, module.num_batches_tracked = mean, variance, batches
