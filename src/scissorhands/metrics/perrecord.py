"""Attacks that know how hard each record is, from models that were not trained on it. Higher: more like a member."""

import torch
from torch import Tensor

from .outputs import Outputs

_OFFLINE = 0.3  # a of RMIA's offline form


def scaled_logit(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log p/(1 − p) of the true label's probability p: nearly normal over models, as in LiRA.

    >>> scaled_logit(torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.tensor([1, 0]))
    tensor([0., 3.], dtype=torch.float64)
    """
    logits = logits.double()
    truth = labels[:, None]
    return (logits.gather(1, truth) - logits.scatter(1, truth, -torch.inf).logsumexp(1, keepdim=True))[:, 0]


def errors(said: Tensor, labels: Tensor) -> Tensor:
    """Return by how much each predicted number is above its label.

    >>> errors(torch.tensor([[2.0], [5.0]]), torch.tensor([3.0, 3.0]))
    tensor([-1.,  2.], dtype=torch.float64)
    """
    return said[:, 0].double() - labels.double()


def sureness(outputs: Outputs) -> Tensor:
    """Return how well a model knows each record: the scaled logit or, of a number to predict, minus its absolute error.

    >>> sureness(Outputs(torch.tensor([[2.0], [5.0]]), torch.tensor([3.0, 3.0])))
    tensor([-1., -2.], dtype=torch.float64)
    """
    if outputs.regression:
        return -errors(outputs.logits, outputs.labels).abs()
    return scaled_logit(outputs.logits, outputs.labels)


def normal_score(outputs: Outputs) -> Tensor:
    """Return a score of each record that is nearly normal over models: the scaled logit, or the error of a number."""
    return (errors if outputs.regression else scaled_logit)(outputs.logits, outputs.labels)


def rmia(confidence: Tensor, outside: Tensor) -> Tensor:
    """Return the likelihood ratio of RMIA (Zarifzadeh et al., 2024): p(x) under the model over p(x) in general.

    `confidence` is the model's probability of the true label, `outside` has a row of the same for each reference model,
    none of which saw the record. p(x) in general is ½((1 + a) · mean outside + 1 − a), as in the paper's offline form.
    RMIA then counts how many records of the population have a smaller ratio, which orders records as the ratio does.

    >>> rmia(torch.tensor([0.9, 0.9]), torch.tensor([[0.9, 0.1], [0.9, 0.3]])).round(decimals=2)
    tensor([0.9600, 1.8800])
    """
    return confidence / (((1 + _OFFLINE) * outside.mean(0) + 1 - _OFFLINE) / 2)


def likelihood_ratio(scores: Tensor, shadows: Tensor, trained: Tensor) -> Tensor:
    """Return the log-likelihood ratio of U-LiRA (Hayes et al., 2024): trained on and forgotten, over never seen.

    `scores` is the model's scaled_logit of each record; `shadows` has a row of the same for each shadow model, after it
    forgot, and `trained` says which records it had been trained on. Each record has its own two means; the spread is
    shared by all records, which is steadier with few shadows.

    >>> shadows = torch.tensor([[4.0], [6.0], [0.0], [2.0]])
    >>> trained = torch.tensor([[True], [True], [False], [False]])
    >>> [round(likelihood_ratio(torch.tensor([scores]), shadows, trained).item(), 3) for scores in (5.0, 3.0, 1.0)]
    [4.0, 0.0, -4.0]
    """
    if not (trained.any(0) & (~trained).any(0)).all():
        raise ValueError("some record is in all shadow models or in none: train more of them.")
    inside, outside = _fitted(shadows, trained), _fitted(shadows, ~trained)
    return _log_density(scores, *inside) - _log_density(scores, *outside)


def _fitted(values: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return each record's mean over the chosen rows, and the deviation around it over all records."""
    count = chosen.sum(0)
    mean = values.where(chosen, 0).sum(0) / count
    squares = ((values - mean) ** 2).where(chosen, 0).sum()
    return mean, (squares / (count - 1).clamp_min(0).sum().clamp_min(1)).sqrt().clamp_min(1e-6)


def _log_density(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    return -(((x - mean) / deviation) ** 2) / 2 - deviation.log()
