"""Checks of single functions, each of which every process makes, and tells how it went.

A check first does all that the processes do together, and then looks at what came out.
"""

import traceback
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.testing import assert_close

from helpers import many
from scissorhands import distributed
from scissorhands.distributed import all_reduce_sum_, full, local, rank, shard, world_size
from scissorhands.distributed.batchnorm import normalize_over_all
from scissorhands.errors import DataError, ModelError, StoppedError
from scissorhands.methods.modes import frozen_norm_statistics, training
from scissorhands.methods.optimizer import Optimizer
from scissorhands.methods.parameters import trainable
from scissorhands.methods.saliency import gradients, top_share
from scissorhands.tasks.classification import models
from scissorhands.tasks.pretrained import require_finite

CPU = torch.device("cpu")
PLACE = Path()  # the folder of the test, set by `checked`


def raised(work: Callable[[], object]) -> BaseException | None:
    """What the work raised."""
    try:
        work()
    except Exception as error:
        return error
    return None


def held(full: Tensor) -> Tensor:
    """The rows that this process holds, as PyTorch shares them out."""
    pieces = full.chunk(world_size())
    return pieces[rank()] if rank() < len(pieces) else full[:0]


# Which weights are the top share


def top_share_over_shards_is_that_of_the_whole() -> None:
    found, expected = [], []
    for dtype in (torch.float32, torch.float64):
        scores = many.tied_scores(dtype)
        for share in (0.0, 0.02, 0.1, 0.33, 0.5, 0.51, 0.77, 0.99, 1.0):
            found.append(dict(top_share({name: held(value) for name, value in scores.items()}, share)))
            expected.append({name: held(mask) for name, mask in many.marked(scores, share).items()})
    for mine, right in zip(found, expected, strict=True):
        assert all(torch.equal(mine[name], right[name]) for name in right)


def top_share_of_scores_that_are_all_equal_takes_the_first() -> None:
    scores = {"a": torch.ones(5, 3), "b": torch.ones(4)}
    found = dict(top_share({name: held(value) for name, value in scores.items()}, 0.5))
    assert all(torch.equal(found[name], held(mask)) for name, mask in many.marked(scores, 0.5).items())


def a_score_in_one_process_that_is_no_number_is_refused_in_all() -> None:
    found = []
    for where in range(world_size()):
        scores = {"a": torch.ones(3, 2), "b": torch.ones(2)}
        if rank() == where:
            scores["b"][1] = torch.nan
        found.append(raised(lambda scores=scores: dict(top_share(scores, 0.5))))  # type: ignore[misc]
    assert [type(error) for error in found] == [ModelError] * world_size()


def a_weight_in_one_process_that_is_not_finite_is_refused_in_all() -> None:
    found = []
    for where in range(world_size()):
        model = shard(many.build("mlp"), CPU)
        if rank() == where:
            local(model.get_parameter("1.weight"))[:1] = torch.nan
        found.append(raised(lambda model=model: require_finite(model, "it")))  # type: ignore[misc]
    assert [str(error) for error in found] == ["the weights of it are damaged: '1.weight' holds NaN or infinity."] * (
        world_size()
    )


# Batch normalization over all


def shares_of(count: int) -> list[list[int]]:
    """How many records each process has: evenly, unevenly, and one or the other with none."""
    others = world_size() - 1
    bounds = [count * i // world_size() for i in range(world_size() + 1)]
    even = [b - a for a, b in pairwise(bounds)]
    return [even, [count - others, *[1] * others], [0, count, *[0] * (others - 1)], [count, *[0] * others]]


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.BatchNorm1d(4), (4,)),
    "1d with a length": (lambda: nn.BatchNorm1d(4), (4, 3)),
    "2d": (lambda: nn.BatchNorm2d(4), (4, 3, 2)),
    "3d": (lambda: nn.BatchNorm3d(4), (4, 2, 1, 2)),
    "momentum none": (lambda: nn.BatchNorm2d(4, momentum=None), (4, 3, 2)),
    "momentum zero": (lambda: nn.BatchNorm2d(4, momentum=0.0), (4, 3, 2)),
    "not affine": (lambda: nn.BatchNorm2d(4, affine=False), (4, 3, 2)),
    "no statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (4,)),
    "neither": (lambda: nn.BatchNorm1d(4, affine=False, track_running_stats=False), (4,)),
    "frozen": (lambda: nn.BatchNorm1d(4).requires_grad_(False), (4,)),
}


