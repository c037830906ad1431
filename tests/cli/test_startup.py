"""Help and mistakes are answered at once: what takes seconds to import is imported for the work alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import scissorhands
from scissorhands import choices, tasks
from scissorhands.cli import arguments
from scissorhands.cli.main import VERBS, group
from scissorhands.data import forget
from scissorhands.errors import ModelError

ASKED = [
    ["--help"],
    ["--version"],
    ["scrb"],
    ["scrub"],
    ["scrub", "model", "--forget", "class:3"],
    ["train", "--model", "small"],
    ["evaluate"],
    ["bench", "recipe.toml"],
    # what is not there, and names that nothing has
    ["bench", "absent.toml", "-o", "out"],
    ["scrub", "absent", "--forget", "class:3", "-o", "out"],
    ["scrub", "here/absent/model", "--forget", "class:3", "-o", "out"],
    ["scrub", ".", "--forget", "clas:3", "-o", "out"],
    ["scrub", ".", "--forget", "class:3", "--method", "scisors", "-o", "out"],
    ["scrub", ".", "--forget", "class:3", "--tuned", "absent", "-o", "out"],
    ["scrub", "--resume", "absent"],
    ["preview", "absent", "--forget", "class:3"],
    ["tune", "absent", "--forget", "class:3", "-o", "out"],
    ["evaluate", "absent"],
    ["evaluate", ".", "--against", "absent"],
    ["report", "absent", "-o", "page.html"],
    ["report", ".", "-o", "page.docx"],
    ["compare", ".", "absent"],
    ["purge", "absent"],
    ["evidence", "absent", "-o", "pack.zip"],
    ["verify", "absent.zip"],
    ["sample", "absent", "--prompts", "a cat", "-o", "out"],
    ["judge", "absent", "-o", "out"],
    ["methods", "scisors"],
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


def test_names_that_are_checked_at_once_are_those_that_there_are() -> None:
    assert [*choices.METHODS] == [*tasks.methods()]
    assert [*choices.RULES] == [*forget._RULES]


def test_a_model_that_may_be_on_the_hub_or_goes_on_is_not_refused_at_once(tmp_path: Path) -> None:
    for name in ("owner/name", "owner/name@main", str(tmp_path)):
        assert arguments.TRAINED.convert(name, None, None) == name
    with pytest.raises(ModelError, match="there is no model folder"):
        arguments.TRAINED.convert(f"{tmp_path}/absent", None, None)
    (tmp_path / ".run.unfinished").mkdir()
    assert arguments.BEGUN.convert(str(tmp_path / "run"), None, None) == tmp_path / "run"
    assert arguments.RUN.convert(str(tmp_path / "run"), None, None) == tmp_path / "run"
    assert arguments.RUN.convert("x" * 5000, None, None) == Path("x" * 5000)  # whose error comes later


def test_every_public_name_is_there() -> None:
    assert {"Forget", "Scissorhands", "evaluate", "split"} <= {*scissorhands.__all__} <= {*dir(scissorhands)}
    for name in scissorhands.__all__:
        assert getattr(scissorhands, name) is not None
    with pytest.raises(AttributeError, match="Scisors"):
        scissorhands.Scisors  # type: ignore[attr-defined]  # noqa: B018


def test_every_command_is_listed_and_has_a_sentence() -> None:
    listed = CliRunner().invoke(group, ["--help"]).output
    assert all(f"\n  {verb} " in listed for verb in VERBS)
