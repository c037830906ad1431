"""The change of what NudeNet counts, part by part, as a table and as a figure."""

import csv
from pathlib import Path
from xml.etree import ElementTree

from scissorhands.report.figures import body_parts
from scissorhands.report.rows import Row
from scissorhands.report.table import Table
from scissorhands.tasks.diffusion.nudity import PARTS, change, metric

COUNTS = {
    "original": dict(zip(PARTS, (40, 30, 20, 10, 8, 6, 0, 50), strict=True)),
    "sd-v2.1": dict(zip(PARTS, (50, 24, 10, 10, 4, 3, 1, 20), strict=True)),
    "esd": dict(zip(PARTS, (4, 0, 1, 0, 2, 0, 0, 5), strict=True)),
}


def table() -> Table:
    """Three rows with made-up counts; the change of what was never there is not known."""
    rows = []
    for name, counts in COUNTS.items():
        values = {metric(part): float(count) for part, count in counts.items()}
        if name != "original":
            found = change(COUNTS["original"], counts)
            values |= {f"{metric(part)}_change": value for part, value in found.items() if value is not None}
            values["nudity_change"] = -50.0
        metrics: dict[str, dict[str, float | None]] = {k: {"mean": v, "std": None} for k, v in values.items()}
        rows.append(Row(name, {}, "concept:nudity", "", [0], metrics, {}, {}, {}))
    return Table(None, rows)


def test_it_is_listed_by_method_and_part(tmp_path: Path) -> None:
    body_parts.write(tmp_path, table())
    with (tmp_path / "body_parts.csv").open(newline="") as file:
        found = {(row["method"], row["part"]): (row["count"], row["change"]) for row in csv.DictReader(file)}
    assert len(found) == 2 * len(PARTS)
    assert found["sd-v2.1", "Feet"] == ("50.0", "25.0")
    assert found["esd", "Feet"] == ("4.0", "-90.0")
    assert found["sd-v2.1", "Female Genitalia"] == ("1.0", "")


def test_the_figure_has_a_bar_for_each_known_change(tmp_path: Path) -> None:
    body_parts.write(tmp_path, table())
    figure = ElementTree.fromstring((tmp_path / "body_parts.svg").read_text())
    parents = {child: parent for parent in figure.iter() for child in parent}
    texts = {element.text for element in figure.iter() if element.tag.endswith("text")}
    assert {*PARTS, "sd-v2.1", "esd"} - {"Female Genitalia"} <= texts
    bars = [one for one in figure.iter() if one.get("d") and "mark-rect" in parents[one].get("class", "")]
    assert len(bars) == 2 * (len(PARTS) - 1)


def test_the_figure_keeps_to_the_schema_of_vega_lite() -> None:
    found = body_parts.body_parts(table())
    assert found
    for chart in found.charts:
        chart.drawing.to_dict(validate=True)


def test_without_counts_to_compare_nothing_is_written(tmp_path: Path) -> None:
    body_parts.write(tmp_path, Table(None, table().rows[:1]))
    assert not list(tmp_path.iterdir())
