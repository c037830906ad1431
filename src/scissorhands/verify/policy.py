"""A company's policy: thresholds that the evidence must keep, each on a line of a TOML file."""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

Facts = dict[str, Any]
DRIFT = ("forgotten", "weights", "accuracy")  # by what it is told how far a model has moved


def facts(
    record: Mapping[str, Any],
    scores: Mapping[str, Any],
    requests: Sequence[Mapping[str, Any]],
    signed: bool,
    drift: Mapping[str, Any] | None = None,
) -> Facts:
    """Gather what a policy is about: run.toml, scores.json, the requests that were served, and the model's drift."""
    values, moved = scores["values"], drift or {}

    def lost(*parts: str) -> float | None:
        points = {f"{part}_accuracy": 1 for part in parts} | {f"{part}_r2": 100 for part in parts}
        known = [(record.get(f"{name}_before"), values.get(name), one) for name, one in points.items()]
        return max((one * (was - now) for was, now, one in known if was is not None and now is not None), default=None)

    late = [one["request"] for one in requests if record["finished"][:10] > one["due"]]
    return {
        "verdict": (scores.get("verdict") or {}).get("call", "none"),
        "damage": record.get("damage", ""),
        "auc": values.get("auc"),
        "retain_loss": lost("retain"),
        "unseen_loss": lost("audit", "test"),
        "late": late,
        "signed": signed,
        "requests": len(requests),
        **{f"drift_{name}": moved.get(name) for name in DRIFT},
    }


def _at_most(name: str, title: str) -> "Rule":
    def broken(most: float, known: Facts) -> str:
        if known[name] is None:
            return f"{title} is not known"
        return f"{title} is {known[name]:.3f}" if known[name] > most else ""

    return float, broken


def _late(requests: Sequence[str]) -> str:
    return f"served after it was due: {', '.join(requests)}" if requests else ""


def _asked(broken: Callable[[Facts], str]) -> "Rule":
    return bool, lambda asked, known: broken(known) if asked else ""


Rule = tuple[type, Callable[[Any, Facts], str]]
# What kind of value a line has, and a sentence that says what is instead; it is empty where the line is kept.
RULES: dict[str, Rule] = {
    "verdicts": (list, lambda allowed, known: "" if known["verdict"] in allowed else f"it is '{known['verdict']}'"),
    "largest_auc": _at_most("auc", "the AUC"),
    "largest_retain_loss": _at_most("retain_loss", "the loss of accuracy, or R², on retained records"),
    "largest_unseen_loss": _at_most("unseen_loss", "the loss of accuracy, or R², on unseen records"),
    "largest_drift_forgotten": _at_most("drift_forgotten", "the share forgotten since the model was trained whole"),
    "largest_drift_weights": _at_most("drift_weights", "the change of weights since the model was trained whole"),
    "largest_drift_accuracy": _at_most("drift_accuracy", "the accuracy, or R², lost since the model was trained whole"),
    "undamaged": _asked(lambda known: known["damage"] and f"the model is damaged: {known['damage']}"),
    "in_time": _asked(lambda known: _late(known["late"]) if known["requests"] else "no request is on record"),
    "signed": _asked(lambda known: "" if known["signed"] else "the pack is not signed"),
}


def require_policy(text: str, name: str) -> None:
    """Refuse what is no policy."""
    try:
        read = tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as TOML: {error}.") from None
    for rule, value in read.items():
        if rule not in RULES:
            raise ValueError(f"{name} has no setting '{rule}'. Known: {', '.join(RULES)}.")
        kind = RULES[rule][0]
        if type(value) is not kind and not (kind is float and type(value) is int):
            word = {list: "a list of verdicts", float: "a number", bool: "true or false"}[kind]
            raise ValueError(f"{name}, line {_line(text, rule)[0]}: '{rule}' must be {word}.")


def judged(text: str, name: str, known: Facts, but: Collection[str] = ()) -> dict[str, list[str]]:
    """Return which lines of a policy are `kept`, and which `broken` and by what, but for some.

    >>> judged("# ours\\nlargest_auc = 0.6\\nsigned = true\\n", "policy.toml", {"auc": 0.71, "signed": True})["broken"]
    ['policy.toml, line 2: largest_auc = 0.6, but the AUC is 0.710']
    """
    found: dict[str, list[str]] = {"kept": [], "broken": []}
    for rule, asked in tomllib.loads(text).items():
        if rule not in but:
            (number, line), reason = _line(text, rule), RULES[rule][1](asked, known)
            said = f"{name}, line {number}: {line}"
            found["broken" if reason else "kept"].append(f"{said}, but {reason}" if reason else said)
    return found


def breaches(text: str, name: str, known: Facts, but: Collection[str] = ()) -> list[str]:
    """Return a sentence for each line of a policy that is broken."""
    return judged(text, name, known, but)["broken"]


def _line(text: str, rule: str) -> tuple[int, str]:
    lines = enumerate(text.splitlines(), start=1)
    return next(((number, line.strip()) for number, line in lines if re.match(rf"\s*[\"']?{rule}\b", line)), (1, rule))
