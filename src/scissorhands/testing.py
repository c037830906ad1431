"""What every method promises, as a check that its author can run: `check_method(MyMethod)`.

    from scissorhands.testing import check_method

    def test_my_method():
        check_method(MyMethod, processes=2)

It runs the method on two small networks or on yours, kills and resumes it, and compares one process with many.
"""

import copy
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data.forget import Forget
from .data.problem import Problem, ignore
from .data.records import Stored
from .data.split import split
from .distributed import exit_process, load_weights, process_group, save_weights, shard
from .distributed.checkpoint import Progress
from .errors import SettingError
from .methods import Method, find
from .plugins import named_object
from .randomness import seeded
from .settings import to_toml

Build = Callable[[], nn.Module]
Pose = Callable[[], Problem]
Check = Callable[[type[Method], Build, Problem], None]

# Enough work for a small problem to notice, in little time.
QUICK: dict[str, Any] = {"epochs": 2, "lr": 0.05, "batch_size": 16, "samples": 20, "iterations": 5, "threshold": 1.0}
QUICK |= {"trim": 0.05, "steps": 3, "inference": 3, "batches": 1, "undershoot": 1.0}


def check_method(
    kind: type[Method], *, processes: int = 1, build: Build | None = None, problem: Pose | None = None
) -> None:
    """Raise an AssertionError that says which promise the method breaks; return if it keeps them all.

    With more than one process, it also starts that many by torchrun, and compares the result with that of one.
    `build` returns a model and `problem` a problem for it, such as a U-Net and latents; without them, the method runs
    on small classifiers. Each call must return the same. For many processes, both must be functions of a module.
    """
    for name, check in CHECKS.items():
        for made in [build] if build else [mlp, convnet]:
            try:
                check(kind, made, (problem or small_problem)())
            except AssertionError as error:
                raise AssertionError(f"{kind.__name__} on the {made.__name__}: {name}: {error}") from error
    if processes > 1:
        gives_the_same_with_many_processes(kind, processes, build or convnet, problem or _exact_problem)


def mlp() -> nn.Module:
    """Build a small network without normalization."""
    with seeded(0, "small network"):
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)).eval()


def convnet() -> nn.Module:
    """Build a small network with batch normalization."""
    with seeded(0, "small network"):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64, 8),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Linear(8, 3),
        ).eval()


def small_problem(dtype: torch.dtype = torch.float32) -> Problem:
    """Make sixty images of 4 × 4 in three classes that a small network can tell apart, six of them to forget."""
    draw = torch.Generator().manual_seed(0)
    centers = torch.randn(3, 1, 4, 4, generator=draw)
    train, test = (
        Stored((centers[labels] + 0.7 * torch.randn(len(labels), 1, 4, 4, generator=draw)).to(dtype), labels)
        for labels in (torch.arange(60) % 3, torch.arange(30) % 3)
    )
    return replace(split(train, Forget("random:10%"), test=test).problem(), warn_on_damage=False)


def _exact_problem() -> Problem:
    return small_problem(torch.float64)


def quick(kind: type[Method], **changes: Any) -> Method:
    """Make the method with little work to do; of the quick settings it takes those that it has."""
    return kind.make({**_known(kind, QUICK), **changes})


