"""The rules of dependency, held by walking the imports."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "scissorhands"
FILES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it, by their full name."""
    here = ("scissorhands", *path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield module
            yield from (f"{module}.{name.name}" for name in node.names)


def breaches(files: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.name} imports {name}"
        for path in files
        for name in imports(path)
        if any(name == module or name.startswith(f"{module}.") for module in forbidden)
    ]


def inside(folder: str) -> list[Path]:
    found = [path for path in FILES if path.is_relative_to(PACKAGE / folder)]
    assert found
    return found


def test_methods_and_metrics_know_neither_each_other_nor_who_uses_them() -> None:
    users = tuple(
        f"scissorhands.{name}" for name in ("cli", "runs", "report", "jobs", "table", "recipe", "bench", "docs")
    )
    assert not breaches(inside("methods"), (*users, "scissorhands.metrics", "scissorhands.evaluate"))
    assert not breaches(inside("metrics"), (*users, "scissorhands.methods"))


def test_only_distributed_imports_torch_distributed() -> None:
    assert not breaches([path for path in FILES if path.name != "distributed.py"], ("torch.distributed",))


def test_only_diffusion_imports_diffusers() -> None:
    assert not breaches([path for path in FILES if "diffusion" not in path.parts], ("diffusers",))


def test_nothing_that_a_method_sees_knows_the_command_line() -> None:
    core = [path for path in FILES if path.name not in ("cli.py", "__main__.py")]
    assert not breaches(core, ("click", "rich", "scissorhands.cli"))


def test_the_report_computes_nothing() -> None:
    assert not breaches([PACKAGE / "report.py"], ("torch", "numpy", "math", "statistics", "scissorhands.evaluate"))


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        if path.name == "cli.py":
            continue
        calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [f for f in calls if isinstance(f, ast.Name) and f.id in ("print", "eval", "exec")], path


def test_no_pickle_is_ever_loaded() -> None:
    assert not breaches(FILES, ("pickle", "cloudpickle", "dill", "joblib"))
    for path in FILES:
        assert "torch.load" not in path.read_text(), path


@pytest.mark.parametrize("line", ["import torch.distributed as dist", "from torch import distributed"])
def test_the_walk_sees_an_import_wherever_it_stands(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    bad = tmp_path / "bad.py"
    bad.write_text(f"def late():\n    {line}\n")
    assert breaches([bad], ("torch.distributed",))
