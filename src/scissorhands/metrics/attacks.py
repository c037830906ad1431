"""The rows of the attacks: can forgotten records be told from records that were never trained on?"""

from collections.abc import Callable

import torch
from torch import Tensor

from .metric import ANY, LIKE_RETRAINED, NUMBERS, Metric
from .mia import (
    called_non_members,
    confidence,
    correctness,
    entropy,
    modified_entropy,
    probability,
    published_entropy,
)
from .outputs import Observations
from .perrecord import likelihood_ratio, normal_score, rmia, sureness
from .regression import called_unseen
from .separation import auc, tpr_at_fpr

_PARTS = ("retain", "test", "forget")
_POPULATION = "one attacker for all records: it overestimates privacy, and a collapsed model can look perfect"


def _svc(title: str, feature: Callable[[Tensor, Tensor], Tensor], looks_at: str, misleads: str = _POPULATION) -> Metric:
    return Metric(
        title,
        LIKE_RETRAINED,
        f"share of forgotten records that a support vector classifier on {looks_at} takes for never trained on",
        "as much as on unseen data, often far from 100 %",
        misleads,
        _PARTS,
        _attack_on(feature),
    )


def _attack_on(feature: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Observations], float]:
    def attack(observed: Observations) -> float:
        known = (feature(observed[part].logits, observed[part].labels) for part in ("retain", "test", "forget"))
        return called_non_members(*known)

    return attack


def _threshold(observed: Observations) -> float:
    return called_unseen(*(-sureness(observed[part]) for part in _PARTS))


def _rmia_ratios(observed: Observations) -> tuple[Tensor, Tensor]:
    forget, others = (
        rmia(sureness(observed[part]).sigmoid(), _stacked(observed, part).sigmoid()) for part in ("forget", "others")
    )
    return forget, others


def _surer(observed: Observations) -> tuple[Tensor, Tensor]:
    """Return by how much surer the model is of forgotten and of other records than reference models are."""
    forget, others = (sureness(observed[part]) - _stacked(observed, part).mean(0) for part in ("forget", "others"))
    return forget, others


def _stacked(observed: Observations, part: str) -> Tensor:
    return torch.stack([sureness(one[part]) for one in observed["references"]])


def _likelihood_ratios(observed: Observations) -> tuple[Tensor, Tensor]:
    scores = torch.cat([normal_score(observed["forget"]), normal_score(observed["others"])])
    found = likelihood_ratio(scores, observed["shadows"], observed["shadows_trained"])
    return found[: len(observed["forget"])], found[len(observed["forget"]) :]


ATTACKS: dict[str, Metric] = {
    "mia": _svc("MIA", confidence, "the probability of the true label (the paper's MIA)"),
    "mia_correctness": _svc("MIA correctness", correctness, "whether the model is right"),
    "mia_entropy": _svc("MIA entropy", entropy, "the entropy of the probabilities"),
    "mia_modified_entropy": _svc("MIA modified entropy", modified_entropy, "the modified entropy of Song and Mittal"),
    "mia_published_entropy": _svc(
        "MIA published entropy",
        published_entropy,
        "what the published code computes in place of modified entropy",
        "it does not look at a record's own label; only for comparison with published tables",
    ),
    "mia_probability": _svc("MIA probability", probability, "the probabilities of all classes"),
    "mia_threshold": Metric(
        "MIA threshold",
        LIKE_RETRAINED,
        "share of forgotten records whose absolute error is above the threshold that best divides retained from test "
        "records, so that an attacker takes them for never trained on (Yeom et al., 2018)",
        "as much as on unseen data",
        "one threshold for all records; where no error is learned by heart it is arbitrary, and the share says nothing",
        _PARTS,
        _threshold,
        labels=NUMBERS,
    ),
    "auc": Metric(
        "AUC",
        "0.5",
        "chance that the loss of a forgotten record is lower than that of a record never trained on",
        "0.5; above is under-forgotten, below is over-forgotten",
        "blind to a memory of few records, and to a model that treats all records alike because it is broken",
        ("forget", "others"),
        lambda observed: auc(sureness(observed["forget"]), sureness(observed["others"])),
        digits=3,
        labels=ANY,
    ),
    "tpr_1": Metric(
        "TPR at 1 %",
        "1",
        "forgotten records found by an attacker who accepts that 1 % of unseen records are found too",
        "1 %",
        "with a few hundred unseen records it rests on the two or three that look most familiar",
        ("forget", "others"),
        lambda observed: tpr_at_fpr(sureness(observed["forget"]), sureness(observed["others"]), 0.01),
        labels=ANY,
    ),
    "tpr_01": Metric(
        "TPR at 0.1 %",
        "0.1",
        "the same at 0.1 %",
        "0.1 %",
        "needs 1,000 unseen records at least, and is steady with 10,000",
        ("forget", "others"),
        lambda observed: tpr_at_fpr(sureness(observed["forget"]), sureness(observed["others"]), 0.001),
        labels=ANY,
    ),
}


REFERENCE_ATTACKS: dict[str, Metric] = {
    "rmia_auc": Metric(
        "RMIA AUC",
        "0.5",
        "as AUC, for an attack that knows from reference models how hard each record is (Zarifzadeh et al., 2024)",
        "0.5",
        "reference models trained on half the data are weaker than the model, which blunts the attack; of a class that "
        "is gone they know nothing, so there it equals AUC",
        ("forget", "others", "references"),
        lambda observed: auc(*_rmia_ratios(observed)),
        "standard",
        3,
    ),
    "rmia_tpr_1": Metric(
        "RMIA TPR at 1 %",
        "1",
        "forgotten records that this attack finds when it accepts 1 % of unseen ones",
        "1 %",
        "with a few hundred unseen records it rests on two or three of them",
        ("forget", "others", "references"),
        lambda observed: tpr_at_fpr(*_rmia_ratios(observed), 0.01),
        "standard",
    ),
    "calibrated_auc": Metric(
        "Calibrated AUC",
        "0.5",
        "as AUC, of how much smaller the error of a record is than that of reference models (Watson et al., 2022)",
        "0.5",
        "reference models trained on half the data are weaker than the model, which blunts the attack",
        ("forget", "others", "references"),
        lambda observed: auc(*_surer(observed)),
        "standard",
        3,
        NUMBERS,
    ),
    "ulira_auc": Metric(
        "U-LiRA AUC",
        "0.5",
        "as AUC, for an attack that runs the same method on shadow models, and so knows of each record how it looks "
        "forgotten and never seen (Hayes et al., 2024)",
        "0.5",
        "with fewer than some 64 shadow models it is weak; it attacks a method with these settings, on this data",
        ("forget", "others", "shadows"),
        lambda observed: auc(*_likelihood_ratios(observed)),
        "deep",
        3,
        ANY,
    ),
    "ulira_tpr_1": Metric(
        "U-LiRA TPR at 1 %",
        "1",
        "forgotten records that this attack finds when it accepts 1 % of unseen ones",
        "1 %",
        "as above, and it rests on few records",
        ("forget", "others", "shadows"),
        lambda observed: tpr_at_fpr(*_likelihood_ratios(observed), 0.01),
        "deep",
        labels=ANY,
    ),
}
