"""A company's policy, as a file that a run is held to."""

from pathlib import Path

from ..errors import SettingError
from ..files import read_text
from ..runs import Run
from ..verify.policy import DRIFT, breaches, facts, require_policy

_MOST = 1 << 20  # bytes of a policy
_OF_PACKS = ("signed", "in_time", *(f"largest_drift_{name}" for name in DRIFT))  # what no run alone keeps or breaks


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
