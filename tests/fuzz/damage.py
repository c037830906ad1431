"""What can be wrong with a file: of any kind, JSON, TOML, safetensors, a list of numbers, an image."""

import io
import json
import os
import pickle
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

Damage = Callable[[Path, Random], Any]

OUTSIDE = "outside"  # beside the working folder: nothing may write there, and what is there is nobody's data or code
RAN = "ran"  # the file, outside, that code which nobody named would write
HTML = "<script>fuzz</script>"
CODE = "gift.payload:M"

# What may stand where a name, a path or a sentence is expected.
TEXTS = {
    "empty": "",
    "blank": " ",
    "here": ".",
    "root": "/",
    "above": "..",
    "up and out": f"../{OUTSIDE}/secret.txt",
    "nobody's home": "~nosuchuser",
    "home": "~",
    "too long for a name": "x" * 300,
    "too long for a path": "x/" * 3000,
    "not UTF-8": "a\udcffb",
    "half a character": "\ud800",
    "NUL": "a\0b",
    "backslash before a bracket": "a\\[/b]",
    "backslash at the end": "a\\",
    "markup": "[red]x",
    "closing markup": "[/red]",
    "HTML": HTML,
    "letters of the world": "žluťoučký 猫 \u202e\U0001f600",
    "two lines": "a\nb",
    "other ends of lines": "a\u2028b\x85c\rd",
    "escape": "\x1b[31mred",
    "dash": "-",
    "two dashes": "--",
    "equals": "=",
    "colon": ":",
    "comma": ",",
    "wildcards": "*[a]?{b,c}",
    "a format": "%s%n{}{0}{x!r}",
    "a file": "notes.txt",
    "a FIFO": "fifo",
    "a folder": "data",
    "a loop of links": "loop",
}
# What may stand where a number is expected.
NUMBERS = {
    "zero": "0",
    "less than zero": "-1",
    "32 bits and one": str(2**32),
    "63 bits": str(2**63),
    "less than 63 bits": str(-(2**63) - 1),
    "64 bits": str(2**64),
    "10**26": str(10**26),
    "5000 digits": "9" * 5000,
    "1e308": "1e308",
    "more than a float holds": "1e309",
    "less than a float holds": "1e-400",
    "nan": "nan",
    "inf": "inf",
    "-inf": "-inf",
    "hexadecimal": "0x10",
    "underscore": "1_0",
    "digits of another script": "٣",
    "a fraction": "0.5",
    "true": "true",
    "with a blank": " 1 ",
}
# What may stand for a value in JSON.
VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "a fraction": 0.5,
    "10**26": 10**26,
    "1e308": 1e308,
    "nan": float("nan"),
    "-inf": float("-inf"),
    "no text": "",
    "text": "x",
    "a number as text": "0.5",
    "an empty list": [],
    "a list": [1],
    "an empty table": {},
    "a table": {"a": {"b": 1}},
    "markup": "[/red] \\[x]",
    "HTML": HTML,
    "half a character": "\ud800",
    "NUL": "a\0b",
    "a path up and out": f"../{OUTSIDE}/secret.txt",
    "the root": "/",
    "code": CODE,
    "a long text": "x" * 100_000,
}
# And in TOML.
LITERALS = {
    "a date": "1979-05-27",
    "a time": "07:32:00",
    "a date and time": "1979-05-27T07:32:00Z",
    "nan": "nan",
    "-inf": "-inf",
    "10**26": str(10**26),
    "1e308": "1e308",
    "1e400": "1e400",
    "less than zero": "-1",
    "zero": "0",
    "a fraction": "0.5",
    "true": "true",
    "no text": '""',
    "text": '"x"',
    "markup": r'"[/red] \\[x]"',
    "HTML": f'"{HTML}"',
    "NUL": r'"a\u0000b"',
    "a path up and out": f'"../{OUTSIDE}/secret.txt"',
    "the root": '"/"',
    "code that is not there": '"x:y"',
    "a long text": '"' + "x" * 5000 + '"',
    "an empty list": "[]",
    "a list": "[1]",
    "a list of all kinds": '[1, "a", [], {}]',
    "a list twice the same": '["finetune", "finetune"]',
    "an empty table": "{}",
    "a table": "{a = {b = 1}}",
    "nested lists": "[" * 5000 + "]" * 5000,
    "nested tables": "{a=" * 2000 + "1" + "}" * 2000,
    "nothing": "",
    "no TOML": "= =",
}


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def outside(path: Path) -> Path:
    """The folder outside the working folder that a path is in."""
    return next(parent.parent for parent in path.absolute().parents if parent.name == "work") / OUTSIDE


