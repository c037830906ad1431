"""A seeded fuzz of the whole product: wrong command lines, recipes, data folders, model folders and run folders.

    cd tests && python -m fuzz.fuzz --cases 500 --seed 0 --json ../results/fuzz.json
    cd tests && python -m fuzz.fuzz --case 217          # one case again, with all it says

Whatever it is given, a command ends with exit code 0 (done), 1 (failed through no fault of the user), 2 (wrong usage)
or 3 (done, but the model is damaged), without a traceback, in bounded time and memory. When it refuses, it says why in
one line and leaves no trace on disk. When it succeeds, its result is not silently wrong, as far as can be decided.

Each case runs in a process of its own, forked from one that has imported everything, and never as root.
"""

import argparse
import ctypes
import faulthandler
import gc
import hashlib
import json
import os
import platform
import re
import resource
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz import healthy
from fuzz.cases import FAMILIES, ROOMS, Case, made
from fuzz.damage import OUTSIDE, RAN
from helpers.nursery import import_package

SECONDS, GIBIBYTES = 20.0, 3.0  # what a case may take; the process itself is not counted
STRAY = 3.0  # seconds after which a case that does not heed its alarm is killed
_ROOM_GIB = 8  # address space above the start, at which memory is refused to it, so that it cannot take the machine's
_NOBODY = 65534
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


class TooLong(BaseException):
    """The time of a case is over."""


@dataclass
class Outcome:
    """What came of a case."""

    number: int
    family: str
    hazard: str = ""
    words: list[str] = field(default_factory=list)
    code: int | None = None
    err: str = ""
    out: str = ""
    raised: str = ""  # the kind of an exception that was not caught
    where: str = ""  # the innermost line of ours that it passed
    trace: str = ""
    changed: list[str] = field(default_factory=list)  # files that were made, changed or removed
    wrong: list[str] = field(default_factory=list)  # what is wrong though it succeeded
    seconds: float = 0.0
    mebibytes: float = 0.0
    died: str = ""


# What a case must not do


PROGRESS = re.compile(r"\b\d+ of \d+\b")  # such as epoch 3 of 10: what is said before something fails


def failures(outcome: Outcome) -> list[tuple[str, str]]:
    """What went wrong in a case: a kind, and the details that tell one cause from another."""
    if outcome.died:
        return [(outcome.died, outcome.where)]
    if outcome.raised:
        kind = "took too long" if outcome.raised == TooLong.__name__ else outcome.raised
        return [(kind, outcome.where)]
    found = []
    said, ran = outcome.err.splitlines(), f"+{OUTSIDE}/{RAN}"
    lines = [line for line in said if line.startswith("error: ") or not PROGRESS.search(line)]
    refused = outcome.code in (1, 2)
    helped = not lines and "Usage:" in outcome.out  # a command without arguments is answered by its help
    if outcome.code not in (0, 1, 2, 3):
        found.append((f"exit code {outcome.code}", ""))
    if outcome.code == 1 and not re.search("diverge|memory", outcome.err):
        found.append(("exit code 1 for a mistake of the user", _cause(outcome.err)))
    if refused and not helped and not (len(lines) == 1 and lines[0].startswith("error: ")):
        found.append(("refused in other than one line", lines[0] if lines else "no line at all"))
    if "Traceback" in outcome.err:
        found.append(("a traceback on stderr", next(line for line in reversed(lines) if line.strip())))
    kept = outcome.code == 1 and outcome.words[0] == "bench"  # which keeps the runs that it finished
    if refused and outcome.changed and not kept and ran not in outcome.changed:
        found.append(("written though refused", f"{outcome.changed[0]}: {lines[-1] if lines else ''}"))
    if astray := [x for x in outcome.changed if x.lstrip("+-").startswith((OUTSIDE, "tmp")) and x != ran]:
        found.append(("written where it should not", ", ".join(astray)))
    if ran in outcome.changed:
        found.append(("code ran that nobody named", ""))
    if outcome.mebibytes > GIBIBYTES * 1024:
        found.append(("took too much memory", f"{outcome.mebibytes:.0f} MiB"))
    return found + [("silently wrong", text) for text in outcome.wrong]


