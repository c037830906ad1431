"""Generate pages of the docs from the code, so that the two cannot disagree.

python -m scissorhands.cli.docs docs      # writes the pages into the folder
"""

import sys
from pathlib import Path

from ..choices import LEVELS
from ..evaluation.context import Evaluation
from ..methods import choose_optimizer
from ..metrics import METRICS
from ..settings import Settings
from ..tasks import methods
from .describe import details, shown, summary


def methods_page() -> str:
    """Return every method with its settings, as Markdown."""
    lines = ["# Methods", "", "Made by `python -m scissorhands.cli.docs docs` from the lines that define the settings."]
    for name, kind in methods().items():
        lines += ["", f"## `{name}`", "", summary(kind), f"*{kind.paper}.*", ""]
        lines += [details(kind), ""] if details(kind) else []
        lines += [f"Needs {kind.needs}.", ""] if kind.needs else []
        more = "; with Adam, once more" if choose_optimizer(kind, "adam") else ""
        lines += [
            f"Takes at most {kind.copies} times the model's size in memory, besides the model and the batch{more}.",
            "",
        ]
        lines += _settings(kind)
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# Metrics

Made by `python -m scissorhands.cli.docs docs` from the table of metrics. Percentages, unless another unit is said.

`scissorhands evaluate RUN --level LEVEL` computes those of a level and of the levels below, and none twice. Before a
level above quick starts, it says what it will train and about how long that takes, measured on a few steps here; with
`--dry-run` it stops there. Reference models are kept in `$SCISSORHANDS_CACHE`, or in the user's cache folder, and are
found again by data, settings, first weights and code: all methods share them. Shadow models, which were trained on
records to forget, are removed when the command ends ([privacy.md](privacy.md)).

**Forgotten records are compared with others**, which were never trained on. For records that were drawn at random these
are the unseen ones; for records that were chosen, the unseen ones with the same labels; and where a class is forgotten
whole, its held-out and test records, since a retrained model knows none of them.

**A metric that fails is shown as failed, with its reason.** One that needs something that is not there, such as a
retrained model, is not shown.
"""

_VERDICT = """## The verdict

One of five, with its reason, from outputs that are stored with the run. It needs no retrained model, but records that
were never trained on, and a reference model that saw neither them nor the forgotten ones. Level standard trains some; a
retrained model that is given with `--against` takes their place.

- **damaged**: it is right about fewer retained, unseen or test records than the reference, by more than chance, another
  seed and 2 points explain. The reason names the parts, with both accuracies. A model that is damaged and under- or
  over-forgotten as well is called damaged, and the reason says both.
- **under-forgotten**: it knows a class that it should not, or a linear probe of its features finds what was forgotten;
  or forgotten records stand out as known, with an AUC above 0.5.
- **over-forgotten**: forgotten records stand out as avoided, with an AUC below 0.5.
- **indistinguishable within noise**: none of that, and the AUC is known to within 0.15.
- **cannot tell**: too few records, no reference model, or forgotten records that may differ in kind from the others.

The AUC is that of how much surer the model is of a record than the reference, among records that the reference finds
equally hard. All tests together err on about 1 in 100 models that have forgotten. That holds for all there is of a
class, and for records that were drawn at random where the unseen ones were, too, from the same table: training held
them out, or the test data is such a draw, as that of digits is. Python code can say so of its own data with
`scissorhands.data.foreign.Foreign(dataset, drawn_from="a name")`, the same name for training and test data. Forgotten
records that were chosen may differ in kind from the unseen ones, and test data may differ from training data; an AUC
between 0.4 and 0.6 is then no sign.

Accuracy is compared with that of the reference, not with that of the original. How far seeds differ is not known from
one reference: it is taken to be as much as another draw of 400 records would change the accuracy, which is 2.5 points
(one standard deviation) for a model that is right about half of the records, and less for a better one. Where several
references differ more than that, their own deviation is taken.

"Indistinguishable" means that these tests found nothing, which is less than that nothing is there:

- Where a model learned nothing by heart there is nothing to find, and the original is called so, too.
- An AUC is about all records. A memory of one record in twenty may escape it; see the TPR at a low false alarm rate.
- The interval says what is excluded and what is not: with 100 records an AUC of 0.6 may still be chance.
- A reference model that was trained on half of the retained data knows less, so it does not notice a loss that leaves
  the model as good as itself; and what the model lost of the retained records cannot be compared with it. A retrained
  model shows both.
- Accuracy is an average: a loss in a rare class does not show.

How often the verdict is right: [results](../results/README.md#the-verdict).
"""


_DRAWN = """## What a pipeline draws

`scissorhands judge` measures folders of images; see [diffusion.md](diffusion.md)."""


def metrics_page() -> str:
    """Return every metric as Markdown: what it means, what a retrained model scores, when it misleads."""
    lines = [_INTRODUCTION]
    for level in (*LEVELS, "drawn"):
        lines += [f"## Level {level}" if level in LEVELS else _DRAWN, ""]
        lines += ["| metric | best | what it means | a retrained model | when it misleads |", "|---|---|---|---|---|"]
        lines += [
            f"| {metric.title} `{name}` | {metric.best} | {metric.meaning} | {metric.retrained} | {metric.misleads} |"
            for name, metric in METRICS.items()
            if metric.level == level
        ]
        lines.append("")
    lines += [_VERDICT, "## What can be set", "", *_settings(Evaluation)]
    return "\n".join(lines) + "\n"


def _settings(kind: type[Settings]) -> list[str]:
    """Return the settings as a Markdown table."""
    rows = [
        f"| `{row['name']}` | `{shown(row['default'])}` | {row['rule']} | {row['meaning']} |"
        for row in kind.described()
    ]
    return ["| setting | default | rule | meaning |", "|---|---|---|---|", *rows]


PAGES = {"methods.md": methods_page, "metrics.md": metrics_page}


if __name__ == "__main__":
    for page, make in PAGES.items():
        (Path(sys.argv[1]) / page).write_text(make(), encoding="utf-8")
