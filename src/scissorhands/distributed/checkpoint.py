"""Checkpoints: how far a run has got, written from time to time, so that a run that is killed can be resumed.

A method runs again from its beginning. What it does before a loop it does again, as it did the first time; a loop goes
on where its last checkpoint was written. So a method needs no code for it: `Descent` walks by `Loop`.
"""

import json
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from ..errors import RunError, StoppedError
from ..files import fsync, read_metadata, read_tensors
from .checkpoint_files import (
    ABOUT,
    NAME,
    PART,
    POSITION,
    checksum,
    checksum_of,
    found_checkpoints,
    save_shard,
)
from .processes import all_reduce_sum_, on_rank_0, raise_on_all_ranks, rank, world_size
from .sharding import local_state

T = TypeVar("T")

_PATIENCE = 1.0  # seconds after which another Ctrl-C is a new one, which does not wait for a checkpoint


class Stateful(Protocol):
    """What a checkpoint keeps the tensors of, such as an optimizer with its momentum."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return its tensors by name."""

    def load_state_dict(self, kept: Mapping[str, Tensor]) -> None:
        """Load tensors that `state_dict` returned, in place."""


class Journal(Protocol):
    """A log that knows how far it has got."""

    position: int

    def flush(self) -> None:
        """Write what is still in memory."""


