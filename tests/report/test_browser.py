"""The report in a real browser."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from scissorhands.cli.main import group

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to open the page")
def test_a_browser_shows_every_row_and_nothing_overflows(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train = ["train", "--model", "small", "--data", "digits", "--set", "epochs=1", "-o", str(run)]
    group.main(train, standalone_mode=False)
    page = tmp_path / "report.html"
    group.main(["report", str(run), "-o", str(page), "--title", "<b>not markup</b>"], standalone_mode=False)
    probe = "<script>document.title = JSON.stringify({rows: document.querySelectorAll('#scores tbody tr').length,"
    probe += (
        "heading: document.querySelector('h1').innerText, cell: document.querySelector('#scores tbody th').innerText,"
    )
    probe += "overflow: document.documentElement.scrollWidth > innerWidth})</script>"
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text().replace("</body>", probe + "</body>"))
    shown = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", probed.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    title = shown.split("<title>")[1].split("</title>")[0]
    seen = json.loads(title.replace("&lt;", "<").replace("&gt;", ">"))
    assert seen == {"rows": 1, "heading": "<b>not markup</b>", "cell": "original", "overflow": False}
