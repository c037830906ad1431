"""Boundary unlearning: shrink (BS) and expand (BE), both of one paper."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data.problem import Log, Problem, ignore, on_device
from ..data.records import Batch
from ..distributed import full, local, local_state, shard_of
from ..errors import ModelError
from ..randomness import seeded
from ..settings import at_least_one, below_one, count, non_negative, positive, setting
from .descent import descend
from .method import Method
from .modes import evaluating
from .parameters import trainable


@dataclass(frozen=True, kw_only=True)
class BoundaryShrink(Method):
    """Teaches each forgotten record the wrong class that is nearest to it, found by an adversarial step."""

    paper: ClassVar[str] = "Chen et al., CVPR 2023"
    copies: ClassVar[int] = 4

    fgsm: float = setting(0.1, positive, "size of the adversarial step, in units of the input")
    epochs: int = setting(10, count, "passes over the forget data")
    lr: float = setting(1e-5, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        original = {name: value.clone() for name, value in local_state(model).items()}

        def objective(batch: Batch, epoch: int) -> Tensor:
            with exchanged(model, original):
                labels = nearest_wrong(model, problem, batch, self.fgsm)
            return problem.loss(model, (batch[0], labels))

        rest = {name: value for name, value in self.to_dict().items() if name != "fgsm"}
        descend(model, problem, problem.forget, phase="shrink", objective=objective, log=log, **rest)


@dataclass(frozen=True, kw_only=True)
class BoundaryExpand(Method):
    """Teaches the forgotten records a class that does not exist, then cuts that class off again."""

    paper: ClassVar[str] = "Chen et al., CVPR 2023"

    epochs: int = setting(10, count, "passes over the forget data")
    lr: float = setting(1e-5, positive, "learning rate")
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        trainable(model)
        parent, name, head = head_of(model, problem.forget.records.fetch(problem.forget.ids[:1])[0])
        wide = widened(head, problem.seed)

        def objective(batch: Batch, epoch: int) -> Tensor:
            return problem.loss(model, (batch[0], torch.full_like(batch[1], head.out_features)))

        setattr(parent, name, wide)
        try:
            descend(model, problem, problem.forget, phase="expand", objective=objective, log=log, **self.to_dict())
        finally:
            setattr(parent, name, head)
        with torch.no_grad():
            local(head.weight).copy_(shard_of(wide.weight[:-1], head.weight))
            if head.bias is not None:
                local(head.bias).copy_(shard_of(wide.bias[:-1], head.bias))


@contextmanager
def exchanged(model: nn.Module, other: dict[str, Tensor]) -> Iterator[None]:
    """Gives the model the other values inside the block, in place, and its own again after it."""
    _exchange(model, other)
    try:
        yield
    finally:
        _exchange(model, other)


def _exchange(model: nn.Module, other: dict[str, Tensor]) -> None:
    for name, value in local_state(model).items():
        own = value.clone()
        value.copy_(other[name])
        other[name].copy_(own)


def nearest_wrong(model: nn.Module, problem: Problem, batch: Batch, size: float) -> Tensor:
    """For each record the class, not its own, that the model prefers after a step of the fast gradient sign method."""
    inputs, labels = batch
    images = inputs.dtype == torch.uint8
    inputs = (inputs / 255 if images else inputs).detach().clone().requires_grad_()
    with evaluating(model):
        (direction,) = torch.autograd.grad(problem.loss(model, (inputs, labels)), inputs)
        with torch.no_grad():
            moved = inputs + size * direction.sign()
            scores: Tensor = model(on_device(model, moved.clamp(0, 1) if images else moved)).cpu()
    return scores.scatter(1, labels[:, None], -torch.inf).argmax(1)


def head_of(model: nn.Module, inputs: Tensor) -> tuple[nn.Module, str, nn.Linear]:
    """The linear layer whose output is the model's output, the module that holds it, and its name there."""
    outputs: dict[nn.Module, Tensor] = {}
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [m.register_forward_hook(lambda module, _, out: outputs.update({module: out})) for m in linear]
    try:
        with evaluating(model), torch.no_grad():
            scores = model(on_device(model, inputs))
    finally:
        for hook in hooks:
            hook.remove()
    for parent in model.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear) and outputs.get(child) is scores:
                return parent, name, child
    raise ModelError("BoundaryExpand needs a model that ends in a linear layer with one output per class.")


def widened(head: nn.Linear, seed: int) -> nn.Linear:
    """The layer with one more output, drawn anew; the others as they were."""
    with seeded(seed, "shadow class"):
        wide = nn.Linear(head.in_features, head.out_features + 1, bias=head.bias is not None)
    wide = wide.to(head.weight.device, head.weight.dtype)
    with torch.no_grad():
        wide.weight[:-1].copy_(full(head.weight))
        if head.bias is not None:
            wide.bias[:-1].copy_(full(head.bias))
            wide.bias.requires_grad_(head.bias.requires_grad)
    wide.weight.requires_grad_(head.weight.requires_grad)
    return wide
