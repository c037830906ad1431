"""The cases, five families of them: each is a folder in which something is wrong, and a command.

A case follows from the seed and its number alone. The families take turns, within a family its tables do, and within a
table the hazards, shuffled by the seed: the first cases hold some of everything, and in the end none is left out.
"""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz.damage import (
    BROKEN_NUMBERS,
    CODE,
    FILE,
    HTML,
    IMAGE,
    JSON,
    KINDS,
    NUMBERED,
    NUMBERS,
    OUTSIDE,
    RAN,
    TENSORS,
    TEXTS,
    TOML,
    Damage,
    content,
    edited,
    outside,
    pickled,
    replaced,
    several,
    tensors,
    with_line,
    with_values,
)
from fuzz.healthy import PAYLOAD, QUICK, TRAIN, reseal

PRIVATE = "private, and not to be copied"
Check = Callable[[Path], str]  # says what is wrong though the command succeeded; nothing if all is well
ROOMS = ("work", OUTSIDE, "home", "tmp", "cache")  # of a case: where it works, and what surrounds it


@dataclass
class Case:
    """A command, the folder to give it in, and what is wrong there, in words."""

    number: int
    family: str
    root: Path
    draw: Random
    hazard: str = ""
    words: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.root / "work"

    def command(self, text: str, *more: str) -> None:
        self.words = [*shlex.split(text), *more]