class Progress:
    """The loops of a run, in their order. Without a folder nothing is kept, and nothing is looked for."""

    def __init__(
        self, folder: Path | None = None, every: float = 600.0, journal: Journal | None = None, resume_command: str = ""
    ) -> None:
        if folder and folder.is_symlink():
            raise RunError(f"{folder} is a link, and checkpoints are not written through one.")
        self.folder, self.every, self.journal, self.resume_command = folder, every, journal, resume_command
        self.seconds_before = 0.0  # of work before it was killed, less those that were spent on getting there again
        self._start = self._last = time.perf_counter()
        self._loops = 0
        self._active = False
        self._signal = 0
        self._signalled = 0.0
        self._kept = found_checkpoints(folder) if folder else {}

    @property
    def written(self) -> int:
        """Return the position of the log when the last checkpoint was written."""
        return max((int(metadata["log"]) for _, metadata in self._kept.values()), default=0)

    def loop(self, phase: str, model: nn.Module, optimizer: Stateful | None = None) -> "Loop":
        """Return the next loop of the run, restored from its checkpoint if there is one."""
        found = Loop(self, self._loops, phase, model, optimizer)
        self._loops += 1
        if found.number in self._kept:
            path, metadata = self._kept[found.number]
            found.restore(path, metadata)
            self.seconds_before = metadata["seconds"] - (time.perf_counter() - self._start)
            if self.journal:
                self.journal.position = int(metadata["log"])
        self._active = True
        return found

    def save_if_due(self, loop: "Loop") -> None:
        """Write a checkpoint if one is due or a signal came, and then stop the run; called after every step."""
        if self.folder is None:
            return
        due = torch.tensor([time.perf_counter() - self._last >= self.every, self._signal > 0]).long()
        write, stop = all_reduce_sum_(due).tolist()
        if write or stop:
            self._write(loop)
            self._last = time.perf_counter()
        if stop:
            code = 128 + (self._signal or signal.SIGTERM)
            raise StoppedError(f"interrupted; go on with '{self.resume_command}'.", code)

    def leave(self) -> None:
        """End the loop: from here on a signal does not wait for a step."""
        self._active = False

    def _write(self, loop: "Loop") -> None:
        """Write a checkpoint by rename, and remove the one before it."""
        assert self.folder
        name = f"{loop.number:03}-{loop.global_step:09}-{loop.epoch:06}"
        part, folder = self.folder / f"{name}{PART}", self.folder
        if self.journal:
            self.journal.flush()
        metadata = loop.metadata() | {
            "seconds": time.perf_counter() - self._start + self.seconds_before,
            "log": self.journal.position if self.journal else 0,
        }

        def begin() -> None:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)

        def finish() -> None:
            (part / ABOUT).write_text(json.dumps(metadata | {"checksum": checksum(json.dumps(metadata).encode())}))
            fsync(part / ABOUT)
            if (folder / name).exists():  # nothing was done since it was written
                shutil.rmtree(part)
                return
            part.replace(folder / name)
            for other in (*folder.glob(NAME), *folder.glob(NAME + PART)):
                if other.name != name and other.name.startswith(f"{loop.number:03}-") and not other.is_symlink():
                    shutil.rmtree(other, ignore_errors=True)

        try:
            on_rank_0(begin)
            raise_on_all_ranks(save_shard(loop.tensors(), part / f"{rank()}.safetensors"))
            on_rank_0(finish)
        except OSError as error:
            if rank() == 0:
                shutil.rmtree(part, ignore_errors=True)
            left = (
                f"it goes on from the one before with '{self.resume_command}'"
                if found_checkpoints(folder)
                else "nothing was kept"
            )
            raise StoppedError(f"no checkpoint can be written: {error.strerror}; {left}.", 1) from None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM inside the block end a loop at its next step, after a checkpoint."""
        kinds = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {kind: signal.signal(kind, self._on_signal) for kind in kinds}
        except ValueError:  # not the main thread: who called decides
            yield
            return
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.perf_counter()
        waiting = self._active and self.folder is not None
        if waiting and (not self._signal or now - self._signalled < _PATIENCE):
            self._signal, self._signalled = self._signal or number, self._signalled or now
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)


@dataclass
class Loop:
    """A loop over epochs and steps that can be resumed; `memory` and `random` are in its checkpoints, too."""

    progress: Progress
    number: int
    phase: str
    model: nn.Module
    optimizer: Stateful | None
    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0
    memory: dict[str, Tensor] = field(default_factory=dict)
    random: dict[str, Tensor] = field(default_factory=dict)

    def epochs(self, count: int) -> Iterator[int]:
        """Walk the epochs that are left."""
        try:
            for epoch in range(self.epoch, count):
                self.epoch = epoch
                yield epoch
                self.step_in_epoch = 0
            self.epoch = count
            self.progress.save_if_due(self)
        finally:
            self.progress.leave()

    def remaining(self, batches: Iterable[T]) -> Iterator[T]:
        """Walk the batches of this epoch that are left; a batch counts as done when the next is fetched."""
        left = iter(batches)
        for _ in islice(left, self.step_in_epoch):
            pass
        for batch in left:
            yield batch
            self.step_in_epoch += 1
            self.global_step += 1
            self.progress.save_if_due(self)

    def metadata(self) -> dict[str, Any]:
        """Return the position of the loop as plain values."""
        position = {name: getattr(self, name) for name in POSITION}
        return {"phase": self.phase, **position, "world_size": world_size()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors that a checkpoint holds."""
        kinds = {
            "model": local_state(self.model),
            "optimizer": self.optimizer.state_dict() if self.optimizer else {},
            "memory": self.memory,
            "random": self.random,
        }
        return {f"{kind}/{name}": value for kind, named in kinds.items() for name, value in named.items()}

    def restore(self, path: Path, metadata: Mapping[str, Any]) -> None:
        """Load a checkpoint, in place."""
        if metadata["phase"] != self.phase or metadata["world_size"] != world_size():
            begun = f"in the phase '{metadata['phase']}' with {metadata['world_size']} processes"
            raise RunError(f"{path} was written {begun}, not in '{self.phase}' with {world_size()}.")
        file = path / f"{rank()}.safetensors"
        kept = read_tensors(file)
        if read_metadata(file).get("checksum") != checksum_of(kept):
            raise RunError(f"{file} cannot be read: it was changed after it was written.")
        try:
            self._take(kept, metadata)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"{path} does not fit the model: {error}") from None

    def _take(self, kept: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        named: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "memory": {}, "random": {}}
        for key, value in kept.items():
            kind, _, name = key.partition("/")
            named[kind][name] = value
        with torch.no_grad():
            for name, value in local_state(self.model).items():
                value.copy_(named["model"][name])
        if self.optimizer:
            self.optimizer.load_state_dict(named["optimizer"])
        device = next(self.model.parameters()).device
        self.memory = {name: value.to(device) for name, value in named["memory"].items()}
        self.random = named["random"]
        self.epoch, self.step_in_epoch, self.global_step = (int(metadata[name]) for name in POSITION)
