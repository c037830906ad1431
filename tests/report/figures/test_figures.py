"""Which figures a page has, and what they hold of records."""

import json
import math
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from helpers.commands import cli
from scissorhands.metrics import METRICS
from scissorhands.report.figures import classes, losses, progress, tradeoff, trimmed
from scissorhands.report.figures.all import figures
from scissorhands.report.figures.figure import Figure, for_page
from scissorhands.report.figures.kept import events
from scissorhands.report.table import tabulate
from scissorhands.runs import LOG, Run, read


@pytest.fixture
def run(complete: Path) -> Run:
    """A run that forgot a digit."""
    return read(complete / "seed-0/finetune")


PAPER = {"name": "scissorhands", "reading": "paper", "balance": 0.1}


def made(run: Run) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures(tabulate([run]))}


def logged(run: Run, folder: Path, *lines: str) -> Run:
    """The run with these lines as its log."""
    (folder / LOG).write_text("\n".join(lines))
    return replace(run, folder=folder)


def test_a_figure_says_what_it_shows_what_is_good_and_the_same_in_words(run: Run) -> None:
    found = made(run)
    assert {"tradeoff", "losses", "attacks", "classes", "progress"} <= found.keys()
    for figure in found.values():
        assert all(len(text) > 40 for text in (figure.shows, figure.good))
        assert figure.rows
        assert figure.words
        assert all(sentence.endswith(".") for sentence in figure.words)


def test_every_chart_keeps_to_the_schema_of_vega_lite(complete: Path, run: Run, tmp_path: Path) -> None:
    trim = json.dumps({"phase": "trim", "drawn": 5, "of": 100, "layers": {"conv": [5, 50]}})
    runs = [read(path.parent) for path in sorted(complete.glob("seed-*/*/scores.json"))]
    found = [*figures(tabulate(runs)), *figures(tabulate([logged(run, tmp_path, trim)]))]
    known = {"tradeoff", "differences", "losses", "attacks", "classes", "trimmed", "progress"}
    assert {figure.name for figure in found} == known
    for chart in (chart for figure in found for chart in figure.charts):
        chart.drawing.to_dict(validate=True)  # which a page leaves out, as it takes long


def test_what_has_no_data_has_no_figure(run: Run, tmp_path: Path) -> None:
    scores = replace(run.result.scores, values={"retain_accuracy": 1.0})
    bare = replace(run, folder=tmp_path, result=replace(run.result, scores=scores))
    assert made(bare) == {}


def test_every_bin_of_losses_holds_ten_records_or_more_and_none_is_lost() -> None:
    generator = torch.Generator().manual_seed(0)
    for count in (20, 33, 129, 2000):
        found = torch.exp(3 * torch.randn(count, generator=generator, dtype=torch.float64) - 3)
        bins = losses.binned(found)
        assert sum(one[2] for one in bins) == count
        assert min(one[2] for one in bins) >= losses.LEAST
        assert all(one[1] == other[0] for one, other in pairwise(bins))
        inside = ((found > bins[1][0]) & (found <= bins[1][1])).sum() if len(bins) > 2 else None
        assert inside in (None, bins[1][2])


def test_too_few_records_have_no_losses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "LEAST", 1000)
    assert "losses" not in made(run)


def test_a_page_holds_no_output_of_a_single_record(run: Run) -> None:
    text = for_page([chart.spec() for figure in made(run).values() for chart in figure.charts])
    assert len(text) < 200_000
    assert len(json.dumps([*made(run)["losses"].rows])) < 50_000


def test_an_attack_on_one_run_has_an_interval_over_records(run: Run) -> None:
    lines = {line["attack"]: line for line in made(run)["attacks"].rows}
    for name in ("auc", "mia"):
        line = lines[name]
        assert line["low"] < line["found"] < line["high"] or METRICS[name].digits == 2
    assert lines["auc"]["high"] - lines["auc"]["low"] > 0.05


def test_what_was_trimmed_is_that_of_the_last_attempt(run: Run, tmp_path: Path) -> None:
    trims = [{"phase": "trim", "drawn": n, "of": 100, "layers": {"conv": [n, 50], "fc": [1, 50]}} for n in (5, 25)]
    one = logged(run, tmp_path, *map(json.dumps, trims))
    found = trimmed.trimmed(tabulate([one]))
    assert found is not None
    assert {row["layer"]: row["share"] for row in found.rows} == {"conv": 50.0, "fc": 2.0}