def step_through(layer: nn.Module, inputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Output, gradient of the input, and gradients of the parameters."""
    values = inputs.clone().requires_grad_()
    out = layer(values)
    (out * weights).sum().backward()
    assert values.grad is not None
    slopes = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    return out.detach(), values.grad, slopes


def batch_norm_over_all_is_that_of_the_whole_batch() -> None:
    problems: list[str] = []
    for kind, (make, shape) in LAYERS.items():
        for dtype, rows in ((torch.float64, 7), (torch.float32, 6)):
            if dtype == torch.float32 and kind != "2d":
                continue  # the precision is of no matter to all that the layers differ in
            for shares in shares_of(rows) if kind == "2d" else shares_of(rows)[1:3]:
                draw = torch.Generator().manual_seed(1)
                alone, over_all = make().to(dtype), nn.Sequential(make().to(dtype))
                normalize_over_all(over_all)
                if alone.state_dict().get("weight") is not None:
                    for layer in (alone, over_all[0]):
                        with torch.no_grad():
                            layer.get_parameter("weight").copy_(torch.arange(1, 5) / 3)
                            layer.get_parameter("bias").copy_(torch.arange(4) / 5)
                own = slice(sum(shares[: rank()]), sum(shares[: rank() + 1]))
                for mode in (True, False, True):  # trained, evaluated, trained
                    inputs = torch.randn(rows, *shape, generator=draw, dtype=dtype) * 3 + 2
                    weights = torch.randn(rows, *shape, generator=draw, dtype=dtype)
                    expected = step_through(alone.train(mode), inputs, weights)
                    found = step_through(over_all.train(mode), inputs[own], weights[own])
                    slopes = list(all_reduce_sum_(torch.stack(found[2]))) if found[2] else []
                    near = 1e-9 if dtype == torch.float64 else 1e-4
                    try:
                        assert_close(found[0], expected[0][own], rtol=near, atol=near)
                        assert_close(found[1], expected[1][own], rtol=near, atol=near)
                        assert_close(slopes, expected[2], rtol=near, atol=near)
                        assert_close(dict(over_all[0].state_dict()), dict(alone.state_dict()), rtol=near, atol=near)
                    except AssertionError as error:
                        problems.append(f"{kind} {dtype} {shares} training {mode}: {error}")
    assert not problems, "\n".join(problems)


def batch_norm_over_all_with_still_statistics_keeps_them() -> None:
    alone, over_all = nn.BatchNorm1d(3).double(), nn.Sequential(nn.BatchNorm1d(3).double())
    normalize_over_all(over_all)
    before = {name: value.clone() for name, value in over_all.state_dict().items()}
    inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with training(over_all), frozen_norm_statistics(over_all):
        found = over_all(inputs[distributed.own_share(5)])
    assert_close(found, alone(inputs)[distributed.own_share(5)])
    assert all(torch.equal(value, before[name]) for name, value in over_all.state_dict().items())


# Weights in files


@cache
def resnet() -> tuple[nn.Module, models.Blueprint]:
    """A model that was loaded in parts, and what it was built from."""
    return models.load(PLACE / "one" / "resnet18")


def a_model_in_a_folder_is_loaded_in_parts() -> None:
    model, _ = resnet()
    there = load_file(PLACE / "one" / "resnet18" / models.WEIGHTS)
    state = {name: full(value) for name, value in model.state_dict().items()}
    assert state.keys() == there.keys()
    assert all(torch.equal(state[name], value) for name, value in there.items())
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor), name
        rows = -(-len(parameter) // world_size())
        assert len(local(parameter)) in {rows, max(0, len(parameter) - rows * rank())}, name
        assert len(local(parameter)) <= rows, name


def a_model_on_the_meta_device_has_no_memory_and_loads_its_weights_in_parts() -> None:
    found: list[tuple[nn.Module, tuple[list[str], list[str]], bool]] = []
    for name in ("mlp", "convnet", "tied", "frozen", "narrow"):
        with distributed.meta_device():
            model = many.build(name)
        empty = all(p.is_meta for p in model.parameters())
        shard(model, CPU)
        found.append((model, distributed.load_weights(model, [PLACE / "one" / f"{name}.safetensors"]), empty))
    names = ("mlp", "convnet", "tied", "frozen", "narrow")
    states = [{key: full(value) for key, value in model.state_dict().items()} for model, _, _ in found]
    for name, (model, fit, empty), state in zip(names, found, states, strict=True):
        assert empty
        assert fit == ([], []), name
        right = many.build(name)
        assert [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in right.parameters()]
        assert state.keys() == right.state_dict().keys()
        assert all(torch.equal(state[key], value) for key, value in right.state_dict().items()), name


def load_weights_tells_what_is_missing_and_what_is_too_much() -> None:
    mlp, narrow = shard(many.build("mlp"), CPU), PLACE / "one" / "narrow.safetensors"
    error = raised(lambda: distributed.load_weights(mlp, [narrow]))
    shallow = shard(nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Tanh(), nn.Linear(1, 3)).double(), CPU)
    shallow.add_module("more", nn.Linear(2, 2))
    missing, unexpected = distributed.load_weights(shallow, [narrow])
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 1)).double()
    assert isinstance(error, ModelError)
    assert "size mismatch" in str(error)
    assert (missing, unexpected) == (["more.bias", "more.weight"], [])
    assert distributed.load_weights(shard(other, CPU), [narrow])[1] == ["3.bias", "3.weight"]


def models_are_written() -> None:
    """Writes files that the test compares with those of one process."""
    for name in ("mlp", "convnet", "tied", "frozen", "narrow"):
        distributed.save_weights(shard(many.build(name), CPU), PLACE / "many" / f"{name}.safetensors")
    models.save(*resnet(), PLACE / "many" / "resnet18")


# What the functions say of themselves


def a_copy_is_shared_out_and_has_its_own_memory() -> None:
    model = shard(many.build("convnet"), CPU).train()
    with torch.no_grad():
        for value in distributed.local_state(model).values():
            value.add_(1)
    before = {name: full(value).clone() for name, value in model.state_dict().items()}
    twin = distributed.copy_model(model)
    after = {name: full(value).clone() for name, value in twin.state_dict().items()}
    with torch.no_grad():
        for value in distributed.local_state(twin).values():
            value.add_(1)
    left = {name: full(value) for name, value in model.state_dict().items()}
    out = twin.eval()(torch.zeros(2, 1, 8, 8, dtype=torch.float64))
    assert out.shape == (2, 3)
    assert distributed.is_sharded(twin)
    assert model.training
    assert all(isinstance(p, DTensor) for p in twin.parameters())
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(torch.equal(left[name], value) for name, value in before.items())


def a_copy_of_a_frozen_or_tied_model_is_frozen_or_tied() -> None:
    for name in ("frozen", "tied"):
        model = shard(many.build(name), CPU)
        twin = distributed.copy_model(model)
        assert [n for n, _ in twin.named_parameters()] == [n for n, _ in model.named_parameters()]
        assert [p.requires_grad for p in twin.parameters()] == [p.requires_grad for p in model.parameters()]


def a_model_is_plain_before_it_was_shared_out() -> None:
    model = shard(many.build("convnet"), CPU)
    shape = distributed.unsharded(model)
    assert [type(module) for module in shape.modules()] == [type(module) for module in many.build("convnet").modules()]
    assert [(n, p.shape) for n, p in shape.named_parameters()] == [(n, p.shape) for n, p in model.named_parameters()]
    assert all(p.is_meta for p in shape.parameters())
    alone = nn.Linear(2, 2)
    assert distributed.unsharded(alone) is alone
    assert not distributed.is_sharded(alone)


def what_is_written_into_an_unsharded_module_reaches_the_model() -> None:
    model = shard(many.build("convnet"), CPU)
    before = {name: full(value).clone() for name, value in model.state_dict().items()}
    with distributed.full_module(model, "5") as layer, torch.no_grad():
        shapes = [p.shape for p in layer.parameters()]
        for parameter in layer.parameters():
            parameter.copy_(torch.arange(parameter.numel()).view(parameter.shape))
    after = {name: full(value).clone() for name, value in model.state_dict().items()}
    assert shapes == [(8, 80), (8,)]
    assert torch.equal(after["5.weight"], torch.arange(640).view(8, 80).double())
    assert torch.equal(after["5.bias"], torch.arange(8).double())
    assert all(torch.equal(after[name], value) for name, value in before.items() if not name.startswith("5."))


def only_the_first_acts_and_all_get_what_it_found() -> None:
    acted: list[int] = []

    def act() -> str:
        acted.append(rank())
        return f"by {rank()}"

    answer = distributed.on_rank_0(act)
    assert answer == "by 0"
    assert acted == ([0] if rank() == 0 else [])


def all_get_the_error_of_the_first() -> None:
    def refuse(error: Exception) -> None:
        raise error

    given = [DataError("a  b"), OSError(28, "full", "there"), StoppedError("stop", 143)]
    found = [raised(lambda error=error: distributed.on_rank_0(lambda: refuse(error))) for error in given]  # type: ignore[misc]
    assert [type(error) for error in found] == [type(error) for error in given]
    assert [str(error) for error in found] == [str(error) for error in given]
    assert isinstance(found[2], StoppedError)
    assert found[2].exit_code == 143


def what_went_wrong_in_one_is_raised_in_all() -> None:
    last = world_size() - 1
    found = raised(lambda: distributed.raise_on_all_ranks(OSError(28, "full") if rank() == last else None))
    nothing = raised(lambda: distributed.raise_on_all_ranks(None))
    assert isinstance(found, OSError)
    assert found.errno == 28
    assert nothing is None


def rows_are_gathered_in_the_order_of_the_records() -> None:
    for count in (0, 1, 2, 3, 5, 7, 12):
        for dtype in (torch.float32, torch.float64, torch.int64):
            full = torch.arange(2 * count).view(count, 2).to(dtype)
            found = distributed.gather_rows(full[distributed.own_share(count)], count)
            assert torch.equal(found, full), (count, dtype)


def every_record_belongs_to_one_process() -> None:
    for count in (0, 1, 2, 5, 100):
        counts = torch.zeros(count)
        counts[distributed.own_share(count)] = 1
        before, everything = distributed.exclusive_sum(len(range(count)[distributed.own_share(count)]))
        assert torch.equal(all_reduce_sum_(counts), torch.ones(count))
        assert before == distributed.own_share(count).start
        assert everything == count


def they_queue_and_agree() -> None:
    before, everything = distributed.exclusive_sum(10 * (rank() + 1))
    one, none = distributed.any_rank(rank() == world_size() - 1), distributed.any_rank(False)
    assert before == sum(10 * (i + 1) for i in range(rank()))
    assert everything == sum(10 * (i + 1) for i in range(world_size()))
    assert one is True
    assert none is False


def parts_of_a_weight_make_up_the_whole() -> None:
    for rows in (1, 2, 3, 4, 5, 8):
        layer = nn.Linear(3, rows)
        everything = layer.weight.detach().clone()
        dist.broadcast(everything, 0)
        with torch.no_grad():
            layer.weight.copy_(everything)
        model = shard(nn.Sequential(layer), CPU)
        weight = model.get_parameter("0.weight")
        assert torch.equal(full(weight), everything)
        assert torch.equal(local(weight), held(everything))
        assert torch.equal(distributed.shard_of(everything, weight), held(everything))
        assert torch.equal(everything[distributed.own_rows(weight)], held(everything))
    assert distributed.own_rows(torch.ones(3)) is None


def a_trainable_single_number_is_refused_and_a_frozen_one_is_kept_whole() -> None:
    model = many.build("mlp")
    model.register_parameter("scale", nn.Parameter(torch.tensor(2.0).double()))
    error = raised(lambda: shard(model, CPU))
    other = many.build("mlp")
    other.register_parameter("scale", nn.Parameter(torch.tensor(2.0).double(), requires_grad=False))
    shard(other, CPU)
    distributed.save_weights(other, PLACE / "many" / "scalar.safetensors")
    assert isinstance(error, ModelError)
    assert full(other.get_parameter("scale")) == 2


# Memory


def each_holds_its_share_of_weights_and_momentum() -> None:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 30), nn.Linear(30, 3)).double()

    model, problem = shard(made(), CPU), many.PROBLEMS["plain"]()
    parameters = trainable(model)
    descent = Optimizer(parameters.values(), lr=0.1, momentum=0.9, weight_decay=0.0)
    for batch in problem.batches(problem.retain, 7, "memory"):
        descent.step(gradients(problem.loss(model, batch), parameters), 0.1)
    full = sum(p.numel() * p.element_size() for p in made().parameters())
    weights = sum(local(p).untyped_storage().nbytes() for p in model.parameters())
    momentum = sum(value.untyped_storage().nbytes() for value in descent.state_dict().values())
    most = 0.6 if world_size() == 2 else 0.45
    assert len(descent.state_dict()) == len(parameters)
    assert weights <= most * full, weights / full
    assert 0 < momentum <= most * full, momentum / full


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        top_share_over_shards_is_that_of_the_whole,
        top_share_of_scores_that_are_all_equal_takes_the_first,
        a_score_in_one_process_that_is_no_number_is_refused_in_all,
        a_weight_in_one_process_that_is_not_finite_is_refused_in_all,
        batch_norm_over_all_is_that_of_the_whole_batch,
        batch_norm_over_all_with_still_statistics_keeps_them,
        a_model_in_a_folder_is_loaded_in_parts,
        a_model_on_the_meta_device_has_no_memory_and_loads_its_weights_in_parts,
        load_weights_tells_what_is_missing_and_what_is_too_much,
        models_are_written,
        a_copy_is_shared_out_and_has_its_own_memory,
        a_copy_of_a_frozen_or_tied_model_is_frozen_or_tied,
        a_model_is_plain_before_it_was_shared_out,
        what_is_written_into_an_unsharded_module_reaches_the_model,
        only_the_first_acts_and_all_get_what_it_found,
        all_get_the_error_of_the_first,
        what_went_wrong_in_one_is_raised_in_all,
        rows_are_gathered_in_the_order_of_the_records,
        every_record_belongs_to_one_process,
        they_queue_and_agree,
        parts_of_a_weight_make_up_the_whole,
        a_trainable_single_number_is_refused_and_a_frozen_one_is_kept_whole,
        each_holds_its_share_of_weights_and_momentum,
    )
}


def checked(folder: Path) -> dict[str, list[str]]:
    """For each check, what went wrong in each process."""
    global PLACE
    PLACE = folder
    failed = dict.fromkeys(CHECKS, "")
    for name, check in CHECKS.items():
        try:
            check()
        except Exception:  # it is the test's business to tell
            failed[name] = traceback.format_exc()
    everywhere = [failed] * world_size()
    dist.all_gather_object(everywhere, failed)
    return {name: [found[name] for found in everywhere] for name in CHECKS}
