"""The same work for one process and for many: models, data, cases, and how their outcomes are compared."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.testing import assert_close

import scissorhands as sh
from scissorhands.data.images import augmentation
from scissorhands.data.records import Part, Stored
from scissorhands.distributed import local, rank, shard
from scissorhands.evaluation.predict import predict
from scissorhands.files import read_metadata
from scissorhands.methods import METHODS
from scissorhands.methods.reinit import INITS
from scissorhands.methods.saliency import SALIENCY
from scissorhands.tasks.classification.networks import Normalize, resnet18

HERE = Path(__file__).parents[1] / "distributed"


# Models, in double precision and without dropout, whose random numbers depend on the process


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 3))


def _convnet() -> nn.Sequential:
    return nn.Sequential(
        Normalize([0.4], [0.3]),
        nn.Conv2d(1, 5, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(80, 8),
        nn.BatchNorm1d(8, momentum=None),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def _tied() -> nn.Module:
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.weight = first.weight
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), first, nn.Tanh(), second, nn.Tanh(), nn.Linear(8, 3))


def _frozen() -> nn.Sequential:
    model = _convnet()
    for name in ("1.weight", "2.bias", "5.weight"):
        model.get_parameter(name).requires_grad_(False)
    return model


def _narrow() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Tanh(), nn.Linear(1, 3))


class Unlisted(nn.Module):
    """Layers one after the other, but in no list of PyTorch, so that many processes gather them together."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        for number, layer in enumerate(layers):
            self.add_module(f"layer{number}", layer)

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.children():
            inputs = layer(inputs)
        return inputs


def _mixed() -> nn.Module:
    """All that may go wrong at once: convolution, batch norm, frozen weights, a weight used twice, and a single row."""
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.weight = first.weight
    narrow = [nn.Tanh(), nn.Linear(8, 1), nn.Tanh(), nn.Linear(1, 3)]
    layers = list(_frozen().children())
    return nn.Sequential(Unlisted(layers[:5]), Unlisted(layers[5:8]), first, nn.Tanh(), second, *narrow)


