"""Training many small models of one architecture at once, for attacks that need reference models."""

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from .distributed import sharded
from .errors import ModelError, SettingError
from .modes import able_to_train
from .problem import Log, Loss, Problem, ignore, trainable
from .randomness import seeded
from .records import Batch
from .train import Training, finite, optimiser, scheduled

_SMALL = 100_000  # parameters


def fit_together(
    models: Sequence[nn.Module], problems: Sequence[Problem], training: Training, log: Log = ignore
) -> None:
    """Trains the models at once, in place, each on the retained part of its own problem, as `training.fit` would.

    The weights and statistics are those of training one by one, up to rounding. Only what draws from PyTorch's global
    random numbers, as dropout does, draws others: they are independent between the models and repeatable, but not the
    same as alone. The logged loss is the mean over the models. Where the training fails, no model has changed.
    """
    _refuse_unlike(models, problems)
    if not models:
        return
    stack = _Stack(models, problems[0].loss)
    _descend(stack, problems, training, log)
    stack.write_back()


def pays(model: nn.Module) -> bool:
    """Whether many such models train faster at once than one by one, as benchmarks/ensemble.py shows it on a CPU.

    A rule and not a measurement, so that the same seed gives the same model: small models without convolutions, which
    are slower stacked, and without dropout, which draws other numbers when stacked.
    """
    unfit = any(isinstance(module, _ConvNd | _DropoutNd) for module in model.modules())
    return not unfit and not sharded(model) and sum(p.numel() for p in model.parameters()) <= _SMALL


class _Frame(nn.Module):
    """A model in a module whose output is a loss of the model, since PyTorch swaps weights only for a module's call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss: Loss, batch: Batch) -> Tensor:
        """The loss of the model on the batch."""
        return loss(self.model, batch)


class _Stack:
    """Copies of the parameters and buffers of many models, each stacked along a new first dimension."""

    def __init__(self, models: Sequence[nn.Module], loss: Loss) -> None:
        self.loss = loss
        self.frames = [_Frame(model) for model in models]
        self.parameters, self.buffers = stack_module_state(self.frames)
        self.trainable = [self.parameters[name] for name in trainable(self.frames[0])]
        # A copy computes, so that nothing that a layer may keep of stacked numbers stays behind in a model.
        self.shell = _Frame(copy.deepcopy(models[0])).train()
        self.places = _places(self.shell)

    def losses(self, batches: Sequence[Batch]) -> Tensor:
        """The loss of every model on its batch; the statistics of the models move on as in training."""
        inputs, labels = (torch.stack(tensors) for tensors in zip(*batches, strict=True))
        try:
            with able_to_train(self.shell, batches[0]):
                each = vmap(self._loss, randomness="different")
                losses, self.buffers = each(self.parameters, self.buffers, (inputs, labels))
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"these models cannot be trained together; train them one by one. {error}") from error
        return losses

    def _loss(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], batch: Batch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of one model, and its buffers after it, which a module may have replaced and not only edited."""
        state = {**parameters, **buffers}
        placed = {place: state[name] for place, name in self.places.items()}
        loss = functional_call(self.shell, placed, (self.loss, batch), tie_weights=False)
        return loss, {name: placed[name].detach() for name in buffers}

    @torch.no_grad()
    def write_back(self) -> None:
        """Copies the stacked values into the models, in place."""
        state = {**self.parameters, **self.buffers}
        for index, frame in enumerate(self.frames):
            for name, tensor in chain(frame.named_parameters(), frame.named_buffers()):
                tensor.copy_(state[name][index])


def _places(module: nn.Module) -> dict[str, str]:
    """Every place in the module that holds a tensor, and the first that holds the same one, by whose name it goes.

    PyTorch can find these ties itself, but does not put a tensor back into a layer that has two names.

    >>> pair = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    >>> pair[1].weight = pair[0].weight
    >>> _places(pair)
    {'0.weight': '0.weight', '1.weight': '0.weight'}
    """
    first: dict[int, str] = {}
    places: dict[str, str] = {}
    for prefix, part in module.named_modules():
        kinds = part.named_parameters, part.named_buffers
        own = chain.from_iterable(named(prefix, recurse=False, remove_duplicate=False) for named in kinds)
        places |= {place: first.setdefault(id(tensor), place) for place, tensor in own}
    return places


def _descend(stack: _Stack, problems: Sequence[Problem], training: Training, log: Log) -> None:
    """Trains the stack, in place: `train.descend` with a batch for every model in each step."""
    step = optimiser(stack.trainable, lr=training.lr, momentum=training.momentum, weight_decay=training.weight_decay)
    size, epochs, done = training.batch_size, training.epochs, 0
    steps = epochs * problems[0].steps(problems[0].retain, size)
    for epoch in range(epochs):
        step.param_groups[0]["lr"] = scheduled(training.lr, training.schedule, epoch, epochs)
        passes = [problem.batches(problem.retain, size, "train", epoch, 0) for problem in problems]
        with seeded(problems[0].seed, "train", epoch):
            for batches in zip(*passes, strict=True):
                losses = stack.losses(batches)
                losses.sum().backward()
                step.step()
                step.zero_grad()
                done += 1
                loss = finite(losses.mean())
                log({"phase": "train", "epoch": epoch, "step": done, "steps": steps, "loss": loss})


def _refuse_unlike(models: Sequence[nn.Module], problems: Sequence[Problem]) -> None:
    """Refuses models and problems that cannot be stacked."""
    if len(models) != len(problems):
        raise SettingError(f"{len(models)} models need as many problems, not {len(problems)}.")
    sizes = sorted({len(problem.retain) for problem in problems})
    if len(sizes) > 1:
        raise SettingError(
            f"models train together on parts of one size, and here the smallest retained part has {sizes[0]} records, "
            f"the largest {sizes[-1]}. Make them equal, or train one by one."
        )
    if any(problem.loss != problems[0].loss for problem in problems):
        raise SettingError("models train together on one loss, and these problems have several.")
    if any(_architecture(model) != _architecture(models[0]) for model in models):
        raise ModelError("models train together if they have the same layers, shapes and frozen parameters.")


def _architecture(model: nn.Module) -> list[Any]:
    """What must be the same in two models for one to compute with the stacked weights of both."""
    tensors = chain(model.named_parameters(), model.named_buffers())
    described = [(name, x.shape, x.dtype, x.device, x.requires_grad) for name, x in tensors]
    return [*map(type, model.modules()), *described]
