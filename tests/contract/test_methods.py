"""What every method in the table promises. A new line in the table is covered without a new test."""

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from scissorhands.data import Split
from scissorhands.errors import SettingError
from scissorhands.labels import Relabelled
from scissorhands.methods import METHODS
from scissorhands.reinit import INITS
from scissorhands.saliency import SALIENCY
from scissorhands.settings import to_toml

Build = Callable[[], nn.Module]
every_method = pytest.mark.parametrize("name", METHODS)

# Enough work for a small problem to notice, in little time.
QUICK: dict[str, Any] = {"epochs": 2, "lr": 0.05, "batch_size": 16, "samples": 20}
OTHER: dict[str, Any] = {
    "batch_size": 4,
    "epochs": 3,
    "lr": 0.01,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "schedule": "constant",
    "trim": 0.2,
    "sample": 0.4,
    "saliency": "random",
    "init": "normal",
    "where": "*bias",
    "balance": 0.7,
    "project": False,
    "guard": "epoch",
    "gamma": 0.01,
    "salient": 0.1,
    "order": "sequential",
    "fgsm": 20.0,
    "alpha": 2.0,
    "damping": 0.1,
    "samples": 5,
    "iterations": 1,
}


def quick(name: str, **changes: Any) -> sh.Method:
    """The method with little work to do; of the quick settings it takes those that it has."""
    known = {f.name for f in fields(METHODS[name])}
    return METHODS[name].make({k: v for k, v in {**QUICK, **changes}.items() if k in known or k in changes})


def scrubbed(method: sh.Method, model: nn.Module, problem: sh.Problem) -> dict[str, Tensor]:
    method.scrub(model, problem)
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@every_method
def test_weights_change_and_keep_their_shapes_and_types(name: str, build: Build, problem: sh.Problem) -> None:
    before = build().state_dict()
    after = scrubbed(quick(name), build(), problem)
    assert list(after) == list(before)
    assert all(after[k].shape == before[k].shape and after[k].dtype == before[k].dtype for k in before)
    assert all(torch.isfinite(value).all() for value in after.values())
    assert not any(torch.equal(after[k], before[k]) for k in before if k.endswith("weight"))


@every_method
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(name: str, build: Build, split: Split) -> None:
    first = scrubbed(quick(name), build(), split.problem(seed=0))
    torch.rand(7)  # the global generator is nobody's business
    again = scrubbed(quick(name), build(), split.problem(seed=0))
    other = scrubbed(quick(name), build(), split.problem(seed=1))
    assert same(first, again)
    assert not same(first, other)


@every_method
def test_the_global_generator_is_left_as_it_was(name: str, build: Build, problem: sh.Problem) -> None:
    model = build()
    state = torch.random.get_rng_state()
    quick(name).scrub(model, problem)
    assert torch.equal(state, torch.random.get_rng_state())


@every_method
@pytest.mark.parametrize("training", [True, False])
def test_the_mode_and_the_gradients_are_left_as_they_were(
    name: str, training: bool, build: Build, problem: sh.Problem
) -> None:
    model = build().train(training)
    quick(name).scrub(model, problem)
    assert model.training is training
    assert all(p.grad is None for p in model.parameters())


@every_method
def test_frozen_weights_are_untouched(name: str, build: Build, problem: sh.Problem) -> None:
    model = build()
    frozen = next(k for k, _ in model.named_parameters())
    model.get_parameter(frozen).requires_grad_(False)
    before = model.get_parameter(frozen).clone()
    if name == "retrain":
        pytest.skip("retraining starts the whole model anew")
    after = scrubbed(quick(name), model, problem)
    assert torch.equal(after[frozen], before)


# How often each method looks at every record to forget and to retain: so many times before, and in each epoch.
WALKS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "scissorhands": ((1, 0), (1, 1)),
    "retrain": ((0, 0), (0, 1)),
    "finetune": ((0, 0), (0, 1)),
    "ascent": ((0, 0), (1, 0)),
    "influence": ((1, 1), (0, 0)),
    "shrink": ((0, 0), (1, 0)),
    "expand": ((0, 0), (1, 0)),
    "l1sparse": ((0, 0), (0, 1)),
    "salun": ((1, 0), (1, 1)),
    "randomlabel": ((0, 0), (1, 1)),
}


@every_method
def test_data_is_walked_as_often_as_the_method_says(name: str, build: Build, problem: sh.Problem) -> None:
    asked: Counter[int] = Counter()
    inner = problem.retain.records

    class Spy(Relabelled):
        def fetch(self, ids: Tensor) -> tuple[Tensor, Tensor]:
            asked.update(ids.tolist())
            return super().fetch(ids)

    spy = Spy(inner, inner.labels)
    watched = replace(problem, forget=replace(problem.forget, records=spy), retain=replace(problem.retain, records=spy))
    settings = {"guard": "epoch", "project": False} if name == "scissorhands" else {}
    settings |= {"iterations": 0} if name == "influence" else {"epochs": 3}
    quick(name, **settings).scrub(build(), watched)
    (forget_before, retain_before), (forget_each, retain_each) = WALKS[name]
    assert {asked[i] for i in problem.forget.ids.tolist()} == {forget_before + 3 * forget_each}
    assert {asked[i] for i in problem.retain.ids.tolist()} == {retain_before + 3 * retain_each}