class Scaled(nn.Module):
    """A layer with a weight that it leaves alone when it draws itself anew, and a weight outside any list."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((8,), 0.7))
        self.inner = nn.Linear(64, 8)
        self.outer = nn.Linear(8, 3)

    def reset_parameters(self) -> None:
        self.inner.reset_parameters()
        self.outer.reset_parameters()

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.outer(torch.tanh(self.inner(inputs.flatten(1))) * self.scale)
        return out


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": _mlp,
    "convnet": _convnet,
    "tied": _tied,
    "frozen": _frozen,
    "narrow": _narrow,
    "mixed": _mixed,
    "resnet": lambda: resnet18(3, 1, width=2),
    "scaled": Scaled,
    "unlisted": lambda: Unlisted(_convnet()),
    "number": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 1)),
}


def build(name: str) -> nn.Module:
    """The same model each time."""
    torch.manual_seed(0)
    return MODELS[name]().double().eval()


def stored(count: int, seed: int = 1) -> Stored:
    """Images of 8 × 8 in three classes, with numbers from about 0 to 1."""
    centers = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    noise = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    labels = torch.arange(count) % 3
    return Stored(centers[labels] + 0.3 * noise, labels)


def problem(forget: int, retain: int, augment: str = "none") -> sh.Problem:
    """The first records to forget, the others to retain; as bytes where they are augmented."""
    records = stored(forget + retain)
    if augment != "none":
        records = Stored((records.inputs.clamp(0, 1) * 255).to(torch.uint8), records.labels)
    ids = torch.randperm(forget + retain, generator=torch.Generator().manual_seed(5))
    parts = Part(records, ids[:forget].sort().values), Part(records, ids[forget:].sort().values)
    return sh.Problem(*parts, seed=3, augment=augmentation(augment), warn_on_damage=False)


def _numbers() -> sh.Problem:
    """Numbers to predict: how bright the images are."""
    known = stored(37)
    records = Stored(known.inputs, 50 * known.inputs.mean((1, 2, 3)))
    ids = torch.arange(37).split([6, 22, 9])
    forget, retain, unseen = (Part(records, some) for some in ids)
    return sh.Problem(forget, retain, unseen, seed=3)


PROBLEMS: dict[str, Callable[[], sh.Problem]] = {
    "plain": lambda: replace(problem(6, 22), warn_on_damage=True),
    "augmented": lambda: problem(5, 21, "crop,flip"),
    "few": lambda: problem(3, 6),
    "one to forget": lambda: problem(1, 3),
    "one to retain": lambda: problem(3, 1),
    "numbers": _numbers,
}


@dataclass(frozen=True)
class Case:
    """A method on a model and a problem."""

    model: str
    method: sh.Method
    problem: str = "plain"
    looked: bool = False  # whether the model is asked for its outputs before it is scrubbed


def _quick(name: str, **changes: Any) -> sh.Method:
    """The method with little work to do."""
    kind = METHODS[name]
    gentle = {"ascent": 0.01, "shrink": 0.02, "expand": 0.02}
    settings = {
        "epochs": 2,
        "lr": gentle.get(name, 0.05),
        "batch_size": 7,
        "samples": 4,
        "iterations": 2,
        "undershoot": 1.0,
    }
    return kind.make({key: value for key, value in {**settings, **changes}.items() if hasattr(kind(), key)})


def _cases() -> dict[str, Case]:
    """Every method on all difficulties of a model at once, and on few records; some on each difficulty alone."""
    found: dict[str, Case] = {}
    for name in METHODS:
        found[f"{name} on mixed"] = Case("mixed", _quick(name, batch_size=21), "augmented")
        for few in ("one to forget", "one to retain"):  # in batches of two, the last of which is one record
            found[f"{name} with {few}"] = Case("unlisted", _quick(name, batch_size=2, epochs=1), few)
    for model in ("mlp", "convnet"):
        found[f"finetune on {model}"] = Case(model, _quick("finetune"))
    found["scissorhands on numbers"] = Case("number", _quick("scissorhands", epochs=1), "numbers")
    once: dict[str, Any] = {"reading": "paper", "batch_size": 11}
    variants: dict[str, dict[str, Any]] = {
        "as published": {"reading": "published", "parameters": "1.*, 5.*", "every": 2, "epochs": 1},
        "without projection": {"project": False, "epochs": 1},
        "that trims a pattern": {"parameters": "5.*, 1.weight", "trim": 0.2, **once},
        "on a share of the forget data": {"sample": 0.5, **once},
    }
    for label, settings in variants.items():
        found[f"scissorhands {label}"] = Case("convnet", _quick("scissorhands", **settings))
    single: dict[str, Any] = {"batch_size": 1, "epochs": 1, "reading": "paper"}
    found["scissorhands in batches of one"] = Case("convnet", _quick("scissorhands", **single), "few")
    found["influence by woodfisher"] = Case("convnet", _quick("influence", curvature="woodfisher"))
    found["salun one after the other"] = Case("convnet", _quick("salun", order="sequential"))
    large: dict[str, Any] = {"epochs": 1, "batch_size": 14}
    found["scissorhands on resnet"] = Case("resnet", _quick("scissorhands", reading="paper", **large), "augmented")
    found["retrain on resnet"] = Case("resnet", _quick("retrain", **large), "augmented")
    found["retrain on scaled"] = Case("scaled", _quick("retrain"))
    found["finetune by adam"] = Case("mlp", _quick("finetune", optimizer="adam", lr=0.001))
    found["finetune after a look"] = Case("convnet", _quick("finetune"), looked=True)
    return found


def _trims() -> dict[str, Case]:
    """Cases that only trim, which many processes do to the bit as one does."""

    def case(model: str, **settings: Any) -> Case:
        return Case(model, sh.Scissorhands(reading="paper", epochs=0, batch_size=5, **{"trim": 0.1, **settings}))

    found: dict[str, Case] = {}
    for saliency, init in zip(cycle(SALIENCY), INITS, strict=False):
        found[f"trim mixed by {saliency} to {init}"] = case("mixed", saliency=saliency, init=init)
    for model in ("mlp", "convnet", "tied", "frozen", "narrow"):
        found[f"trim {model}"] = case(model, init="layer")
    for where in ("*bias", "5.*", "1.weight, 5.bias", "8.*"):
        found[f"trim convnet where {where}"] = case("convnet", parameters=where, trim=0.3)
    found["trim nothing"] = case("mlp", trim=0.0)
    found["trim everything"] = case("mlp", trim=1.0, init="normal")
    return found


CASES, TRIMS = _cases(), _trims()
EVERY = CASES | TRIMS


class Outcome(NamedTuple):
    """What a case did: the events in the log, and the model's state after it, of which a process has its rows."""

    events: list[dict[str, Any]]
    state: dict[str, Tensor]
    sharded: tuple[str, ...] = ()


