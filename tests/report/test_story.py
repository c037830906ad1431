"""What the first screen says."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scissorhands.metrics import Verdict
from scissorhands.report.story import Story, tell
from scissorhands.report.table import tabulate
from scissorhands.runs import Run, read


@pytest.fixture
def run(complete: Path) -> Run:
    """A run that forgot a digit."""
    return read(complete / "seed-0/finetune")


def changed(run: Run, call: str = "", record: Mapping[str, Any] | None = None, **values: float) -> Run:
    """The run with another verdict, other lines of its record and other scores, and without a reference."""
    known = run.result.scores
    said = Verdict(call, "so.") if call else None
    scores = replace(known, verdict=said, values={**known.values, **values}, reference={})
    return replace(
        run, record={**run.record, **(record or {})}, result=replace(run.result, scores=scores, reference="")
    )


def told(*runs: Run, policy: list[str] | None = None) -> Story:
    return tell(tabulate(runs), policy)


def test_it_says_what_was_forgotten_from_what_when_and_by_what(run: Run) -> None:
    first, second = told(changed(run, record={"finished": "2026-11-19T04:23:32Z"})).told
    counts = run.result.scores.counts
    total = counts["forget"] + counts["retain"]
    assert first.startswith(f"To be forgotten: {counts['forget']} of {total:,} training records, all of class 3 ")
    assert "The model is small, trained on digits." in first
    assert "the method finetune of scissorhands" in second
    assert "on 19 November 2026, 04:23 UTC." in second


@pytest.mark.parametrize(
    ("call", "tone", "word"),
    [
        ("indistinguishable within noise", "good", "Nothing more to do"),
        ("under-forgotten", "bad", "scrub longer"),
        ("over-forgotten", "bad", "Scrub less"),
        ("damaged", "bad", "Do not use this model"),
        ("cannot tell", "unsure", "--level standard"),
        ("", "unsure", "--level standard"),
    ],
)
def test_every_verdict_says_whether_it_is_good_and_what_to_do(call: str, tone: str, word: str, run: Run) -> None:
    story = told(changed(run, call))
    assert story.tone == tone
    assert word in story.todo


def test_a_broken_policy_is_bad_whatever_the_verdict(run: Run) -> None:
    good = changed(run, "indistinguishable within noise")
    assert told(good, policy=[]).tone == "good"
    story = told(good, policy=["largest_auc = 0.5, but it is 0.6"])
    assert story.tone == "bad"
    assert "policy" in story.todo


def test_the_worst_of_several_runs_is_told(run: Run) -> None:
    calls = ("indistinguishable within noise", "under-forgotten")
    story = told(*(changed(run, call, {"seed": seed, "training_seed": seed}) for seed, call in enumerate(calls)))
    assert (story.tone, story.headline) == ("bad", "The model still knows them, in 1 of 2 runs")


def test_what_a_retrained_model_has_is_measured_or_expected(run: Run) -> None:
    measured = {change.title: change.retrained for change in told(run).changes}
    assert measured["Test data"] == f"{run.result.scores.reference['test_accuracy']:.1f} %"
    before = {"retain_accuracy_before": 97.25, "audit_accuracy_before": 93.1, "damage": ""}
    expected = {change.title: change for change in told(changed(run, record=before)).changes}
    assert expected["What was to be forgotten"].retrained == "0 %, as it never saw the class"
    assert expected["What was kept"].retrained == "about 97.2 %, as before"
    drawn = {**run.record["split"], "kind": "drawn", "forget": "random:10%"}
    expected = {change.title: change for change in told(changed(run, record={**before, "split": drawn})).changes}
    assert expected["What was to be forgotten"].retrained == "about 93.1 %, as the original on records never seen"


def test_several_methods_without_a_reference_are_told_side_by_side(run: Run) -> None:
    other = changed(run, record={"method": {"name": "ascent", "lr": 0.5}})
    story = told(changed(run), other)
    assert story.headline == "2 methods, side by side"
    assert [reason.split(":")[0] for reason in story.reasons] == ["finetune", "ascent"]
    assert all("Acc forget" in reason for reason in story.reasons)


def test_the_original_alone_has_forgotten_nothing(complete: Path) -> None:
    story = told(read(complete / "seed-0/trained"))
    assert story.headline == "Nothing was forgotten here"
    assert "scissorhands scrub" in story.todo
