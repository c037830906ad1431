"""Checkpoints: a run that is stopped anywhere goes on, and ends the same to the bit as one that never was."""

import errno
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import scissorhands as sh
from scissorhands import files, randomness
from scissorhands.data.images import augmentation
from scissorhands.data.problem import Log, ignore
from scissorhands.distributed import checkpoint, checkpoint_files, local_state
from scissorhands.distributed.checkpoint import Loop, Progress
from scissorhands.distributed.checkpoint_files import ABOUT
from scissorhands.errors import RunError, StoppedError
from scissorhands.methods import METHODS
from scissorhands.methods.optimizer import Optimizer
from scissorhands.methods.training import Training
from scissorhands.runs import Journal
from scissorhands.settings import count, setting

Listen = Callable[[Mapping[str, Any]], None]

# Little work, of everything that a step can depend on.
QUICK: dict[str, Any] = {
    "epochs": 2,
    "lr": 0.05,
    "batch_size": 8,
    "samples": 12,
    "iterations": 7,
    "momentum": 0.9,
}


@pytest.fixture(autouse=True)
def _no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here cuts the power, so nobody need wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class KilledError(Exception):
    """Stands for whatever ends a run before its time."""


def network() -> nn.Module:
    """A net with batch norm and dropout, the same each time."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed formats the stack for each kind of GPU
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(256, 9),
        nn.BatchNorm1d(9),
        nn.ReLU(),
        nn.Linear(9, 3),
    ).eval()


def images() -> tuple[Tensor, Tensor]:
    """Images of 8 × 8 in three classes."""
    draw = torch.Generator().manual_seed(1)
    labels = torch.arange(60) % 3
    return torch.randn(3, 1, 8, 8, generator=draw)[labels] + torch.randn(60, 1, 8, 8, generator=draw), labels


def divided(data: Dataset[Any]) -> sh.Problem:
    """A problem with a third of the data to forget, augmented."""
    divided = sh.split(data, sh.Forget("random:20"), test=TensorDataset(*images()), seed=0)
    return replace(divided.problem(seed=0, augment=augmentation("crop,flip")), warn_on_damage=False)


PROBLEM = divided(TensorDataset(*images()))


@dataclass(frozen=True, kw_only=True)
class Twice(sh.Method):
    """Two loops, and between them something that depends on the weights and tells of it."""

    epochs: int = setting(2, count, "passes")

    def scrub(self, model: nn.Module, problem: sh.Problem, log: Log = ignore) -> None:
        slow = Training(epochs=self.epochs, lr=0.01, schedule="constant", batch_size=8)
        slow.fit(model, problem, log, part=problem.forget, phase="first")
        with torch.no_grad():
            size = max(float(p.abs().max()) for p in model.parameters())
            for parameter in model.parameters():
                parameter.mul_(1 - 0.01 * size)
        log({"phase": "between", "size": size})
        replace(slow, lr=0.1 / size, schedule="cosine").fit(model, problem, log, phase="second")
        log({"phase": "after"})


def quick(kind: type[sh.Method], **changes: Any) -> sh.Method:
    """The method with little work to do."""
    known = {f.name for f in fields(kind)}
    return kind.make({name: value for name, value in QUICK.items() if name in known} | changes)


EVERY: dict[str, sh.Method] = {name: quick(kind) for name, kind in METHODS.items()} | {
    "scissorhands as published": quick(METHODS["scissorhands"], reading="published"),
    "scissorhands without projection": quick(METHODS["scissorhands"], project=False),
    "influence by woodfisher": quick(METHODS["influence"], curvature="woodfisher"),
    "salun in sequence": quick(METHODS["salun"], order="sequential"),
    "a method of two loops": Twice(),
}
every_method = pytest.mark.parametrize("method", EVERY.values(), ids=EVERY)


class Ended(NamedTuple):
    """What a run comes to."""

    weights: dict[str, str]
    log: list[str]


def attempt(
    method: sh.Method, folder: Path, listen: Listen = ignore, every: float = 0.0, problem: sh.Problem = PROBLEM
) -> Ended:
    """One go at the run in the folder, as far as it gets."""
    model = network()
    how_far = Progress(folder / "checkpoints", every, resume_command="go on")
    with closing(Journal(folder / "log.jsonl", listen, how_far.written)) as journal:
        how_far.journal = journal
        with how_far.listening():
            method.scrub(model, replace(problem, progress=how_far), journal)
    found = {name: sha256(value.numpy().tobytes()).hexdigest()[:16] for name, value in model.state_dict().items()}
    return Ended(found, (folder / "log.jsonl").read_text().splitlines())


def killing_at(event: int) -> Listen:
    """A log that ends the run at that event, before its step is in a checkpoint."""
    left = iter(range(event - 1, -1, -1))

    def listen(_: Mapping[str, Any]) -> None:
        if next(left) == 0:
            raise KilledError

    return listen


def whole(method: sh.Method, folder: Path, problem: sh.Problem = PROBLEM) -> Ended:
    """What the run comes to if nothing stops it."""
    folder.mkdir()
    return attempt(method, folder, every=1e9, problem=problem)


def stopped_often(method: sh.Method, folder: Path, seed: int) -> Ended:
    """What the run comes to if it is ended every few steps."""
    folder.mkdir()
    chance = random.Random(seed)
    for _ in range(100):
        try:
            return attempt(method, folder, killing_at(chance.randint(1, 6)))
        except KilledError:
            continue
    raise AssertionError("it does not get anywhere")


def stopped_at(method: sh.Method, folder: Path, event: int = 7, problem: sh.Problem = PROBLEM) -> None:
    """A run that was ended at that event."""
    folder.mkdir()
    with pytest.raises(KilledError):
        attempt(method, folder, killing_at(event), problem=problem)


def kept(folder: Path) -> list[str]:
    """The names of what is among the checkpoints."""
    return sorted(path.name for path in (folder / "checkpoints").glob("*"))


@every_method
def test_a_run_that_is_stopped_every_few_steps_ends_the_same(method: sh.Method, tmp_path: Path) -> None:
    expected = whole(method, tmp_path / "whole")
    for seed in range(2):
        assert stopped_often(method, tmp_path / str(seed), seed) == expected


def misaligned(value: Tensor, by: int) -> Tensor:
    """The same values in memory that starts so many elements after an aligned address, as in a mapped file."""
    room = torch.empty(value.numel() + by, dtype=value.dtype)[by:]
    return room.copy_(value.reshape(-1)).reshape(value.shape)


@pytest.mark.parametrize("by", [1, 3, 5])
@pytest.mark.parametrize("name", ["scissorhands as published", "influence", "finetune"])
def test_where_a_checkpoint_lies_in_memory_changes_nothing(
    name: str, by: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = quick(METHODS["influence"], iterations=12) if name == "influence" else EVERY[name]
    restore = Loop.restore
    places: list[int] = []

    def noting(loop: Loop, path: Path, about: Mapping[str, Any]) -> None:
        restore(loop, path, about)
        places.extend(value.data_ptr() % 16 for value in loop.memory.values())

    def patch() -> None:
        monkeypatch.setattr(files, "load_file", lambda path: {k: misaligned(v, by) for k, v in load_file(path).items()})
        monkeypatch.setattr(Loop, "restore", noting)

    assert control(method, tmp_path, patch)
    assert name == "finetune" or (places and not any(places))


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    method = EVERY["finetune"]
    (tmp_path / "watched").mkdir()
    assert attempt(method, tmp_path / "watched") == whole(method, tmp_path / "whole")


def test_code_between_two_loops_sees_what_it_saw(tmp_path: Path) -> None:
    expected = whole(Twice(), tmp_path / "whole")
    phases = [json.loads(line)["phase"] for line in expected.log]
    for event in (phases.index("between"), phases.index("between") + 1, phases.index("second") + 1, len(phases)):
        stopped_at(Twice(), tmp_path / str(event), event)
        assert attempt(Twice(), tmp_path / str(event)) == expected


def test_a_loop_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    events = len(whole(Twice(), tmp_path / "whole").log)
    stopped_at(Twice(), tmp_path / "stopped", events)
    again: list[str] = []
    attempt(Twice(), tmp_path / "stopped", lambda event: again.append(event["phase"]))
    assert again == ["between", "after"]


class Noisy(Dataset[Any]):
    """A user's data that draws from PyTorch's own generator, as many transforms do."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        inputs, labels = images()
        return inputs[index] + torch.randn(1, 8, 8), int(labels[index])


