"""Generate pages of the docs from the code, so that the two cannot disagree.

python -m scissorhands.cli.docs docs      # writes the pages into the folder
"""

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..bench.diffusion import PipelineRecipe
from ..bench.recipe import Recipe
from ..choices import LEVELS
from ..data.sources import Source
from ..evaluation.context import Evaluation
from ..methods import choose_optimizer
from ..methods.training import Training
from ..metrics import METRICS, Metric
from ..metrics.metric import ANY, NUMBERS
from ..runs.diffusion.judging import Judging
from ..settings import Settings
from ..tasks import methods
from ..tasks.diffusion.drawing import Drawing
from ..tasks.diffusion.erasure import Erasure
from .describe import details, shown, summary


def methods_page() -> str:
    """Return every method with its settings, as Markdown."""
    lines = ["# Methods", "", "Made by `python -m scissorhands.cli.docs docs` from the lines that define the settings."]
    for name, kind in methods().items():
        lines += ["", f"## `{name}`", "", summary(kind), f"*{kind.paper}.*", ""]
        lines += [details(kind), ""] if details(kind) else []
        lines += [f"Needs {kind.needs}.", ""] if kind.needs else []
        lines += ["Not where labels are numbers to predict.", ""] if kind.needs_classes else []
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
retrained model that is given with `--against` is one more, and alone says what should have been kept. A scrubbed run is
also held against its original.

- **damaged**: it is right about fewer of the records that it should have kept, retained or unseen (calibration, audit
  and test together), than the original or than the reference, by more than chance and another seed explain; the
  original may be 5 points better, the reference 2. The reason names the records, with both accuracies. A model that is
  damaged and under- or over-forgotten as well is called damaged, and the reason says both. Of numbers to predict, mean
  absolute errors are compared: as shares of the mean distance of the labels from their median, the original may be 10
  points better, the reference 2.
- **under-forgotten**: forgotten records stand out as known, with an AUC above 0.5; or too many of them are among the
  5 % that stand out most, which finds a memory of a few; or the model knows a class that it should not; or a linear
  probe of its features finds what was forgotten.
- **over-forgotten**: forgotten records stand out as avoided, all of them a little or a few very much.
- **indistinguishable within noise**: none of that, and there are enough records: a memory with an AUC of 0.75 would
  have been found in four of five models (of 0.65 where there is no reference), or the same test finds the original, and
  what the original has is excluded here.
- **cannot tell**: too few records, no reference model, or forgotten records that may differ in kind from the others.
  The reason says what would help, such as how many records it takes.

