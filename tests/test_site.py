"""The docs are a site: it is built without a warning, and a question is at most two clicks from its answer."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What a new user asks: the page that the first click leads to, and the heading there that the second one does.
QUESTIONS = {
    "how do I serve a deletion request": ("tutorial-deletion", "The request"),
    "how do I erase a concept": ("tutorial-concept", "3. Erase"),
    "how do I run all methods with several seeds": ("tutorial-table", "1. Write the recipe"),
    "what can I ask to be forgotten": ("command-line", "What to forget"),
    "which method do I take": ("choosing-a-method", "What we measured"),
    "what does the verdict mean": ("metrics", "The verdict"),
    "which keys has a recipe": ("recipes", "For a classifier"),
    "how must my data be laid out": ("data", ""),
    "what does an exit code mean": ("command-line", "Exit codes"),
    "what is kept of what was forgotten": ("privacy", ""),
    "what can an attacker still do": ("limits", "The threat model"),
    "how do I write a method": ("contributing", "Add a method"),
    "what does sh.scrub take": ("python", "Models in folders"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_two_clicks_away(question: str, site: Path) -> None:
    page, heading = QUESTIONS[question]
    assert f'href="{page}/"' in (site / "index.html").read_text()
    headings = re.findall(r'href="#[^"]+"[^>]*>(.*?)</a>', (site / page / "index.html").read_text(), flags=re.DOTALL)
    assert any(heading in text for text in headings)


def test_the_pages_ask_nothing_of_another_machine(site: Path) -> None:
    for page in site.rglob("*.html"):
        asked = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?://[^"]+)"', page.read_text())
        assert not asked, page


def test_the_python_reference_has_the_arguments_and_what_they_are_for(site: Path) -> None:
    text = (site / "python" / "index.html").read_text()
    assert "overwrite" in text
    assert "Make the model in a folder or a file forget" in text
