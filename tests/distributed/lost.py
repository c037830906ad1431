"""Methods in which the second process is lost in the middle of a step."""

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from torch import nn

from scissorhands.data.problem import Log, Problem, ignore
from scissorhands.distributed import rank
from scissorhands.methods import FineTune


@dataclass(frozen=True, kw_only=True)
class Dies(FineTune):
    """Dies, as a process that is out of memory does."""

    def scrub(self, model: nn.Module, problem: Problem, log: Log = ignore) -> None:
        calls: list[int] = []

        def count(*_: Any) -> None:
            calls.append(1)
            if rank() == 1 and len(calls) == 5:
                self.vanish()

        hook = model.register_forward_hook(count)
        super().scrub(model, problem, log)
        hook.remove()

    def vanish(self) -> None:
        """Ends this process."""
        os._exit(3)


@dataclass(frozen=True, kw_only=True)
class Hangs(Dies):
    """Hangs."""

    def vanish(self) -> None:
        """Does nothing for ever, until it is killed."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # so that the test need not wait until torchrun kills harder
        time.sleep(1e6)
