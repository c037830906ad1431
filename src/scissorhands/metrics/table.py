"""The table of the metrics: to add one, write its function, and its row here; the docs follow."""

from collections.abc import Callable

from .accuracy import accuracy, epochs_until
from .attacks import ATTACKS, REFERENCE_ATTACKS
from .drawn import DRAWN
from .likeness import agreement, jensen_shannon
from .metric import ANY, LIKE_RETRAINED, NUMBERS, Metric
from .outputs import Observations
from .regression import ERRORS, mae


def _accuracy_on(part: str) -> Callable[[Observations], float]:
    return lambda observed: accuracy(observed[part].logits, observed[part].labels)


_ACCURACIES: dict[str, Metric] = {
    "forget_accuracy": Metric(
        "Acc forget",
        LIKE_RETRAINED,
        "accuracy on the forgotten records",
        "about its accuracy on unseen data; 0 for a class that it never saw",
        "0 is not the aim: a model that gets every forgotten record wrong gives them away",
        ("forget",),
        _accuracy_on("forget"),
    ),
    "retain_accuracy": Metric(
        "Acc retain",
        LIKE_RETRAINED,
        "accuracy on the training data that was kept",
        "about what the original has",
        "it can be kept by learning by heart, while the model gets worse on new data",
        ("retain",),
        _accuracy_on("retain"),
    ),
    "audit_accuracy": Metric(
        "Acc audit",
        "higher",
        "accuracy on records that neither training nor the method saw, without classes that are forgotten whole",
        "about what the original has",
        "half of what was held out, or set aside from the test data: the other half is for calibration",
        ("audit",),
        _accuracy_on("audit"),
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
}

_LIKENESS: dict[str, Metric] = {
    "jsd_forget": Metric(
        "JSD forget",
        "lower",
        "Jensen-Shannon divergence to the retrained model on the forgotten records, in bits",
        "what two retrained models of different seeds have between them, not 0",
        "says how different, not in which direction; a seed alone makes a difference",
        ("forget", "retrained"),
        lambda observed: jensen_shannon(observed["forget"].logits, observed["retrained"]["forget"].logits),
        digits=3,
    ),
    "jsd_test": Metric(
        "JSD test",
        "lower",
        "the same on the test data",
        "what two retrained models of different seeds have between them, not 0",
        "as above",
        ("test", "retrained"),
        lambda observed: jensen_shannon(observed["test"].logits, observed["retrained"]["test"].logits),
        digits=3,
    ),
    "agreement_forget": Metric(
        "Agree forget",
        "higher",
        "forgotten records to which the retrained model gives the same label",
        "what two retrained models of different seeds have between them, not 100 %",
        "both may be right for different reasons",
        ("forget", "retrained"),
        lambda observed: agreement(observed["forget"].logits, observed["retrained"]["forget"].logits),
    ),
    "agreement_test": Metric(
        "Agree test",
        "higher",
        "the same on the test data",
        "what two retrained models of different seeds have between them, not 100 %",
        "as above",
        ("test", "retrained"),
        lambda observed: agreement(observed["test"].logits, observed["retrained"]["test"].logits),
    ),
}


def _difference(part: str, records: str) -> Metric:
    return Metric(
        f"Difference {part}",
        "lower",
        f"mean distance between what this and the retrained model predict for {records}, in the unit of the labels",
        "what two retrained models of different seeds have between them, not 0",
        "says how different, not in which direction; a seed alone makes a difference",
        (part, "retrained"),
        lambda observed: mae(observed[part].logits, observed["retrained"][part].logits[:, 0]),
        labels=NUMBERS,
    )


_DIFFERENCES = {
    "difference_forget": _difference("forget", "the forgotten records"),
    "difference_test": _difference("test", "the test data"),
}

_PROBES: dict[str, Metric] = {
    "probe": Metric(
        "Probe",
        LIKE_RETRAINED,
        "accuracy on the forgotten records of a linear classifier that is fitted to the model's last features, on "
        "retained records and a few forgotten ones of each class",
        "for random records about its accuracy on unseen data; for a class clearly less than the original, not 0",
        "good features serve also classes that were never shown: compare with a retrained model, not with 0. In a "
        "large, hard class a few shots find nothing in any model: raise `shots`",
        ("probe",),
        lambda observed: 100 * observed["probe"].double().mean().item(),
        "standard",
    ),
    "reawakened": Metric(
        "Reawakened",
        LIKE_RETRAINED,
        "accuracy on the forgotten records after a short training on retained data alone",
        "what it had before",
        "on random records a better model knows more of them, too; compare with a retrained model",
        ("reawakened",),
        lambda observed: accuracy(observed["reawakened"].logits, observed["reawakened"].labels),
        "standard",
    ),
    "reawakened_mae": Metric(
        "Reawakened MAE",
        LIKE_RETRAINED,
        "mean absolute error on the forgotten records after a short training on retained data alone, in their unit",
        "what it had before",
        "on random records a better model knows more of them, too; compare with a retrained model",
        ("reawakened",),
        lambda observed: mae(observed["reawakened"].logits, observed["reawakened"].labels),
        "standard",
        labels=NUMBERS,
    ),
    "few_shot": Metric(
        "Few-shot",
        LIKE_RETRAINED,
        "accuracy on the other forgotten records after a short training on a few of each class",
        "less than the original for a class; for random records about its accuracy on unseen data",
        "depends on which few records are shown; compare within one table only",
        ("few_shot",),
        lambda observed: accuracy(observed["few_shot"].logits, observed["few_shot"].labels),
        "standard",
    ),
    "relearn_epochs": Metric(
        "Relearn epochs",
        LIKE_RETRAINED,
        "passes over the forgotten records, at learning rate 0.001, until the original's accuracy, or MAE, is back",
        "many; it never saw them",
        "it says how far the weights have to go, not only what they hold; '>' means that it was stopped",
        ("relearning",),
        lambda observed: epochs_until(observed["relearning"], observed["original_accuracy"]),
        "standard",
        0,
        ANY,
    ),
}

_COSTS: dict[str, Metric] = {
    "avg_gap": Metric(
        "Avg. Gap",
        "lower",
        "mean distance to the retrained model in Acc forget, Acc retain, Acc test and MIA or, where numbers are "
        "predicted, in MAE forget, MAE retain and MAE test, in the unit of the labels; the mean of the runs' gaps",
        "0 by definition; another seed of it has the noise floor",
        "below the noise floor it says nothing; MIA can dominate it",
        labels=ANY,
    ),
    "gap_of_means": Metric(
        "Gap of means",
        "lower",
        "the same distance between the means over all runs, which is what the paper's tables call Avg. Gap",
        "0 by definition",
        "it is never larger than Avg. Gap: runs that miss on both sides cancel",
        labels=ANY,
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
        "what it cost to choose the settings, as a multiple of retraining: as measured, or else tried runs times RTE",
        "0; it repeats the original's training",
        "counts the runs of the stated search only",
        digits=1,
    ),
    "rte_tuned": Metric(
        "RTE with tuning",
        "lower",
        "the same with the choice of settings: RTE and tuning together",
        "1",
        "settings that were chosen once may serve many deletions",
        digits=2,
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

# In the order in which tables show them.
METRICS: dict[str, Metric] = {
    **_ACCURACIES,
    **ERRORS,
    **ATTACKS,
    **_LIKENESS,
    **_DIFFERENCES,
    **_PROBES,
    **REFERENCE_ATTACKS,
    **DRAWN,
    **_COSTS,
}
