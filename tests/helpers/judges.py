"""The judge of drawn digits, trained once for all tests of a session, whichever worker asks first.

It is trained for about half as long as a user's, and has to know as many digits.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from safetensors.torch import load_file, save_file
from torch import Tensor

from scissorhands.tasks.diffusion import small


def copied(factory: pytest.TempPathFactory, cache: Path, patch: pytest.MonkeyPatch) -> Tensor:
    """Put the trained judge into a cache folder, and return what it said of the test pictures when it was trained."""
    patch.setattr(small, "JUDGING", replace(small.JUDGING, epochs=14))
    base = factory.getbasetemp()
    shared = (base.parent if base.name.startswith("popen-") else base) / "judge"
    said = shared.with_suffix(".safetensors")
    with FileLock(f"{shared}.lock"):
        if not said.exists():
            with pytest.MonkeyPatch.context() as place:
                place.setenv("SCISSORHANDS_CACHE", str(shared))
                save_file({"scores": small.judge()(small.pictures()[1].inputs).detach()}, said)
    shutil.copytree(shared, cache, dirs_exist_ok=True)
    return load_file(said)["scores"]
