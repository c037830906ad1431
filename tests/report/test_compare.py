"""What differs between two runs, or two sets of runs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.commands import cli, done
from scissorhands.report.compare import compare
from scissorhands.runs import Run, read


@pytest.fixture
def bench(complete: Path) -> Path:
    """A small bench."""
    return complete


def scored(run: Run, **values: float) -> Run:
    scores = replace(run.result.scores, values={**run.result.scores.values, **values})
    return replace(run, result=replace(run.result, scores=scores))


def test_settings_and_scores_that_differ_are_listed(bench: Path) -> None:
    found = json.loads(done(f"compare {bench}/seed-0/finetune {bench}/seed-0/retrain --json").out)
    assert found["settings"]["method"] == ["finetune", "retrain"]
    assert "seed" not in found["settings"]
    values = [read(bench / f"seed-0/{name}").result.values() for name in ("finetune", "retrain")]
    (one,) = (score for score in found["scores"] if score["metric"] == "retain_accuracy")
    assert one["difference"] == pytest.approx(values[1]["retain_accuracy"] - values[0]["retain_accuracy"])
    shown = done(f"compare {bench}/seed-0/finetune {bench}/seed-1/finetune").out
    assert "Acc retain" in shown
    assert "seed" in shown


def test_a_run_is_not_told_apart_from_itself(bench: Path) -> None:
    run = read(bench / "seed-0/finetune")
    found = compare([run], [run])
    assert not found.settings
    assert {one.difference for one in found.scores} == {0.0}
    assert {one.apart for one in found.scores} == {"", "no"}


def test_accuracies_of_one_run_each_are_apart_by_two_standard_errors_of_records(bench: Path) -> None:
    run = read(bench / "seed-0/finetune")
    records = run.result.scores.counts["test"]
    apart = {}
    for points in (1.0, 40.0):
        one, other = scored(run, test_accuracy=50.0), scored(run, test_accuracy=50.0 + points)
        (change,) = (change for change in compare([one], [other]).scores if change.metric == "test_accuracy")
        assert change.high is not None
        error = math.sqrt((50 * 50 + (50 + points) * (50 - points)) / records)
        assert change.high - change.difference == pytest.approx(1.96 * error)
        apart[points] = change.apart
    assert apart == {1.0: "no", 40.0: "yes"}


def test_several_runs_are_compared_in_pairs_of_seeds(bench: Path) -> None:
    ours = [read(bench / f"seed-{seed}/finetune") for seed in (0, 1)]
    theirs = [scored(run, test_accuracy=run.result.scores["test_accuracy"] - 3.0) for run in ours[::-1]]
    found = compare(ours, theirs)
    assert found.pairs == 2
    (change,) = (change for change in found.scores if change.metric == "test_accuracy")
    assert [change.low, change.high] == pytest.approx([-3.0, -3.0])
    assert change.apart == "yes"


def test_what_is_no_run_is_refused(bench: Path, tmp_path: Path) -> None:
    answer = cli(f"compare {bench}/seed-0/finetune {tmp_path}/absent")
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
