"""What a report can be: Markdown, CSV, LaTeX, JSON and PDF, and its figures as files."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from helpers.commands import cli, done
from scissorhands.report import exports, pdf
from scissorhands.report.table import tabulate
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


# A name may hold whatever LaTeX reads as something else, and letters that pdflatex does not have.
EVIL = '[x]*&%$#_{}\\~^<>|"±–λ≈→×… éßŁőčñå ęð猫‘ $x_1$ \\input{/etc/passwd} %\\\\'


@pytest.fixture(scope="module")
def latex(complete: Path) -> str:
    """The table of runs whose method and title are that."""
    found = [read(run.parent) for run in sorted(complete.glob("seed-*/[for]*/run.toml"))]
    found = [replace(run, record={**run.record, "variant": EVIL}) if run.method == "finetune" else run for run in found]
    return exports.as_latex(tabulate(found), EVIL)


def cells(line: str) -> int:
    """How many cells a line of a tabular has."""
    return len(re.split(r"(?<!\\)&", line))


def test_latex_is_balanced_and_every_line_has_as_many_cells_as_columns(latex: str) -> None:
    open_now: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", latex):
        if kind == "begin":
            open_now.append(name)
        else:
            assert open_now.pop() == name
    assert not open_now
    bare = re.sub(r"\\[{}]", "", latex)
    assert bare.count("{") == bare.count("}")
    tables = re.findall(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", latex, flags=re.DOTALL)
    assert [body.count(r" \\") for _, body in tables] == [1 + 3, 1 + 6]
    for columns, body in tables:
        rules = [line.strip() for line in body.splitlines() if line.strip() and not line.endswith(r" \\")]
        assert (rules[0], rules[-1], {*rules[1:-1]}) == (r"\toprule", r"\bottomrule", {r"\midrule"})
        lines = [line for line in body.splitlines() if line.endswith(r" \\")]
        assert {cells(line) for line in lines} == {len(columns)}
        assert not any(re.match(r"\s*[\[*]", line) for line in lines)  # an option of the line break before it


def test_latex_has_the_reference_first_the_nearest_in_bold_and_each_seed(latex: str) -> None:
    first, second = latex.split(r"\end{table}")[:2]
    named = [line.split(" & ")[0].strip() for line in first.splitlines() if line.endswith(r"\\")]
    assert named[:2] == ["Method", "retrain"]
    assert [name for name in named if name.startswith(r"\textbf{finetune-{[}x]{*}\&\%\$\#\_\{\}\textbackslash{}")]
    seeds = [line.split(" & ")[1] for line in second.splitlines() if line.endswith(r"\\")]
    assert sorted(seeds) == ["0", "0", "0", "1", "1", "1", "Seed"]


def test_latex_escapes_whatever_a_name_holds(latex: str) -> None:
    (caption,) = re.findall(r"\\caption\{(.*)\}\n", latex.split(r"\end{table}")[0])
    known = r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|dots)\{\}"
    known += r"|\$\\(pm|lambda|approx|rightarrow|times)\$|\\[&%$#_{}]|\{[\[*]\}"
    left = re.sub(known, "", caption)
    assert not {*"\\{}$&%#_^~"} & {*left}
    assert left.startswith('x]"--')
    assert "U+0119]U+00F0]U+732B]U+2018]" in left


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex, of texlive-latex-recommended")
def test_latex_compiles(latex: str, tmp_path: Path) -> None:
    packages = r"\usepackage{booktabs,graphicx}"
    text = f"\\documentclass{{article}}\n{packages}\n\\begin{{document}}\n{latex}\\end{{document}}\n"
    (tmp_path / "page.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, [line for line in done.stdout.splitlines() if line.startswith("!")]
    assert (tmp_path / "page.pdf").is_file()


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
