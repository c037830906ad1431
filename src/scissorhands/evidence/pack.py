"""Gather the evidence of a run into one file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import runs, tasks, verify
from ..errors import RunError
from ..files import read_bytes, replacing
from ..metrics import METRICS, power
from ..report import page, pdf, table
from ..runs import Run
from ..runs.place import now
from ..verify.card import CARD
from ..verify.pack import MANIFEST, POLICY, RECORD, SCORES, SIGNATURE, STATEMENT, archive, as_json, stated
from ..verify.policy import facts, judged
from .card import LIMITS, card
from .policy import read_policy
from .recount import recount
from .signing import read_key, signature

_ABOUT = ("meaning", "expected", "misleads")  # what is said of each test


def pack(
    folder: Path,
    output: Path,
    *,
    policy: Path | None = None,
    key: Path | None = None,
    requests: Sequence[Mapping[str, Any]] = (),
    ledger: Mapping[str, Any] | None = None,
    drift: Mapping[str, Any] | None = None,
    packed: str = "",
) -> list[str]:
    """Write the evidence of a run, and return the lines of the policy that it breaks.

    `requests` are the lines of a ledger that the run served, `ledger` how long that was and the hash of its end,
    `drift` how far the model has moved since it was trained as a whole.
    """
    run, secret = _scrubbed(folder), read_key(key) if key else None
    rules = read_policy(policy) if policy else ""
    known = facts(run.record, run.result.to_dict(), requests, secret is not None, drift)
    judgment = judged(rules, POLICY, known) if policy else None
    broken = judgment["broken"] if judgment else []
    statement = _statement(run, requests, ledger, packed or now())
    statement |= {"drift": drift, "policy": judgment}
    title, kept = f"Evidence of {run.folder.name}", broken if policy else None
    # Bins of losses have edges, by which who has the model and a record could tell that it is not among the forgotten.
    shown = page.page(table.tabulate([run]), [run], title, policy=kept, without=["losses"], named=False)
    members = {
        STATEMENT: as_json(statement),
        RECORD: read_bytes(folder / "run.toml"),
        SCORES: (scored := read_bytes(folder / "scores.json")),
        CARD: card(run, statement, json.loads(scored)).encode(),
        "report.html": shown.encode(),
        **({POLICY: rules.encode()} if policy else {}),
        **_program(),
    }
    if printed := pdf.as_pdf(shown):
        members["report.pdf"] = printed
    members[MANIFEST] = as_json({"members": {name: stated(content) for name, content in sorted(members.items())}})
    if secret is not None:
        members[SIGNATURE] = signature(members[MANIFEST], secret)
    with replacing(output) as part:
        part.write_bytes(archive(members))
    return broken


def write_pack(
    folder: Path, output: Path, *, policy: Path | None = None, key: Path | None = None, overwrite: bool = False
) -> list[str]:
    """Write the evidence of a run where there is none, or with `overwrite` in place of it; see `pack`."""
    if output.suffix.lower() != ".zip":
        raise RunError(f"cannot write {output}: a pack is a zip file, so give it a name that ends in .zip.")
    if output.exists() and not overwrite:
        raise RunError(f"{output} exists already. Choose another place, or replace it with --overwrite.")
    return pack(folder, output, policy=policy, key=key)


def hash_of(path: Path) -> str:
    """Return the hash of a pack."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def _scrubbed(folder: Path) -> Run:
    """Read a run that made a model forget, with all checks."""
    run = runs.checked(folder)
    if run.record["verb"] != "scrub":
        raise RunError(
            f"{folder} did not make a model forget: its verb is '{run.record['verb']}'. Name a run of scrub."
        )
    if "finished" not in run.record:
        raise RunError(f"{folder} does not say when it ended: it was made by another version. Make the run again.")
    return run


def _statement(
    run: Run, requests: Sequence[Mapping[str, Any]], ledger: Mapping[str, Any] | None, packed: str
) -> dict[str, Any]:
    """Return what the pack says besides the files of the run."""
    values, observed = run.result.values(), runs.with_reference(run)
    references = len(observed.get("references", ())) + ("retrained" in observed)
    counts, kind = run.result.scores.counts, str(run.record["split"].get("kind", ""))
    task = tasks.find(str(run.folder))
    return {
        "format": 1,
        "packed": packed,
        "task": "regression" if "retain_mae" in values else task.noun,
        "requests": [dict(one) for one in requests],
        "ledger": ledger,
        "before": len(run.ids("before")),
        "tests": [_test(name, values[name], task.titles) for name in sorted(values, key=[*METRICS, *values].index)],
        "power": power(counts, kind, references).to_dict() if run.result.scores.verdict else None,
        "recount": recount(observed, values),
        "limits": list(LIMITS),
    }


def _test(name: str, value: float, titles: Mapping[str, str]) -> dict[str, Any]:
    """Say what a test found, what it measures, what a retrained model would score, and when it misleads."""
    known = METRICS.get(name)
    title = known.title if known else titles.get(name, name)
    about = (known.meaning, known.retrained, known.misleads) if known else (title, "", "it does not show what is drawn")
    return {"name": name, "title": title, "value": value, **dict(zip(_ABOUT, about, strict=True))}


def _program() -> dict[str, bytes]:
    """Return the program that checks packs, which is part of each of them."""
    folder = Path(str(verify.__file__)).parent
    return {f"verify/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py"))}
