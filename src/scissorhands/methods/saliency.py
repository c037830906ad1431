"""How much each weight matters to the data that is to be forgotten, and which weights are the top share.

Every score here is a function of the model, the problem and the chosen parameters, and returns one non-negative
tensor per parameter, for the part of it that this process holds. The model is scored in evaluation mode, so scoring
changes nothing in it, but for `train_mode_saliency`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from .. import distributed
from ..data.problem import Problem
from ..data.records import Part
from ..distributed import all_reduce_sum_, exclusive_sum, local
from ..errors import ModelError
from ..randomness import generator, seeded
from .modes import eval_if_single_record, evaluating, training
from .projection import inner

Parameters = Mapping[str, nn.Parameter]
Scores = dict[str, Tensor]
Saliency = Callable[[nn.Module, Problem, Parameters, Part, int], Scores]


def gradients(loss: Tensor, parameters: Parameters) -> list[Tensor]:
    """Compute the gradient of the loss, zero for a parameter that it does not depend on."""
    return distributed.gradients(loss, list(parameters.values()))


def _zeros(parameters: Parameters) -> Scores:
    return {name: torch.zeros_like(local(p)) for name, p in parameters.items()}


def mean_gradient(model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int) -> Scores:
    """Compute the gradient of the mean loss over the whole part, in one pass."""
    sums = _zeros(parameters)
    with evaluating(model), seeded(problem.seed, "saliency"):
        for ids, batch in zip(part.ids.split(batch_size), part.batches(batch_size), strict=True):
            loss = problem.loss(model, batch)
            weight = len(ids) / len(part)
            torch._foreach_add_(list(sums.values()), gradients(loss, parameters), alpha=weight)
    return sums


def connection(model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int) -> Scores:
    """Compute connection sensitivity (equation 2): the absolute mean of gradient times weight."""
    mean = mean_gradient(model, problem, parameters, part, batch_size)
    return {name: mean[name].mul_(local(p).detach()).abs_() for name, p in parameters.items()}


def train_mode_saliency(
    model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int
) -> Scores:
    """Compute what the paper's published code does: the sum of the batches' absolute gradients, times the weight.

    Unlike every other score, it augments the batches and passes them through the model in training mode, so they enter
    the running statistics of batch normalization.
    """
    sums = _zeros(parameters)
    with training(model), seeded(problem.seed, "saliency"):
        for batch in problem.batches(part, batch_size, "saliency"):
            with eval_if_single_record(model, batch):
                found = gradients(problem.loss(model, batch), parameters)
            torch._foreach_add_(list(sums.values()), [g.abs() for g in found])
    return {name: sums[name].mul_(local(p).detach()).abs_() for name, p in parameters.items()}


def gradient_saliency(
    model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int
) -> Scores:
    """Compute the absolute value of the mean gradient."""
    mean = mean_gradient(model, problem, parameters, part, batch_size)
    return {name: g.abs_() for name, g in mean.items()}


def fisher(model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int) -> Scores:
    """Compute the diagonal of the empirical Fisher information: the mean over records of the squared gradient."""
    sums = _zeros(parameters)
    with evaluating(model), seeded(problem.seed, "saliency"):
        for batch in part.batches(1):
            found = gradients(problem.loss(model, batch), parameters)
            torch._foreach_addcmul_(list(sums.values()), found, found, value=1 / len(part))
    return sums


def fisher_times(
    model: nn.Module, problem: Problem, parameters: Parameters, part: Part, vector: Sequence[Tensor], damping: float
) -> list[Tensor]:
    """Multiply the damped empirical Fisher matrix of the part with a vector, one record's gradient at a time."""
    product = [damping * v for v in vector]
    with evaluating(model):
        for record in part.batches(1):
            g = gradients(problem.loss(model, record), parameters)
            torch._foreach_add_(product, g, alpha=inner(g, vector).item() / len(part))
    return product