def test_losses_and_guard_of_a_run_are_drawn_each_by_itself_and_thinned(run: Run, tmp_path: Path) -> None:
    event = {"phase": "repair", "epoch": 0, "epochs": 4, "steps": 2000, "loss": 1.0, "forget": 5.0}
    steps = [{**event, "step": n + 1, "retain": float(n), "guard": max(0.1, n / 1000)} for n in range(1000)]
    one = replace(logged(run, tmp_path, *map(json.dumps, steps)), record={**run.record, "method": PAPER})
    found = progress.progress(tabulate([one]))
    assert found is not None
    assert [chart.caption for chart in found.charts] == [
        "repair: loss on retained records",
        "repair: loss on records to forget",
        "repair: guard",
    ]
    assert len(found.rows) <= 300
    retain = [row["value"] for row in found.rows if row["what"] == "retain"]
    assert math.isclose(sum(retain) / len(retain), 499.5, rel_tol=0.02)
    assert "guard from 0.1 to 0.995, after step 1000 of 2000" in found.words[0]
    assert "λ" in found.good
    drawn = json.dumps(found.charts[2].spec())
    assert '[{"step": 1000}]' in drawn  # where it stopped
    assert '[{"value": 0.1}]' in drawn  # λ


def test_the_guard_of_every_step_is_logged(tmp_path: Path, complete: Path) -> None:
    for reading in ("calibrated", "paper", "published"):
        trained, out = complete / "seed-0/trained", tmp_path / reading
        quick = f"--set reading={reading} --set epochs=1 --set batch_size=256 --untrained"
        cli(f"scrub {trained} --forget class:3 {quick} -o {out}")
        steps = [event for event in events(read(out)) if event["phase"] == "repair" and "forget" in event]
        least = 0.0 if reading == "published" else read(out).settings["balance"]
        assert steps
        assert all(event["guard"] >= least for event in steps), reading


def test_classes_are_called_what_the_model_calls_them(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "run")
    there, own = replace(run, folder=tmp_path / "run"), tmp_path / "run/model/config.json"
    for said in (
        {"classes": [f"digit {n}" for n in range(10)]},
        {"id2label": {str(n): f"digit {n}" for n in range(10)}},
    ):
        own.write_text(json.dumps(said))
        rows = made(there)["classes"].rows
        assert {row["class"] for row in rows} <= {f"digit {n}" for n in range(10)}
        assert "digit 0 before" in made(there)["classes"].words[0]
        found = classes.classes(tabulate([there]), named=False)
        assert found is not None
        assert "digit" not in json.dumps([*found.rows, *found.words])
    for damaged in ("not JSON", "[]", '{"classes": 3}', '{"id2label": {"' + "9" * 5000 + '": "x", "²": "y"}}'):
        own.write_text(damaged)
        assert {row["class"] for row in made(there)["classes"].rows} <= {str(n) for n in range(10)}


def test_what_a_pipeline_forgot_and_kept_is_a_scatter(run: Run) -> None:
    def judged(method: str, **values: float) -> Run:
        scores = replace(run.result.scores, values=values, reference={})
        known = {**run.record, "method": {"name": method}}
        known = {name: value for name, value in known.items() if not name.endswith("_before")}
        return replace(run, record=known, result=replace(run.result, scores=scores, reference=""))

    found = tradeoff.tradeoff(tabulate([judged("original", ua=0.0, fid=20.0), judged("esd", ua=100.0, fid=50.0)]))
    assert found is not None
    assert "top left" in found.good
    assert found.words[1] == "esd: images without the concept, in %: 100.0; distance from real images (FID): 50.0."
    domain = found.charts[0].spec()["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert domain == [-8.0, 101.0]
    assert tradeoff.tradeoff(tabulate([judged("esd", ua=100.0, fid=50.0)])) is None  # with nothing to compare it with


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[1, 2]",
        "[" * 100_000,
        '{"phase": "repair", "step": "x", "steps": 4, "loss": 1}',
        '{"phase": "repair", "step": 1, "steps": 4, "loss": NaN}',
        '{"phase": "repair", "step": 1, "steps": 4, "loss": 1' + "0" * 400 + "}",
        '{"phase": "repair", "step": 1, "steps": 4, "loss": [1]}',
        '{"phase": "trim", "layers": {"conv": [1, 0]}}',
        '{"phase": "trim", "layers": {"conv": 3}}',
        '{"phase": "trim", "layers": 3}',
    ],
)
def test_a_damaged_log_is_no_error(line: str, run: Run, tmp_path: Path) -> None:
    assert not {"progress", "trimmed"} & made(logged(run, tmp_path, line)).keys()