The AUC is that of how much surer the model is of a record than the references, among records that are equally hard by
the word of all of them (van Elteren's test). The few that stand out most are counted by Fisher's exact test. There are
ten tests at most; with Holm's correction all together err on about 1 in 100 models that have forgotten. The interval of
the AUC is that of one of them, 3.09 standard errors to either side.

That holds for all there is of a class, and for records that were drawn at random where the unseen ones were, too, from
the same table: training held them out, or the test data is such a draw, as that of digits is. Python code can say so of
its own data with `scissorhands.data.foreign.Foreign(dataset, drawn_from="a name")`, the same name for training and test
data. Forgotten records that were chosen, as those of a deletion request, may differ in kind from the unseen ones, and
test data may differ from training data. An AUC is then taken to vary by 0.03 because of that (one standard deviation),
and the share of the tail may be twice as large. So records that were chosen are compared with all unseen ones of their
classes, those that were held out for audits and those of the test data.

How far seeds differ is not known from one model: it is taken to be as much as another draw of 400 records would change
the accuracy, which is 2.5 points (one standard deviation) for a model that is right about half of the records, and less
for a better one. Where several references differ more than that, their own deviation is taken. Beside the original a
model may besides know less of unseen records for want of the forgotten ones: as much as if the error fell with the root
of the number of records.

"Indistinguishable" means that these tests found nothing, which is less than that nothing is there:

- Where a model learned nothing by heart there is nothing to find, and the original is called so, too. The reason says
  what AUC the original has.
- The interval says what is excluded and what is not: with 40 records an AUC of 0.6 may still be chance.
- A reference model that was trained on half of the retained data knows less, so it does not notice a loss that leaves
  the model as good as itself. The original does, within its 5 points.
- Accuracy is an average: a loss in a rare class does not show.

What so many records can tell is said beforehand by `power`, from the counts of a split:

```python
from scissorhands.metrics import power

told = power({"forget": 40, "others": 120, "retain": 1160}, kind="chosen", references=4)
print(told.smallest_auc, told.decides, told.helps)
```

How often the verdict is right: [results](../results/README.md#the-verdict).
"""


_DRAWN = """## What a pipeline draws

`scissorhands judge` measures folders of images; see [diffusion.md](diffusion.md)."""


_NUMBERS = """## Numbers to predict

Where labels are numbers and not classes (regression), these take the place of accuracies and of attacks on
probabilities.
{shared}
R² is 1 − Σ(prediction − label)² / Σ(label − mean)². **Avg. Gap** is then the mean distance to the retrained
model in MAE forget, MAE retain and MAE test, so it has the unit of the labels, and no two data sets are compared by it.
"""


def metrics_page() -> str:
    """Return every metric as Markdown: what it means, what a retrained model scores, when it misleads."""
    lines = [_INTRODUCTION]
    of_classes = {name: metric for name, metric in METRICS.items() if metric.labels != NUMBERS}
    for level in (*LEVELS, "drawn"):
        lines += [f"## Level {level}" if level in LEVELS else _DRAWN, ""]
        lines += [*_rows({name: metric for name, metric in of_classes.items() if metric.level == level}), ""]
    own = {name: metric for name, metric in METRICS.items() if metric.labels == NUMBERS}
    shared = ", ".join(metric.title for metric in METRICS.values() if metric.labels == ANY)
    told = f"Of the others, {shared} are measured, too: a record is known the better, the smaller its absolute error."
    lines += [_NUMBERS.format(shared=textwrap.fill(told, 120)), *_rows(own), ""]
    lines += [_VERDICT, "## What can be set", "", *_settings(Evaluation)]
    return "\n".join(lines) + "\n"


def _rows(metrics: Mapping[str, Metric]) -> list[str]:
    """Return metrics as a Markdown table."""
    return [
        "| metric | best | what it means | a retrained model | when it misleads |",
        "|---|---|---|---|---|",
        *(
            f"| {metric.title} `{name}` | {metric.best} | {metric.meaning} | {metric.retrained} | {metric.misleads} |"
            for name, metric in metrics.items()
        ),
    ]


_RECIPES = """# Recipes, key by key

Made by `python -m scissorhands.cli.docs docs` from the lines that define the keys.

A recipe is one experiment in a TOML file. It holds only what differs from the defaults below; a key that is not known
is refused with the nearest one. `forget` must be given, and `data` and `model` or `pipeline` and `prompts`.
[command-line.md](command-line.md#recipes) shows a recipe, `recipes/` has those of the paper, and `scissorhands bench
RECIPE --dry-run` says what a recipe would run.

- A table named like a method has its settings: [methods.md](methods.md). A list of values is a sweep, a row for each.
- `[METHOD.paper]`, `[METHOD.script]` and `[METHOD.ours]` are variants, with a row each.
- A recipe with `pipeline` or `prompts` is about a pipeline; any other is about a classifier.
"""

# The tables of a recipe: under which name, what they are, and which keys they have.
_TABLES: tuple[tuple[str, str, type[Settings]], ...] = (
    ("For a classifier", "The keys at the top of the file.", Recipe),
    ("`[data]`", 'How data is read. `data = "digits"` is short for its `name`.', Source),
    ("`[training]`", "How the original and the retrained model are trained.", Training),
    ("For a pipeline", "The keys at the top of the file.", PipelineRecipe),
    ("`[erasure]`", "How the concept is erased; `[METHOD.erasure]` overrides it for one method.", Erasure),
    ("`[drawing]`", "How images are drawn.", Drawing),
    ("`[judging]`", "By what images are judged.", Judging),
)


def recipes_page() -> str:
    """Return every key of a recipe as Markdown."""
    lines = [_RECIPES]
    for title, what, kind in _TABLES:
        lines += [f"## {title}", "", what, "", *_settings(kind), ""]
    return "\n".join(lines).rstrip() + "\n"


def _settings(kind: type[Settings]) -> list[str]:
    """Return the settings as a Markdown table."""
    rows = [
        f"| `{row['name']}` | {_default(row)} | {row['rule']} | {row['meaning']} |"
        for row in kind.described()
        if row["name"] != "settings"  # of a recipe: they stand in tables of the methods' names
    ]
    return ["| setting | default | rule | meaning |", "|---|---|---|---|", *rows]


def _default(row: Mapping[str, Any]) -> str:
    """Return a default as Markdown; a table of settings is described by itself."""
    if isinstance(row["default"], Settings):
        return "the defaults"
    return "" if row["default"] is None else f"`{shown(row['default'])}`"


PAGES = {"methods.md": methods_page, "metrics.md": metrics_page, "recipes.md": recipes_page}


if __name__ == "__main__":
    for page, make in PAGES.items():
        (Path(sys.argv[1]) / page).write_text(make(), encoding="utf-8")
