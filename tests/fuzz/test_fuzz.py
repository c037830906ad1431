"""The first hundred cases of the fuzz, and proof that it would notice."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.cases import FAMILIES
from fuzz.fuzz import Outcome, failures
from helpers.nursery import Nursery

HERE = Path(__file__).parent
REFUSED = Outcome(0, "recipes", words=["bench"], code=2, err="error: there is no recipe.\n")
DONE = Outcome(0, "recipes", words=["bench"], code=0, changed=["+work/out"])
CASES = """
import sys
from fuzz.fuzz import main
sys.exit(main())
"""
# Cases whose command is replaced, one after the other: each must be told from one that ends by itself.
CONTROL = """
import json, os, signal, sys, time
from pathlib import Path
from random import Random
from fuzz import cases, fuzz, healthy

def outcome(answer):
    root = Path(sys.argv[1]) / answer

    def make():
        for room in cases.ROOMS:
            (root / room).mkdir()
        return cases.Case(7, "recipes", root, Random(0), "control", ["methods"])

    healthy.answered = answers[answer]
    return fuzz.run(make, root, "recipes", 7, seconds=1)

def wait(_):
    while True:
        time.sleep(0.01)

def deaf(words):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    wait(words)

def write(_):
    Path("left.txt").write_text("x")
    print("error: refused", file=sys.stderr)
    return 2

answers = {
    "dies": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "waits": wait,
    "is deaf": deaf,
    "raises": lambda _: 1 / 0,
    "writes": write,
    "takes memory": lambda _: len(b"x" * (200 << 20)) * 0,
    "ends well": lambda _: 0,
}
fuzz.STRAY, fuzz.GIBIBYTES = 0.1, 0.1
print(json.dumps({answer: [kind for kind, _ in fuzz.failures(outcome(answer))] for answer in answers}))
"""


def test_the_first_hundred_cases_end_as_they_should(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(CASES)
    done = nursery.script(tmp_path / "cases.py", "--cases", "100", "--json", tmp_path / "fuzz.json")
    assert done.code == 0, done.out + done.err
    found = json.loads((tmp_path / "fuzz.json").read_text())
    assert {name: family["cases"] for name, family in found["families"].items()} == dict.fromkeys(FAMILIES, 20)
    assert found["failures"] == []


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (replace(DONE, raised="KeyError", where="runs.py:1 read"), "KeyError"),
        (replace(DONE, raised="TooLong"), "took too long"),
        (replace(DONE, died="died of SIGSEGV"), "died of SIGSEGV"),
        (replace(DONE, code=143), "exit code 143"),
        (replace(DONE, mebibytes=4000.0), "took too much memory"),
        (replace(DONE, wrong=["a class is lost"]), "silently wrong"),
        (replace(DONE, err="Traceback (most recent call last):\nKeyError: 1\n"), "a traceback on stderr"),
        (replace(DONE, changed=["outside/secret.txt"]), "written where it should not"),
        (replace(DONE, changed=["+tmp/left"]), "written where it should not"),
        (replace(REFUSED, changed=["+outside/ran"]), "code ran that nobody named"),
        (replace(REFUSED, err=""), "refused in other than one line"),
        (replace(REFUSED, err="warning: x\nerror: y\n"), "refused in other than one line"),
        (replace(REFUSED, err="no recipe\n"), "refused in other than one line"),
        (replace(REFUSED, changed=["+work/out"]), "written though refused"),
        (replace(REFUSED, changed=["work/recipe.toml"]), "written though refused"),
        (replace(REFUSED, code=1), "exit code 1 for a mistake of the user"),
    ],
)
def test_what_goes_wrong_in_a_case_is_noticed(outcome: Outcome, kind: str) -> None:
    assert [found for found, _ in failures(outcome)] == [kind]


@pytest.mark.parametrize("outcome", [DONE, REFUSED, replace(DONE, code=3)])
def test_a_case_that_ends_well_is_no_failure(outcome: Outcome) -> None:
    assert failures(outcome) == []


def test_whatever_commands_do_the_fuzz_outlives_them_and_tells(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONTROL, str(tmp_path)]
    tmp_path.chmod(0o777)
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "dies": ["died of SIGSEGV"],
        "waits": ["took too long"],
        "is deaf": ["hung"],
        "raises": ["ZeroDivisionError"],
        "writes": ["written though refused"],
        "takes memory": ["took too much memory"],
        "ends well": [],
    }