def content(data: bytes | str) -> Damage:
    """Another content."""
    return lambda path, _: path.write_bytes(data.encode() if isinstance(data, str) else data)


def several(*steps: Callable[..., Any]) -> Callable[..., Any]:
    """One thing after the other."""

    def apply(*given: Any) -> None:
        for step in steps:
            step(*given)

    return apply


def pickled(path: Path, _: Random | None = None) -> None:
    path.write_bytes(pickle.dumps(Payload(outside(path) / RAN)))


def instead(make: Callable[[Path], Any]) -> Damage:
    """Something else in the place of a file."""

    def apply(path: Path, _: Random) -> None:
        path.unlink()
        make(path)

    return apply


def _linked_fifo(path: Path) -> None:
    os.mkfifo(f"{path}.fifo")
    path.symlink_to(f"{path.name}.fifo")


def _flip(path: Path, draw: Random) -> None:
    raw = bytearray(path.read_bytes())
    for _ in range(min(8, len(raw))):
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    path.write_bytes(raw)


FILE: dict[str, Damage] = {
    "missing": lambda path, _: path.unlink(),
    "empty": content(""),
    "cut short": lambda path, draw: path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)]),
    "flipped bits": _flip,
    "not UTF-8": lambda path, _: path.write_bytes(b"\xff\xfa" + path.read_bytes()),
    "NUL bytes": content(bytes(100)),
    "larger than memory": lambda path, _: os.truncate(path, 64 << 30),
    "unreadable": lambda path, _: path.chmod(0),
    "a FIFO": instead(os.mkfifo),
    "a folder": instead(Path.mkdir),
    "a link to nothing": instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": instead(lambda path: path.symlink_to(path.name)),
    "a link to a FIFO": instead(_linked_fifo),
    "a link out": instead(lambda path: path.symlink_to(outside(path) / "secret.txt")),
}


# JSON


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, one in inside for place in _places(one, (*way, key)))]


def _put(value: Any, way: tuple[Any, ...], new: Any) -> None:
    for key in way[:-1]:
        value = value[key]
    value[way[-1]] = new


def edited(change: Callable[[Any, Random], Any]) -> Damage:
    """A JSON file, changed in place or by what the change returns."""

    def apply(path: Path, draw: Random) -> None:
        value = json.loads(path.read_text())
        new = change(value, draw)
        path.write_text(json.dumps(value if new is None else new, indent=1))

    return apply


def with_values(**changes: Any) -> Damage:
    """A JSON object with other values."""
    return edited(lambda value, _: {**value, **changes})


def _somewhere(new: Any) -> Damage:
    return edited(lambda value, draw: _put(value, draw.choice(_places(value)[1:]), new))


def _numbers(new: Any) -> Damage:
    def change(value: Any, draw: Random) -> None:
        for way in _places(value)[1:]:
            one = value
            for key in way:
                one = one[key]
            if type(one) in (int, float):
                _put(value, way, new(one) if callable(new) else new)

    return edited(change)


JSON: dict[str, Damage] = {
    "nested deeply": content("[" * 100_000),
    "nested deeply and closed": content('{"a":' * 3000 + "1" + "}" * 3000),
    "no JSON": content("{'a': 1,}"),
    "a list": content("[]"),
    "a number": content("1"),
    "null": content("null"),
    "an empty table": content("{}"),
    "a number of 5000 digits": content('{"values": ' + "9" * 5000 + "}"),
    "a key less": edited(lambda value, draw: value.pop(draw.choice(sorted(value))) and None),
    "all numbers as text": _numbers(str),
    "all numbers nan": _numbers(float("nan")),
    "all numbers infinite": _numbers(float("inf")),
    "all numbers 10**26": _numbers(10**26),
    "all numbers below zero": _numbers(lambda x: -abs(x) - 1),
    **{f"{name} somewhere": _somewhere(value) for name, value in VALUES.items()},
}


# TOML


