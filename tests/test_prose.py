"""The pages: short, narrow, linked; and what CONTRIBUTING says to write works."""

import doctest
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from scissorhands.data import forget
from scissorhands.data.problem import on_device
from scissorhands.data.records import Stored
from scissorhands.distributed import Batch
from scissorhands.errors import DataError
from scissorhands.metrics import Metric, Outputs
from scissorhands.testing import check_method

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PROSE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def pages(*without: str) -> pytest.MarkDecorator:
    """Run a test over all pages but these."""
    chosen = [page for page in PROSE if page.name not in without]
    return pytest.mark.parametrize("page", chosen, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """The names of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pages()
def test_no_line_is_long(page: Path) -> None:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        assert len(line) <= 120 or line.startswith("|"), f"line {number} has {len(line)} characters"


@pages()
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text()):
        there = (page.parent / target) if target else page
        assert there.exists(), f"there is no {target}"
        assert not anchor or anchor in anchors(there), f"{there.name} has no heading #{anchor}"


@pages()
def test_every_path_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|recipes|benchmarks|examples|results)/[\w./-]*)`", page.read_text())
    missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
    assert not missing


@pages("CONTRIBUTING.md")  # which has tests of its own, below
def test_the_imports_of_python_on_a_page_work(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec("\n".join(re.findall(r"^(?:from|import) .*$", block, flags=re.MULTILINE)), {})


def printed(begins: str) -> str:
    """The Python of CONTRIBUTING that begins so."""
    found = re.findall(r"^ *```python\n(.*?)^ *```", CONTRIBUTING, flags=re.DOTALL | re.MULTILINE)
    (block,) = [text for text in map(textwrap.dedent, found) if text.startswith(begins)]
    return block


def made(begins: str, **known: Any) -> dict[str, Any]:
    """The names that the Python defines, beside those that are known where it is to be put."""
    exec(printed(begins), known)
    return known


def test_the_method_that_it_prints_keeps_every_promise() -> None:
    check_method(made("from dataclasses", __name__=__name__)["FineTune"])


def test_the_metric_that_it_prints_is_that_of_its_reference() -> None:
    known = made("def worst_class", Tensor=Tensor, Metric=Metric)
    (example,) = doctest.DocTestFinder().find(known["worst_class"], "worst_class", module=False, globs=known)
    assert doctest.DocTestRunner().run(example).failed == 0
    draw = torch.Generator().manual_seed(0)
    said = Outputs(torch.randn(50, 4, generator=draw), torch.randint(3, (50,), generator=draw))
    (row,) = eval("{" + printed('"test_worst_class": Metric(') + "}", known).values()
    by_reference = eval("{" + printed('"test_worst_class": min(') + "}", {"observed": {"test": said}})
    assert row.compute({"test": said}) == pytest.approx(by_reference["test_worst_class"])


def test_the_forget_rule_that_it_prints_works(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = made("def _range", **vars(forget))["_range"]
    monkeypatch.setitem(forget._RULES, "range", forget.Rule(rule, private=True))
    records = Stored(torch.zeros(40, 1), torch.arange(40) % 4, columns={"age": lambda: np.arange(40)})

    def chosen(text: str) -> list[int]:
        return [int(i) for i in sh.Forget(text).ids(records, torch.arange(40))]

    def refusal(text: str) -> str:
        with pytest.raises(DataError) as caught:
            chosen(text)
        return str(caught.value)

    made("def test_a_range", chosen=chosen, refusal=refusal)["test_a_range_chooses_the_records_with_these_numbers"]()


def test_the_loss_that_it_prints_lets_any_method_run() -> None:
    loss = made("def squared_error", nn=nn, Tensor=Tensor, Batch=Batch, F=F, on_device=on_device)["squared_error"]
    data = TensorDataset(torch.randn(40, 5), torch.arange(40) % 7)
    model = nn.Linear(5, 1)
    before = model.weight.detach().clone()
    problem = sh.split(data, sh.Forget("random:10%"), test=data).problem(loss=loss)
    sh.FineTune(epochs=1, lr=0.01, batch_size=8).scrub(model, problem)
    assert not torch.equal(model.weight, before)