def _wrong(case: Case, outcome: Outcome) -> list[str]:
    """What is wrong with the result of a command that succeeded."""
    if outcome.code not in (0, 3):
        return []
    found = []
    for check in case.checks:
        try:
            found.append(check(case.work))
        except (OSError, ValueError, KeyError, TypeError) as error:
            found.append(f"the result cannot be looked at: {type(error).__name__}: {error}")
    if "--json" in case.words and "-h" not in case.words and "--help" not in case.words:
        try:
            json.loads(outcome.out, parse_constant=_no_number)
        except ValueError as error:
            found.append(f"what it printed is no JSON: {error}")
    return [text for text in found if text]


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def tree(root: Path) -> dict[str, str]:
    """All that is in the rooms of a case, each with a hash, but for the cache of decoded images."""
    found: dict[str, str] = {}
    for room in ROOMS:
        for folder, folders, files in os.walk(root / room):
            if folder == str(root / "cache"):
                folders[:] = [name for name in folders if name != "images"]
            for name in [*folders, *files]:
                path = Path(folder) / name
                found[str(path.relative_to(root))] = _hashed(path)
    return found


def _hashed(path: Path) -> str:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return f"-> {os.readlink(path)}"
    if not stat.S_ISREG(about.st_mode) or not about.st_mode & stat.S_IRUSR or about.st_size > 1 << 28:
        return f"{about.st_mode:o} {about.st_size if stat.S_ISREG(about.st_mode) else ''}"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _difference(before: dict[str, str], after: dict[str, str]) -> list[str]:
    new = [f"+{name}" for name in after.keys() - before.keys()]
    gone = [f"-{name}" for name in before.keys() - after.keys()]
    return sorted(new) + sorted(gone) + sorted(n for n in before.keys() & after.keys() if before[n] != after[n])


# Running a case


def _limit() -> None:
    """Limits what this process may take."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    with suppress(OSError):  # a system without /proc
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (_ROOM_GIB << 30),) * 2)


def _no_root() -> None:
    """Gives up what root may do, but for reading: Python itself may be in root's home."""
    if os.getuid() != 0:
        return
    libc, read = ctypes.CDLL(None), 1 << 2  # CAP_DAC_READ_SEARCH
    libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(read, read, 0, 0, 0, 0))


