"""What takes the steps, and the learning rate that fits it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..distributed import local, match_strides
from ..settings import Depends, Settings, one_of

optimizers = one_of("sgd", "adam", "adamw")
_SMALLER = 50  # times, a learning rate that does for Adam what one for SGD with momentum does: results/README.md


def rate(sgd: float) -> Depends:
    """Return a default learning rate: the one for SGD, and one that fits Adam.

    >>> print(rate(0.1))
    0.1 (adam, adamw: 0.002)
    """
    return Depends("optimizer", sgd, dict.fromkeys(("adam", "adamw"), sgd / _SMALLER))


def choose_optimizer(method: type[Settings], optimizer: str) -> dict[str, Any]:
    """Return the setting by which a method takes this optimizer, unless it has none, or its own by default."""
    own = next((row["default"] for row in method.described() if row["name"] == "optimizer"), None)
    return {"optimizer": optimizer} if own == "sgd" else {}


class Optimizer:
    """Stochastic gradient descent, which the paper uses for classifiers, Adam, which it uses for diffusion, or AdamW.

    Momentum is the first beta of Adam.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        beta2: float = 0.999,
        kind: str = "sgd",
    ) -> None:
        self._weights = [local(p) for p in parameters]
        make: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
        more: dict[str, Any] = {"momentum": momentum}
        if kind != "sgd":
            make = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
            more = {"betas": (momentum, beta2)}
        self._optimizer = make(self._weights, lr=lr, weight_decay=weight_decay, fused=True, **more)

    def step(self, gradient: list[Tensor], lr: float) -> None:
        """Change the weights, in place, and use the gradient up."""
        self._optimizer.param_groups[0]["lr"] = lr
        for weight, slope in zip(self._weights, gradient, strict=True):
            weight.grad = match_strides(slope, weight)
        gradient.clear()
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of each weight, by the number of the weight."""
        known = ((i, self._optimizer.state[weight]) for i, weight in enumerate(self._weights))
        return {f"{i}.{name}": value for i, named in known for name, value in named.items() if value is not None}

    def load_state_dict(self, kept: Mapping[str, Tensor]) -> None:
        """Load what `state_dict` returned, in place."""
        for key, value in kept.items():
            i, _, name = key.partition(".")
            weight = self._weights[int(i)]
            if value.shape == weight.shape:  # and not a count of the steps
                value = torch.empty_like(weight).copy_(value)
            self._optimizer.state[weight][name] = value.to(weight.device)
