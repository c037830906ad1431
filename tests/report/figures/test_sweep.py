"""A swept setting becomes curves: as numbers, and as a picture."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from scissorhands.evaluation.evaluate import Scores
from scissorhands.report.figures.sweep import Point, as_csv, as_svg, points, sweep
from scissorhands.report.page import publish
from scissorhands.report.table import Table, tabulate
from scissorhands.runs import Result, Run

VALUES = {"forget_accuracy": 40.0, "retain_accuracy": 99.0, "test_accuracy": 95.0, "mia": 60.0}


def run(method: str, draw: int, mia: float, variant: str = "", **settings: Any) -> Run:
    """A run on one draw, compared with a retrained model."""
    record = {
        "seed": 2,
        "variant": variant,
        "device": "cpu",
        "world_size": 1,
        "model": {"name": "small", "arguments": {}},
        "data": {"name": "digits"},
        "split": {"manifest": f"m{draw}", "fingerprint": "f", "holdout": 0.1, "seed": draw, "forget": "random:10%"},
        "method": {"name": method, **settings},
    }
    scores = Scores({**VALUES, "mia": mia}, {}, {}, f"m{draw}", VALUES)
    name = "-".join([method, variant, *map(str, settings.values())])
    return Run(Path(f"/runs/{draw}/{name}"), record, Result(scores, 1.0, None, "../retrain-", 2.0))


def swept(**more: Any) -> Table:
    runs = [run("retrain", draw, 60.0) for draw in (1, 2)]
    for variant, shift in (("paper", 0.0), ("script", 5.0)):
        for trim in (0.1, 0.01):
            runs += [run("scissorhands", d, 50 * trim + 10 * d + shift, variant, trim=trim, **more) for d in (1, 2)]
    return tabulate(runs)


def test_points_are_the_means_and_spreads_of_the_rows_over_draws() -> None:
    found = [point for point in points(swept(epochs=3)) if point.metric == "MIA"]
    assert [(p.method, p.value, p.mean) for p in found] == [
        ("scissorhands-paper", 0.01, 15.5),
        ("scissorhands-paper", 0.1, 20.0),
        ("scissorhands-script", 0.01, 20.5),
        ("scissorhands-script", 0.1, 25.0),
    ]
    assert [p.std for p in found] == [pytest.approx(50**0.5)] * 4
    assert {(p.setting, p.retrained) for p in found} == {("trim", 60.0)}
    gaps = {p.retrained for p in points(swept()) if p.metric == "Avg. Gap"}
    assert gaps == {0.0}


def test_one_draw_has_curves_without_a_band() -> None:
    table = tabulate([run("retrain", 1, 60.0), *(run("scissorhands", 1, 50.0, trim=t) for t in (0.1, 0.2))])
    assert {(p.value, p.std) for p in points(table)} == {(0.1, None), (0.2, None)}


@pytest.mark.parametrize(
    "several",
    [
        [{"trim": 0.1, "lr": 0.1}, {"trim": 0.2, "lr": 0.2}],
        [{"init": "one"}, {"init": "zero"}],
        [{"project": True}, {"project": False}],
        [{"trim": 0.1}],
    ],
    ids=["two settings", "words", "switches", "one row"],
)
def test_rows_that_differ_in_something_else_have_no_curves(several: list[dict[str, Any]], tmp_path: Path) -> None:
    table = tabulate([run("scissorhands", 1, 50.0, **one) for one in several])
    assert points(table) == []
    publish(tmp_path, table, table.rows[0].runs, "title")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "table.json"]


def test_the_csv_holds_every_point() -> None:
    found = points(swept())
    read = [Point(**{**row, **{k: json.loads(row[k]) for k in ("value", "mean", "std", "retrained")}})
            for row in csv.DictReader(io.StringIO(as_csv(found)))]  # fmt: skip
    assert read == found


def test_a_bench_of_a_sweep_leaves_its_curves_and_shows_them(tmp_path: Path) -> None:
    table = swept()
    publish(tmp_path, table, [one for row in table.rows for one in row.runs], "title")
    drawn = (tmp_path / "curves.svg").read_text()
    assert drawn == as_svg(tuple(points(table)))
    said = "".join(ET.fromstring(drawn).itertext())
    for word in ("trim", "Acc forget", "Acc retain", "Acc test", "MIA", "Avg. Gap", "scissorhands-paper"):
        assert word in said
    assert "MIA" in (tmp_path / "curves.csv").read_text()
    assert 'id="sweep"' in (tmp_path / "report.html").read_text()


def test_the_curves_keep_to_the_schema_of_vega_lite() -> None:
    found = sweep(swept())
    assert found
    for chart in found.charts:
        chart.drawing.to_dict(validate=True)
