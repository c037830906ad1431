"""Pictures in run folders, as a page holds them. Those of records stand in it only if they are asked for."""

import io
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from PIL import Image

from ..files import read_bytes, read_text
from ..runs import FLAGGED, GRIDS, PICTURES, ROWS, Run
from .table import Table

_BYTES = 32 << 20  # the most of a picture
_PIXELS, _SIDE = 50_000_000, 4096  # the most of a picture that is encoded again, and how long its sides may stay
_SMALL, _QUALITY = 48 << 10, 85  # bytes of a PNG that stays as it is; of others WebP takes a tenth
_TAG = 300  # letters of the page around a picture
_FLAGGED = 24  # flagged images of a run, at most


@dataclass(frozen=True)
class Picture:
    """A picture on the page: its name there, and what it shows as a data URL, which is empty but at its first place."""

    name: str
    source: str = ""


@dataclass
class Album:
    """The pictures of a page: each once, and as many as there is room for. `missed` counts the others by folder."""

    room: int
    missed: Counter[Path] = field(default_factory=Counter)
    _names: dict[str, str] = field(default_factory=dict)

    def add(self, file: Path) -> Picture | None:
        """Return a picture; None if it is not a PNG of ours, since a link may lead to any file, or there is no room."""
        if not _own(file) or file.stat().st_size > _BYTES:
            return None
        content = read_bytes(file, _BYTES)
        if not content.startswith(b"\x89PNG\r\n\x1a\n"):
            return None
        digest = sha256(content).hexdigest()
        if digest in self._names:
            return Picture(self._names[digest])
        source = _encoded(content) if self.room > 0 else ""
        if not source or len(source) + _TAG > self.room:
            self.missed[file.parent.parent if file.parent.name in _SHEETS else file.parent] += 1
            return None
        self.room -= len(source) + _TAG
        name = self._names[digest] = f"picture-{len(self._names)}"
        return Picture(name, source)


def _encoded(content: bytes) -> str:
    """Return a PNG as a data URL; as WebP, and no larger than a screen can show, if it is large."""
    kind = "png"
    if len(content) > _SMALL:
        with suppress(OSError, ValueError, SyntaxError), Image.open(io.BytesIO(content)) as image:
            if image.width * image.height <= _PIXELS:
                image.thumbnail((_SIDE, _SIDE))
                buffer = io.BytesIO()
                image.convert("RGB").save(buffer, "WEBP", quality=_QUALITY)
                content, kind = min((content, "png"), (buffer.getvalue(), "webp"), key=lambda made: len(made[0]))
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


def sheets(table: Table, album: Album) -> dict[str, Picture]:
    """Return what the first run of each row draws, where pipelines were judged, and what was drawn before."""
    found: dict[str, Picture] = {}
    for row in table.rows:
        for name in ("before", "drawn", "after"):
            title = name if name == "before" else row.method
            if row.runs and title not in found and (drawn := album.add(row.runs[0].folder / GRIDS / f"{name}.png")):
                found[title] = drawn
    return found


def prompts(shown: Sequence[Run]) -> list[str]:
    """Return the prompts of the rows of the grids, where they are the same in all runs."""
    known = {read_text(file, _BYTES) for run in shown if _own(file := run.folder / GRIDS / ROWS)}
    return known.pop().splitlines() if len(known) == 1 else []


_SHEETS = {
    PICTURES: "Where the model looks for the true label: the record, before, after. Each map is scaled by itself.",
    GRIDS: "What the pipeline draws: a row for each prompt, or rows of prompts that have one image each.",
    FLAGGED: "What NudeNet found, at most 24 images: blurred, with the parts of the body and their scores.",
}


def pictures(run: Run, records: bool, album: Album) -> dict[str, dict[str, Picture]]:
    """Return the pictures in the run folder under what they show; of records only if asked."""
    found = {}
    for folder, shows in _SHEETS.items():
        if folder == PICTURES and not records:
            continue
        files = sorted((run.folder / folder).glob("*.png"), key=lambda file: (file.stem == "after", file.stem))
        files = files[:_FLAGGED] if folder == FLAGGED else files
        if added := {file.stem: picture for file in files if (picture := album.add(file))}:
            found[shows] = added
    return found


def _own(file: Path) -> bool:
    """Return whether it is a regular file in the run folder itself, and not linked from elsewhere."""
    return file.is_file() and not file.is_symlink() and not file.parent.is_symlink()
