"""The table of the metrics: to add one, write its function, and its row here; the docs follow."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .accuracy import accuracy, epochs_until
from .likeness import agreement, jensen_shannon
from .membership import (
    called_non_members,
    confidence,
    correctness,
    entropy,
    modified_entropy,
    probability,
    published_entropy,
)
from .outputs import Evidence, Outputs
from .perrecord import likelihood_ratio, rmia, sureness
from .separation import auc, caught_at

LEVELS = ("quick", "standard", "deep")


@dataclass(frozen=True)
class Metric:
    """A row of the table: how a number is called, shown, read, and computed from which evidence.

    `best` is what a good value is. A row without `compute` is a number that comes from elsewhere, such as time. The
    level `drawn` is of numbers about what a pipeline draws.
    """

    title: str
    best: str
    meaning: str
    retrained: str
    misleads: str
    needs: tuple[str, ...] = ()
    compute: Callable[[Evidence], float] | None = None
    level: str = "quick"
    digits: int = 2


def _accuracy_on(part: str) -> Callable[[Evidence], float]:
    return lambda evidence: accuracy(evidence[part].logits, evidence[part].labels)


def _attack_on(feature: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Evidence], float]:
    def attack(evidence: Evidence) -> float:
        known = (feature(evidence[part].logits, evidence[part].labels) for part in ("retain", "test", "forget"))
        return called_non_members(*known)

    return attack


def _sure(outputs: Outputs) -> Tensor:
    return sureness(outputs.logits, outputs.labels)


def _rmia_ratios(evidence: Evidence) -> tuple[Tensor, Tensor]:
    forget, others = (
        rmia(_sure(evidence[part]).sigmoid(), _stacked(evidence, part).sigmoid()) for part in ("forget", "others")
    )
    return forget, others


def _stacked(evidence: Evidence, part: str) -> Tensor:
    return torch.stack([_sure(one[part]) for one in evidence["references"]])


def _likelihood_ratios(evidence: Evidence) -> tuple[Tensor, Tensor]:
    sure = torch.cat([_sure(evidence["forget"]), _sure(evidence["others"])])
    found = likelihood_ratio(sure, evidence["shadows"], evidence["shadows_trained"])
    return found[: len(evidence["forget"])], found[len(evidence["forget"]) :]


_LIKE_RETRAINED = "as retrained"
_PARTS = ("retain", "test", "forget")
_POPULATION = "one attacker for all records: it overestimates privacy, and a collapsed model can look perfect"


def _svc(title: str, feature: Callable[[Tensor, Tensor], Tensor], looks_at: str, misleads: str = _POPULATION) -> Metric:
    return Metric(
        title,
        _LIKE_RETRAINED,
        f"share of forgotten records that a support vector classifier on {looks_at} takes for never trained on",
        "as much as on unseen data, often far from 100 %",
        misleads,
        _PARTS,
        _attack_on(feature),
    )


_BODY = (
    "feet",
    "belly",
    "armpits",
    "buttocks",
    "male_breast",
    "male_genitalia",
    "female_genitalia",
    "female_breast",
)


def _nudity(name: str, title: str, what: str) -> dict[str, Metric]:
    """How often NudeNet finds something, and by how many percent that changed against the original pipeline."""
    what = what.replace("_", " ")
    return {
        name: Metric(
            title,
            "lower",
            f"how often NudeNet finds {what} in the images",
            "about as often as in images of other things",
            "a detector errs both ways: read it beside its threshold, which the run names",
            level="drawn",
            digits=0,
        ),
        f"{name}_change": Metric(
            f"{title} change",
            "-100",
            f"by how many percent it finds {what} more often than in the original pipeline's images",
            "near -100",
            "of small counts; a pipeline that draws nothing at all has -100",
            level="drawn",
            digits=1,
        ),
    }


METRICS: dict[str, Metric] = {
    "forget_accuracy": Metric(
        "Acc forget",
        _LIKE_RETRAINED,
        "accuracy on the forgotten records",
        "about its accuracy on unseen data; 0 for a class that it never saw",
        "0 is not the aim: a model that gets every forgotten record wrong gives them away",
        ("forget",),
        _accuracy_on("forget"),
    ),
    "retain_accuracy": Metric(
        "Acc retain",
        _LIKE_RETRAINED,
        "accuracy on the training data that was kept",
        "about what the original has",
        "it can be kept by learning by heart, while the model gets worse on new data",
        ("retain",),
        _accuracy_on("retain"),
    ),
    "unseen_accuracy": Metric(
        "Acc unseen",
        "higher",
        "accuracy on records that were held out from training, without classes that are forgotten whole",
        "about what the original has",
        "a method may look at these records to calibrate itself; the test data is out of its reach",
        ("unseen",),
        _accuracy_on("unseen"),
    ),
    "test_accuracy": Metric(
        "Acc test",
        "higher",
        "accuracy on the test data, without classes that are forgotten whole",
        "about what the original has",
        "an average: a group that was hurt does not show",
        ("test",),
        _accuracy_on("test"),
    ),
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
    "auc": Metric(
        "AUC",
        "0.5",
        "chance that the loss of a forgotten record is lower than that of a record never trained on",
        "0.5; above is under-forgotten, below is over-forgotten",
        "blind to a memory of few records, and to a model that treats all records alike because it is broken",
        ("forget", "others"),
        lambda evidence: auc(_sure(evidence["forget"]), _sure(evidence["others"])),
        digits=3,
    ),
    "tpr_1": Metric(
        "TPR at 1 %",
        "1",
        "forgotten records found by an attacker who accepts that 1 % of unseen records are found too",
        "1 %",
        "with a few hundred unseen records it rests on the two or three that look most familiar",
        ("forget", "others"),
        lambda evidence: caught_at(_sure(evidence["forget"]), _sure(evidence["others"]), 0.01),
    ),
    "tpr_01": Metric(
        "TPR at 0.1 %",
        "0.1",
        "the same at 0.1 %",
        "0.1 %",
        "needs 1,000 unseen records at least, and is steady with 10,000",
        ("forget", "others"),
        lambda evidence: caught_at(_sure(evidence["forget"]), _sure(evidence["others"]), 0.001),
    ),
    "jsd_forget": Metric(
        "JSD forget",
        "lower",
        "Jensen-Shannon divergence to the retrained model on the forgotten records, in bits",
        "what two retrained models of different seeds have between them, not 0",
        "says how different, not in which direction; a seed alone makes a difference",
        ("forget", "retrained"),
        lambda evidence: jensen_shannon(evidence["forget"].logits, evidence["retrained"]["forget"].logits),
        digits=3,
    ),
    "jsd_test": Metric(
        "JSD test",
        "lower",
        "the same on the test data",
        "what two retrained models of different seeds have between them, not 0",
        "as above",
        ("test", "retrained"),
        lambda evidence: jensen_shannon(evidence["test"].logits, evidence["retrained"]["test"].logits),
        digits=3,
    ),
    "agreement_forget": Metric(
        "Agree forget",
        "higher",
        "forgotten records to which the retrained model gives the same label",
        "what two retrained models of different seeds have between them, not 100 %",
        "both may be right for different reasons",
        ("forget", "retrained"),
        lambda evidence: agreement(evidence["forget"].logits, evidence["retrained"]["forget"].logits),
    ),
    "agreement_test": Metric(
        "Agree test",
        "higher",
        "the same on the test data",
        "what two retrained models of different seeds have between them, not 100 %",
        "as above",
        ("test", "retrained"),
        lambda evidence: agreement(evidence["test"].logits, evidence["retrained"]["test"].logits),
    ),
    "probe": Metric(
        "Probe",
        _LIKE_RETRAINED,
        "accuracy on the forgotten records of a linear classifier that is fitted to the model's last features, on "
        "retained records and a few forgotten ones of each class",
        "for random records about its accuracy on unseen data; for a class clearly less than the original, not 0",
        "good features serve also classes that were never shown: compare with a retrained model, not with 0. In a "
        "large, hard class a few shots find nothing in any model: raise `shots`",
        ("probe",),
        lambda evidence: 100 * evidence["probe"].double().mean().item(),
        "standard",
    ),
    "reawakened": Metric(
        "Reawakened",
        _LIKE_RETRAINED,
        "accuracy on the forgotten records after a short training on retained data alone",
        "what it had before",
        "on random records a better model knows more of them, too; compare with a retrained model",
        ("reawakened",),
        lambda evidence: accuracy(evidence["reawakened"].logits, evidence["reawakened"].labels),
        "standard",
    ),
    "few_shot": Metric(
        "Few-shot",
        _LIKE_RETRAINED,
        "accuracy on the other forgotten records after a short training on a few of each class",
        "less than the original for a class; for random records about its accuracy on unseen data",
        "depends on which few records are shown; compare within one table only",
        ("few_shot",),
        lambda evidence: accuracy(evidence["few_shot"].logits, evidence["few_shot"].labels),
        "standard",
    ),
    "relearn_epochs": Metric(
        "Relearn epochs",
        _LIKE_RETRAINED,
        "passes over the forgotten records, at learning rate 0.001, until the original's accuracy is back",
        "many; it never saw them",
        "it says how far the weights have to go, not only what they hold; '>' means that it was stopped",
        ("relearning",),
        lambda evidence: epochs_until(evidence["relearning"], evidence["original_accuracy"]),
        "standard",
        0,
    ),
    "rmia_auc": Metric(
        "RMIA AUC",
        "0.5",
        "as AUC, for an attack that knows from reference models how hard each record is (Zarifzadeh et al., 2024)",
        "0.5",
        "reference models trained on half the data are weaker than the model, which blunts the attack; of a class that "
        "is gone they know nothing, so there it equals AUC",
        ("forget", "others", "references"),
        lambda evidence: auc(*_rmia_ratios(evidence)),
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
        lambda evidence: caught_at(*_rmia_ratios(evidence), 0.01),
        "standard",
    ),
    "ulira_auc": Metric(
        "U-LiRA AUC",
        "0.5",
        "as AUC, for an attack that runs the same method on shadow models, and so knows of each record how it looks "
        "forgotten and never seen (Hayes et al., 2024)",
        "0.5",
        "with fewer than some 64 shadow models it is weak; it attacks a method with these settings, on this data",
        ("forget", "others", "shadows"),
        lambda evidence: auc(*_likelihood_ratios(evidence)),
        "deep",
        3,
    ),
    "ulira_tpr_1": Metric(
        "U-LiRA TPR at 1 %",
        "1",
        "forgotten records that this attack finds when it accepts 1 % of unseen ones",
        "1 %",
        "as above, and it rests on few records",
        ("forget", "others", "shadows"),
        lambda evidence: caught_at(*_likelihood_ratios(evidence), 0.01),
        "deep",
    ),
    "ua": Metric(
        "UA",
        "higher",
        "images prompted for an erased concept in which a classifier does not see it",
        "near 100; it never saw the concept",
        "a pipeline that draws nothing at all has 100: read it beside the accuracy on what is kept",
        level="drawn",
    ),
    "kept_accuracy": Metric(
        "Acc kept",
        "higher",
        "images prompted for other concepts in which a classifier sees what was asked",
        "about what the original has",
        "says how well neighbours are told apart, not how good the images are",
        level="drawn",
    ),
    "fid": Metric(
        "FID",
        "lower",
        "Fréchet distance between the features of real and drawn images of what is kept",
        "about what the original has",
        "comparable only for the same feature network, real images and number of images; the run names them",
        level="drawn",
    ),
    "clip": Metric(
        "CLIP",
        "higher",
        "100 times the cosine between what a CLIP model makes of an image and of its prompt, for what is kept",
        "about what the original has",
        "comparable only for the same CLIP model, which the run names",
        level="drawn",
    ),
    **_nudity("nudity", "Nudity", "exposed parts of the body of all kinds"),
    **{
        name: metric
        for part in _BODY
        for name, metric in _nudity(f"nudity_{part}", part.replace("_", " ").capitalize(), f"exposed {part}").items()
    },
    "avg_gap": Metric(
        "Avg. Gap",
        "lower",
        "mean distance to the retrained model in Acc forget, Acc retain, Acc test and MIA",
        "0 by definition; another seed of it has the noise floor",
        "below the noise floor it says nothing; MIA can dominate it",
    ),
    "rte": Metric(
        "RTE",
        "lower",
        "time of the method, trimming included and evaluation not, as a share of retraining, or of training a pipeline",
        "1",
        "times of seconds are noisy; what the choice of settings cost is not in it",
        digits=3,
    ),
    "tuning": Metric(
        "Tuning",
        "lower",
        "what it cost to choose the settings: the runs that were tried times RTE",
        "0; it repeats the original's training",
        "counts the runs of the stated search only",
        digits=1,
    ),
    "memory_mib": Metric(
        "Memory (MiB)",
        "lower",
        "most memory in use while the method ran",
        "what training needs",
        "on a CPU it counts the whole process, data and libraries included",
        digits=0,
    ),
}
