"""The page in a real browser: what it says, asks for, does and looks like."""

import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from pypdf import PdfReader

from helpers.browser import Browser, chromium
from scissorhands.metrics import METRICS
from scissorhands.report import gathering
from scissorhands.report import page as report
from scissorhands.report.figures import losses
from scissorhands.report.figures.all import figures
from scissorhands.report.figures.kept import states
from scissorhands.report.table import Table, tabulate
from scissorhands.runs import Run

pytestmark = pytest.mark.skipif(not chromium() and "CI" not in os.environ, reason="needs Chromium to open the page")
EVIL = "<script>document.title = 'taken over'</script>"
AXE = Path(os.environ.get("AXE", "node_modules/axe-core/axe.min.js"))


@pytest.fixture(scope="module")
def runs(complete: Path) -> list[Run]:
    """The runs of a small bench; one has a name that is markup."""
    found, _ = gathering.gathered([complete])
    return [replace(run, record={**run.record, "variant": EVIL}) if run.method == "finetune" else run for run in found]


@pytest.fixture(scope="module")
def table(runs: list[Run]) -> Table:
    """Their table."""
    return tabulate(runs)


@pytest.fixture(scope="module")
def page(runs: list[Run], table: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report.page(table, runs, EVIL, policy=[EVIL], skipped=[EVIL]))
    return path


