"""What a report can be: Markdown, CSV, LaTeX, JSON and PDF, and its figures as files."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from helpers.commands import cli, done
from scissorhands.report import pdf
from scissorhands.runs import read


@pytest.fixture
def bench(complete: Path) -> Path:
    """A small bench."""
    return complete


def written(bench: Path, output: Path) -> str:
    done(f"report {bench} -o {output} --title 'A_title & <more>'")
    return output.read_text()


def test_csv_has_a_line_for_each_row_and_each_run(bench: Path, tmp_path: Path) -> None:
    lines = [*csv.DictReader(io.StringIO(written(bench, tmp_path / "x.csv")))]
    runs = {(line["method"], line["seeds"]): line for line in lines if line["what"] == "run"}
    assert sorted({line["method"] for line in lines}) == ["finetune", "original", "retrain"]
    assert {seed for _, seed in runs} == {"0", "1"}
    known = read(bench / "seed-1/finetune").result.values()
    assert float(runs["finetune", "1"]["test_accuracy"]) == known["test_accuracy"]


def test_json_has_the_table_and_each_run(bench: Path, tmp_path: Path) -> None:
    found = json.loads(written(bench, tmp_path / "x.json"))
    assert found["rows"] == json.loads((bench / "table.json").read_text())["rows"]
    assert len(found["runs"]) == 6


def test_markdown_tells_what_happened_and_has_a_table(bench: Path, tmp_path: Path) -> None:
    text = written(bench, tmp_path / "x.md")
    assert text.startswith("# A_title & &lt;more>\n")
    assert "training records, all of class 3" in text
    table = [line.count("|") for line in text.splitlines() if line.startswith("|")]
    assert len(table) == (2 + 3) + (2 + 6)
    assert len({*table}) == 1


def test_latex_is_balanced_and_escaped(bench: Path, tmp_path: Path) -> None:
    text = written(bench, tmp_path / "x.tex")
    opened, closed = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert opened == closed[::-1] == ["table", "tabular"]
    assert r"\caption{A\_title \& \textless{}more\textgreater{}}" in text
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({line.count(" & ") for line in rows}) == 1
    assert [row.split()[0] for row in rows] == ["Method", "retrain", "original", r"\textbf{finetune}"]
    assert text.index(r"\midrule") < text.index("retrain")


@pytest.mark.skipif(not pdf.browser(), reason="needs a Chromium that prints")
def test_pdf_is_one(bench: Path, tmp_path: Path) -> None:
    done(f"report {bench}/seed-0/finetune -o {tmp_path}/x.pdf")
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF-")


def test_pdf_without_a_browser_is_refused(bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = cli(f"report {bench}/seed-0/finetune -o {tmp_path}/x.pdf")
    assert answer.code == 1
    assert "there is no Chromium here" in answer.err
    assert not (tmp_path / "x.pdf").exists()


def test_another_file_is_replaced_only_if_asked(bench: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("mine")
    assert cli(f"report {bench} -o {tmp_path}/x.csv").code == 2
    assert (tmp_path / "x.csv").read_text() == "mine"
    done(f"report {bench} -o {tmp_path}/x.csv --overwrite")
    assert (tmp_path / "x.csv").read_text() != "mine"


def test_every_figure_is_written_as_svg_and_png(bench: Path, tmp_path: Path) -> None:
    done(f"report {bench}/seed-0/finetune -o {tmp_path}/x.csv --figures {tmp_path}/figures")
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert {"tradeoff", "losses-finetune-before", "losses-finetune-after", "classes-finetune", "attacks-AUC"} <= names
    for name in names:
        assert ElementTree.fromstring((tmp_path / f"figures/{name}.svg").read_text()).tag.endswith("svg")
        with Image.open(tmp_path / f"figures/{name}.png") as image:
            assert image.width > 800


def test_a_damaged_run_is_named_and_left_out(bench: Path, tmp_path: Path) -> None:
    shutil.copytree(bench, tmp_path / "bench")
    (tmp_path / "bench/seed-0/finetune/run.toml").write_text("edited = true")
    shutil.rmtree(tmp_path / "bench/seed-1/finetune")
    answer = done(f"report {tmp_path}/bench -o {tmp_path}/page.html --json")
    assert {row["method"] for row in json.loads(answer.out)["rows"]} == {"original", "retrain"}
    for word in ("bench/seed-0/finetune/run.toml", "1 of 6 runs have not finished: seed-1/finetune"):
        assert word in answer.err
        assert word in (tmp_path / "page.html").read_text()
    assert cli(f"report {tmp_path}/bench/seed-0/finetune -o {tmp_path}/page.html").code == 2


def test_a_policy_is_told_and_ends_the_command(bench: Path, tmp_path: Path) -> None:
    for name, most, code, says in (("kept", 100.0, 0, "The policy is kept."), ("broken", -100.0, 3, "is broken.")):
        (tmp_path / f"{name}.toml").write_text(f"largest_retain_loss = {most}\n")
        run, policy = bench / "seed-0/finetune", tmp_path / f"{name}.toml"
        answer = cli(f"report {run} -o {tmp_path}/{name}.html --policy {policy}")
        assert answer.code == code
        assert says in (tmp_path / f"{name}.html").read_text()
        assert ("largest_retain_loss = -100.0" in answer.err) == (code == 3)
