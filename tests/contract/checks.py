"""What the methods of the table promise beyond `scissorhands.testing`, as functions that raise where one does not.

They are run over the table of methods, where each must hold, and over broken methods, where the right one must fail.
"""

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import scissorhands as sh
from scissorhands.data.labels import Relabeled
from scissorhands.testing import Build, quick, same, scrubbed

Settings = dict[str, Any]

# For every setting of any method, a value that must make a difference.
OTHER: Settings = {
    "batch_size": 4,
    "epochs": 4,
    "lr": 0.01,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "schedule": "constant",
    "trim": 0.2,
    "sample": 0.4,
    "saliency": "random",
    "init": "normal",
    "parameters": "*bias",
    "balance": 0.7,
    "project": False,
    "reading": "paper",
    "every": 3,
    "gamma": 0.01,
    "salient": 0.1,
    "order": "sequential",
    "labels": "fixed",
    "nearest": "argmax",
    "fgsm": 20.0,
    "alpha": 3.0,
    "curvature": "woodfisher",
    "damping": 0.5,
    "samples": 5,
    "iterations": 1,
    "beta": 0.5,
    "temperature": 1.0,
    "ascents": 0,
    "rewind": False,
    "threshold": 2.0,
    "dampening": 0.3,
    "power": 2.0,
    "clip": 0.01,
    "forget_weight": 0.2,
    "optimizer": "adam",
    "undershoot": 0.0,
}
# How often a method looks at every record to forget and to retain: so many times before, and so many in each epoch.
# None stands for a sample of the retained records.
Walk = tuple[tuple[int, int], tuple[int, int | None]]
_KEPT: dict[bytes, dict[int, nn.Module]] = {}


def walks_the_data_as_it_says(
    kind: type[sh.Method], build: Build, problem: sh.Problem, walk: Walk, peeks: int = 0
) -> None:
    """Counts every record that is fetched; `peeks` records may be fetched once more, to see what they look like."""
    asked: Counter[int] = Counter()
    records = problem.retain.records

    class Spy(Relabeled):
        def fetch(self, ids: Tensor) -> tuple[Tensor, Tensor]:
            asked.update(ids.tolist())
            return super().fetch(ids)

    spy = Spy(records, records.labels)
    parts = {name: replace(getattr(problem, name), records=spy) for name in ("forget", "retain")}
    watched = replace(problem, **parts, warn_on_damage=False)
    settings: Settings = {"reading": "published", "project": False} if has(kind, "reading") else {}
    settings |= {"epochs": 3} if has(kind, "epochs") else {}
    everything = {"iterations": 0, "sample": 1.0, "samples": 1000, "ascents": 3, "rewind": False, "every": 1}
    settings |= {name: value for name, value in everything.items() if has(kind, name)}
    quick(kind, **settings).scrub(build(), watched)
    (forget_before, retain_before), (forget_each, retain_each) = walk
    forgotten = sorted(asked[i] - forget_before - 3 * forget_each for i in problem.forget.ids.tolist())
    assert forgotten == [0] * (len(forgotten) - peeks) + [1] * peeks
    if retain_each is not None:
        assert {asked[i] for i in problem.retain.ids.tolist()} == {retain_before + 3 * retain_each}


def _trained(build: Build, problem: sh.Problem) -> dict[int, nn.Module]:
    """Return the network after so many epochs; it is trained once for all methods, which work on copies."""
    inputs, labels = problem.retain.records.fetch(problem.retain.ids)
    key = b"".join(value.numpy().tobytes() for value in (*build().state_dict().values(), inputs, labels))
    if key not in _KEPT:
        _KEPT[key] = {epochs: build() for epochs in (20, 2, 0)}
        for epochs, model in _KEPT[key].items():
            sh.FineTune(epochs=epochs, lr=0.1, batch_size=16).scrub(model, problem)
    return _KEPT[key]


def heeds_every_setting(kind: type[sh.Method], build: Build, problem: sh.Problem) -> None:
    trained = _trained(build, problem)

    def after(method: sh.Method, epochs: int) -> dict[str, Tensor]:
        return scrubbed(method, copy.deepcopy(trained[epochs]), problem)

    @cache
    def plain(epochs: int) -> dict[str, Tensor]:
        return after(quick(kind), epochs)

    # Some settings count only while there is something to learn, such as the projection, and some only after that.
    for f in fields(kind):
        # These have their own tests: they need a Hugging Face model, an epoch that is nearer than the last, or records
        # that are known better than unseen ones.
        if f.name in ("start", "rewind") or (f.name == "alpha" and has(kind, "undershoot")):
            continue
        assert f.name in OTHER, f"tell the checks another value of '{f.name}'"
        other = quick(kind, **{f.name: OTHER[f.name]})
        assert any(not same(plain(n), after(other, n)) for n in trained), f"'{f.name}' changes nothing"


def keeps_what_its_mask_leaves_out(
    kind: type[sh.Method], build: Build, problem: sh.Problem, mask: Mapping[str, Tensor]
) -> None:
    model = build()
    before = {k: p.detach().clone() for k, p in model.named_parameters()}
    quick(kind, weight_decay=0.5, momentum=0.9, epochs=3).scrub(model, problem)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter[~mask[name]], before[name][~mask[name]]), f"{name} changed outside the mask"
    reached = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert set(reached) == {name for name, m in mask.items() if m.any()}, "the mask did not reach the gradient"


def keeps_forget_data_out_of_running_statistics(kind: type[sh.Method], build: Build, problem: sh.Problem) -> None:
    """With learning off, the running statistics depend on the retained data alone."""

    def buffers(forget: sh.Problem) -> dict[str, Tensor]:
        model = build()
        settings = {"lr": 1e-30} if has(kind, "lr") else {"alpha": 0.0} if has(kind, "alpha") else {}
        if has(kind, "weight_decay"):
            settings["weight_decay"] = 0.0
        if has(kind, "trim"):
            settings["trim"] = 0.0
        if has(kind, "rewind"):
            settings["rewind"] = False  # else the forget data choose the epoch to end with
        quick(kind, **settings).scrub(model, forget)
        return {name: b.clone() for name, b in model.named_buffers()}

    far = problem.forget.records.labels.clone()
    moved = replace(problem.forget, records=Shifted(problem.forget.records, far))
    assert same(buffers(problem), buffers(replace(problem, forget=moved)))


class Shifted(Relabeled):
    """The same records, far from where they were."""

    def fetch(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        inputs, labels = super().fetch(ids)
        return inputs + 50, labels


def stays_within_its_memory(kind: type[sh.Method], copies: int, **changes: Any) -> None:
    """Counted by PyTorch's own record of allocations, on a network that is large beside its data."""
    torch.manual_seed(0)
    layers = [nn.Linear(512, 512) for _ in range(8)]
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 512), *layers, nn.Linear(512, 3))
    data = torch.utils.data.TensorDataset(torch.randn(40, 1, 4, 4), torch.arange(40) % 3)
    problem = sh.split(data, sh.Forget("random:10"), test=data, unseen=0.2).problem()
    settings = {"lr": 1e-6, "samples": 8, "iterations": 2}
    method = quick(kind, **{name: value for name, value in settings.items() if has(kind, name)}, **changes)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        method.scrub(model, problem)
    assert profiler.profiler is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    in_use = list(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
    used = max(in_use) / sum(p.numel() * p.element_size() for p in model.parameters())
    assert used <= copies, f"{used:.1f} copies of the model were in use besides it, where {copies} are stated"


def has(kind: type[sh.Method], setting: str) -> bool:
    """Whether the method has the setting."""
    return setting in {f.name for f in fields(kind)}