def magnitude(model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int) -> Scores:
    """Return the absolute value of each weight, whatever the data."""
    return {name: local(p).detach().abs() for name, p in parameters.items()}


def random(model: nn.Module, problem: Problem, parameters: Parameters, part: Part, batch_size: int) -> Scores:
    """Draw random scores, which any other score must beat."""
    scores = {}
    for name, p in parameters.items():
        drawn = torch.rand(p.shape, generator=generator(problem.seed, "saliency", name))
        scores[name] = distributed.shard_of(drawn, p).to(local(p))
    return scores


SALIENCY: dict[str, Saliency] = {
    "connection": connection,
    "gradient": gradient_saliency,
    "fisher": fisher,
    "magnitude": magnitude,
    "random": random,
}


def top_share(scores: Mapping[str, Tensor], share: float) -> Iterator[tuple[str, Tensor]]:
    """Mark the largest `share` of all scores together, one mask at a time, in the order of the scores.

    Each process has its part of the scores, and gets the mask of that part.

    Exactly `round(share × how many)` are marked; among equal scores at the cut-off, the first ones.

    >>> dict(top_share({"a": torch.tensor([3.0, 1.0]), "b": torch.tensor([2.0, 0.0])}, 0.5))
    {'a': tensor([ True, False]), 'b': tensor([ True, False])}
    """
    wanted = round(share * exclusive_sum(sum(x.numel() for x in scores.values()))[1])
    dtype = torch.float64 if any(x.dtype == torch.float64 for x in scores.values()) else torch.float32
    bits, ties = _cut_off(list(scores.values()), wanted, dtype)
    for name, values in scores.items():
        order = _ordered(values, dtype)
        mask = order > bits
        if ties > 0:
            equal = (order == bits).nonzero()
            earlier, everywhere = exclusive_sum(len(equal))
            mask[tuple(equal[: max(0, ties - earlier)].T)] = True
            ties -= everywhere
        yield name, mask


def _ordered(scores: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bit patterns of non-negative floats, which sort as the floats do."""
    return scores.detach().to(dtype).view(torch.int32 if dtype == torch.float32 else torch.int64)


_CHUNK = 1 << 18  # how many scores are looked at together: few enough for a cache, so that counting needs little memory


def _cut_off(scores: list[Tensor], wanted: int, dtype: torch.dtype) -> tuple[int, int]:
    """Return the bit pattern of the `wanted`-th largest score, and how many scores equal to it are still wanted.

    Finds it 16 bits at a time, from the top: count how many scores have each value of the digit, walk down until
    enough are covered, go on with those that share the digit. Nothing is sorted or gathered, and no more is copied than
    the scores of a small model.
    """
    width = torch.finfo(dtype).bits
    if wanted == 0:
        return 2 ** (width - 1) - 1, 0  # above the pattern of every float
    if sum(x.numel() for x in scores) <= _CHUNK:
        scores = [torch.cat([x.reshape(-1) for x in scores])]
    prefix = 0
    for shift in range(width - 16, -1, -16):
        counts, odd = torch.zeros(1 << 16, dtype=torch.int64), False
        for chunk in (c for x in scores for c in x.reshape(-1).split(_CHUNK)):
            odd = odd or (shift == width - 16 and not bool((chunk >= 0).all()))
            order = _ordered(chunk, dtype)
            if shift < width - 16:
                order = order[(order >> (shift + 16)) == prefix]
            counts += torch.bincount((order >> shift) & 0xFFFF, minlength=1 << 16).cpu()
        if exclusive_sum(odd)[1]:
            raise ModelError("a saliency score is not a number: the loss on the forget data is not finite.")
        covered = all_reduce_sum_(counts).flip(0).cumsum(0)
        place = int(torch.searchsorted(covered, wanted))
        digit = (1 << 16) - 1 - place
        wanted -= int(covered[place - 1]) if place else 0
        prefix = (prefix << 16) | digit
    return prefix, wanted
