"""Real processes that cost little: each is a fork of one that has imported everything and waits.

Run as a script this is the one that waits; `Nursery` starts it and talks to it. A child runs a command or a script,
alone or as one of many with the environment that torchrun would give it. It may carry a fault: something that happens
to it from inside at the n-th call of a function, where no signal from outside would find the moment.
"""

import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from safetensors import SafetensorError

TESTS = Path(__file__).parents[1]
# What can be made to go wrong, and the object and attribute to do it at.
PLACES = {
    "step": ("scissorhands.distributed.checkpoint:Progress", "save_if_due"),
    "loop": ("scissorhands.distributed.checkpoint:Progress", "loop"),
    "fsync": ("os", "fsync"),
    "save": ("scissorhands.distributed.checkpoint_files", "save_file"),
    "replace": ("pathlib:Path", "replace"),
    "rename": ("pathlib:Path", "rename"),
    "rmtree": ("shutil", "rmtree"),
    "examine": ("scissorhands.tasks.classification.task", "examine"),
    "weights": ("scissorhands.tasks.classification.models", "save_weights"),
}


class Fault(NamedTuple):
    """What happens at the n-th call: before it, half way through it, or after it."""

    place: str
    call: int
    what: str


class Finished(NamedTuple):
    """How a process ended: a negative code is the signal that killed it."""

    code: int
    out: str
    err: str


def environment() -> dict[str, str]:
    """The environment of a real process: as many threads as the tests have, no network, nobody forcing colors."""
    forced = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return {
        **forced,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "HF_HUB_OFFLINE": "1",
        "TERM": "xterm-256color",
    }


