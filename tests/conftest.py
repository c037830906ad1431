"""Small things that many tests share: one MLP, one convolutional net with batch norm, a few records."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from helpers import album, kept
from helpers.nursery import Nursery
from scissorhands.metrics import mia
from scissorhands.tasks.diffusion import pipeline

# The networks are tiny, and threads that wait for another job cost far more than they bring; so, too, in processes.
torch.set_num_threads(int(os.environ.setdefault("OMP_NUM_THREADS", "1")))


# Folders and files whose tests take more than a few seconds together: real processes, trainings, whole commands.
SLOW = {
    *("bench", "contract", "diffusion", "distributed", "fuzz", "runs"),
    *(
        "test_browser.py",
        "test_observations.py",
        "test_main.py",
        "test_mia.py",
        "test_python.py",
        "test_newcomers.py",
        "test_page.py",
        "test_output.py",
        "test_compare.py",
    ),
    *(
        "test_precision.py",
        "test_probes.py",
        "test_readme.py",
        "test_reference_models.py",
        "test_any_problem.py",
        "test_damage.py",
        "test_mia_svc.py",
        "test_serving.py",
        "test_changes.py",
    ),
}


# The files that take longest, in this order: they start first, so that no worker is left with one at the end.
LONGEST = (
    *("test_erase.py", "test_many.py", "test_resume.py", "test_contract.py", "test_diffusion_demo.py", "test_fuzz.py"),
    *("test_serving.py", "test_any_problem.py", "test_newcomers.py", "test_golden.py", "test_browser.py"),
    *("test_readme.py", "test_diffusion.py", "test_audit.py", "test_sd_recipes.py", "test_checkpoint.py"),
    *("test_recipe.py", "test_verdict.py", "test_mia_svc.py", "test_main.py", "test_demo.py", "test_small.py"),
    *("test_judging.py", "test_observations.py", "test_damage.py", "test_page.py"),
)


def pytest_configure(config: pytest.Config) -> None:
    """Ignore the warnings of damage: most tests damage small networks on purpose; those of the warnings expect them."""
    for name in ("DamageWarning", "GuessWarning"):  # here, so that no plugin imports the package before coverage begins
        config.addinivalue_line("filterwarnings", f"ignore::scissorhands.methods.damage.{name}")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all that is imported, again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, which `make quick` leaves out, and put the longest files first."""
    for item in items:
        if SLOW & {*item.nodeid.split("::")[0].split("/")}:
            item.add_marker(pytest.mark.slow)
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What starts processes that cost little."""
    nursery = Nursery(tmp_path_factory.mktemp("nursery"))
    nursery.imports("helpers.warm")
    yield nursery
    nursery.close()


@pytest.fixture(autouse=True, scope="session")
def _attacks_computed_once() -> Iterator[None]:
    """The same outputs are attacked once, however often a run is read and checked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mia, "called_other", kept.called_other)
        yield


@pytest.fixture(scope="module")
def pipelines_loaded_once() -> Iterator[None]:
    """Pipelines of the same files are loaded once, and so are parts of them of the same bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "load", kept.load)
        patch.setattr(pipeline, "_part", kept.part)
        yield


@pytest.fixture(scope="session")
def shrunk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos, a trained run, one that forgot two photos, which were then erased, and its cache."""
    folder = tmp_path_factory.mktemp("album")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(folder / "cache"))
        return album.finished(folder)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3))


def _convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


@pytest.fixture(params=[_mlp, _convnet], ids=["mlp", "convnet"])
def build(request: pytest.FixtureRequest) -> Callable[[], nn.Module]:
    """A function that builds the same small network each time."""

    def made() -> nn.Module:
        torch.default_generator.manual_seed(0)  # torch.manual_seed formats the stack for each kind of GPU
        model: nn.Module = request.param()
        return model.eval()

    return made


@pytest.fixture
def mlp() -> nn.Module:
    """The MLP in float64, without dropout in the way."""
    torch.manual_seed(0)
    return _mlp().double().eval()


def records(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images of 4 × 4 in three classes that a small network can tell apart."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centers = torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(99))
    return centers[labels] + 0.7 * torch.randn(count, 1, 4, 4, generator=draw), labels


@pytest.fixture
def split() -> sh.Split:
    """Sixty training records, six of them to forget."""
    train, test = TensorDataset(*records(60, 1)), TensorDataset(*records(30, 2))
    return sh.split(train, sh.Forget("random:10%"), test=test, seed=0)


@pytest.fixture
def problem(split: sh.Split) -> sh.Problem:
    """The problem of the split."""
    return split.problem(seed=0)