def test_random_numbers_that_the_data_draws_are_the_same_again(tmp_path: Path) -> None:
    problem = divided(Noisy())
    method = quick(METHODS["finetune"], epochs=2)
    stopped_at(method, tmp_path / "stopped", 3, problem)
    assert attempt(method, tmp_path / "stopped", problem=problem) == whole(method, tmp_path / "whole", problem)


# Controls: if anything is not restored, the comparison above must notice.


def control(method: sh.Method, folder: Path, patch: Callable[[], None]) -> bool:
    """Whether a run goes on to the same end though it was patched when it went on."""
    expected = whole(method, folder / "whole")
    stopped_at(method, folder / "stopped", 8)
    patch()
    return attempt(method, folder / "stopped") == expected


def test_without_the_state_of_the_generator_it_ends_differently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not control(
        EVERY["finetune"], tmp_path, lambda: monkeypatch.setattr(randomness, "restore", lambda kept: None)
    )


def test_without_momentum_it_ends_differently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not control(
        EVERY["finetune"], tmp_path, lambda: monkeypatch.setattr(Optimizer, "load_state_dict", lambda self, kept: None)
    )


@pytest.mark.parametrize("by", [-1, 1])
def test_one_batch_off_it_ends_differently(by: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Loop.restore

    def off(loop: Loop, path: Path, about: Mapping[str, Any]) -> None:
        restore(loop, path, about)
        loop.step_in_epoch += by

    assert not control(EVERY["finetune"], tmp_path, lambda: monkeypatch.setattr(Loop, "restore", off))


@pytest.mark.parametrize("lost", ["running", "weight"])
def test_without_some_of_the_model_it_ends_differently(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(model: nn.Module) -> dict[str, Tensor]:
        return {name: value for name, value in local_state(model).items() if lost not in name}

    assert not control(EVERY["finetune"], tmp_path, lambda: monkeypatch.setattr(checkpoint, "local_state", some))


def test_without_the_place_in_the_log_it_ends_differently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not control(EVERY["finetune"], tmp_path, lambda: monkeypatch.setattr(Progress, "written", 0))


def test_without_what_a_loop_remembers_it_ends_differently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Loop.restore

    def forgetful(loop: Loop, path: Path, about: Mapping[str, Any]) -> None:
        restore(loop, path, about)
        loop.memory = {name: torch.zeros_like(value) for name, value in loop.memory.items()}

    def patch() -> None:
        monkeypatch.setattr(Loop, "restore", forgetful)

    stopped = quick(METHODS["influence"], iterations=12)
    assert not control(stopped, tmp_path, patch)


# When they are written, and what is left of them.


def test_there_is_one_checkpoint_of_each_loop_and_no_more(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    attempt(Twice(), tmp_path, lambda event: seen.append(kept(tmp_path)))
    for names in [*seen, kept(tmp_path)]:
        assert all(name.endswith(".part") is False for name in names)
        loops = [name.partition("-")[0] for name in names]
        assert len(loops) == len({*loops}), f"two checkpoints of one loop: {names}"
    assert [name.partition("-")[0] for name in kept(tmp_path)] == ["000", "001"]
    assert [sorted(p.name for p in path.iterdir()) for path in (tmp_path / "checkpoints").iterdir()] == [
        ["0.safetensors", ABOUT]
    ] * 2


def test_none_is_written_before_its_time(tmp_path: Path) -> None:
    attempt(EVERY["finetune"], tmp_path, every=1e9)
    assert kept(tmp_path) == []


def test_they_are_written_when_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    newest: list[str] = []

    def listen(event: Mapping[str, Any]) -> None:
        newest.extend(name for name in kept(tmp_path) if name not in newest)
        clock[0] += 4.0

    attempt(quick(METHODS["finetune"], epochs=2), tmp_path, listen, every=10.0)
    newest.extend(name for name in kept(tmp_path) if name not in newest)
    assert newest == ["000-000000003-000000", "000-000000006-000001", "000-000000009-000001"]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint_files, "save_file", lambda *_: pytest.fail("it wrote something"))
    EVERY["finetune"].scrub(network(), replace(PROBLEM, progress=Progress(None, 0.0)))
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_was_not_written_to_its_end_is_none(tmp_path: Path) -> None:
    method = EVERY["finetune"]
    stopped_at(method, tmp_path / "stopped")
    (good,) = (tmp_path / "stopped" / "checkpoints").iterdir()
    for name in ("000-000000099-000000.part", "000-000000098-000000"):
        (good.parent / name).mkdir()
        (good.parent / name / "0.safetensors").write_bytes(b"half")
    (good.parent / "000-000000097-000000").mkdir()
    (good.parent / "000-000000097-000000" / ABOUT).write_text('{"phase": "fine')
    expected = whole(method, tmp_path / "whole")
    assert attempt(method, tmp_path / "stopped") == expected
    assert len(kept(tmp_path / "stopped")) == 1


# Damage.


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _without(name: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        about = json.loads(path.read_text())
        del about[name]
        path.write_text(json.dumps(about))

    return change


def _other_weights(path: Path) -> None:
    save_file({"model/0.weight": torch.zeros(2)}, path)


DAMAGE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "tensors cut short": ("0.safetensors", _cut),
    "no tensors": ("0.safetensors", Path.unlink),
    "garbage for tensors": ("0.safetensors", lambda path: path.write_bytes(b"garbage " * 9)),
    "tensors of another model": ("0.safetensors", _other_weights),
    "a list for a place": (ABOUT, lambda path: path.write_text("[]")),
    "no phase": (ABOUT, _without("phase")),
    "no place in the log": (ABOUT, _without("log")),
    "no seconds": (ABOUT, _without("seconds")),
    "a word for a number": (
        ABOUT,
        lambda path: path.write_text(path.read_text().replace('"log": ', '"log": "x", "a":')),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    name, change = DAMAGE[damage]
    stopped_at(EVERY["finetune"], tmp_path / "run")
    change(next((tmp_path / "run" / "checkpoints").iterdir()) / name)
    with pytest.raises(RunError, match=r"checkpoints/000-000000006-00000") as raised:
        attempt(EVERY["finetune"], tmp_path / "run")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["0.safetensors", ABOUT])
def test_a_checkpoint_in_which_one_number_changed_is_refused(name: str, tmp_path: Path) -> None:
    stopped_at(EVERY["finetune"], tmp_path / "run")
    path = next((tmp_path / "run" / "checkpoints").iterdir()) / name
    content = path.read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])
    if name == ABOUT:
        changed = content.replace(b'"global_step": 6', b'"global_step": 5')
    assert changed != content
    path.write_bytes(changed)
    with pytest.raises(RunError, match="it was changed after it was written"):
        attempt(EVERY["finetune"], tmp_path / "run")


def test_a_checkpoint_of_another_loop_is_refused(tmp_path: Path) -> None:
    stopped_at(EVERY["finetune"], tmp_path / "run")
    with pytest.raises(RunError, match="in the phase 'finetune' with 1 processes, not in 'sparsify' with 1"):
        attempt(EVERY["l1sparse"], tmp_path / "run")


# A full disk.


def _full(kind: str) -> Exception:
    if kind == "OSError":
        return OSError(errno.ENOSPC, "No space left on device")
    return SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("kind", ["OSError", "SafetensorError"])
@pytest.mark.parametrize("call", [1, 4])
def test_a_full_disk_leaves_the_checkpoint_before_it(
    kind: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = EVERY["finetune"]
    calls: list[Path] = []

    def full(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        calls.append(path)
        if len(calls) == call:
            path.write_bytes(b"half")
            raise _full(kind)
        save_file(tensors, path, metadata)

    (tmp_path / "full").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "save_file", full)
        with pytest.raises(StoppedError, match="No space left on device") as raised:
            attempt(method, tmp_path / "full")
    assert raised.value.exit_code == 1
    assert str(raised.value).endswith("nothing was kept." if call == 1 else "with 'go on'.")
    assert "\n" not in str(raised.value)
    assert kept(tmp_path / "full") == ([] if call == 1 else ["000-000000003-000000"])
    assert attempt(method, tmp_path / "full") == whole(method, tmp_path / "whole")


@pytest.mark.parametrize("where", ["mkdir", "write_text", "replace"])
def test_a_disk_without_room_for_a_name_leaves_the_checkpoint_before_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = EVERY["finetune"]
    stopped_at(method, tmp_path / "full")
    before = kept(tmp_path / "full")
    act = getattr(Path, where)

    def full(path: Path, *args: Any, **options: Any) -> Any:
        if "checkpoints" in str(path):
            raise _full("OSError")
        return act(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, where, full)
        with pytest.raises(StoppedError, match="No space left on device"):
            attempt(method, tmp_path / "full")
    assert kept(tmp_path / "full") == before
    assert attempt(method, tmp_path / "full") == whole(method, tmp_path / "whole")


# Signals.


def signalling_at(event: int, *sent: signal.Signals, pause: float = 0.0) -> Listen:
    """A log that sends signals to this process at that event, with a pause between them."""
    left = iter(range(event - 1, -10_000, -1))

    def listen(_: Mapping[str, Any]) -> None:
        if next(left) == 0:
            for i, kind in enumerate(sent):
                time.sleep(pause if i else 0.0)
                os.kill(os.getpid(), kind)

    return listen


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_step_and_leaves_a_checkpoint(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    method = EVERY["finetune"]
    handler = signal.getsignal(sent)
    (tmp_path / "stopped").mkdir()
    with pytest.raises(StoppedError, match=r"^interrupted; go on with 'go on'\.$") as raised:
        attempt(method, tmp_path / "stopped", signalling_at(3, sent), every=1e9)
    assert raised.value.exit_code == code
    assert signal.getsignal(sent) is handler
    assert kept(tmp_path / "stopped") == ["000-000000003-000000"]
    assert attempt(method, tmp_path / "stopped") == whole(method, tmp_path / "whole")


def test_a_signal_that_comes_twice_at_once_is_one(tmp_path: Path) -> None:
    with pytest.raises(StoppedError) as raised:
        attempt(EVERY["finetune"], tmp_path, signalling_at(3, signal.SIGTERM, signal.SIGINT))
    assert raised.value.exit_code == 143
    assert kept(tmp_path) == ["000-000000003-000000"]


def test_another_signal_after_a_second_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_PATIENCE", 0.05)
    with pytest.raises(KeyboardInterrupt):
        attempt(EVERY["finetune"], tmp_path, signalling_at(3, signal.SIGINT, signal.SIGINT, pause=0.1))
    assert kept(tmp_path) == ["000-000000002-000000"]


@pytest.mark.parametrize(
    ("sent", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_before_the_first_loop_stops_at_once(
    sent: signal.Signals, error: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(error):  # the first event of this method is of the trimming
        attempt(EVERY["scissorhands"], tmp_path, signalling_at(1, sent))
    assert kept(tmp_path) == []


def test_a_signal_after_a_loop_that_ended_early_is_heard(tmp_path: Path) -> None:
    how_far = Progress(tmp_path, 1e9)
    problem = replace(PROBLEM, progress=how_far)

    def work() -> None:
        with how_far.listening():
            Training(epochs=3, lr=0.01, batch_size=8).fit(network(), problem, phase="early", until=lambda: True)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises((StoppedError, SystemExit)):
        work()


def test_in_a_thread_signals_are_left_to_who_called() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []

    def listen() -> None:
        with Progress().listening():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [handler]


# What it cost.


def test_seconds_count_the_work_before_and_not_the_way_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def scrub(listen: Listen) -> float:
        """Seven seconds before the loop, two in each of five steps."""
        how_far, start = Progress(tmp_path, 0.0), clock[0]
        clock[0] += 7.0
        loop = how_far.loop("work", nn.Linear(1, 1))
        for _ in loop.epochs(1):
            for step in loop.remaining(range(5)):
                listen({"step": step})
                clock[0] += 2.0
        return clock[0] - start + how_far.seconds_before

    for _ in range(2):  # each gets two steps further
        with pytest.raises(KilledError):
            scrub(killing_at(3))
    assert scrub(ignore) == pytest.approx(7.0 + 5 * 2.0)


def test_checkpoints_behind_a_link_are_refused_and_what_is_none_of_ours_stays(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "000-my-thesis"
    theirs.mkdir(parents=True)
    (tmp_path / "checkpoints").symlink_to(tmp_path / "theirs")
    with pytest.raises(RunError, match="is a link, and checkpoints are not written through one"):
        Progress(tmp_path / "checkpoints")
    quick(sh.FineTune).scrub(network(), replace(PROBLEM, progress=Progress(tmp_path / "theirs", every=0.0)))
    assert theirs.is_dir()
    assert len(list((tmp_path / "theirs").iterdir())) == 2