def _lines(change: Callable[[list[str], int], Any]) -> Damage:
    """A TOML file with one of its settings changed, whose line is given by its number."""

    def apply(path: Path, draw: Random) -> None:
        lines = path.read_text().splitlines()
        change(lines, draw.choice([i for i, line in enumerate(lines) if " = " in line and not line.startswith("#")]))
        path.write_text("\n".join(lines) + "\n")

    return apply


def literal(text: str) -> Damage:
    """A TOML file with another value somewhere."""

    def change(lines: list[str], i: int) -> None:
        key = lines[i].partition(" = ")[0]
        lines[i] = f"{key} = {text}" if key != "epochs" or len(text) < 20 else "epochs = -1"  # not for ever

    return _lines(change)


def replaced(old: str, new: str) -> Damage:
    """A text with something else in the place of something."""
    return lambda path, _: path.write_text(path.read_text().replace(old, new))


def with_line(line: str, *, last: bool = False) -> Damage:
    """A TOML file with another line, in place of the one that sets the same key."""

    def apply(path: Path, _: Random) -> None:
        lines = [one for one in path.read_text().splitlines() if one.partition(" = ")[0] != line.partition(" = ")[0]]
        path.write_text("\n".join([*lines, line] if last else [line, *lines]) + "\n")

    return apply


TOML: dict[str, Damage] = {
    "a setting less": _lines(lambda lines, i: lines.pop(i)),
    "a setting twice": _lines(lambda lines, i: lines.insert(i, lines[i])),
    "an unknown setting": with_line("ghost = 1"),
    "an unknown table": with_line("[ghost]", last=True),
    "a misspelt setting": _lines(lambda lines, i: lines.insert(i, "x" + lines.pop(i))),
    "nested deeply": with_line(f"[{'.'.join('a' * 3000)}]", last=True),
    **{f"{name} somewhere": literal(text) for name, text in LITERALS.items()},
}


# Lines of numbers


def _joined(*lines: str, end: str = "\n") -> Damage:
    return content("".join(line + end for line in lines))


NUMBERED: dict[str, Damage] = {
    "letters": _joined("a", "b"),
    "below zero": _joined("-1"),
    "one twice": lambda path, _: path.write_text(f"{path.read_text()}{path.read_text().split()[0]}\n"),
    "one less": lambda path, _: path.write_text("\n".join(path.read_text().split()[1:])),
    "one more": lambda path, _: path.write_text(f"{path.read_text()}17\n"),
    "too large": _joined("1000"),
    "10**26": _joined(str(10**26)),
    "5000 digits": _joined("9" * 5000),
    "a fraction": _joined("0.5"),
    "digits of another script": _joined("٣"),
    "a superscript": _joined("²"),
    "underscores": _joined("1_0"),
    "commas": _joined("0,1,2"),
    "markup": _joined("[/red]\\[x]"),
    "one long line": content("1" * 1_000_000),
    "everything": _joined(*map(str, range(18))),
}


# safetensors


def _header(change: Callable[[dict[str, Any], str], Any]) -> Damage:
    """A file of weights with another header; the change is given one name in it."""

    def apply(path: Path, draw: Random) -> None:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        change(header, draw.choice(sorted(set(header) - {"__metadata__"})))
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])

    return apply


def tensors(change: Callable[[dict[str, Any], str], Any]) -> Damage:
    """A file of weights with other weights; the change is given one name of theirs."""

    def apply(path: Path, draw: Random) -> None:
        from safetensors.torch import load_file, save_file

        found = {name: value.clone() for name, value in load_file(path).items()}
        floats = sorted(name for name, value in found.items() if value.is_floating_point() and value.numel() > 1)
        change(found, draw.choice(floats))
        save_file({name: value.contiguous() for name, value in found.items()}, path, {"format": "pt"})

    return apply


def _every(change: Callable[[Any], Any]) -> Damage:
    return tensors(lambda found, _: found.update({name: change(value) for name, value in found.items()}))


def _torch(name: str) -> Any:
    import torch

    return getattr(torch, name)


