"""A company's thresholds: which lines are broken, and which are none."""

import re

import pytest

from scissorhands.verify.policy import RULES, breaches, facts, require_policy

RECORD = {
    "damage": "",
    "finished": "2026-11-20T10:00:00Z",
    "retain_accuracy_before": 99.0,
    "test_accuracy_before": 95.0,
}
SCORES = {
    "values": {"auc": 0.61, "retain_accuracy": 93.0, "test_accuracy": 94.0},
    "verdict": {"call": "cannot tell"},
}
REQUESTS = [{"request": "7", "due": "2026-11-19"}, {"request": "8", "due": "2026-11-20"}]
BROKEN = {
    'verdicts = ["indistinguishable within noise"]': "it is 'cannot tell'",
    "largest_auc = 0.6": "the AUC is 0.610",
    "largest_retain_loss = 5": "the loss of accuracy, or R², on retained records is 6.000",
    "largest_unseen_loss = 0.5": "the loss of accuracy, or R², on unseen records is 1.000",
    "in_time = true": "served after it was due: 7",
    "signed = true": "the pack is not signed",
    "largest_drift_forgotten = 5": "the share forgotten since the model was trained whole is 6.000",
    "largest_drift_weights = 1.5": "the change of weights since the model was trained whole is not known",
    "largest_drift_accuracy = 0": "the accuracy, or R², lost since the model was trained whole is 1.000",
    "undamaged = true": "the model is damaged: it is worse",
}
KEPT = ['verdicts = ["cannot tell"]', "largest_auc = 0.61", "largest_retain_loss = 6", "largest_unseen_loss = 1.0"]
KEPT += ["largest_drift_forgotten = 6", "largest_drift_weights = 3", "largest_drift_accuracy = 1"]
KEPT += ["in_time = false", "signed = false", "undamaged = false"]


def test_each_line_can_be_broken_and_kept_and_is_told_with_its_number() -> None:
    assert {line.split()[0] for line in BROKEN} == {line.split()[0] for line in KEPT} == {*RULES}
    moved = {"forgotten": 6.0, "weights": None, "accuracy": 1.0}
    known = facts({**RECORD, "damage": "it is worse"}, SCORES, REQUESTS, signed=False, drift=moved)
    for line, reason in BROKEN.items():
        assert breaches(f"# ours\n\n  {line}", "p.toml", known) == [f"p.toml, line 3: {line}, but {reason}"]
    known["drift_weights"] = 3.0
    for line in KEPT:
        require_policy(line, "p.toml")
        assert not breaches(line, "p.toml", known)


def test_what_is_not_known_breaks_a_threshold() -> None:
    known = facts({"finished": "2026"}, {"values": {}, "verdict": None}, [], signed=True)
    assert breaches("largest_auc = 1.0", "p", known) == ["p, line 1: largest_auc = 1.0, but the AUC is not known"]
    assert breaches("verdicts = []", "p", known) == ["p, line 1: verdicts = [], but it is 'none'"]
    assert breaches("in_time = true", "p", known) == ["p, line 1: in_time = true, but no request is on record"]
    assert not breaches("in_time = false\nsigned = true", "p", known)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("larget_auc = 1", "has no setting 'larget_auc'. Known: verdicts, largest_auc"),
        ("\nlargest_auc = true", "line 2: 'largest_auc' must be a number"),
        ('verdicts = "damaged"', "line 1: 'verdicts' must be a list of verdicts"),
        ("signed = 1", "line 1: 'signed' must be true or false"),
        ("signed = ", "cannot be read as TOML"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        require_policy(text, "p.toml")