def _known(kind: type[Method], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the values that are for settings of the method."""
    return {f.name: values[f.name] for f in fields(kind) if f.name in values}


def scrubbed(method: Method, model: nn.Module, problem: Problem) -> dict[str, Tensor]:
    """Return the state of the model after the method."""
    method.scrub(model, problem, ignore)
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Return whether two states are bitwise equal."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def changes_the_model_and_keeps_its_form(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that the weights change in place; names, shapes and types stay."""
    model, before = build(), build().state_dict()
    identities = [id(p) for p in model.parameters()]
    after = scrubbed(quick(kind, **_known(kind, {"salient": 1.0, "parameters": "*"})), model, problem)
    assert list(after) == list(before), "the model has other weights than before"
    assert [id(p) for p in model.parameters()] == identities, "parameters were replaced, not changed in place"
    form = [(value.shape, value.dtype) for value in before.values()]
    assert [(value.shape, value.dtype) for value in after.values()] == form, "a weight has another shape or type"
    assert all(torch.isfinite(value).all() for value in after.values()), "a weight is not finite"
    still = [name for name in before if name.endswith("weight") and torch.equal(after[name], before[name])]
    assert not still, f"{still} did not change"


def is_decided_by_the_seed(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that the seed alone decides the bits, whatever the state of the global generator."""

    def state(seed: int, outside: int) -> dict[str, Tensor]:
        model = build()
        with torch.random.fork_rng():
            torch.manual_seed(outside)
            return scrubbed(quick(kind), model, replace(problem, seed=seed))

    first, again, other = state(0, outside=1), state(0, outside=2), state(1, outside=1)
    assert same(first, again), "the same seed gave another model"
    assert not same(first, other), "another seed gave the same model"


def leaves_the_global_generator(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that PyTorch's global generator is left as it was."""
    model = build()
    state = torch.random.get_rng_state()
    quick(kind).scrub(model, problem)
    assert torch.equal(state, torch.random.get_rng_state()), "it drew from PyTorch's global generator"


def leaves_mode_gradients_and_switches(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that training mode, gradients and requires_grad are left as they were."""
    for training in (True, False):
        model = build().train(training)
        quick(kind).scrub(model, problem)
        assert all(module.training is training for module in model.modules()), "it left another mode"
        assert all(p.grad is None for p in model.parameters()), "it left gradients"
        assert all(p.requires_grad for p in model.parameters()), "it froze a weight"


def leaves_frozen_weights(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that a frozen weight does not change: every second one, then all others."""
    names = [name for name, _ in build().named_parameters()]
    for frozen in (names[::2], names[1::2]):
        model = build()
        before = {name: model.get_parameter(name).requires_grad_(False).clone() for name in frozen}
        after = scrubbed(quick(kind, **_known(kind, {"weight_decay": 0.1})), model, problem)
        changed = [name for name in frozen if not torch.equal(after[name], before[name])]
        assert not changed, f"{changed} changed, though frozen"


def tells_its_steps(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that the log counts the steps, and that as many are done as were announced."""
    events: list[Mapping[str, Any]] = []
    quick(kind).scrub(build(), problem, lambda event: events.append(copy.deepcopy(event)))
    steps = [event for event in events if "steps" in event]
    assert [event["step"] for event in steps] == list(range(1, len(steps) + 1)), "the log does not count the steps"
    assert not steps or len(steps) == steps[-1]["steps"], "the step count differs from the logged total"


def takes_a_single_record(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that one record to forget, or one to retain, is enough."""
    for one in (
        replace(problem, forget=replace(problem.forget, ids=problem.forget.ids[:1])),
        replace(problem, retain=replace(problem.retain, ids=problem.retain.ids[:1])),
    ):
        after = scrubbed(quick(kind), build(), one)
        assert all(torch.isfinite(value).all() for value in after.values()), "a weight is not finite"


def keeps_its_settings_in_toml(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that settings survive a file, and that an unknown setting is refused."""
    method = quick(kind)
    assert kind.make(tomllib.loads(to_toml(method.to_dict()))) == method, "its settings do not survive TOML"
    try:
        kind.make({"no_such_setting": 1})
    except SettingError:
        return
    raise AssertionError("it accepted a setting that it does not have")


def resumes_to_the_same_bits(kind: type[Method], build: Build, problem: Problem) -> None:
    """Check that a method that is killed at any step and resumed ends with the same bits."""
    count = 0

    def counting(event: Mapping[str, Any]) -> None:
        nonlocal count
        count += "steps" in event

    model = build()
    quick(kind).scrub(model, problem, counting)
    expected = model.state_dict()
    for stop in sorted({1, count // 2, count} - {0}):
        with tempfile.TemporaryDirectory() as folder:
            _killed(quick(kind), build(), problem, Path(folder), stop)
            progress = Progress(Path(folder), every=1e9)
            after = scrubbed(quick(kind), build(), replace(problem, progress=progress))
            hint = "change weights before Descent, and keep in its memory what a step needs"
            assert same(after, expected), f"killed after step {stop} of {count}, the result differs: {hint}"


class _KilledError(Exception):
    """Stands for a kill in the middle of a run."""


def _killed(method: Method, model: nn.Module, problem: Problem, folder: Path, stop: int) -> None:
    """Run the method with a checkpoint after every step, up to the log of step `stop`."""
    seen = 0

    def dying(event: Mapping[str, Any]) -> None:
        nonlocal seen
        seen += "steps" in event
        if seen == stop:
            raise _KilledError

    with suppress(_KilledError):
        method.scrub(model, replace(problem, progress=Progress(folder, every=0.0)), dying)


CHECKS: dict[str, Check] = {
    check.__name__.replace("_", " "): check
    for check in (
        changes_the_model_and_keeps_its_form,
        is_decided_by_the_seed,
        leaves_the_global_generator,
        leaves_mode_gradients_and_switches,
        leaves_frozen_weights,
        tells_its_steps,
        takes_a_single_record,
        keeps_its_settings_in_toml,
        resumes_to_the_same_bits,
    )
}


def gives_the_same_with_many_processes(kind: type[Method], processes: int, build: Build, problem: Pose) -> None:
    """Check that under torchrun it ends with the weights of one process, up to rounding."""
    names = [f"{thing.__module__}:{thing.__qualname__}" for thing in (kind, build, problem)]
    alone = build().double()
    quick(kind).scrub(alone, problem())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        done = subprocess.run(
            [*launch, "-m", "scissorhands.testing", *names, str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{kind.__name__} fails with {processes} processes: {done.stderr[-2000:]}"
        together = build().double()
        load_weights(together, [path])
    for key, value in alone.state_dict().items():
        near = torch.allclose(value.double(), together.state_dict()[key].double(), rtol=1e-6, atol=1e-9)
        assert near, f"{kind.__name__}: with {processes} processes {key} differs"


def _worker(name: str, build: str, problem: str, path: str) -> None:
    """Run in each process that torchrun started."""
    with process_group():
        model = shard(named_object(build)().double(), torch.device("cpu"))
        quick(find(name)).scrub(model, named_object(problem)())
        save_weights(model, Path(path))
    exit_process(0)


if __name__ == "__main__":
    _worker(*sys.argv[1:])
