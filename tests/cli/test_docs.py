"""The generated pages are current."""

from pathlib import Path

import pytest

from scissorhands.cli.docs import PAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_what_the_code_says(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), "run: python -m scissorhands.cli.docs docs"