@every_method
def test_every_setting_changes_something(name: str, build: Build, problem: sh.Problem) -> None:
    plain = scrubbed(quick(name), build(), problem)
    for f in fields(METHODS[name]):
        assert f.name in OTHER, f"tell this test another value of '{f.name}'"
        assert not same(plain, scrubbed(quick(name, **{f.name: OTHER[f.name]}), build(), problem)), f.name


@every_method
def test_settings_survive_toml(name: str) -> None:
    method = quick(name)
    assert METHODS[name].make(tomllib.loads(to_toml(method.to_dict()))) == method


@every_method
def test_every_setting_refuses_nonsense_and_says_what_it_means(name: str) -> None:
    for row in METHODS[name].described():
        assert row["meaning"]
        assert row["rule"]
        with pytest.raises(SettingError, match=f"'{row['name']}' must be"):
            METHODS[name].make({row["name"]: object()})
        if not isinstance(row["default"], str | bool):
            with pytest.raises(SettingError, match=f"'{row['name']}' must be"):
                METHODS[name].make({row["name"]: -1})


@every_method
def test_the_log_tells_the_steps(name: str, build: Build, problem: sh.Problem) -> None:
    events: list[Mapping[str, Any]] = []
    quick(name).scrub(build(), problem, events.append)
    steps = [event for event in events if "steps" in event]
    assert [event["step"] for event in steps] == list(range(1, len(steps) + 1))
    assert len(steps) == steps[-1]["steps"]


@every_method
def test_a_single_record_can_be_forgotten(name: str, build: Build, split: Split) -> None:
    one = sh.split(split.retain.records, sh.Forget("random:1"), test=split.test.records)
    after = scrubbed(quick(name), build(), one.problem())
    assert all(torch.isfinite(value).all() for value in after.values())


@pytest.mark.parametrize("saliency", SALIENCY)
@pytest.mark.parametrize("init", INITS)
def test_scissorhands_trims_exactly_its_share(saliency: str, init: str, build: Build, problem: sh.Problem) -> None:
    model = build()
    before = {k: p.detach().clone() for k, p in model.named_parameters()}
    events: list[Mapping[str, Any]] = []
    sh.Scissorhands(trim=0.1, saliency=saliency, init=init, epochs=0).scrub(model, problem, events.append)
    changed = sum(int((p != before[k]).sum()) for k, p in model.named_parameters())
    assert events[0]["drawn"] == round(0.1 * events[0]["of"])
    assert changed == events[0]["drawn"]


def test_trimming_leaves_batch_norm_and_what_where_does_not_name(build: Build, problem: sh.Problem) -> None:
    model = build()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    last = [k for k, _ in model.named_parameters()][-2]
    sh.Scissorhands(trim=1.0, epochs=0, where=last).scrub(model, problem)
    assert {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])} == {last}


def test_forget_data_leaves_no_trace_in_running_statistics(build: Build, problem: sh.Problem) -> None:
    """With learning off, what is in the running statistics came from the retained data alone."""
    model, plain = build(), build()
    tiny: dict[str, Any] = {"lr": 1e-30, "weight_decay": 0.0, "epochs": 1, "batch_size": 16}
    sh.Scissorhands(trim=0.0, **tiny).scrub(model, problem)
    shifted = replace(problem, forget=problem.retain)
    sh.Scissorhands(trim=0.0, **tiny).scrub(plain, shifted)
    buffers = dict(plain.named_buffers())
    assert all(torch.equal(b, buffers[k]) for k, b in model.named_buffers())


def test_a_guarded_step_does_not_lower_the_forget_loss(build: Build, problem: sh.Problem) -> None:
    """One small step on the whole data: with the guard the forget loss holds, without it, it falls."""

    def change(project: bool) -> float:
        model = build().double()

        def loss(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            net.eval()  # the same function for both gradients and for the measurement
            return nn.functional.cross_entropy(net(batch[0].double()), batch[1])

        alike = replace(problem, loss=loss)
        whole = problem.forget.records.fetch(problem.forget.ids)
        before = loss(model, whole).item()
        method = sh.Scissorhands(
            trim=0.0, epochs=1, lr=1e-4, momentum=0.0, weight_decay=0.0, balance=0.0, project=project, batch_size=64
        )
        method.scrub(model, alike)
        return loss(model, whole).item() - before

    assert change(project=False) < -1e-7
    assert change(project=True) > -1e-9
