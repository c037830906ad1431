"""Every method in the table keeps every promise. A new line in the table is covered without a new test."""

import copy
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scissorhands as sh
from contract import checks
from contract.checks import Walk
from scissorhands import tasks, testing
from scissorhands.distributed import Batch
from scissorhands.errors import SettingError
from scissorhands.methods import METHODS
from scissorhands.methods.parameters import trainable
from scissorhands.methods.reinit import INITS
from scissorhands.methods.saliency import SALIENCY, gradient_saliency, top_share
from scissorhands.settings import to_toml
from scissorhands.testing import Build, quick

every_method = pytest.mark.parametrize("name", METHODS)
EVERY = tasks.methods()  # those for pipelines alone too, which test_testing.py runs on a U-Net
every_setting = pytest.mark.parametrize("name", EVERY)

WALKS: dict[str, Walk] = {
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
    "neggradplus": ((0, 0), (4, 1)),
    "scrub": ((0, 0), (1, 1)),
    "ssd": ((2, 1), (0, 0)),
    "sfron": ((1, 1), (4, 1)),
    "munba": ((0, 0), (1, 1)),
    "gradtau": ((0, 0), (4, None)),
    "lotus": ((0, 0), (2, 1)),
    "regun": ((0, 0), (1, None)),
}
# Methods that train on the forget data as on any other, as their authors do, let it into the running statistics.
LETS_STATISTICS_DRIFT = {
    "ascent", "shrink", "expand", "salun", "randomlabel", "lotus", "scrub", "sfron", "munba", "regun",
}  # fmt: skip
# Promises that the measurements of damage, before and after a method, could break.
WATCHED = {
    testing.leaves_the_global_generator,
    testing.leaves_mode_gradients_and_switches,
    testing.takes_a_single_record,
}


@every_method
@pytest.mark.parametrize(
    "check",
    [
        testing.changes_the_model_and_keeps_its_form,
        testing.is_decided_by_the_seed,
        testing.leaves_the_global_generator,
        testing.leaves_mode_gradients_and_switches,
        checks.heeds_every_setting,
        testing.tells_its_steps,
        testing.takes_a_single_record,
    ],
    ids=lambda check: check.__name__,
)
def test_every_method(name: str, check: Callable[..., None], build: Build, problem: sh.Problem) -> None:
    if name == "shrink" and check is checks.heeds_every_setting and not any(build().named_buffers()):
        pytest.skip("on the MLP the nearest wrong class is the same after a step of any size")
    check(METHODS[name], build, replace(problem, warn_on_damage=check in WATCHED))


@every_method
def test_leaves_frozen_weights(name: str, build: Build, problem: sh.Problem) -> None:
    testing.leaves_frozen_weights(METHODS[name], build, problem)


@every_method
def test_walks_the_data_as_it_says(name: str, build: Build, problem: sh.Problem) -> None:
    peeks = 1 if name == "expand" else 0  # it passes one record through the model to find the last layer
    checks.walks_the_data_as_it_says(METHODS[name], build, problem, WALKS[name], peeks)


@every_method
def test_keeps_forget_data_out_of_running_statistics(name: str, build: Build, problem: sh.Problem) -> None:
    if name not in LETS_STATISTICS_DRIFT:
        checks.keeps_forget_data_out_of_running_statistics(METHODS[name], build, problem)
    elif any(build().named_buffers()):
        with pytest.raises(AssertionError):
            checks.keeps_forget_data_out_of_running_statistics(METHODS[name], build, problem)


@every_method
def test_stays_within_its_memory(name: str) -> None:
    checks.stays_within_its_memory(METHODS[name], METHODS[name].copies)
    if name == "scissorhands":
        checks.stays_within_its_memory(METHODS[name], METHODS[name].copies, reading="published")


def test_salun_keeps_what_its_mask_leaves_out(build: Build, problem: sh.Problem) -> None:
    model = build()
    scores = gradient_saliency(model, problem, trainable(model), problem.forget, 16)
    mask = dict(top_share(scores, sh.SalUn().salient))
    checks.keeps_what_its_mask_leaves_out(sh.SalUn, build, problem, mask)


@every_setting
def test_settings_survive_toml(name: str) -> None:
    method = quick(EVERY[name])
    assert EVERY[name].make(tomllib.loads(to_toml(method.to_dict()))) == method


@every_setting
def test_every_setting_refuses_nonsense_and_says_what_it_means(name: str) -> None:
    for row in EVERY[name].described():
        assert row["meaning"]
        assert row["rule"]
        with pytest.raises(SettingError, match=f"'{row['name']}' must be"):
            EVERY[name].make({row["name"]: object()})
        if not isinstance(row["default"], str | bool):
            with pytest.raises(SettingError, match=f"'{row['name']}' must be"):
                EVERY[name].make({row["name"]: -1})


@every_setting
def test_a_method_introduces_itself_in_one_line_and_cites_its_paper(name: str) -> None:
    assert EVERY[name].paper
    assert (EVERY[name].__doc__ or "").strip().splitlines()[0].endswith(".")


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
    sh.Scissorhands(trim=1.0, epochs=0, parameters=last).scrub(model, problem)
    assert {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])} == {last}


def test_a_guarded_step_does_not_lower_the_forget_loss(build: Build, problem: sh.Problem) -> None:
    """One small step on the whole data: with the guard the forget loss holds, without it, it falls."""

    def change(project: bool) -> float:
        model = build().double()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # the same function for both gradients and for the measurement

        def loss(net: nn.Module, batch: Batch) -> Tensor:
            return nn.functional.cross_entropy(net(batch.inputs.double()), batch.labels)

        def measured() -> float:
            return loss(copy.deepcopy(model).train(), whole).item()

        whole = Batch.of(*problem.forget.records.fetch(problem.forget.ids))
        before = measured()
        method = sh.Scissorhands(
            reading="paper",
            trim=0.0,
            epochs=1,
            lr=1e-4,
            momentum=0.0,
            weight_decay=0.0,
            balance=0.0,
            project=project,
            batch_size=64,
        )
        method.scrub(model, replace(problem, loss=loss))
        return measured() - before

    assert change(project=False) < -1e-7
    assert change(project=True) > -1e-9
