"""What run folders keep, as figures read it: outputs before and after, and the log. What is damaged is left out."""

import json
from typing import Any

from ...errors import ScissorhandsError
from ...files import read_json, read_text
from ...metrics import Outputs
from ...runs import LOG, Run, read_outputs, with_reference

BEFORE, AFTER, RETRAINED = "before", "after", "retrained without them"
_BYTES = 256 << 20  # the most of a log
_NAME = 60  # letters of a class's name


def states(run: Run) -> dict[str, dict[str, Outputs]]:
    """Return the outputs by kind of record: before, after, and of the retrained model, as far as they are kept."""
    observed = read_outputs(run.folder)
    found = {BEFORE: observed.get("before"), AFTER: observed, RETRAINED: with_reference(run).get("retrained")}
    return {
        state: {name: said for name, said in known.items() if isinstance(said, Outputs) and _is_sound(said)}
        for state, known in found.items()
        if isinstance(known, dict)
    }


def _is_sound(said: Outputs) -> bool:
    """Return whether there are scores and a label for each record, and all of them are numbers."""
    logits, labels = said.logits, said.labels
    if logits.dim() != 2 or labels.dim() != 1 or len(logits) != len(labels) or not len(labels):
        return False
    if said.regression:
        return bool(logits.shape[1] == 1 and logits.isfinite().all() and labels.isfinite().all())
    return bool(logits.isfinite().all() and (labels >= 0).all() and (labels < logits.shape[1]).all())


def class_names(run: Run) -> dict[int, str]:
    """Return what the classes are called by their number, where the model of the run says it."""
    try:
        config = read_json(run.folder / "model" / "config.json", dict)
    except ScissorhandsError:
        return {}
    known, other = config.get("classes"), config.get("id2label")  # of our networks, and of Hugging Face's
    named = dict(enumerate(known)) if isinstance(known, list) else other if isinstance(other, dict) else {}
    texts = ((str(number), str(name)) for number, name in named.items())
    return {int(number): name[:_NAME] for number, name in texts if number.isdecimal() and len(number) < 10}


def events(run: Run) -> list[dict[str, Any]]:
    """Return the events of a run's log in their order."""
    path = run.folder / LOG
    if not path.is_file() or path.is_symlink():
        return []
    try:
        lines = read_text(path, _BYTES).splitlines()
    except ScissorhandsError:
        return []
    return [event for line in lines if isinstance(event := _parsed(line), dict)]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