def carried_out(case: Case, given: sh.Problem | None = None) -> Outcome:
    """Does the work of a case, alone or as one of many processes."""
    work = given or PROBLEMS[case.problem]()
    if "unseen" in case.method.needs and work.calibration is None:
        unseen = stored(9, seed=2)
        if work.augment:
            unseen = Stored((unseen.inputs.clamp(0, 1) * 255).to(torch.uint8), unseen.labels)
        work = replace(work, calibration=Part(unseen, torch.arange(9)))
    model = shard(build(case.model), torch.device("cpu"))
    if case.looked:
        predict(model, work.retain)
    events: list[dict[str, Any]] = []
    case.method.scrub(model, work, lambda event: events.append(dict(event)))
    state = model.state_dict()
    sharded = tuple(name for name, value in state.items() if isinstance(value, DTensor))
    return Outcome(events, {name: local(value).detach().clone() for name, value in state.items()}, sharded)


def keep(outcome: Outcome, folder: Path) -> None:
    """Writes what this process has of an outcome to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"events-{rank()}.json").write_text(json.dumps(outcome.events))
    save_file(outcome.state, folder / f"{rank()}.safetensors", {"sharded": json.dumps(outcome.sharded)})


def kept(folder: Path) -> Outcome:
    """The outcome in a folder: what all processes logged, and their rows put together."""
    if (folder / "failed.txt").exists():
        raise RuntimeError((folder / "failed.txt").read_text())
    events, *others = (json.loads(path.read_text()) for path in sorted(folder.glob("events-*.json")))
    if any(found != events for found in others):
        raise RuntimeError("the processes logged different things")
    paths = sorted(folder.glob("*.safetensors"))
    sharded = json.loads(read_metadata(paths[0])["sharded"])
    first, *rest = map(load_file, paths)
    rows = {name: torch.cat([first[name], *(state[name] for state in rest)]) for name in sharded}
    return Outcome(events, first | rows)


LOSSES = ("loss", "retain", "forget", "guard")  # of an event; the last is a factor, which may be near 0 by chance


def same(one: Outcome, many: Outcome, relative: float = 1e-6) -> None:
    """Raises unless the outcomes are the same up to rounding."""
    assert len(one.events) == len(many.events)
    for a, b in zip(one.events, many.events, strict=True):
        assert a.keys() == b.keys()
        assert {k: v for k, v in a.items() if k not in LOSSES} == {k: v for k, v in b.items() if k not in LOSSES}
        for name in LOSSES:
            assert_close(b.get(name, 0.0), a.get(name, 0.0), rtol=relative, atol=relative if name == "guard" else 1e-12)
    assert list(one.state) == list(many.state) or one.state.keys() == many.state.keys()
    for name, value in one.state.items():
        scale = float(value.double().abs().max()) if value.numel() else 0.0
        wrong = (many.state[name].double() - value.double()).abs() > relative * (value.double().abs() + scale)
        assert not wrong.any(), f"{name} differs: {many.state[name]}, not {value}"


def marked(scores: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """The largest share of all scores, the first ones among equals: by sorting, which is slow and plainly right."""
    flat = torch.cat([value.double().reshape(-1) for value in scores.values()])
    mask = torch.zeros(len(flat), dtype=torch.bool)
    mask[flat.sort(descending=True, stable=True).indices[: round(share * len(flat))]] = True
    pieces = mask.split([value.numel() for value in scores.values()])
    return {name: piece.view(scores[name].shape) for name, piece in zip(scores, pieces, strict=True)}


def tied_scores(dtype: torch.dtype) -> dict[str, Tensor]:
    """Scores with few values, so that the cut-off falls among many equal ones."""
    draw = torch.Generator().manual_seed(0)
    shapes = {"matrix": (7, 5), "row": (1, 6), "vector": (8,), "pair": (2, 2, 3), "scalarlike": (1,)}
    return {name: torch.randint(4, size, generator=draw).to(dtype) / 4 for name, size in shapes.items()}