@pytest.fixture(scope="module")
def opened(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that shows the page; every test leaves it as it was."""
    browser = Browser(tmp_path_factory.mktemp("profile"))
    browser.open(page)
    yield browser
    browser.close()


def test_it_says_nothing_on_the_console_and_asks_for_nothing(opened: Browser) -> None:
    assert (opened.said(), opened.requests()) == ([], [])
    drawn = opened.run(
        "[...document.querySelectorAll('figure:not([hidden]) .chart')].map(c => !!c.querySelector('svg'))"
    )
    assert len(drawn) > 5
    assert all(drawn)


def test_what_a_run_says_is_shown_as_text(opened: Browser) -> None:
    assert opened.run("document.querySelector('h1').innerText") == EVIL
    assert opened.run("document.title") == EVIL
    assert f"finetune-{EVIL}" in opened.run("document.querySelector('#scores').innerText")
    assert "finetune-<script>" in opened.run("document.querySelector('#attacks svg').textContent")
    assert opened.run("document.querySelectorAll('script').length") == 3


def column(browser: Browser, title: str) -> list[str]:
    """The method of each row, and the value in a column, after a click on its head."""
    found: list[str] = browser.run(
        f"""(() => {{
        const head = [...document.querySelectorAll('#scores thead th')].find(h => h.innerText.startsWith('{title}'));
        head.querySelector('button').click();
        const rows = [...document.querySelectorAll('#scores tbody tr:not([hidden])')];
        return rows.map(row => row.cells[head.cellIndex].innerText);
        }})()"""
    )
    return found


def test_a_click_sorts_the_table_and_the_reference_stays_on_top(opened: Browser, table: Table) -> None:
    known = {row.method: row.metrics["test_accuracy"]["mean"] for row in table.rows}
    others = sorted(x for name, x in known.items() if name != table.reference and x is not None)
    for expected in (others, others[::-1]):
        first, *rest = [float(cell.split()[0]) for cell in column(opened, "Acc test")]
        assert first == pytest.approx(known[str(table.reference)], abs=0.005)
        assert rest == pytest.approx(expected, abs=0.005)


def test_five_columns_are_shown_and_the_reader_chooses_others(opened: Browser) -> None:
    shown = "[...document.querySelectorAll('#scores thead th[data-column]:not([hidden])')].map(h => h.dataset.column)"
    first = opened.run(shown)
    assert len(first) == 5
    click = "document.querySelector('input[data-column=rte]').click()"
    opened.run(click)
    assert opened.run(shown) == [*first, "rte"]
    opened.run(click)
    rows = "document.querySelectorAll('#scores tbody tr:not([hidden])').length"
    before = opened.run(rows)
    opened.run("document.getElementById('each').click()")
    assert opened.run(rows) == before + 6
    opened.run("document.getElementById('each').click()")


def test_the_slider_counts_what_the_data_says(opened: Browser, table: Table) -> None:
    row = next(row for row in table.rows if row.method.startswith("finetune"))
    kept = states(row.runs[0])
    titles = {"forget": "forgotten", "others": "never seen", "retain": "retained"}
    seen = []
    for stop in (0, 20, 30, 34, len(losses.EDGES) - 1):
        opened.run(f"threshold.value = {stop}; threshold.dispatchEvent(new Event('input'))")
        cells = opened.run("[...document.querySelectorAll('#called tr')].map(r => [...r.cells].map(c => c.innerText))")
        head, *lines = cells
        for line in lines:
            kind = next(name for name, title in titles.items() if title == line[0])
            for state, said in zip(head[1:], line[1:], strict=True):
                found = losses.loss_of(kept[state][kind])
                below = int((found.clamp(losses.EDGES[0], losses.EDGES[-1]) <= losses.EDGES[stop]).sum())
                count, total = map(int, re.findall(r"\d+", said)[:2])
                assert total == len(found)
                assert abs(count - below) < losses.LEAST
                seen.append(count == below)
    assert sum(seen) > len(seen) / 2  # between two edges of a bin it is a guess


BOXES = """(() => {
  const shown = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== 'hidden';
  const inside = (e) => e.closest('.wide, .chart, details:not([open]) > :not(summary), thead');
  const found = [];
  for (const e of document.querySelectorAll('main *')) {
    const box = e.getBoundingClientRect();
    if (!shown(e) || inside(e) || box.width < 2) continue;
    if (box.right > innerWidth + 1 || box.left < -1) found.push('outside: ' + e.tagName + e.id + e.className);
    const text = e.matches('p, h1, h2, label, button, a, summary, figcaption, dd, dt, .sign');
    if (text && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')
      found.push('cut off: ' + e.tagName + e.innerText.slice(0, 40));
  }
  const cards = [...document.querySelectorAll('main > *')].filter(shown).map(e => e.getBoundingClientRect());
  for (let i = 1; i < cards.length; i++)
    if (cards[i].top < cards[i - 1].bottom - 1) found.push('overlap of sections ' + i);
  for (const chart of document.querySelectorAll('.chart svg')) {
    const all = chart.getBoundingClientRect(), frame = chart.parentElement.getBoundingClientRect();
    if (shown(chart) && all.right > frame.right + 1) found.push('chart too wide: ' + chart.parentElement.dataset.chart);
    for (const text of chart.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      const cut = box.width && (box.left < all.left - 2 || box.right > all.right + 2);
      if (cut) found.push('text cut off: ' + text.textContent);
    }
  }
  return [found, document.documentElement.scrollWidth <= innerWidth];
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [380, 800, 1440])
def test_nothing_overlaps_or_is_cut_off(width: int, dark: bool, opened: Browser, page: Path) -> None:
    opened.open(page, width, 900, dark)
    assert opened.run(BOXES) == [[], True]
    ground, ink = (
        sum(map(int, re.findall(r"\d+", opened.run(f"getComputedStyle(document.body).{name}"))[:3]))
        for name in ("backgroundColor", "color")
    )
    assert (ground < ink) == dark
    mark = "getComputedStyle(document.querySelector('#tradeoff svg text')).fill"
    assert (sum(map(int, re.findall(r"\d+", opened.run(mark))[:3])) > 384) == dark


def test_a_chart_of_another_run_is_drawn_when_it_is_chosen(opened: Browser, page: Path) -> None:
    opened.open(page)
    groups = "[...document.querySelectorAll('#progress figure:not([hidden])')].map(f => f.dataset.group)"
    first = opened.run(groups)
    assert all(group.startswith("finetune") for group in first)  # the method that the first screen is about
    opened.run("""(() => { const select = document.querySelector('select[data-groups=progress]');
        select.selectedIndex = 0; select.dispatchEvent(new Event('change')); })()""")
    assert opened.run(groups) != first
    drawn = "!!document.querySelector('#progress figure:not([hidden]) svg')"
    opened.run(f"new Promise(done => {{ const wait = () => {drawn} ? done() : setTimeout(wait, 20); wait(); }})")


def test_the_keyboard_reaches_what_can_be_used(opened: Browser) -> None:
    names = []
    for _ in range(60):
        for kind in ("rawKeyDown", "keyUp"):
            opened("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        names.append(opened.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"A", "SUMMARY", "BUTTON", "threshold"} <= {*names}


def test_the_data_can_be_downloaded(opened: Browser, table: Table, tmp_path: Path) -> None:
    opened("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.run("document.querySelector('button[data-csv=table]').click()")
    opened.run("document.getElementById('download').click()")
    for _ in range(200):
        if {"table.csv", "report.json"} <= {path.name for path in tmp_path.iterdir()}:
            break
        opened.run("new Promise(done => setTimeout(done, 50))")
    known = json.loads((tmp_path / "report.json").read_text())
    assert known["table"] == json.loads(json.dumps(table.to_dict()))
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + 3 + 6
    drawn = {figure.name: figure for figure in figures(table)}
    assert known["figures"].keys() == {*drawn, "table"}
    for name in ("losses", "progress", "classes"):  # which the page puts together
        own = [{**row} for row in drawn[name].rows]
        assert len(known["figures"][name]) == len(own)
        assert {row["run"] for row in known["figures"][name]} == {row["run"] for row in own}
    assert known["figures"]["losses"] == json.loads(json.dumps(drawn["losses"].rows))


def test_on_paper_no_column_is_lost(opened: Browser, table: Table, page: Path) -> None:
    opened.open(page, 688)  # A4 between its margins
    opened("Emulation.setEmulatedMedia", media="print")
    inside = "(head) => head.getBoundingClientRect().right <= innerWidth"
    heads = f"[...document.querySelectorAll('.paper thead th')].filter({inside})"
    shown = opened.run(f"{heads}.map(head => head.innerText)")
    opened("Emulation.setEmulatedMedia", media="")
    text = " ".join(one.extract_text() for one in PdfReader(io.BytesIO(opened.pdf())).pages)
    titles = [METRICS[name].title for name in table.names() if any(name in row.metrics for row in table.rows)]
    assert len(titles) > 15
    assert {*titles} <= {*shown}
    words = {*normalize("NFKC", text).split()}  # without ligatures
    assert {word for title in titles for word in title.split()} <= words


def test_axe_finds_no_serious_fault(opened: Browser, page: Path) -> None:
    if not AXE.is_file() and "CI" not in os.environ:
        pytest.skip("needs axe-core: npm install axe-core")
    for dark in (False, True):
        opened.open(page, dark=dark)
        opened.run(AXE.read_text() + "; 0")
        found: list[dict[str, Any]] = opened.run("axe.run().then((found) => found.violations)")
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in serious] == []


def test_it_is_small(page: Path) -> None:
    assert page.stat().st_size < 1_500_000
