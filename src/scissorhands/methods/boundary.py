"""Boundary unlearning: shrink (BS) and expand (BE), both of one paper."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import (
    Batch,
    Descent,
    Log,
    Method,
    ModelError,
    Problem,
    at_least_one,
    below_one,
    count,
    evaluating,
    head_of,
    ignore,
    narrow,
    non_negative,
    on_device,
    one_of,
    optimizers,
    positive,
    rate,
    setting,
    snapshot,
    swapped,
    trainable,
    widened,
)


@dataclass(frozen=True, kw_only=True)
class BoundaryShrink(Method):
    """Teaches each forgotten record the wrong class that is nearest to it, found by an adversarial step.

    The paper asks for the nearest but incorrect class. Its code, and the code behind the rows of the Scissorhands
    paper, take the plain argmax, so a record that withstands the step is taught its own class again.
    """

    paper: ClassVar[str] = "Chen et al., CVPR 2023"
    needs_classes: ClassVar[bool] = True
    copies: ClassVar[int] = 4

    fgsm: float = setting(0.1, positive, "size of the adversarial step, in units of the input", search=10)
    nearest: str = setting("wrong", one_of("wrong", "argmax"), "best wrong class after the step, or best class of all")
    epochs: int = setting(10, count, "passes over the forget data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(1e-5), positive, "learning rate", search=3000)
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        original = snapshot(model)
        descent = Descent(model, problem, self, "shrink", log)
        for _ in descent.epochs(self.epochs):
            for batch in descent.batches(problem.forget):
                with swapped(model, original):
                    labels = self.nearest_class(model, problem, batch)
                descent.step(descent.gradient(replace(batch, labels=labels)))

    def nearest_class(self, model: nn.Module, problem: Problem, batch: Batch) -> Tensor:
        """Return for each record the class that the model prefers after a step of the fast gradient sign method."""
        if not isinstance(batch.inputs, Tensor):
            raise ModelError("BoundaryShrink moves an input by its gradient, and these inputs are several, by name.")
        images = batch.inputs.dtype == torch.uint8
        inputs = (batch.inputs / 255 if images else batch.inputs).detach().clone().requires_grad_()
        with evaluating(model):
            (direction,) = torch.autograd.grad(problem.loss(model, replace(batch, inputs=inputs)), inputs)
            with torch.no_grad():
                moved = inputs + self.fgsm * direction.sign()
                scores: Tensor = model(on_device(model, moved.clamp(0, 1) if images else moved)).cpu()
        if self.nearest == "wrong":
            scores = scores.scatter(1, batch.labels[:, None], -torch.inf)
        return scores.argmax(1)


@dataclass(frozen=True, kw_only=True)
class BoundaryExpand(Method):
    """Teaches the forgotten records a class that does not exist, then cuts that class off again.

    The code behind the rows of the Scissorhands paper never cuts it: it evaluates a model with one more output, so its
    rows cannot be compared with these. The method's own paper and code cut it, and a model here keeps its shape.
    """

    paper: ClassVar[str] = "Chen et al., CVPR 2023"
    needs_classes: ClassVar[bool] = True

    epochs: int = setting(10, count, "passes over the forget data")
    optimizer: str = setting("sgd", optimizers, "what takes the steps; for a run, what trained its model")
    lr: float = setting(rate(1e-5), positive, "learning rate", search=3000)
    batch_size: int = setting(256, at_least_one, "records in a step")
    momentum: float = setting(0.9, below_one, "momentum of the gradient, or beta1 of Adam")
    weight_decay: float = setting(5e-4, non_negative, "pull of every weight towards zero")

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        trainable(model)
        parent, name, head = head_of(model, problem.forget.records.fetch(problem.forget.ids[:1])[0])
        wide = widened(head, problem.seed)
        setattr(parent, name, wide)
        try:
            descent = Descent(model, problem, self, "expand", log)
            for _ in descent.epochs(self.epochs):
                for batch in descent.batches(problem.forget):
                    shadow = torch.full_like(batch.labels, head.out_features)
                    descent.step(descent.gradient(replace(batch, labels=shadow)))
        finally:
            setattr(parent, name, head)
        narrow(wide, head)