def _settle(root: Path) -> None:
    """Makes the rooms of a case those of this process."""
    os.chdir(root / "work")
    os.environ.update(HOME=str(root / "home"), TMPDIR=str(root / "tmp"), SCISSORHANDS_CACHE=str(root / "cache"))
    tempfile.tempdir = None
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(root / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _ring(*_: Any) -> None:
    raise TooLong


def _place(error: BaseException) -> str:
    """The innermost line of the product that an exception passed; of a refusal by nobody, the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/scissorhands/" in frame.filename and "/site-packages/" not in frame.filename]
    if not ours:
        return ""
    file = ours[-1].filename.rpartition("/scissorhands/")[2]
    return f"{file}:{ours[-1].lineno} {ours[-1].name}"


def _carry_out(case: Case, outcome: Outcome, seconds: float) -> None:
    """Gives the command, and fills in what came of it."""
    before = tree(case.root)
    _settle(case.root)
    signal.signal(signal.SIGALRM, _ring)
    hanging = (case.root / "hanging").open("w")
    faulthandler.dump_traceback_later(seconds + STRAY / 2, file=hanging)  # of code that does not heed the alarm
    _limit()
    start = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1)
        outcome.code = healthy.answered(case.words)
        sys.stdout.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        outcome.raised, outcome.where = type(error).__name__, _place(error)
        outcome.trace = "".join(traceback.format_exception(error, chain=False))[-6000:]
    outcome.seconds = time.monotonic() - start
    with suppress(ValueError):
        sys.stderr.flush()
    outcome.out, outcome.err = ((case.root / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    outcome.changed = _difference(before, tree(case.root))
    outcome.wrong = _wrong(case, outcome)


def run(make: Callable[[], Case], root: Path, family: str, number: int, seconds: float = SECONDS) -> Outcome:
    """Makes a case in a process of its own, and returns what came of it, or how the process died."""
    outcome, note = Outcome(number, family), root / "outcome.json"
    root.mkdir(parents=True, mode=0o777)
    root.chmod(0o777)

    def work() -> int:
        os.setsid()
        _no_root()
        case = make()
        outcome.hazard, outcome.words = case.hazard, case.words
        outcome.mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # at the start
        note.write_text(json.dumps(asdict(outcome)))
        _carry_out(case, outcome, seconds)
        note.write_text(json.dumps(asdict(outcome)))
        return 0

    child = healthy.forked(work)
    ended, usage = _wait(child, seconds + STRAY)
    outcome = Outcome(**json.loads(note.read_text()))  # without it the fuzz itself is at fault, and says so
    if ended is None:
        outcome.died, outcome.trace = "hung", (root / "hanging").read_text()
        frames = re.findall(r'/scissorhands/(\S+)", line (\d+) in (\w+)', outcome.trace)
        outcome.where = "{}:{} {}".format(*frames[0]) if frames else ""
    elif ended < 0:
        outcome.died = f"died of {signal.Signals(-ended).name}"
    elif ended:
        raise RuntimeError(f"the fuzz itself failed in case {number}: {outcome.hazard}")
    outcome.mebibytes = max(0.0, usage / 1024 - outcome.mebibytes)
    return outcome


def _wait(child: int, seconds: float) -> tuple[int | None, int]:
    """How a process ended, none if it had to be killed, and the most memory it had, in KiB."""
    until, killed = time.monotonic() + seconds, False
    while True:
        process, status, usage = os.wait4(child, os.WNOHANG)
        if process:
            return None if killed else os.waitstatus_to_exitcode(status), usage.ru_maxrss
        if not killed and time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            killed = True
        time.sleep(0.002)


# Running many


def prepare(scratch: Path) -> Path:
    """Imports all that the cases need, once, and makes the healthy folders; returns where."""
    scratch.chmod(0o777)
    os.environ.update(_ENVIRONMENT, HOME=str(scratch / "home"), HF_HOME=str(scratch / "hub"))
    os.environ["SCISSORHANDS_CACHE"] = str(scratch / "cache")
    for name in ("SCISSORHANDS_DATA", "XDG_CACHE_HOME", "FORCE_COLOR"):
        os.environ.pop(name, None)
    _import_all()
    gc.collect()
    gc.freeze()

    def work() -> int:
        _no_root()
        log = os.open(scratch / "healthy.log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        healthy.make(scratch / "healthy")
        return 0

    if _wait(healthy.forked(work), 300)[0] != 0:
        raise RuntimeError(f"the healthy folders could not be made:\n{(scratch / 'healthy.log').read_text()}")
    return scratch / "healthy"


def _import_all() -> None:
    """Imports what is slow, and what leaves traces in the home of whoever imports it, as onnxruntime does."""
    import warnings

    with suppress(ImportError):
        import onnxruntime  # type: ignore[import-untyped]  # noqa: F401

    with warnings.catch_warnings(action="ignore"):
        import datasets  # noqa: F401
        import sklearn.linear_model  # noqa: F401
        import torch
        import torch._dynamo  # which PyTorch imports at the first step of an optimizer
        import transformers
        from diffusers import AutoencoderKL, UNet2DConditionModel  # noqa: F401
        from transformers import CLIPTextModel, CLIPTokenizer, ViTForImageClassification  # noqa: F401

        import_package()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)


def fuzzed(numbers: Iterable[int], seed: int, scratch: Path, seconds: float = SECONDS) -> Iterable[Outcome]:
    """What came of each case."""
    well, names = prepare(scratch), list(FAMILIES)
    for number in numbers:
        root = scratch / "cases" / str(number)
        yield run(lambda n=number, r=root: made(seed, n, well, r), root, names[number % len(names)], number, seconds)  # type: ignore[misc]
        _remove(root)


def _remove(root: Path) -> None:
    for folder, folders, _ in os.walk(root):
        for name in folders:
            if not (Path(folder) / name).is_symlink():
                (Path(folder) / name).chmod(0o700)
    shutil.rmtree(root)


def summary(outcomes: Sequence[Outcome], seed: int, seconds: float = SECONDS) -> dict[str, Any]:
    """How often each family ended in which way, and what failed, grouped by cause."""
    import torch

    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        for kind, detail in failures(outcome):
            groups.setdefault((outcome.family, kind, _cause(detail)), []).append(outcome)
    families = {}
    for name in FAMILIES:
        own = [outcome for outcome in outcomes if outcome.family == name]
        codes = Counter(str(outcome.code) if not failures(outcome) else "failed" for outcome in own)
        families[name] = {"cases": len(own), "ended": dict(sorted(codes.items()))}
    return {
        "command": f"python -m fuzz.fuzz --cases {len(outcomes)} --seed {seed}",
        "cases": len(outcomes),
        "failed": sum(bool(failures(outcome)) for outcome in outcomes),
        "limits": {"seconds": seconds, "gibibytes": GIBIBYTES},
        "most": {
            "seconds": round(max((x.seconds for x in outcomes), default=0.0), 1),
            "mebibytes": round(max((x.mebibytes for x in outcomes), default=0.0)),
        },
        "families": families,
        "failures": [
            {
                "family": family,
                "what": kind,
                "where": detail,
                "count": len(own),
                "cases": [outcome.number for outcome in own],
                "for example": f"{own[0].hazard}: {_typed(own[0].words)}",
            }
            for (family, kind, detail), own in sorted(groups.items())
        ],
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


def _cause(detail: str) -> str:
    """A detail without what differs from case to case."""
    return re.sub(r"/\S*/(work|outside)\b", r"\1", re.sub(r"'[^']*'", "'…'", detail))[:200]


def _typed(words: Sequence[str], most: int = 200) -> str:
    """The command as it would be typed."""
    text = " ".join(shlex.quote(word if len(word) < 60 else f"{word[:40]}…({len(word)})") for word in words)
    return text.encode("utf-8", "backslashreplace").decode()[:most]


def _told(outcome: Outcome) -> str:
    """A line about a case."""
    wrong = "; ".join(f"{kind} {detail}".strip() for kind, detail in failures(outcome))
    said = " | ".join(outcome.err.splitlines())[:160]
    result = f"FAILED {wrong[:300]}" if wrong else f"{outcome.code} {said}"
    about = f"{outcome.number:4d} {outcome.seconds:5.1f} s {outcome.mebibytes:5.0f} MiB  {outcome.hazard}"
    return f"{about}\n       {_typed(outcome.words)}\n       {result}\n".encode("utf-8", "backslashreplace").decode()


def main() -> int:
    """Runs the cases, and tells what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100, help="how many, from the first one")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="one case alone, with all it says")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds that a case may take")
    parser.add_argument("--json", type=Path, help="the file to write the summary to")
    parser.add_argument("--verbose", action="store_true", help="a line about each case, not only about those that fail")
    asked = parser.parse_args()
    numbers = [asked.case] if asked.case is not None else range(asked.first, asked.first + asked.cases)
    found = []
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for outcome in fuzzed(numbers, asked.seed, scratch, asked.limit):
            found.append(outcome)
            if asked.verbose or asked.case is not None or failures(outcome):
                sys.stdout.write(_told(outcome))
                sys.stdout.flush()
    finally:
        _remove(scratch)
    if asked.case is not None:
        text = f"{found[0].out}{found[0].err}{found[0].trace}{found[0].changed}\n"
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())
    result = summary(found, asked.seed, asked.limit)
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.write(f"{result['failed']} of {result['cases']} cases failed; {json.dumps(result['families'])}\n")
    return int(result["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
