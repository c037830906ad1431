"""The model card of a scrubbed model, which is also the first page of its evidence."""

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..runs import Run
from ..runs.seals import model_files

LIMITS = (
    "The tests look for signs that the model still treats the forgotten records as known. That they find none does not "
    "prove that nothing is left.",
    "Approximate unlearning is not retraining. Only a model trained without the records has certainly never seen them.",
    "A model that gives other answers may still hold the information inside: suppression is not removal. Tests at "
    "level quick look at answers alone.",
    "The evidence is about one model, the one whose files it lists. It says nothing about copies of the original, its "
    "checkpoints and backups, or about models that were trained or distilled from it.",
    "Nothing here shows that the records were deleted from data, backups, caches or logs.",
    "The numbers are the operator's own. A signature says who vouches for them; it does not make them true.",
)


def card(run: Run, statement: Mapping[str, Any]) -> str:
    """Return the card as Markdown, with the metadata that the Hugging Face hub reads."""
    loader = PackageLoader("scissorhands.evidence", ".")
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"quoted": _quoted, "cell": _cell}
    record, scores = run.record, run.result.scores
    before = {
        name.removesuffix("_before"): value
        for name, value in record.items()
        if name.endswith("_accuracy_before") and name.removesuffix("_before") in scores.values
    }
    return environment.get_template("card.md").render(
        run=run,
        record=record,
        scores=scores,
        before=before,
        statement=statement,
        files=model_files(run.folder),
        settings=", ".join(f"{name} = {json.dumps(value)}" for name, value in run.settings.items()),
    )


def _quoted(value: Any) -> str:
    """Return a text as YAML reads it back, which reads JSON."""
    return json.dumps(str(value))


def _cell(value: Any) -> str:
    """Return a text that fits into a cell of a Markdown table.

    >>> _cell("a | b")
    'a \\\\| b'
    """
    return " ".join(str(value).split()).replace("|", "\\|")
