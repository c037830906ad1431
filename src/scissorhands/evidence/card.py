"""The model card of a scrubbed model, which is also the first page of its evidence."""

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..runs import Run
from ..verify.card import cell, facts_told, quoted

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


def card(run: Run, statement: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    """Return the card as Markdown, with the metadata that the Hugging Face hub reads; `scores` are of its file."""
    loader = PackageLoader("scissorhands.evidence", ".")
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"quoted": quoted, "cell": cell}
    told = facts_told(statement, run.record, scores)
    return environment.get_template("card.md").render(
        run=run,
        record=run.record,
        scores=run.result.scores,
        told={what: "\n".join(lines) for what, lines in told.items()},
        statement=statement,
        settings=", ".join(f"{name} = {json.dumps(value)}" for name, value in run.settings.items()),
    )
