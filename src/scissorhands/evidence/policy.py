"""A company's policy, as a file that a run is held to."""

from pathlib import Path

from ..errors import SettingError
from ..files import read_text
from ..runs import Run
from ..verify.policy import breaches, facts, require_policy

_MOST = 1 << 20  # bytes of a policy
_DRIFT = ("largest_drift_forgotten", "largest_drift_weights", "largest_drift_accuracy")
_OF_PACKS = ("signed", "in_time", *_DRIFT)  # what a run alone cannot keep or break


def read_policy(path: Path) -> str:
    """Read a policy; refuse what is none."""
    text = read_text(path, _MOST)
    try:
        require_policy(text, str(path))
    except ValueError as error:
        raise SettingError(str(error)) from None
    return text


def broken_by(run: Run, policy: Path | None) -> list[str]:
    """Return a sentence for each line of a policy that a run breaks; what is about packs alone is left out."""
    if policy is None:
        return []
    known = facts(run.record, run.result.to_dict(), (), signed=False)
    return breaches(read_policy(policy), str(policy), known, but=_OF_PACKS)
