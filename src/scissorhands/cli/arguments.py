"""What arguments are: paths, and names. What is wrong with one at first sight is told before torch is imported."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..choices import METHODS, RULES
from ..errors import DataError, ModelError, RunError, SettingError, did_you_mean


class _Path(click.ParamType):  # type: ignore[type-arg]  # generic only in later releases of click
    """A path; `~` is the user's home. If it is `refused`, in these words, where nothing is, something must be there."""

    name = "path"

    def __init__(self, refused: str = "") -> None:
        self.refused = refused

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if str(value) == "":
            self.fail("a path is empty.", param, ctx)
        try:
            path = Path(value).expanduser()
        except RuntimeError as error:
            self.fail(f"'{value}': {error}", param, ctx)
        if self.refused and _is_absent(path):
            raise RunError(self.refused.replace("PATH", str(path)))
        return path


class _Begun(_Path):
    """The folder of a run that was begun."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if _is_absent(path):
            raise RunError(f"{path} was not begun, so there is nothing to resume.")
        return path


class _Model(_Path):
    """A path or a name."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return str(super().convert(value, param, ctx)) if str(value).startswith("~") else value


class _Trained(_Model):
    """A model that is there, or may be on the hub: OWNER/NAME, or OWNER/NAME@REVISION."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        path = Path(str(found))
        may_be_on_hub = len(path.parts) == 2 and not path.is_absolute() and not path.parent.exists()
        resumed = ctx and isinstance(ctx.params.get("resume"), Path)  # then no model can be named, there or not
        if found and not resumed and not path.suffix and not may_be_on_hub and _is_absent(path):
            raise ModelError(f"there is no model folder '{path}'.")
        return found


class _Method(click.ParamType):  # type: ignore[type-arg]
    """The name of a method, or somebody's class: module:Class."""

    name = "method"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if ":" not in value and value not in METHODS:
            raise SettingError(f"there is no method '{value}'. {did_you_mean(value, METHODS)} {_OWN}")
        return str(value)


class _Forget(click.ParamType):  # type: ignore[type-arg]
    """What to forget: RULE:TEXT."""

    name = "what"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        kind, colon, _ = value.partition(":")
        if colon and kind not in RULES:
            raise DataError(f"cannot forget by '{kind}'. {did_you_mean(kind, RULES)}")
        return str(value)


_OWN = "Or name your own: module:Class."
PATH, MODEL, TRAINED, METHOD, FORGET = _Path(), _Model(), _Trained(), _Method(), _Forget()
RUN, BEGUN, PIPELINE = _Path("there is no run folder 'PATH'."), _Begun(), _Path("there is no pipeline folder 'PATH'.")
FOLDER, FILE = _Path("there is no folder 'PATH'."), _Path("PATH cannot be read: No such file or directory.")


def _is_absent(path: Path) -> bool:
    """Return whether nothing is there, and no unfinished run."""
    with suppress(OSError, ValueError):
        return not (path.exists() or path.is_symlink() or path.with_name(f".{path.name}.unfinished").exists())
    return False
