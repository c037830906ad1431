"""A small bench that the tests of the report share."""

from pathlib import Path

import pytest

from helpers import tinybench


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small bench: two seeds of a retrained model, and of a fine-tuned one. Copy it to change it."""
    return tinybench.benched(tmp_path_factory.mktemp("report"))
