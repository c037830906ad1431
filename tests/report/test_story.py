"""What the first screen says."""

import re
from collections.abc import Mapping, Sequence
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


def lines(story: Story) -> dict[str, Sequence[str]]:
    """The cells of each line of the numbers, by its head."""
    return {line[0]: line[1:] for line in story.numbers.lines}


def told(*runs: Run, policy: list[str] | None = None) -> Story:
    return tell(tabulate(runs), policy)


def test_it_says_what_was_forgotten_from_what_when_and_by_what(run: Run) -> None:
    first, second = told(changed(run, record={"finished": "2026-11-19T04:23:32Z"})).told
    counts = run.result.scores.counts
    total = counts["forget"] + counts["retain"]
    assert first.startswith(f"To be forgotten: {counts['forget']} of {total:,} training records, all of class 3 ")
    assert "The model is “small”, trained on “digits”, in the folder “trained”." in first
    assert re.fullmatch(
        r"Done by scissorhands \S+, method finetune, on 19 November 2026, 04:23 UTC, in [\d.]+ seconds.", second
    )


@pytest.mark.parametrize(
    ("call", "tone", "word"),
    [
        ("indistinguishable within noise", "good", "Nothing more to do"),
        ("under-forgotten", "bad", "scrub longer"),
        ("over-forgotten", "bad", "Scrub less"),
        ("damaged", "bad", "Do not use this model"),
        ("cannot tell", "unsure", "Do not treat them as forgotten yet. Whoever made this run can look deeper"),
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
    assert (story.tone, story.headline) == ("bad", "Not forgotten: the model still knows them, in 1 of 2 runs")


def test_what_a_retrained_model_has_is_measured_or_expected(run: Run) -> None:
    assert told(run).numbers.heads == ["How often it is right", "Before", "After", "A model retrained without them"]
    assert lines(told(run))["Never seen (test data)"][-1] == f"{run.result.scores.reference['test_accuracy']:.1f} %"
    before = {"retain_accuracy_before": 97.25, "audit_accuracy_before": 93.1, "damage": ""}
    expected = lines(told(changed(run, record=before)))
    assert expected["What was to be forgotten"][-1] == "0 %, as it never saw the class"
    assert expected["What was kept"][0] == "97.2 %"
    assert expected["What was kept"][-1] == "about 97.2 %, as before"
    drawn = {**run.record["split"], "kind": "drawn", "forget": "random:10%"}
    expected = lines(told(changed(run, record={**before, "split": drawn})))
    assert expected["What was to be forgotten"][-1] == "about 93.1 %, as the original on records never seen"


def test_several_methods_without_a_reference_are_told_side_by_side(run: Run) -> None:
    other = changed(run, record={"method": {"name": "ascent", "lr": 0.5}})
    story = told(changed(run), other)
    assert story.headline == "2 methods, side by side"
    assert story.numbers.heads[:3] == ["Method", "Acc forget", "Acc retain"]
    assert [*lines(story)] == ["finetune", "ascent"]


def test_a_run_that_was_looked_at_deeper_needs_more_records_and_no_deeper_look(run: Run) -> None:
    one = changed(run, "cannot tell")
    one = replace(one, result=replace(one.result, examined={"references": 4}))
    assert told(one).todo.endswith("More records can be judged: serve requests together, or hold out more.")


def test_of_several_methods_the_nearest_is_told_and_why(complete: Path) -> None:
    found = [read(complete / f"seed-{seed}/{name}") for seed in (0, 1) for name in ("original", "retrain", "finetune")]
    other = [
        changed(one, record={"method": {"name": "ascent", "lr": 0.5}}) for one in found if one.method == "finetune"
    ]
    kept = [replace(one, result=replace(one.result, reference=found[2].result.reference)) for one in other]
    far = [
        replace(
            one, result=replace(one.result, scores=replace(one.result.scores, reference=was.result.scores.reference))
        )
        for one, was in zip(kept, (found[2], found[5]), strict=True)
    ]
    story = told(*found, *far)
    assert story.subject in ("finetune", "ascent")
    assert story.reasons[0].startswith(f"Of 2 methods, {story.subject} is nearest to a retrained model: Avg. Gap ")
    assert "two retrained models differ by" in story.reasons[0]


def test_methods_that_are_farther_than_the_original_are_bad(run: Run, complete: Path) -> None:
    found = [read(complete / f"seed-0/{name}") for name in ("original", "retrain", "finetune")]
    own = dict.fromkeys(("forget_accuracy", "retain_accuracy", "test_accuracy", "mia"), 0.0)
    wrecked = replace(found[2].result.scores, values={**found[2].result.scores.values, **own})
    found[2] = replace(found[2], result=replace(found[2].result, scores=wrecked))
    story = told(*found)
    if story.subject:  # there is one method only, so the page is about it
        story = told(*found, replace(found[2], record={**found[2].record, "variant": "other"}))
    assert (story.tone, story.subject) == ("bad", "")
    assert story.headline == "No method is nearer to a retrained model than the model was before"
    assert next(iter(lines(story))) == "original"


PIPELINE = {
    "verb": "judge",
    "model": {"source": "../drawn", "origin": "pipeline", "name": "pipeline", "arguments": {}},
    "split": {"forget": "concept:three", "manifest": "m", "fingerprint": "f", "holdout": 0.0},
    "damage": "",
}


def drawn(run: Run, method: str = "esd", **values: float) -> Run:
    """The run as one of a pipeline, with these measures of what it draws."""
    scores = replace(run.result.scores, values=values, counts={}, reference={}, verdict=None)
    record = {name: value for name, value in run.record.items() if not name.endswith("_before")}
    return replace(
        run,
        record={**record, **PIPELINE, "method": {"name": method}},
        result=replace(run.result, scores=scores, reference=""),
    )


def test_what_a_pipeline_draws_is_told_in_words_and_not_judged(run: Run) -> None:
    story = told(drawn(run, ua=95.0, kept_accuracy=98.0, fid=20.25))
    assert story.told[0] == "To be forgotten: the concept “three”. The model is a diffusion pipeline."
    assert story.headline == "The concept still shows in 5 % of the images that ask for it"
    assert "look at the images" in story.todo
    assert story.numbers.heads == ["What it draws", "After", "A pipeline that never saw it"]
    assert lines(story)["Images asked for it that do not show it"][0] == "95.0 %"
    before = told(drawn(run, "original", ua=0.0, kept_accuracy=99.0, fid=19.0), drawn(run, ua=100.0, fid=20.25))
    assert before.headline == "The concept shows in none of the images that ask for it"
    assert lines(before)["Images asked for it that do not show it"][:2] == ["0.0 %", "100.0 %"]
    assert "12 exposed parts of the body" in told(drawn(run, nudity=12.0)).headline
    assert "scissorhands judge" in told(drawn(run)).todo


def test_the_original_alone_has_forgotten_nothing(complete: Path) -> None:
    story = told(read(complete / "seed-0/trained"))
    assert story.headline == "Nothing was forgotten here"
    assert "scissorhands scrub" in story.todo