def made(seed: int, number: int, healthy: Path, root: Path) -> Case:
    """The case of that number, with its folder."""
    family = list(FAMILIES)[number % len(FAMILIES)]
    case = Case(number, family, root, Random(f"{seed} {number}"))
    for room in ROOMS:
        (root / room).mkdir(parents=True)
    (root / OUTSIDE / "secret.txt").write_text("0\n1\n")
    (root / OUTSIDE / "private.txt").write_text(PRIVATE)
    shutil.copytree(healthy / "data" / "train" / "a", root / OUTSIDE / "pictures")
    shutil.copytree(healthy / "pipeline" / "scheduler", root / OUTSIDE / "payload")
    build, needs, tables = FAMILIES[family]
    for name in needs:
        source, there = healthy / name, case.work / name
        shutil.copytree(source, there) if source.is_dir() else shutil.copy(source, there)
    (case.work / "gift").mkdir()
    (case.work / "gift" / "payload.py").write_text(PAYLOAD)
    os.mkfifo(case.work / "fifo")
    (case.work / "loop").symlink_to("loop")
    turn = number // len(FAMILIES)
    hazards = sorted(tables[turn % len(tables)])
    Random(f"{seed} {family}").shuffle(hazards)
    build(case, hazards[turn // len(tables) % len(hazards)])
    return case


# Command lines. What comes first is not changed, so that no case has more than a little work to do.

LINES = {
    "train": ("train --model small --model-set width=2 --set epochs=1", "--data data --holdout 0.2 --seed 1 -o out"),
    "train on digits": ("train --model small --model-set width=1 --set epochs=1", "--split-seed 1 -o out"),
    "resume": ("train", "--resume begun"),
    "scrub": ("scrub", f"trained --forget class:a {QUICK} --device cpu --unseen 0.1 -o out"),
    "scrub a model": ("scrub", f"model --data data --forget random:20% {QUICK} --precision bfloat16 -o out"),
    "erase": ("scrub pipeline --set epochs=1 --method finetune", "--forget concept:three --data photographs -o out"),
    "evaluate": ("evaluate", "trained --forget class:a --data data --split-seed 1 -o out"),
    "evaluate a run": ("evaluate", "scrubbed --against retrained --json"),
    "look deeper": ("evaluate --dry-run", "scrubbed --level standard --set shadows=4 --train epochs=1"),
    "report": ("report", "scrubbed retrained --title x -o page.html"),
    "sample": ("sample --per-prompt 1 --set steps=1", "pipeline --prompts three,four --seed 1 -o out"),
    "judge": ("judge", "photographs --forget concept:three --classifier transformer --device cpu -o out"),
    "methods": ("methods", "scissorhands --json"),
    "bench": ("bench", "recipe.toml -o out --level quick --device cpu"),
    "demo": ("demo --device nowhere", "-o out --level quick"),
}
WITH_NUMBERS = (
    "train",
    "train on digits",
    "scrub",
    "scrub a model",
    "erase",
    "evaluate",
    "look deeper",
    "sample",
    "judge",
)
LONG = ("epochs", "steps", "inference", "per_prompt", "shadows", "references", "per-prompt", "level", "draws")
SETTINGS = (
    "lr",
    "trim",
    "balance",
    "batch_size",
    "parameters",
    "sample",
    "momentum",
    "width",
    "size",
    "memory",
    "augment",
)


VERBS = ("train", "scrub", "evaluate", "judge", "sample", "report")
FORGETS = ("random", "class", "classes", "ids", "where", "concept", "ghost", "")
STRANGE = {**{f"text {name}": x for name, x in TEXTS.items()}, **{f"number {name}": x for name, x in NUMBERS.items()}}


def _value(draw: Random) -> str:
    return draw.choice([*STRANGE.values()])


def _spot(words: list[str], draw: Random, option: bool) -> int:
    """The place of an option, or of something that is none; the end if there is no such place."""
    return draw.choice([i for i, word in enumerate(words) if word.startswith("-") is option] or [len(words)])


def _known(words: list[str], draw: Random, verb: str, value: str) -> None:
    """An option of a verb with a value that it does not expect; none that may mean hours of work."""
    from click import Context

    from scissorhands.cli.main import group

    command = group.get_command(Context(group), verb)
    assert command
    options = [one for one in command.params if one.param_type_name == "option"]
    numeric = value in NUMBERS.values()
    fit = [
        one
        for one in options
        if (one.metavar == "NAME=VALUE" or numeric == one.type.name.startswith(("integer", "float")))
        and not any(one.opts[-1].endswith(name) for name in LONG)
        and not getattr(one, "is_flag", False)
    ]
    if fit:
        option = draw.choice(fit)
        words += [option.opts[-1], f"{draw.choice(SETTINGS)}={value}" if option.metavar == "NAME=VALUE" else value]


def _misspell(words: list[str], draw: Random) -> None:
    place = _spot(words, draw, option=True)
    if place < len(words):
        word, i = words[place], draw.randrange(len(words[place]))
        words[place] = draw.choice(
            [word[:i] + word[i + 1 :], word[:i] + word[i : i + 1] * 2 + word[i + 1 :], word[:-1]]
        )


def _swap_value(words: list[str], draw: Random, value: str) -> None:
    """Another value, in the place of one that is there or of an option that is not."""
    place = _spot(words, draw, option=False)
    name, equals, _ = words[place].partition("=") if place < len(words) else ("", "", "")
    words[place : place + 1] = [f"{name}={value if name not in LONG else -1}" if equals else value]


CHANGES: Mapping[str, Callable[[list[str], Random, str], Any]] = {
    "another value": lambda words, draw, _: _swap_value(words, draw, _value(draw)),
    "an option of its own": lambda words, draw, verb: _known(words, draw, verb, _value(draw)),
    "an option of another verb": lambda words, draw, _: _known(words, draw, draw.choice(VERBS), _value(draw)),
    "a misspelt option": lambda words, draw, _: _misspell(words, draw),
    "something left out": lambda words, draw, _: words.pop(draw.randrange(len(words))) if words else None,
    "something twice": lambda words, draw, _: words.extend(words[_spot(words, draw, option=True) :][:2]),
    "one word more": lambda words, draw, _: words.insert(draw.randrange(len(words) + 1), _value(draw)),
    "one option more": lambda words, draw, _: words.append(draw.choice(["--overwrite", "--json", "-h", "--ghost"])),
    "an option to resume": lambda words, draw, _: words.extend(["--resume", draw.choice(["begun", "data", "out"])]),
    "something else to forget": lambda words, draw, _: words.extend(
        ["--forget", f"{draw.choice(FORGETS)}:{_value(draw)}"]
    ),
}


def _command_line(case: Case, hazard: str) -> None:
    """One of the strange values somewhere, or another change, and now and then a second one."""
    draw = case.draw
    name = draw.choice([line for line in sorted(LINES) if not hazard.startswith("number") or line in WITH_NUMBERS])
    first, rest = map(shlex.split, LINES[name])
    done = [hazard, *draw.choices(sorted(CHANGES), k=draw.choice([0, 0, 0, 1]))]
    if hazard == "another verb":
        first = draw.choice([["trian"], ["scrubb"], [_value(draw)], [], ["--version"], ["-h"], ["--ghost"]])
        done, rest = [hazard], []
    elif hazard.startswith("text") and draw.random() < 0.7:
        _swap_value(rest, draw, STRANGE[hazard])
    elif hazard in STRANGE:
        _known(rest, draw, first[0], STRANGE[hazard])
    for change in done:
        if change in CHANGES:
            CHANGES[change](rest, draw, first[0])
    if first[:1] == ["demo"] and "--device" in rest:  # the demo would begin, and takes minutes
        rest = []
    case.hazard = f"{name}: {', '.join(done)}"
    case.words = [*first, *rest]


# Recipes

CONTENTS: dict[str, Damage] = {
    "training is a list": with_line("training = [1]"),
    "a method of code that is not there": with_line('methods = ["finetune", "x:y"]'),
    "a method that is no method": with_line('methods = ["finetune", "os:system"]'),
    "a method of no code": with_line('methods = ["finetune", ":"]'),
    "a method up and out": with_line('methods = ["finetune", "../../x"]'),
    "a method twice": with_line('methods = ["finetune", "finetune"]'),
    "no methods": with_line("methods = []"),
    "a thousand methods": with_line(f"methods = {['finetune' + str(i) for i in range(1000)]}"),
    "a model of code": with_line('model = "x:y"'),
    "a model up and out": with_line('model = "../outside"'),
    "a width of 10**26": with_line(f"width = {10**26}", last=True),
    "a width of 10**6": with_line(f"width = {10**6}", last=True),
    "a width of text": with_line('width = "2"', last=True),
    "seeds below zero": with_line("seeds = [-1]"),
    "seeds of 10**26": with_line(f"seeds = [{10**26}]"),
    "seeds of truth": with_line("seeds = [true]"),
    "draws of 10**26": with_line(f"draws = [{10**26}]"),
    "a class that is not there": with_line('forget = "class:ghost"'),
    "everything to forget": with_line('forget = "random:100%"'),
    "data with settings": with_line('data = {name = "data", size = -1, memory = nan}'),
    "data as a list": with_line('data = ["data"]'),
    "data that is not there": with_line('data = "ghost"'),
    "a learning rate that diverges": replaced("lr = 0.05", "lr = 1e30"),
    "a method that diverges": replaced("[finetune]", "[finetune]\nlr = 1e30"),
    "settings as a path": replaced("[finetune]", f'[finetune]\nlr = [0.1, "/../../../../{OUTSIDE}/x"]'),
    "settings as a path of a kind that fits": lambda path, _: path.write_text(
        path.read_text()
        .replace("[finetune]", f'[scissorhands]\nwhere = ["*", "*,/../../../../../{OUTSIDE}/x"]')
        .replace("finetune", "scissorhands")
    ),
    "a list of lists": replaced("[finetune]", "[finetune]\nlr = [[0.1], [0.2]]"),
    "a list of nothing": replaced("[finetune]", "[finetune]\nlr = []"),
    "a title of markup": with_line(r'title = "[/red] \\[x] <script>fuzz</script>"'),
    "a table of tables": with_line("[[training]]", last=True),
    "about a pipeline": content('pipeline = "pipeline"\nforget = "concept:three"\nprompts = ["a three", 1]\n'),
    "about a pipeline, nested": content('pipeline = "pipeline"\nprompts = ' + "[" * 3000),
    "about a pipeline up and out": content(f'pipeline = "../{OUTSIDE}"\nforget = "concept:x"\nprompts = ["x"]\n'),
    "about a pipeline by date": content("pipeline = 1979-05-27\nforget = 1979-05-27\nseeds = [07:32:00]\n"),
    "with a mark in front": lambda path, _: path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes()),
    "with ends of lines of Windows": lambda path, _: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")),
}


RECIPES: Mapping[str, Mapping[str, Damage]] = {"file": FILE, "TOML": TOML, "recipe": CONTENTS}


def _safe(page: Path) -> str:
    """Whether a page holds no script that a file brought along."""
    return "the page holds a script of a file" if page.exists() and HTML in page.read_text() else ""


def _recipe(case: Case, hazard: str) -> None:
    case.hazard = hazard
    where, _, name = hazard.partition(": ")
    RECIPES[where][name](case.work / "recipe.toml", case.draw)
    case.command(f"bench recipe.toml -o out {case.draw.choice(['', '--json'])}")
    case.checks.append(lambda work: _safe(work / "out" / "report.html"))


# Data folders


def _part(name: str, change: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda folder: change(folder / name)


def _damaged(name: str, damage: Damage) -> Callable[[Path], Any]:
    return lambda folder: damage(folder / name, Random(0))


def _values(name: str, **changes: Any) -> Callable[[Path], Any]:
    return _damaged(name, with_values(**changes))


def _renamed(**names: str) -> Callable[[Path], Any]:
    """Classes of other names, in both parts."""

    def apply(data: Path) -> None:
        for part in ("train", "test"):
            for old, new in names.items():
                (data / part / old).rename(data / part / new)

    return apply


def _beside(name: str, text: str | bytes) -> Callable[[Path], Any]:
    return lambda data: content(text)(data / name, Random(0))


def _metadata(*lines: str) -> Callable[[Path], Any]:
    return _beside("train/metadata.csv", "".join(f"{line}\n" for line in lines))


def _listed(data: Path, extra: str) -> None:
    """A list of all images, with labels in a column, and one line more."""
    files = sorted(str(file.relative_to(data / "train")) for file in (data / "train").glob("*/*.png"))
    (data / "train" / "metadata.csv").write_text("\n".join(["file_name,kind", *(f"{f},x" for f in files), extra]))


def _only(data: Path, pattern: str) -> None:
    """No other images than those, and no empty folders."""
    for file in {*data.glob("*/*/*.png")} - {*data.glob(pattern)}:
        file.unlink()
    for folder in data.glob("*/*"):
        if not any(folder.iterdir()):
            folder.rmdir()


def _into(name: str) -> Callable[[Path], Any]:
    return lambda data: data.rename(data.with_name(name))


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "an empty class": lambda data: (data / "train" / "d").mkdir(),
    "a class of the test alone": lambda data: shutil.copytree(data / "test" / "c", data / "test" / "d"),
    "a class of the training alone": lambda data: shutil.copytree(data / "train" / "c", data / "train" / "d"),
    "a hidden class": lambda data: shutil.copytree(data / "train" / "c", data / "train" / ".d"),
    "a hidden image": lambda data: shutil.copy(data / "train" / "c" / "0.png", data / "train" / "c" / ".9.png"),
    "a class __c__": _renamed(c="__c__"),
    "a class with two colons": _renamed(c="c::d"),
    "a class of wildcards": _renamed(c="[c]*?"),
    "a class called train": _renamed(c="train"),
    "a class called test": _renamed(c="test"),
    "classes called test and train": _renamed(a="test", b="train"),
    "a class called validation": _renamed(c="validation-x"),
    "a class not in UTF-8": _renamed(c="c\udcff"),
    "a class of two lines": _renamed(c="c\nd"),
    "a class of markup": _renamed(c="[red]\\"),
    "a class with a comma": _renamed(c="c,d"),
    "classes that differ in case": _renamed(c="A"),
    "classes of numbers": _renamed(a="10", b="9", c="-1"),
    "a class of blanks": _renamed(c=" "),
    "a class of 250 letters": _renamed(c="c" * 250),
    "a path of wildcards": _into("d[a]t*?{x}"),
    "a path with two colons": _into("da::ta"),
    "a path with __": _into("__data__"),
    "a hidden path": _into(".data"),
    "a path with blanks and percent": _into("da ta%20#?"),
    "a path not in UTF-8": _into("data\udcff"),
    "a path of markup": _into("[red]data\\"),
    "a path called test": _into("test"),
    "no test": lambda data: shutil.rmtree(data / "test"),
    "no training": lambda data: shutil.rmtree(data / "train"),
    "nothing": several(shutil.rmtree, Path.mkdir),
    "a file for training": several(lambda data: shutil.rmtree(data / "train"), _beside("train", "x")),
    "images without a class": lambda data: shutil.copy(data / "train" / "c" / "0.png", data / "train" / "0.png"),
    "images one folder deeper": lambda data: (data / "train" / "a").rename(data / "train" / "b" / "a"),
    "one class": lambda data: _only(data, "*/a/*"),
    "one image a class": lambda data: _only(data, "*/*/0.png"),
    "all in another folder": several(_into("x"), Path.mkdir, lambda data: data.with_name("x").rename(data / "x")),
    "endings in capitals": lambda data: [f.rename(f.with_suffix(".PNG")) for f in data.glob("train/c/*.png")],
    "a folder called PNG": lambda data: (data / "train" / "a" / "9.png").mkdir(),
    "a FIFO beside": lambda data: os.mkfifo(data / "train" / "a" / "x"),
    "a FIFO for a list": lambda data: os.mkfifo(data / "train" / "metadata.csv"),
    "a FIFO called parquet": lambda data: os.mkfifo(data / "train.parquet"),
    "a link to an image outside": lambda data: (data / "train/a/9.png").symlink_to(outside(data) / "pictures/0.png"),
    "a link to a class outside": lambda data: (data / "train" / "d").symlink_to(outside(data) / "pictures"),
    "a class linked to itself": lambda data: (data / "train" / "d").symlink_to("."),
    "an unreadable class": lambda data: (data / "train" / "c").chmod(0),
    "text beside": _beside("train/a/notes.txt", "x"),
    "what systems leave behind": lambda data: [_beside(f"train/a/{n}", "x")(data) for n in (".DS_Store", "Thumbs.db")],
    "an archive beside": _beside("train.zip", b"PK\x03\x04"),
    "parquet beside": _beside("train/x.parquet", b"PAR1"),
    "CSV beside": _beside("train.csv", "a,b\n1,2\n"),
    "a script of its name": _beside("data.py", f"import pathlib; pathlib.Path('../{OUTSIDE}/{RAN}').touch()"),
    "a page that names other files": _beside(
        "README.md", f"---\nconfigs:\n- config_name: default\n  data_files: '../{OUTSIDE}/pictures/*'\n---\n"
    ),
    "a page of nonsense": _beside("README.md", "---\nconfigs: [[[\n---\n"),
    "notes of nonsense": _beside("dataset_infos.json", "[" * 5000),
    "a mark of another format": _beside("dataset_dict.json", '{"splits": ["../outside"]}'),
    "a list of other files": _metadata("file_name,label", "ghost.png,a"),
    "a list that goes out": _metadata("file_name,label", f"../../../{OUTSIDE}/pictures/0.png,a"),
    "a list without names": _metadata("x,y", "1,2"),
    "an empty list": _metadata(),
    "a list not in UTF-8": _beside("train/metadata.csv", b"file_name,kind\n\xff\xff,x\n"),
    "a list that is cut off": _metadata("file_name,kind", '"a/0.png'),
    "a list of all": lambda data: _listed(data, ""),
    "a list of all, one twice": lambda data: _listed(data, "a/0.png,y"),
    "a list of JSON, nested": _beside("train/metadata.jsonl", "[" * 100_000),
}
IMAGES: dict[str, Callable[[Path], Any]] = {
    **{name: _damaged("train/b/3.png", damage) for name, damage in {**FILE, **IMAGE}.items()},
    "in color, the first": _damaged("train/a/0.png", IMAGE["in color"]),
    "of another size in the test": _damaged("test/a/0.png", IMAGE["another size"]),
}


# What no records can be read from, and whose absence would pass unnoticed.
NO_IMAGES = (
    "empty",
    "NUL bytes",
    "a FIFO",
    "a link to nothing",
    "a link to itself",
    "a link to a FIFO",
    "a link out",
    "of 4 giga pixels, it says",
    "of 2**31 pixels a side, it says",
    "of no pixels",
    "without its pixels",
    "text",
)


def _columns(change: Callable[[dict[str, list[Any]]], Any]) -> Damage:
    """A table of other columns, as plain parquet."""

    def apply(path: Path, _: Random) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = pq.read_table(path).to_pydict()
        change(columns)
        pq.write_table(pa.table(columns), path)

    return apply


def _column(name: str, *values: Any) -> Damage:
    return _columns(
        lambda columns: columns.update({name: [values[i % len(values)] for i in range(len(columns["age"]))]})
    )


TABLES: dict[str, Damage] = {
    "labels below zero": _column("label", -1, 0, 1),
    "labels missing": _column("label", None, 0, 1),
    "labels of 2**62": _column("label", 2**62, 0, 1),
    "labels of fractions": _column("label", 0.5, 1.5),
    "labels of lists": _column("label", [0], [1]),
    "labels of text": _column("label", "[/red]", "a\\", ""),
    "labels of truth": _column("label", True, False),
    "no label": _columns(lambda columns: columns.pop("label")),
    "no image": _columns(lambda columns: columns.pop("image")),
    "images of nothing": _column("image", None),
    "images of numbers": _column("image", 1),
    "images of noise": _column("image", {"bytes": b"x", "path": None}),
    "images outside": _column("image", {"bytes": None, "path": f"../{OUTSIDE}/pictures/0.png"}),
    "images of text outside": _column("image", {"bytes": None, "path": f"../{OUTSIDE}/secret.txt"}),
    "images of a FIFO": _column("image", {"bytes": None, "path": "fifo"}),
    "no records": _columns(lambda columns: columns.update({name: column[:0] for name, column in columns.items()})),
    "one record": _columns(lambda columns: columns.update({name: column[:1] for name, column in columns.items()})),
    "a column of another kind": _column("age", "x", "y"),
    "a column called by markup": _column("[/red]", 1),
}
WHERES = {
    "nothing": "",
    "no condition": "x",
    "half a condition": "age >",
    "half a sentence": "age > 21 and",
    "a quote that is open": "city == 'Rome",
    "a bracket that is open": "(age > 21",
    "5000 brackets": "(" * 5000 + "age > 21" + ")" * 5000,
    "5000 times not": "not " * 5000 + "age > 21",
    "5000 times or": "age > 21 or " * 5000 + "age > 21",
    "another column": "ghost == 1",
    "a column of lists": "tags == x",
    "the image": "image == x",
    "the label by name": "label == a",
    "the label by number": "label == 0",
    "text as a number": "age > old",
    "a number as text": "city > 3",
    "more than a float holds": "age > 1e999",
    "10**26": f"age < {10**26} and age > 21",
    "nan": "age != nan",
    "a date": "born > 1990-01-05",
    "no date": "born > 1990-13-45",
    "a list of nothing": "city in ()",
    "a list of lists": "city in ((Rome))",
    "one equals sign": "age = 21",
    "code": "__import__('os').getcwd() == x",
    "markup": "city == [/red]\\",
    "NUL": "city == 'a\0'",
    "not UTF-8": "city == a\udcff",
    "wildcards": "city == *",
    "comparisons in a row": "20 < age < 30",
    "everything": "age > 0",
}
# How many of the records match, where that is no question of taste.
MATCHES = {
    "5000 brackets": 16,
    "5000 times not": 16,
    "5000 times or": 16,
    "10**26": 16,
    "the label by name": 6,
    "a date": 13,
}
DATA: Mapping[str, Mapping[str, Any]] = {
    "folder": FOLDERS,
    "image": IMAGES,
    "table file": FILE,
    "table": TABLES,
    "ids": {**{f"file {name}": damage for name, damage in FILE.items()}, **NUMBERED},
    "where": WHERES,
}


def _data(case: Case, hazard: str) -> None:
    case.hazard = hazard
    kind, _, name = hazard.partition(": ")
    if kind in ("folder", "image"):
        before = {path.name for path in case.work.iterdir()}
        DATA[kind][name](case.work / "data")
        moved = {path.name for path in case.work.iterdir()} - before
        place = case.work / (moved.pop() if moved else "data")
        case.command("train --model small --model-set width=2 --set epochs=1 -o out --json --data", place.name)
        case.checks.append(lambda work: _all_read(place, work / "out"))
        if kind == "image" and name in NO_IMAGES:
            case.checks.append(_must_refuse(f"it was taken with an image {name}"))
    elif kind.startswith("table"):
        DATA[kind][name](case.work / "table" / "train.parquet", case.draw)
        case.command("train --model small --model-set width=2 --set epochs=1 -o out --json --data table")
        case.checks.append(lambda work: _rows_read(work / "table", work / "out"))
    elif kind == "ids":
        DATA["ids"][name](case.work / "ids.txt", case.draw)
        case.command(f"scrub trained --forget ids:ids.txt {QUICK} -o out --json")
        case.checks.append(lambda work: _forgot_those(work / "ids.txt", work / "out" / "forget.txt"))
    else:
        case.command("evaluate model --data table -o out --json --forget", f"where:{WHERES[name]}")
        case.checks.append(lambda work: _as_many(work / "out", MATCHES.get(name)))


def _all_read(data: Path, run: Path) -> str:
    """Whether all images were read, and no class was lost."""
    counts = _counts(run)
    classes = json.loads((run / "model" / "config.json").read_text())["arguments"]["classes"]
    root = data if (data / "train").is_dir() else next((x.parent for x in data.glob("*/train")), data)
    found = {}
    for part in ("train", "test"):
        files = [f for f in (root / part).rglob("*") if f.suffix.lower() == ".png" and f.is_file()]
        found[part] = [f for f in files if not any(x.startswith(".") for x in f.relative_to(root).parts)]
    linked = any(path.is_symlink() for path in root.rglob("*"))  # which may be followed, or not
    for part, read in (("train", counts["retain"] + _held(counts)), ("test", counts.get("test", 0))):
        plain = sum(not f.is_symlink() for f in found[part])
        if read < plain or (read > plain and not linked):
            return f"{read} of {plain} images of {part} were read"
    named = {f.parent for f in found["train"]}
    return f"{classes} of {len(named)} classes were found" if classes < len(named) else ""


def _rows_read(data: Path, run: Path) -> str:
    """Whether as many records were read as the tables have."""
    import pyarrow.parquet as pq

    counts = _counts(run)
    rows = [pq.read_metadata(data / f"{part}.parquet").num_rows for part in ("train", "test")]
    read = [counts["retain"] + _held(counts), counts.get("test", 0)]
    return "" if read == rows else f"{read} records were read of {rows}"


def _held(counts: Mapping[str, int]) -> int:
    return counts.get("calibration", 0) + counts.get("audit", 0)


def _as_many(run: Path, wanted: int | None) -> str:
    found = _counts(run)["forget"]
    return "" if wanted in (None, found) else f"{found} records match, and not {wanted}"


def _counts(run: Path) -> dict[str, int]:
    counts: dict[str, int] = json.loads((run / "scores.json").read_text())["counts"]
    return counts


def _numbers(path: Path) -> list[str]:
    """The numbers of the records that a run lists; behind each stands its key."""
    return [line.partition("\t")[0] for line in path.read_text().splitlines()] if path.exists() else []


def _forgot_those(asked: Path, forgotten: Path) -> str:
    listed = asked.read_text().split(), _numbers(forgotten)
    numbers = [sorted(map(int, some)) for some in listed]
    return "" if numbers[0] == numbers[1] else f"{numbers[1]} were forgotten, and {numbers[0]} were asked for"


# Model folders


def _must_refuse(why: str) -> Check:
    return lambda work: why


def _index(folder: Path, shard: str) -> None:
    """The weights in shards, all of them in a file of this name."""
    raw = (folder / "model.safetensors").read_bytes()
    names = [name for name in json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")]) if name != "__metadata__"]
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _permute(folder: Path) -> None:
    """The names of the classes in another order, and the weights alike: the model is the same."""
    _config(id2label={"0": "b", "1": "c", "2": "a"}, label2id={"b": 0, "c": 1, "a": 2})(folder)
    rows = {name: [1, 2, 0] for name in ("classifier.weight", "classifier.bias")}
    change = tensors(lambda found, _: found.update({name: found[name][order] for name, order in rows.items()}))
    change(folder / "model.safetensors", Random(0))


def _remote_code(folder: Path) -> None:
    code = {"AutoConfig": "payload.Config", "AutoModelForImageClassification": "payload.M"}
    _config(auto_map=code, model_type="ghost")(folder)
    (folder / "payload.py").write_text(f"import pathlib; pathlib.Path('../{OUTSIDE}/{RAN}').touch()")


def _config(**changes: Any) -> Callable[[Path], Any]:
    return _values("config.json", **changes)


def _arguments(**changes: Any) -> Callable[[Path], Any]:
    return _damaged("config.json", edited(lambda config, _: config["arguments"].update(changes)))


def _preprocessing(**changes: Any) -> Callable[[Path], Any]:
    return _values("preprocessor_config.json", **changes)


def _linked(folder: Path) -> None:
    """The folder elsewhere, with a link in its place."""
    there = outside(folder) / "moved"
    shutil.move(folder, there)
    folder.symlink_to(there)


OWN: dict[str, Callable[[Path], Any]] = {
    "a model of code": _config(model="gift.payload:make"),
    "a model that is not there": _config(model="ghost"),
    "a model by a path": _config(model="../transformer"),
    "a width of 10**26": _arguments(width=10**26),
    "a width of 10**5": _arguments(width=10**5),
    "a width of truth": _arguments(width=True),
    "a width of text": _arguments(width="2"),
    "no classes": _arguments(classes=0),
    "a million classes": _arguments(classes=10**6),
    "arguments that are not known": _arguments(ghost=1),
    "arguments called by markup": _arguments(**{"[/red]\\": 1}),
    "a pickle beside": _part("pytorch_model.bin", pickled),
    "a pickle alone": several(_part("x.pt", pickled), _part("model.safetensors", Path.unlink)),
    "a link for a folder": _linked,
    "another file of weights beside": _part("z.safetensors", lambda path: path.write_bytes(b"x")),
    "a FIFO beside": _part("z.safetensors", os.mkfifo),
}
TRANSFORMER: dict[str, Callable[[Path], Any]] = {
    "code of its own": _remote_code,
    "an unknown kind": _config(model_type="ghost"),
    "a kind for text": _config(model_type="bert", architectures=["BertForMaskedLM"]),
    "a kind by a path": _config(model_type="../x"),
    "names and weights in another order": _permute,
    "other names": _config(id2label={"0": "x", "1": "y", "2": "z"}),
    "names twice the same": _config(id2label={"0": "a", "1": "a", "2": "a"}),
    "names that are no names": _config(id2label={"0": None, "1": [], "2": {}}),
    "names without end": _config(id2label={str(10**26): "a"}),
    "names as a list": _config(id2label=["a", "b", "c"]),
    "fewer names": _config(id2label={"0": "a"}, label2id={"a": 0}),
    "a size of 10**26": _config(hidden_size=10**26),
    "a size of 10**6": _config(hidden_size=10**6),
    "a size below zero": _config(hidden_size=-8),
    "patches of no size": _config(patch_size=0),
    "1,000 layers": _config(num_hidden_layers=1000),
    "heads that do not fit": _config(num_attention_heads=3),
    "an unknown activation": _config(hidden_act="ghost"),
    "an unknown dtype": _config(dtype="ghost"),
    "half precision": _config(dtype="float16"),
    "images of no size": _preprocessing(size={"height": 0, "width": 0}),
    "images of 10**6": _preprocessing(size={"height": 10**6, "width": 10**6}),
    "images of text": _preprocessing(size="x"),
    "a mean of text": _preprocessing(image_mean=["x"], do_normalize=True),
    "a mean of two": _preprocessing(image_mean=[0.5, 0.5], image_std=[0.5, 0.5]),
    "a deviation of nothing": _preprocessing(image_mean=[0, 0, 0], image_std=[0, 0, 0]),
    "a way to resize that is not known": _preprocessing(resample=[1]),
    "a scale of nothing": _preprocessing(rescale_factor=0),
    "a cut of nothing": _preprocessing(do_center_crop=True, crop_size={}),
    "a list of shards that are pickles": several(lambda folder: _index(folder, "x.bin"), _part("x.bin", pickled)),
    "a list of shards up and out": several(
        lambda folder: shutil.copy(folder / "model.safetensors", outside(folder) / "x.safetensors"),
        lambda folder: _index(folder, f"../../{OUTSIDE}/x.safetensors"),
    ),
    "a list of shards that are not there": lambda folder: _index(folder, "ghost.safetensors"),
    "a list of shards of nonsense": several(
        lambda folder: _index(folder, "x"),
        _part("model.safetensors.index.json", lambda path: JSON["nested deeply"](path, Random(0))),
    ),
    "a pickle beside": _part("pytorch_model.bin", pickled),
    "a pickle alone": several(_part("pytorch_model.bin", pickled), _part("model.safetensors", Path.unlink)),
    "an adapter beside": _part("adapter_config.json", lambda path: path.write_text('{"base_model_name_or_path": "/"}')),
    "a link for a folder": _linked,
}  # fmt: skip
_INDEX, _UNET = "model_index.json", "unet/diffusion_pytorch_model.safetensors"
PIPELINE: dict[str, Callable[[Path], Any]] = {
    "a part beside": several(
        lambda folder: shutil.copytree(folder / "scheduler", folder.parent / "payload"),
        _values(_INDEX, **{"../payload": ["diffusers", "DDIMScheduler"]}),
    ),
    "a part up and out": _values(_INDEX, **{f"../../{OUTSIDE}/payload": ["diffusers", "DDIMScheduler"]}),
    "a part of a class elsewhere": _values(_INDEX, scheduler=["gift.payload", "M"]),
    "a part of code of its own": several(
        _values(_INDEX, scheduler=["payload", "M"]),
        _part("scheduler/payload.py", lambda path: path.write_text(f"open('../{OUTSIDE}/{RAN}', 'w')")),
    ),
    "a part that is a link": _part("scheduler", _linked),
    "weights that are a link": _part(_UNET, _linked),
    "a link to a secret": _part("scheduler/x", lambda path: path.symlink_to(outside(path) / "private.txt")),
    "a FIFO beside": _part("scheduler/x", os.mkfifo),
    "a link to the folder above": _part("scheduler/x", lambda path: path.symlink_to("..")),
    "another pipeline": _values(_INDEX, _class_name="Ghost"),
    "a class of a list": _values(_INDEX, _class_name=["a", "b"]),
    "no scheduler": _part("scheduler", shutil.rmtree),
    "a pickle for weights": several(
        _part("vae/diffusion_pytorch_model.safetensors", Path.unlink),
        _part("vae/diffusion_pytorch_model.bin", pickled),
    ),
    "a U-Net of 10**6": _values("unet/config.json", sample_size=10**6),
    "a schedule of nothing": _values("scheduler/scheduler_config.json", num_train_timesteps=0),
    **{f"an index {name}": _damaged(_INDEX, damage) for name, damage in FILE.items()},
    **{f"an index of {name}": _damaged(_INDEX, JSON[name]) for name in ("nested deeply", "a list", "null")},
    **{
        f"a U-Net of {name}": _damaged(_UNET, TENSORS[name]) for name in ("a pickle", "a weight nan", "one weight less")
    },
}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "model": OWN,
    "transformer": TRANSFORMER,
    "pipeline": PIPELINE,
    "model/config.json": KINDS[".json"],
    "model/model.safetensors": KINDS[".safetensors"],
    "transformer/config.json": KINDS[".json"],
    "transformer/model.safetensors": KINDS[".safetensors"],
    "transformer/preprocessor_config.json": KINDS[".json"],
}
ERASE = "--method finetune --set epochs=1 --set batch_size=4"
USES: dict[str, tuple[str, ...]] = {
    "model": (
        "evaluate {0} --data data --forget class:a -o out --json",
        f"scrub {{0}} --data data --forget class:a {QUICK} -o out --json",
    ),
    "pipeline": (
        "sample {0} --prompts three --per-prompt 1 --set steps=1 -o new/out",
        *[f"scrub {{0}} --data photographs --forget concept:three {ERASE} -o new/out --json"] * 3,
    ),
}
USES["transformer"] = (
    *USES["model"],
    f"{TRAIN} --model {{0}} -o out --json".replace("--model small --model-set width=2 ", ""),
)


def _model(case: Case, hazard: str) -> None:
    case.hazard = hazard
    where, _, name = hazard.partition(": ")
    folder = where.split("/")[0]
    if where == folder:
        MODELS[where][name](case.work / folder)
    else:
        MODELS[where][name](case.work / where, case.draw)
    use = case.draw.choice(USES[folder])
    if name == "names and weights in another order":
        use = USES["transformer"][0]
        case.checks.append(_same_scores)
    if name in BROKEN_NUMBERS or name == "a U-Net of a weight nan":
        case.checks.append(_must_refuse("a model with weights that are no numbers was taken"))
    if where.endswith("preprocessor_config.json"):
        case.checks.append(lambda work: _is_json(work / where))
    case.command(use.format(folder))
    case.checks += [lambda work: _nothing_private(work / "new"), lambda work: _nothing_beside(work / "new")]


def _is_json(path: Path) -> str:
    """Whether a file holds a JSON object, if it is there: what cannot be read must not be passed over."""
    if not path.is_symlink() and not path.exists():
        return ""
    try:
        fine = path.is_file() and isinstance(json.loads(path.read_bytes()), dict)
    except (OSError, ValueError, RecursionError):
        fine = False
    return "" if fine else f"{path.name} was passed over, which cannot be read"


def _nothing_private(folder: Path) -> str:
    """Whether nothing was copied there that the input only links to."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return next((f"{path.name} was copied from outside" for path in files if PRIVATE.encode() in path.read_bytes()), "")


def _nothing_beside(folder: Path) -> str:
    """Whether only the result was written there."""
    others = [path.name for path in folder.glob("*") if path.name != "out"]
    return f"'{others[0]}' was written beside the result" if others else ""


def _same_scores(work: Path) -> str:
    """Whether the order of the classes made no difference."""
    runs = (work / "scored", work / "out")
    known, found = (json.loads((run / "scores.json").read_text())["values"] for run in runs)
    other = [name for name in known if "accuracy" in name and abs(known[name] - found[name]) > 1e-6]
    return f"{other[0]} is {found[other[0]]}, and was {known[other[0]]} with the classes in order" if other else ""


# Run folders

RUN_FILES = (
    "run.toml",
    "scores.json",
    "forget.txt",
    "before.txt",
    "inventory.json",
    "outputs.safetensors",
    "log.jsonl",
    "model/config.json",
    "model/model.safetensors",
)
# What a run tells of how it is made: code must not run because a file names it, and paths must not lead astray.
TOLD: Mapping[str, Mapping[str, Damage]] = {
    "scrubbed/run.toml": {
        "a method of code": replaced('"finetune"', f'"{CODE}"'),
        "a model of code": replaced('"small"', f'"{CODE}"'),
        "a source of code": replaced('"../first"', f'"{CODE}"'),
        "a source up and out": replaced('"../first"', f'"../../{OUTSIDE}"'),
        "data up and out": replaced('"data"', f'"../{OUTSIDE}/pictures"'),
    },
    ".begun.unfinished/begun.toml": {
        "a model of code": replaced('"small"', f'"{CODE}"'),
        "data up and out": replaced('"data"', f'"../{OUTSIDE}/pictures"'),
    },
}
RUNS: Mapping[str, Mapping[str, Damage]] = {
    **{f"scrubbed/{file}": KINDS[Path(file).suffix] for file in RUN_FILES},
    ".begun.unfinished/begun.toml": KINDS[".toml"],
    ".begun.unfinished/checkpoints/*/about.json": KINDS[".json"],
    ".begun.unfinished/checkpoints/*/0.safetensors": KINDS[".safetensors"],
    ".begun.unfinished/log.jsonl": KINDS[".jsonl"],
}
LOOKS = (
    "report scrubbed retrained -o page.html --json",
    "report scrubbed -o page.html",
    "evaluate scrubbed --json",
    "evaluate scrubbed --level standard --dry-run",
    "evaluate scrubbed --against retrained --json",
    "evaluate retrained --against scrubbed --json",
    f"scrub scrubbed --forget class:a {QUICK} -o out --json",
    "evaluate scrubbed --forget class:a -o out --json",
)
DEEP = tuple(look for look in LOOKS if "--dry-run" in look or "scrub " in look)  # what would run code
RESUMES = ("train --resume begun --json", "scrub --resume begun", "evaluate begun", "report begun")


def _run(case: Case, hazard: str) -> None:
    """One file of a run is damaged, and now and then a second one."""
    begun = case.work / ".begun.unfinished" / "begun.toml"
    begun.write_text(begun.read_text().replace(str(case.root.parent.parent / "healthy"), str(case.work)))
    lists = (case.work / "scrubbed" / name for name in ("forget.txt", "before.txt"))
    forgotten = {number for path in lists for number in _numbers(path)}
    where, _, name = hazard.partition(": ")
    told = TOLD.get(where, {})
    damaged = {where: {**RUNS[where], **told}[name]}
    if name not in told and case.draw.random() < 0.2:
        lost = f"scrubbed/{case.draw.choice(('forget.txt', 'before.txt', 'log.jsonl'))}"
        damaged.setdefault(lost, FILE["missing"])
    for pattern, damage in damaged.items():
        for path in sorted(case.work.glob(pattern)):
            damage(path, case.draw)
    case.hazard = ", and missing: ".join([hazard, *list(damaged)[1:]])
    if case.draw.random() < 0.5:  # somebody edits a run, and computes its hashes again
        with suppress(Exception):
            reseal(case.work / "scrubbed")
            case.hazard += ", and sealed again"
    looks = DEEP if name in told else LOOKS
    case.command(case.draw.choice(RESUMES[:1] * 6 + RESUMES[1:] if where.startswith(".begun") else looks))
    case.checks += [lambda work: _safe(work / "page.html"), lambda work: _remembers(work / "out", forgotten)]
    if where != ".begun.unfinished/begun.toml":
        case.checks.append(_same_bits)
    if name in BROKEN_NUMBERS and where.startswith("scrubbed/model") and "out" in case.words:
        case.checks.append(_must_refuse("a model with weights that are no numbers was taken"))


def _same_bits(work: Path) -> str:
    """Whether a run that went on came to the end that it would have had."""
    ends = [work / name / "model" / "model.safetensors" for name in ("begun", "whole")]
    same = not ends[0].exists() or ends[0].read_bytes() == ends[1].read_bytes()
    return "" if same else "the run went on to another end than it would have had"


def _remembers(run: Path, forgotten: set[str]) -> str:
    """Whether what comes of a scrubbed run knows all that was forgotten before."""
    if not run.exists():
        return ""
    lost = sorted(forgotten - {*_numbers(run / "before.txt")}, key=int)
    return f"{', '.join(lost)} were forgotten before, and are retained now" if lost else ""


Build = Callable[[Case, str], None]


def _of(tables: Mapping[str, Mapping[str, Any]], *names: str) -> list[str]:
    """The hazards of some tables, each with the name of its table."""
    return [f"{where}: {name}" for where in names for name in tables[where]]


RUNNING = ("data", "trained", "first", "scrubbed", "retrained", ".begun.unfinished", "whole")
FAMILIES: Mapping[str, tuple[Build, Sequence[str], Sequence[Sequence[str]]]] = {
    "command lines": (
        _command_line,
        (*RUNNING, "model", "transformer", "pipeline", "photographs", "recipe.toml", "notes.txt"),
        ([f"text {name}" for name in TEXTS], [f"number {name}" for name in NUMBERS], [*CHANGES, "another verb"]),
    ),
    "recipes": (
        _recipe,
        ("data", "pipeline", "recipe.toml"),
        [_of(RECIPES, where) for where in RECIPES],
    ),
    "data folders": (
        _data,
        ("data", "table", "trained", "model", "ids.txt"),
        (_of(DATA, "folder"), _of(DATA, "image"), _of(DATA, "table", "table file"), _of(DATA, "ids", "where")),
    ),
    "model folders": (
        _model,
        ("data", "model", "transformer", "scored", "pipeline", "photographs"),
        (*(_of(MODELS, one) for one in USES), _of(MODELS, *(where for where in MODELS if where not in USES))),
    ),
    "run folders": (
        _run,
        RUNNING,
        (*(_of(RUNS, where) for where in RUNS), _of(TOLD, *TOLD)),
    ),
}
