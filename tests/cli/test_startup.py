"""Help and mistakes are answered at once: what takes seconds to import is imported for the work alone."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import scissorhands
from scissorhands.cli.main import VERBS, group

ASKED = [
    ["--help"],
    ["--version"],
    ["scrb"],
    ["scrub"],
    ["scrub", "model", "--forget", "class:3"],
    ["train", "--model", "small"],
    ["evaluate"],
    ["bench", "recipe.toml"],
    *([verb, "--help"] for verb in VERBS),
    *([verb, "--no-such-option"] for verb in VERBS),
]
SLOW = ("torch", "datasets", "transformers", "sklearn", "scipy", "numpy")
ASK = f"""
import sys
from scissorhands.cli.main import main
for words in {ASKED!r}:
    sys.argv = ["scissorhands", *words]
    try:
        main()
    except SystemExit as end:
        slow = [name for name in {SLOW!r} if name in sys.modules]
        print("ENDED", end.code, *slow)
"""


def test_help_and_mistakes_import_nothing_that_is_slow() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    ended = [line for line in done.stdout.splitlines() if line.startswith("ENDED")]
    helps = [words for words in ASKED if words[-1] in ("--help", "--version")]
    assert ended == [f"ENDED {0 if words in helps else 2}" for words in ASKED]
    mistakes = done.stderr.splitlines()
    assert len(mistakes) == len(ASKED) - len(helps)
    assert all(line.startswith("error: ") for line in mistakes)


def test_every_public_name_is_there() -> None:
    assert {"Forget", "Scissorhands", "evaluate", "split"} <= {*scissorhands.__all__} <= {*dir(scissorhands)}
    for name in scissorhands.__all__:
        assert getattr(scissorhands, name) is not None
    with pytest.raises(AttributeError, match="Scisors"):
        scissorhands.Scisors  # type: ignore[attr-defined]  # noqa: B018


def test_every_command_is_listed_and_has_a_sentence() -> None:
    listed = CliRunner().invoke(group, ["--help"]).output
    assert all(f"\n  {verb} " in listed for verb in VERBS)
