"""The rules of dependency, held by walking the imports."""

import ast
import itertools
import re
import sys
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
    found = [path for path in FILES if path.is_relative_to(PACKAGE / folder) or path == PACKAGE / f"{folder}.py"]
    assert found
    return found


BASE = ("errors", "settings", "randomness", "files", "plugins", "cost", "interrupts", "verify", "launcher", "choices")
# Each room may import from the rooms after it, never from those before.
ROOMS = (
    ("cli", "testing"),
    ("bench", "requests", "python"),
    ("evidence",),
    ("report",),
    ("runs",),
    ("tasks",),
    ("evaluation",),
    ("methods", "metrics"),
    ("data",),
    ("distributed",),
)


def backwards() -> list[str]:
    """The imports that point the wrong way."""
    found: list[str] = []
    for place, rooms in enumerate(ROOMS):
        for room in rooms:
            before = [other for others in ROOMS[:place] for other in others]
            beside = [other for other in rooms if other != room]
            found += breaches(inside(room), tuple(f"scissorhands.{name}" for name in (*before, *beside)))
    return found


def test_imports_point_one_way() -> None:
    assert not backwards()


def test_what_everything_stands_on_imports_nothing_else_of_ours() -> None:
    rooms = tuple(f"scissorhands.{room}" for rooms in ROOMS for room in rooms)
    assert not breaches([path for name in BASE for path in inside(name)], rooms)


def test_a_pack_is_verified_by_the_standard_library_alone() -> None:
    for path in inside("verify"):
        found = {name.partition(".")[0] for name in imports(path) if not name.startswith("scissorhands.verify")}
        assert found <= sys.stdlib_module_names, path


def test_every_file_stands_in_a_room() -> None:
    rooms = {room for rooms in ROOMS for room in rooms}
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}
    assert found == {*rooms, *BASE, "__init__", "__main__"}


def test_the_map_lists_every_file_once() -> None:
    folder, listed = "", []
    for line in (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text().split("\nsrc/scissorhands/\n")[1].splitlines():
        if line == "```":
            break
        indent, words = len(line) - len(line.lstrip()), line.split()
        folder = "" if indent == 2 else folder
        if words[0].endswith("/"):
            folder = words[0]
        names = itertools.takewhile(lambda word: word.endswith(".py"), words)
        listed += [folder + name for name in names]
    found = [str(path.relative_to(PACKAGE)) for path in FILES]
    own = {"__init__.py", "methods/__init__.py"}
    assert sorted(listed) == sorted(name for name in found if name in own or not name.endswith("/__init__.py"))


def test_only_distributed_imports_torch_distributed() -> None:
    assert not breaches([path for path in FILES if "distributed" not in path.parts], ("torch.distributed",))


def test_only_diffusion_imports_diffusers() -> None:
    assert not breaches([path for path in FILES if "diffusion" not in path.parts], ("diffusers",))


def test_nothing_but_the_command_line_knows_how_it_is_shown() -> None:
    core = [path for path in FILES if "cli" not in path.parts and path.name != "__main__.py"]
    assert not breaches(core, ("click", "rich", "scissorhands.cli"))


def test_the_page_computes_nothing() -> None:
    assert not breaches([PACKAGE / "report" / "page.py"], ("torch", "numpy", "math", "statistics"))


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        if "cli" in path.parts:
            continue
        calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [f for f in calls if isinstance(f, ast.Name) and f.id in ("print", "eval", "exec")], path


def test_no_pickle_is_ever_loaded() -> None:
    assert not breaches(FILES, ("pickle", "cloudpickle", "dill", "joblib"))
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "torch.serialization"), path
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                assert {one.arg: ast.unparse(one.value) for one in node.keywords}["weights_only"] == "True", path


@pytest.mark.parametrize("line", ["import torch.distributed as dist", "from torch import distributed"])
def test_the_walk_sees_an_import_wherever_it_stands(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    bad = tmp_path / "bad.py"
    bad.write_text(f"def late():\n    {line}\n")
    assert breaches([bad], ("torch.distributed",))


def test_no_file_and_no_function_is_long() -> None:
    long = [f"{path.name}: {lines} lines" for path in FILES if (lines := len(path.read_text().splitlines())) > 300]
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > 50:
                    long.append(f"{path.name}: {node.name} has {lines} lines")
    assert not long


METHODS = [path for path in inside("methods") if re.search(r"^class \w+\(Method\)", path.read_text(), re.M)]


def test_no_method_knows_of_processes_modes_seeds_or_checkpoints() -> None:
    """What is not in a paper's box belongs to Descent, and what a method needs has one address."""
    hidden = ("distributed", "randomness", "methods.modes", "methods.descent")
    own = [PACKAGE / "tasks/diffusion" / f"{name}.py" for name in ("esd", "published", "salun")]
    assert {path.stem for path in METHODS} >= {"scissorhands", "finetune", "boundary"}
    assert not breaches([*METHODS, *own], tuple(f"scissorhands.{m}" for m in hidden))