@dataclass(frozen=True)
class Child:
    """A process that runs a command."""

    nursery: "Nursery"
    pid: int
    files: Path

    def poll(self, seconds: float = 0.0) -> int | None:
        """Its exit code, if it has ended, or ends in so many seconds."""
        code: int | None = self.nursery.ask({"poll": self.pid, "seconds": seconds})
        return code

    @property
    def state(self) -> str:
        """What Linux says of it: T if it is stopped, Z if it has ended, or only threads of it are left."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def send(self, what: signal.Signals) -> None:
        """Sends it a signal."""
        os.kill(self.pid, what)

    def wait(self, seconds: float = 60.0) -> Finished:
        """How it ended."""
        code = self.poll(seconds)
        if code is None:
            self.send(signal.SIGKILL)
            raise AssertionError(f"it did not end: {(self.files / 'err').read_text()}")
        return Finished(code, (self.files / "out").read_text(), (self.files / "err").read_text())


def _ranks(processes: int) -> list[dict[str, str]]:
    """What torchrun puts into the environment of each of its processes."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    group = {"TORCHELASTIC_RUN_ID": "tests", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    group |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "SCISSORHANDS_TIMEOUT": "60"}
    return [{**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


class Nursery:
    """Starts commands as processes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask({})

    def ask(self, question: Mapping[str, Any]) -> Any:
        """The answer of the one that waits."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def imports(self, module: str) -> None:
        """Import a module of the tests, so that processes that need what it imports have it when they start."""
        self.ask({"import": module})

    def start(self, command: str, cwd: Path, fault: Fault | None = None, /, **environment: str) -> Child:
        """Start the command in the folder."""
        return self._fork(words=shlex.split(command), cwd=str(cwd), fault=fault, environment=environment)

    def run(self, command: str, cwd: Path, fault: Fault | None = None, /, **environment: str) -> Finished:
        """Run the command in the folder to its end."""
        return self.start(command, cwd, fault, **environment).wait(300)

    def script(self, path: str | Path, *arguments: str | Path, cwd: Path = TESTS, **environment: str) -> Finished:
        """Run a script of Python to its end."""
        return self.start_script(path, *arguments, cwd=cwd, **environment).wait(300)

    def torchrun(self, processes: int, path: str | Path, *arguments: str | Path, **environment: str) -> Finished:
        """Run a script in that many processes, as torchrun does, but without the agent that watches over them."""
        ended = [child.wait(300) for child in self.start_torchrun(processes, path, *arguments, **environment)]
        worst = max(ended, key=lambda one: abs(one.code))
        return Finished(worst.code, "".join(one.out for one in ended), "".join(one.err for one in ended))

    def start_torchrun(
        self, processes: int, path: str | Path, *arguments: str | Path, **environment: str
    ) -> list[Child]:
        """Start a script in that many processes."""
        own = [{**own, **environment} for own in _ranks(processes)]
        return [self.start_script(path, *arguments, cwd=TESTS, **each) for each in own]

    def launch(
        self, processes: int, command: str, cwd: Path, faults: Sequence[Fault] = (), /, **environment: str
    ) -> list[Child]:
        """Start the command in that many processes, as torchrun does, each with a fault of its own."""
        pairs = zip_longest(_ranks(processes), faults)
        return [self.start(command, cwd, fault, **{**own, **environment}) for own, fault in pairs]

    def start_script(self, path: str | Path, *arguments: str | Path, cwd: Path = TESTS, **environment: str) -> Child:
        """Start a script of Python."""
        words = [str(path), *map(str, arguments)]
        return self._fork(script=words, cwd=str(cwd), fault=None, environment=environment)

    def _fork(self, **asked: Any) -> Child:
        self._count += 1
        files = self._folder / str(self._count)
        files.mkdir(parents=True)
        return Child(self, self.ask({**asked, "files": str(files)}), files)

    def close(self) -> None:
        """Ends the one that waits."""
        self._process.communicate()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _half(place: str, original: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Does half of a call, and dies."""
    if place == "save":
        original(*args, **options)
        path = Path(args[1])
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif place == "rmtree":
        for inner in sorted(Path(args[0]).rglob("*"))[:1]:
            inner.unlink() if inner.is_file() else original(inner)
    _die()


def _fail(what: str) -> None:
    if what == "ENOSPC":
        raise OSError(28, "No space left on device")
    if what == "os error 28":
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    if what == "KeyError":
        raise KeyError("here")


def _break(fault: Fault) -> None:
    """Makes it happen at the n-th call."""
    target, attribute = PLACES[fault.place]
    module, _, name = target.partition(":")
    owner = importlib.import_module(module)
    owner = getattr(owner, name) if name else owner
    original, calls = getattr(owner, attribute), [0]

    def broken(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] != fault.call:
            return original(*args, **options)
        if fault.what == "kill":
            _die()
        if fault.what == "kill half way":
            _half(fault.place, original, *args, **options)
        if fault.what.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[fault.what])
        if fault.what == "two Ctrl-C":
            vars(importlib.import_module("scissorhands.distributed.checkpoint"))["_PATIENCE"] = 0.05
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
        if fault.what == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        _fail(fault.what)
        result = original(*args, **options)
        if fault.what == "kill after":
            _die()
        return result

    setattr(owner, attribute, broken)


def _settle(asked: Mapping[str, Any]) -> None:
    """Give a child its folder, its files and its environment."""
    os.chdir(asked["cwd"])
    os.environ.update(asked["environment"])
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(asked["files"]) / name, os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "RANK" in asked["environment"] and sys.platform == "linux":
        os.sched_setaffinity(0, cores_of_a_job())


def cores_of_a_job() -> set[int]:
    """The core that the processes of a job share: to wake each other across cores costs more than the work.

    With more than one thread they may use all.
    """
    cores = sorted(os.sched_getaffinity(0))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return {cores[worker % len(cores)]} if os.environ["OMP_NUM_THREADS"] == "1" else {*cores}


def _command(asked: Mapping[str, Any]) -> NoReturn:
    """Run the command, then nothing more."""
    from scissorhands.cli import main

    vars(sys.modules[main.__module__])["_HEAD_START"] = 0.0  # no torchrun ends this process once the first has failed
    sys.argv = ["scissorhands", *asked["words"]]
    code = 1
    try:
        if asked["fault"]:
            _break(Fault(*asked["fault"]))
        main()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _script(asked: Mapping[str, Any]) -> None:
    """Run the script as Python does, which then ends by itself."""
    sys.argv = asked["script"]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [str(Path(sys.argv[0]).parent), str(TESTS), *filter(None, given), *sys.path[1:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


def import_package() -> None:
    """Import all of the package, which a command does only as far as it needs to."""
    import scissorhands

    for module in pkgutil.walk_packages(scissorhands.__path__, "scissorhands."):
        if module.name != "scissorhands.__main__":
            importlib.import_module(module.name)


def _import_all() -> None:
    """Import what commands need, and what PyTorch would import at the first step of an optimizer; read the digits.

    Pages have no script for their figures: each process would bundle it for a second, and no test looks at it there.
    """
    import altair
    import sklearn.svm
    import torch._dynamo

    from scissorhands.data.sources import _every_digit

    import_package()
    from scissorhands.report import page

    assert altair
    assert sklearn.svm
    assert torch._dynamo
    assert _every_digit()  # by NumPy alone: a fork of a process in which PyTorch has started threads would hang
    vars(page)["script"] = str


def _code(pid: int, seconds: float, ended: dict[int, int]) -> int | None:
    """The exit code of a child, if it has ended, or ends in so many seconds; those known so far are in `ended`."""
    end = time.monotonic() + seconds
    while pid not in ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > end:
            return None
        else:
            time.sleep(0.005)
    return ended[pid]


def _serve() -> Mapping[str, Any] | None:
    """Wait for questions, and return in a child what it is to do; an empty one is answered once all is imported."""
    _import_all()
    gc.freeze()  # a collection in a child would write to, and so copy, all the memory that it shares with this process
    answers = os.fdopen(os.dup(1), "w")
    ended: dict[int, int] = {}
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        answer: int | None = None
        if "files" in asked:
            answer = os.fork()
            if answer == 0:
                return asked
            ended.pop(answer, None)  # an earlier child may have had this number
        elif "import" in asked:
            sys.path.insert(0, str(TESTS))
            importlib.import_module(asked["import"])
            sys.path.remove(str(TESTS))
            gc.freeze()
        elif "poll" in asked:
            answer = _code(asked["poll"], asked["seconds"], ended)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return None


def moments(seed: int, count: int) -> list[Fault | float]:
    """Moments to be killed at, drawn at random: seconds on the clock, and places inside."""
    chance = random.Random(seed)
    inside = ["save", "save", "rmtree", "rmtree", "replace", "fsync", "step"]
    drawn: list[Fault | float] = []
    for i in range(count):
        place = inside[i // 2 % len(inside)]
        ways = ["kill", "kill after"] + ["kill half way"] * (place in ("save", "rmtree"))
        drawn.append(chance.uniform(0.05, 0.4) if i % 2 else Fault(place, chance.randint(2, 6), chance.choice(ways)))
    return drawn


if __name__ == "__main__" and (asked := _serve()):
    _settle(asked)
    _command(asked) if "words" in asked else _script(asked)