TENSORS: dict[str, Damage] = {
    "a header longer than the file": lambda path, _: path.write_bytes((1 << 60).to_bytes(8, "little") + b"{}"),
    "a nested header": content((100_000).to_bytes(8, "little") + b"[" * 100_000),
    "a header that is no JSON": content((4).to_bytes(8, "little") + b"{{{{"),
    "an empty header": content((2).to_bytes(8, "little") + b"{}"),
    "an unknown dtype": _header(lambda header, name: header[name].update(dtype="Q7")),
    "another dtype of that size": _header(lambda header, name: header[name].update(dtype="I32")),
    "a shape below zero": _header(lambda header, name: header[name].update(shape=[-1])),
    "a shape without end": _header(lambda header, name: header[name].update(shape=[1 << 62, 1 << 62])),
    "offsets beyond the end": _header(lambda header, name: header[name].update(data_offsets=[0, 1 << 62])),
    "offsets the wrong way round": _header(lambda header, name: header[name].update(data_offsets=[8, 0])),
    "metadata of another kind": _header(lambda header, name: header.update(__metadata__={"format": 1})),
    "one weight less": tensors(lambda found, name: found.pop(name)),
    "one weight more": tensors(lambda found, name: found.update({"ghost": found[name].clone()})),
    "a weight of another shape": tensors(lambda found, name: found.update({name: found[name].flatten()[1:]})),
    "a weight of no size": tensors(lambda found, name: found.update({name: found[name].flatten()[:0]})),
    "a weight nan": tensors(lambda found, name: found[name].view(-1)[:1].fill_(float("nan"))),
    "a weight infinite": tensors(lambda found, name: found[name].view(-1)[:1].fill_(float("inf"))),
    "all weights 1e38": _every(lambda x: x.fill_(1e38) if x.is_floating_point() else x),
    "double precision": _every(lambda x: x.double()),
    "half precision": _every(lambda x: x.half()),
    "whole numbers": _every(lambda x: x.to(_torch("int8"))),
    "complex numbers": _every(lambda x: x.to(_torch("complex64"))),
    "a pickle": pickled,
}
BROKEN_NUMBERS = (
    "a weight nan",
    "a weight infinite",
    "all weights 1e38",
)  # with these a model says nothing, and must be refused

KINDS: Mapping[str, Mapping[str, Damage]] = {
    ".json": {**FILE, **JSON},
    ".jsonl": {**FILE, "no JSON": content("{'a'\n"), "nested deeply": content("[" * 100_000 + "\n")},
    ".toml": {**FILE, **TOML},
    ".txt": {**FILE, **NUMBERED},
    ".safetensors": {**FILE, **TENSORS},
}


# Images


def png(width: int, height: int, *more: bytes, rows: bytes | None = None, depth: int = 8, color: int = 0) -> bytes:
    """A PNG by hand, so that it may claim what it likes; `more` are chunks of ancillary text."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows if rows is not None else (bytes(1 + width)) * height))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(b"zTXt", text) for text in more) + body + chunk(b"IEND", b"")


def picture(mode: str = "L", size: tuple[int, int] = (8, 8), kind: str = "PNG", **how: Any) -> Damage:
    """Another image, by Pillow."""

    def apply(path: Path, _: Random) -> None:
        from PIL import Image

        stream = io.BytesIO()
        Image.new(mode, size).save(stream, kind, **how)
        path.write_bytes(stream.getvalue())

    return apply


IMAGE: dict[str, Damage] = {
    "one pixel": picture(size=(1, 1)),
    "another size": picture(size=(9, 8)),
    "in color": picture("RGB"),
    "with alpha": picture("RGBA"),
    "of a palette": picture("P"),
    "of 16 bits": picture("I;16"),
    "of one bit": picture("1"),
    "a JPEG for print": picture("CMYK", kind="JPEG"),
    "turned by EXIF": picture(kind="JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"),
    "a TIFF": picture(kind="TIFF"),
    "of 4 giga pixels, it says": lambda path, _: path.write_bytes(png(65535, 65535, rows=b"")),
    "of 2**31 pixels a side, it says": lambda path, _: path.write_bytes(png(2**31 - 1, 2**31 - 1, rows=b"")),
    "of no pixels": lambda path, _: path.write_bytes(png(0, 0, rows=b"")),
    "of 10,000 pixels a side": lambda path, _: path.write_bytes(png(10_000, 10_000)),
    "a bomb of text": lambda path, _: path.write_bytes(png(8, 8, b"a\0\0" + zlib.compress(bytes(100_000_000)))),
    "without its pixels": lambda path, _: path.write_bytes(png(8, 8, rows=b"")),
    "text": content("no image\n"),
}
